//! A real server process on a port of its own, and what can be read of it from outside.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::http::Connection;

/// The program that is measured, and that measures.
pub fn program() -> Result<PathBuf, &'static str> {
    std::env::current_exe()
        .ok()
        .and_then(|exe| Some(exe.parent()?.join("leasehold")))
        .filter(|program| program.exists())
        .ok_or("there is no leasehold beside this program: run `cargo build --release` first")
}

/// A running server; killed when dropped.
pub struct Served {
    child: Child,
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
        let began = Instant::now();
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start the server: {error}"))?;
        let (sender, lines) = std::sync::mpsc::channel();
        // Both streams are read to their end, so that the server is never kept waiting by a full pipe.
        let streams: [Option<Box<dyn std::io::Read + Send>>; 2] =
            [child.stdout.take().map(|s| Box::new(s) as _), child.stderr.take().map(|s| Box::new(s) as _)];
        for stream in streams.into_iter().flatten() {
            let sender = sender.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    let _ = sender.send(line);
                }
            });
        }
        drop(sender);
        let mut served = Served { child, address: ([127, 0, 0, 1], 0).into(), ready_after: Duration::ZERO };
        let mut said = String::new();
        while served.address.port() == 0 {
            let line = lines
                .recv_timeout(Duration::from_secs(300))
                .map_err(|_| format!("the server did not say where it listens; it said:\n{said}"))?;
            if let Some(at) = line.find("http://") {
                let text: String =
                    line[at + 7..].chars().take_while(|c| !c.is_whitespace() && *c != '/').collect();
                if let Ok(address) = text.parse() {
                    served.address = address;
                }
            }
            said.push_str(&line);
            said.push('\n');
        }
        loop {
            let ready = Connection::open(served.address)
                .and_then(|mut connection| connection.call("GET", "/readyz", ""))
                .is_ok_and(|(status, _)| status == 200);
            if ready {
                break;
            }
            if began.elapsed() > Duration::from_secs(300) {
                return Err("the server did not become ready".into());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        served.ready_after = began.elapsed();
        Ok(served)
    }

    /// Kills it as a power switch would, but for the page cache.
    pub fn kill(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Resident memory in bytes.
    pub fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
        line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
    }

    /// Seconds of CPU used so far.
    pub fn cpu_seconds(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks: u64 = [11, 12].iter().filter_map(|at| fields.get(*at)?.parse::<u64>().ok()).sum();
        ticks as f64 / 100.0
    }

    /// The sum of all samples of a metric.
    pub fn metric(&self, name: &str) -> Result<f64, String> {
        let (_, text) = Connection::open(self.address)?.call("GET", "/metrics", "")?;
        let samples = text.lines().filter(|line| {
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ') || rest.starts_with('{'))
        });
        Ok(samples.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
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
