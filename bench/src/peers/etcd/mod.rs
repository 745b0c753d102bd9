//! etcd with its defaults: one member, every commit synced. Driven through its lock call.

mod lock;
mod messages;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;

use tokio::sync::Mutex;

use super::process::{Process, find, free_port, version};
use super::{Offered, Peer, Running, Skipped, Way};
use crate::drive::Workload;

/// So many clients share a connection.
const CLIENTS_EACH: usize = 64;
/// Of the lease of each client: so long that none expires in a run, and etcd never has to clear away those of a measurement
/// while it does the next.
const TTL_S: i64 = 3600;

/// etcd.
pub struct Etcd;

impl Peer for Etcd {
    fn name(&self) -> &'static str {
        "etcd"
    }

    fn title(&self) -> &'static str {
        "etcd, its lock call"
    }

    fn start(&self, folder: &Path) -> Result<Running, Skipped> {
        let program = find("etcd", &["/usr/bin", "/usr/sbin"])
            .ok_or_else(|| Skipped("etcd is not installed (Debian's package etcd-server)".into()))?;
        start(&program, folder).map_err(Skipped)
    }
}

fn start(program: &Path, folder: &Path) -> Result<Running, String> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
    let (clients, members) = (format!("http://{address}"), format!("http://127.0.0.1:{}", free_port()?));
    let mut command = Command::new(program);
    // What the environment says of etcd is meant for another.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ETCD_")) {
        command.env_remove(name);
    }
    command
        .args(["--name", "bench", "--initial-cluster", &format!("bench={members}")])
        .args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients])
        .args(["--listen-peer-urls", &members, "--initial-advertise-peer-urls", &members])
        .arg("--data-dir")
        .arg(folder);
    let mut process = Process::start(&mut command)?;
    process.wait_for_port(address)?;
    Ok(Running {
        process,
        version: version(program, "--version")?,
        settings: vec![
            "all defaults but names and ports: one member, every commit synced".into(),
            "a lease of an hour for each client, granted before; 64 clients share a connection".into(),
        ],
        ways: vec![Offered {
            name: "lock",
            way: Box::new(OverChannels { address, leases: Mutex::default() }),
            does: Workload::ALL,
        }],
    })
}

/// Clients on few HTTP/2 connections.
struct OverChannels {
    address: SocketAddr,
    /// Granted for measurements before this one, whose clients are gone.
    leases: Mutex<Vec<i64>>,
}

impl Way for OverChannels {
    type Client = lock::Client;

    async fn clients(&self, count: usize, _workload: Workload) -> Result<Vec<lock::Client>, String> {
        let mut leases = self.leases.lock().await;
        let mut clients = Vec::with_capacity(count);
        let mut connection = lock::Connection::open(self.address).await?;
        for number in 0..count {
            if number > 0 && number % CLIENTS_EACH == 0 {
                connection = lock::Connection::open(self.address).await?;
            }
            if number == leases.len() {
                leases.push(connection.grant(TTL_S).await?);
            }
            clients.push(lock::Client::new(connection.clone(), leases[number]));
        }
        Ok(clients)
    }
}
