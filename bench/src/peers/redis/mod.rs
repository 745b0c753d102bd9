//! Redis, once keeping nothing and once syncing every write: the lock that its documentation describes for one instance, `SET
//! key random NX PX ttl` to take it, and a script that deletes the key if the value is still one's own to give it back. There is
//! no line: whoever finds a lock held tries again after a random pause.

mod benchmark;
mod connections;
mod lock;
mod multiplexed;
mod pipeline;
mod resp;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;

use super::process::{Process, find, free_port, version};
use super::{Offered, Peer, Running, Skipped};
use crate::drive::Workload;

/// A Redis server.
pub enum Redis {
    /// Keeps nothing.
    Memory,
    /// Appends every write to a file and syncs it before it answers.
    Always,
}

impl Redis {
    fn settings(&self) -> &'static [&'static str] {
        match self {
            Redis::Memory => &["--save", "", "--appendonly", "no"],
            Redis::Always => &["--save", "", "--appendonly", "yes", "--appendfsync", "always"],
        }
    }
}

impl Peer for Redis {
    fn name(&self) -> &'static str {
        match self {
            Redis::Memory => "redis-memory",
            Redis::Always => "redis-always",
        }
    }

    fn title(&self) -> &'static str {
        match self {
            Redis::Memory => "Redis without persistence",
            Redis::Always => "Redis, appendfsync always",
        }
    }

    fn start(&self, folder: &Path) -> Result<Running, Skipped> {
        let missing = || Skipped("there is no redis-server; install Debian's redis-server".to_owned());
        let program = find("redis-server", &["/usr/bin"]).ok_or_else(missing)?;
        let port = free_port().map_err(Skipped)?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut command = Command::new(&program);
        command
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--maxclients", "4096", "--dir"])
            .arg(folder)
            .args(self.settings());
        let mut process = Process::start(&mut command).map_err(Skipped)?;
        process.wait_for_port(address).map_err(Skipped)?;
        let settings = self.settings().iter().map(|word| if word.is_empty() { "\"\"" } else { word });
        let settings: Vec<&str> = settings.collect();
        let mut ways = vec![
            Offered {
                name: "connections",
                way: Box::new(connections::Connections { address }),
                does: Workload::ALL,
            },
            Offered {
                name: "multiplexed",
                way: Box::new(multiplexed::Multiplexed { address }),
                does: Workload::ALL,
            },
            Offered { name: "pipeline", way: Box::new(pipeline::Pipelined { address }), does: Workload::ALL },
        ];
        if let Some(program) = find("redis-benchmark", &["/usr/bin"]) {
            ways.push(Offered {
                name: "redis-benchmark",
                way: Box::new(benchmark::Benchmark { program, port }),
                does: &[Workload::Uncontended],
            });
        }
        Ok(Running {
            process,
            version: version(&program, "--version").map_err(Skipped)?,
            settings: vec![
                format!("redis-server --bind 127.0.0.1 --maxclients 4096 {}", settings.join(" ")),
                multiplexed::Multiplexed::settings(),
            ],
            ways,
        })
    }
}
