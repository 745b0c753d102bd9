//! What `leasehold load` measures: the program itself drives the server, so that everybody can measure the same.

use std::process::{Command, Stdio};

use crate::http::field;
use crate::served::{Served, program};

/// What a run told.
pub struct Loaded {
    pub cycles: f64,
    pub per_second: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
}

/// Drives a server. Errors and violations fail the measurement.
pub fn drive(served: &Served, protocol: &str, clients: usize, seconds: u64) -> Result<Loaded, String> {
    let output = Command::new(program()?)
        .args(["load", "--json", "--protocol", protocol, "--ttl", "10s"])
        .args(["--server", &format!("http://{}", served.address)])
        .args(["--clients", &clients.to_string(), "--duration", &format!("{seconds}s")])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot start the load: {error}"))?;
    let told = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(format!("the load ended with {}", output.status));
    }
    let number = |name| {
        let text = field(&told, name)?;
        text.parse::<f64>().map_err(|_| format!("{name} is {text}"))
    };
    if number("errors")? > 0.0 {
        return Err(format!("calls failed under load: {told}"));
    }
    Ok(Loaded {
        cycles: number("cycles")?,
        per_second: number("cycles_per_second")?,
        p50_ms: number("p50")? / 1e3,
        p99_ms: number("p99")? / 1e3,
    })
}
