//! What `leasehold load --files` measures: the program itself appends to files, and reads every file back.

use std::process::{Command, Stdio};

use crate::http::field;
use crate::served::{Served, program};

/// What a run told.
pub struct Loaded {
    /// Appends.
    pub per_second: f64,
    pub p50_us: f64,
    pub p99_us: f64,
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
    Ok(Loaded {
        per_second: number("appends_per_second")?,
        p50_us: number("p50")?,
        p99_us: number("p99")?,
        syncs_per_append: number("syncs_per_append").ok(),
    })
}
