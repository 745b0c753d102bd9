//! Leasehold itself: the program that was built beside the bench, durable as it is by default, and in memory for what the disk
//! costs.

mod grpc;
mod http;
mod stream;

use std::path::Path;

use super::process::version;
use super::{Offered, Peer, Running, Skipped};
use crate::drive::Workload;
use crate::served::{Served, program};

/// A server of ours.
pub enum Leasehold {
    /// Every change is synced before it is answered.
    Durable,
    /// Nothing is kept.
    InMemory,
}

impl Peer for Leasehold {
    fn name(&self) -> &'static str {
        match self {
            Leasehold::Durable => "leasehold",
            Leasehold::InMemory => "leasehold-memory",
        }
    }

    fn title(&self) -> &'static str {
        match self {
            Leasehold::Durable => "Leasehold, durable",
            Leasehold::InMemory => "Leasehold, in memory",
        }
    }

    fn start(&self, folder: &Path) -> Result<Running, Skipped> {
        let program = program().map_err(|why| Skipped(why.to_owned()))?;
        let data = folder.join("data");
        let (data, how) = match self {
            Leasehold::Durable => (Some(&*data), "--data DIR"),
            Leasehold::InMemory => (None, "--in-memory"),
        };
        let served = Served::start(data).map_err(Skipped)?;
        let server = format!("http://{}", served.address);
        let mut ways = vec![Offered {
            name: "stream",
            way: Box::new(stream::Stream { server: server.clone() }),
            does: Workload::ALL,
        }];
        if matches!(self, Leasehold::Durable) {
            ways.push(Offered { name: "grpc", way: Box::new(grpc::Grpc { server }), does: Workload::ALL });
        }
        ways.push(Offered {
            name: "http",
            way: Box::new(http::Http { address: served.address }),
            does: Workload::ALL,
        });
        Ok(Running {
            process: served.process,
            version: version(&program, "--version").map_err(Skipped)?,
            settings: vec![format!("leasehold serve --listen 127.0.0.1:0 {how}")],
            ways,
        })
    }
}
