//! Redis' own load generator, as the ceiling of what any client could get out of it: it only pipelines, and does nothing with the
//! replies. As many commands are in flight as there are clients elsewhere. Exclusion cannot be checked here.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::process::Command;

use super::lock::RELEASE;
use super::resp::{Reply, command, reply};
use crate::drive::{Driven, Plan, Values};
use crate::peers::process::Process;

/// Commands that it sends at once on a connection.
const DEPTH: usize = 16;
/// What is sent for each client to learn how fast it goes, and at least in all: it counts time in milliseconds, and has no rate for
/// what took none.
const TRIAL_EACH: usize = 20;
const TRIAL: usize = 1000;

const VALUE: &str = "00112233445566778899aabbccddeeff";

/// The way.
pub struct Benchmark {
    /// `redis-benchmark`.
    pub program: PathBuf,
    /// Of the server.
    pub port: u16,
}

impl Driven for Benchmark {
    fn drive(&self, plan: Plan, server: &Process) -> Result<Values, String> {
        let name = match self.ask(&["SCRIPT", "LOAD", RELEASE])? {
            Reply::Bytes(name) => String::from_utf8_lossy(&name).into_owned(),
            other => return Err(format!("a script was answered {other:?}")),
        };
        // The two commands of a cycle, one after the other.
        let take = ["SET", "bench-__rand_int__", VALUE, "NX", "PX", "30000"];
        let give_back = ["EVALSHA", &name, "1", "bench-__rand_int__", VALUE];
        let (mut seconds_each, mut cpu_each) = (0.0, 0.0);
        for command in [&take[..], &give_back[..]] {
            let few = (plan.clients * TRIAL_EACH).max(TRIAL);
            let trial = self.per_second(plan.clients, few, command)?;
            let enough = ((trial * plan.time.as_secs_f64() / 2.0) as usize).max(few);
            let before = server.cpu_seconds();
            seconds_each += 1.0 / self.per_second(plan.clients, enough, command)?;
            cpu_each += (server.cpu_seconds() - before) / enough as f64;
        }
        self.ask(&["FLUSHALL"])?;
        Ok(Values::from([("per_second", 1.0 / seconds_each), ("server_cpu_us", cpu_each * 1e6)]))
    }
}

impl Benchmark {
    /// Sends so many of a command, and tells how many were answered in a second.
    fn per_second(&self, clients: usize, count: usize, command: &[&str]) -> Result<f64, String> {
        let depth = clients.clamp(1, DEPTH);
        let output = Command::new(&self.program)
            .args(["-p", &self.port.to_string(), "--csv", "-r", "1000000000", "-n", &count.to_string()])
            .args(["-c", &clients.div_ceil(depth).to_string(), "-P", &depth.to_string()])
            .args(command)
            .output()
            .map_err(|error| format!("cannot start redis-benchmark: {error}"))?;
        let said = String::from_utf8_lossy(&output.stdout);
        per_second(&said)
            .ok_or_else(|| format!("redis-benchmark ended with {} and said {said}", output.status))
    }

    fn ask(&self, words: &[&str]) -> Result<Reply, String> {
        let told = |error: std::io::Error| error.to_string();
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).map_err(told)?;
        let (mut out, mut heard) = (Vec::new(), Vec::new());
        command(&mut out, &words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>());
        stream.write_all(&out).map_err(told)?;
        loop {
            let mut some = [0; 512];
            match stream.read(&mut some).map_err(told)? {
                0 => return Err("Redis closed the connection".to_owned()),
                bytes => heard.extend_from_slice(&some[..bytes]),
            }
            if let Some((reply, _)) = reply(&heard)? {
                return Ok(reply);
            }
        }
    }
}

/// Out of a table of two lines, a heading and a row, whose second column it is.
fn per_second(said: &str) -> Option<f64> {
    let row = said.lines().filter(|line| line.starts_with('"')).nth(1)?;
    row.split("\",\"").nth(1)?.parse().ok().filter(|rate: &f64| rate.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_found_in_the_table() {
        let said = "\"test\",\"rps\",\"avg_latency_ms\"\n\"SET a NX, PX 1\",\"33732.50\",\"1.868\"\n";
        assert_eq!(per_second(said), Some(33732.5));
        assert_eq!(per_second("Could not connect\n"), None);
        assert_eq!(per_second("\"test\",\"rps\"\n\"EVALSHA a\",\"inf\",\"0.020\"\n"), None);
    }
}
