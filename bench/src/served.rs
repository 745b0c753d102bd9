//! A real Leasehold server as a process of its own, and what can be asked of it from outside.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::http::Connection;
use crate::peers::process::Process;

/// The program that is measured.
pub fn program() -> Result<PathBuf, &'static str> {
    std::env::current_exe()
        .ok()
        .and_then(|exe| Some(exe.parent()?.join("leasehold")))
        .filter(|program| program.exists())
        .ok_or(
            "there is no leasehold beside this program: run scripts/bench, or `cargo build --release` first",
        )
}

/// A running server; killed when dropped, as by kill -9.
pub struct Served {
    /// Its process.
    pub process: Process,
    /// Where it listens.
    pub address: SocketAddr,
    /// From its start to its first ready answer.
    pub ready_after: Duration,
}

impl Served {
    /// Starts a server on these data, or in memory.
    pub fn start(data: Option<&Path>) -> Result<Served, String> {
        let mut command = Command::new(program()?);
        command.args(["serve", "--listen", "127.0.0.1:0"]);
        match data {
            Some(data) => command.arg("--data").arg(data),
            None => command.arg("--in-memory"),
        };
        Served::run(command)
    }

    /// Starts a server on these data by a command that ends with the program, with these settings.
    pub fn start_by(mut command: Command, data: &Path, settings: &[&str]) -> Result<Served, String> {
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data).args(settings);
        Served::run(command)
    }

    /// Starts a server by a command of one's own, which must listen on a port of its choice.
    pub fn run(mut command: Command) -> Result<Served, String> {
        let began = Instant::now();
        let mut process = Process::start(&mut command)?;
        let address = process.wait_for("address", |process| listening(&process.said()))?;
        process.wait_for("readiness", |_| {
            let answer = Connection::open(address).and_then(|mut to| to.call("GET", "/readyz", ""));
            answer.is_ok_and(|(status, _)| status == 200).then_some(())
        })?;
        Ok(Served { process, address, ready_after: began.elapsed() })
    }

    /// The sum of all samples of a metric.
    pub fn metric(&self, name: &str) -> Result<f64, String> {
        let (_, text) = Connection::open(self.address)?.call("GET", "/metrics", "")?;
        Ok(sum_of(&text, name))
    }
}

/// The sum of all samples of a metric on a page of them.
pub fn sum_of(page: &str, name: &str) -> f64 {
    let samples = page.lines().filter(|line| {
        line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ') || rest.starts_with('{'))
    });
    samples.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

/// The first address in what a server says.
fn listening(said: &str) -> Option<SocketAddr> {
    said.match_indices("http://").find_map(|(at, scheme)| {
        let rest = &said[at + scheme.len()..];
        rest.split(|c: char| c.is_whitespace() || c == '/').next()?.parse().ok()
    })
}

/// Bytes of all files in a folder.
pub fn folder_bytes(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.metadata().ok())
        .filter(|meta| meta.is_file())
        .map(|meta| meta.len())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_found_in_what_a_server_says() {
        assert_eq!(listening("ready\nlistening on http://127.0.0.1:7420/ ok"), "127.0.0.1:7420".parse().ok());
        assert_eq!(listening("see http://example.org/x\n"), None);
    }
}
