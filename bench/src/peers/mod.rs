//! The systems that are compared, Leasehold among them: each is started as the real program, and driven by a client that
//! speaks its own protocol in the way its own users would. One file for each system. Nothing here measures.

mod etcd;
mod leasehold;
mod postgres;
pub mod process;
mod redis;
mod zookeeper;

use std::path::Path;

use self::process::Process;
use crate::drive::{Driven, Workload};

/// One client of a lock service, as the driver sees it.
///
/// Clients of one measurement run as tasks of one runtime. Nothing is retried in secret: what fails is an error, and ends the
/// measurement.
pub trait LockClient: Send + 'static {
    /// What proves that a lock is held.
    type Held: Send + Sync;

    /// Takes a lock. If another holds it, waits for it in the way that this system offers (in a line, by watching, by
    /// polling) for as long as it takes.
    fn acquire(&mut self, lock: &str) -> impl Future<Output = Result<Self::Held, String>> + Send;

    /// Keeps what is held alive, where there is a lease to be kept. Only called on clients of a way that does
    /// [`Workload::Renewals`].
    fn renew(&mut self, held: &mut Self::Held) -> impl Future<Output = Result<(), String>> + Send;

    /// Gives it back, and waits until that is answered.
    fn release(&mut self, held: Self::Held) -> impl Future<Output = Result<(), String>> + Send;

    /// The fencing token, where there is one: the driver checks that it grows with every grant of a lock.
    fn token(_held: &Self::Held) -> Option<u64> {
        None
    }
}

/// How clients reach a running server: a connection for each, or one that all share.
pub trait Way: Send + Sync + 'static {
    /// The clients.
    type Client: LockClient;

    /// Connects so many clients. Called inside the runtime of one measurement, once; what they share is made here.
    fn clients(
        &self,
        count: usize,
        workload: Workload,
    ) -> impl Future<Output = Result<Vec<Self::Client>, String>> + Send;
}

/// One way of a server to be driven.
pub struct Offered {
    /// Short, for tables and as a key: `stream`, `pipeline`, `connections`.
    pub name: &'static str,
    /// The way.
    pub way: Box<dyn Driven>,
    /// What it can be asked to do.
    pub does: &'static [Workload],
}

/// A server that runs. It is killed when this is dropped.
pub struct Running {
    /// Its process, with all its children.
    pub process: Process,
    /// Exactly which version, as the program itself says.
    pub version: String,
    /// What it was told, as one would write it: arguments, lines of its configuration. Paths of this run left out.
    pub settings: Vec<String>,
    /// How it can be driven.
    pub ways: Vec<Offered>,
}

/// Why a system is not measured: it is not installed, or did not start.
#[derive(Clone, Debug)]
pub struct Skipped(pub String);

/// A system that can be started.
pub trait Peer {
    /// Short, for tables and as a key: `redis-memory`, `etcd`.
    fn name(&self) -> &'static str;

    /// What it is, in a few words, for the table of systems.
    fn title(&self) -> &'static str;

    /// Starts the real server with its data in this empty folder, on a free port of the loopback interface, and waits until it
    /// answers. Installs nothing.
    fn start(&self, folder: &Path) -> Result<Running, Skipped>;
}

/// All systems, in the order of the tables.
pub fn all() -> Vec<Box<dyn Peer>> {
    vec![
        Box::new(leasehold::Leasehold::Durable),
        Box::new(leasehold::Leasehold::InMemory),
        Box::new(redis::Redis::Memory),
        Box::new(redis::Redis::Always),
        Box::new(etcd::Etcd),
        Box::new(postgres::Postgres::Advisory),
        Box::new(postgres::Postgres::LeasedRow),
        Box::new(zookeeper::ZooKeeper),
    ]
}
