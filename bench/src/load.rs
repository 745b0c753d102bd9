//! What `leasehold load` measures: the program itself drives the server, so that everybody can measure the same.

use std::process::{Command, Stdio};

use crate::http::field;
use crate::served::{Served, program};

/// What a run told.
pub struct Loaded {
    /// Cycles, or appends.
    pub done: f64,
    pub per_second: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    /// Of appends.
    pub syncs_per_append: Option<f64>,
}

/// Drives a server, as these arguments say. Errors and violations fail the measurement.
pub fn drive(served: &Served, how: &[&str], clients: usize, seconds: u64) -> Result<Loaded, String> {
    let output = Command::new(program()?)
        .args(["load", "--json", "--ttl", "10s"])
        .args(how)
        .args(["--server", &format!("http://{}", served.address)])
        .args(["--clients", &clients.to_string(), "--duration", &format!("{seconds}s")])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot start the load: {error}"))?;
    let told = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(format!("the load ended with {}", output.status));
    }
    let number = |name: &str| {
        let text = field(&told, name)?;
        text.parse::<f64>().map_err(|_| format!("{name} is {text}"))
    };
    if number("errors")? > 0.0 {
        return Err(format!("calls failed under load: {told}"));
    }
    let done = if how.contains(&"--files") { "appends" } else { "cycles" };
    Ok(Loaded {
        done: number(done)?,
        per_second: number(&format!("{done}_per_second"))?,
        p50_ms: number("p50")? / 1e3,
        p99_ms: number("p99")? / 1e3,
        syncs_per_append: number("syncs_per_append").ok(),
    })
}
