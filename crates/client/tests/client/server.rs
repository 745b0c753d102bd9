//! A server for one test, on a free port: in memory, or with data that outlives it. On a runtime of its own, so that nothing
//! in a test can starve it.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use leasehold_client::{Client, RetryPolicy};
use leasehold_server::config::Given;
use leasehold_server::serve::{Exceptions, start};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

/// Long enough for any machine; only a test that fails takes it.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct Server {
    pub address: SocketAddr,
    runtime: Option<Runtime>,
    stop: Option<oneshot::Sender<()>>,
    ended: std::sync::mpsc::Receiver<()>,
}

impl Server {
    /// In memory.
    pub fn start() -> Server {
        Server::start_with(Given::default())
    }

    /// With data in this folder, which a later server can take over, on this port or any.
    pub fn start_in(data: &Path, port: u16) -> Server {
        let listen = Some(SocketAddr::from(([127, 0, 0, 1], port)));
        Server::start_with(Given {
            in_memory: Some(false),
            data: Some(data.to_owned()),
            listen,
            ..Given::default()
        })
    }

    pub fn start_with(given: Given) -> Server {
        // A thread of its own, because tests are async themselves.
        std::thread::spawn(|| Server::run(given)).join().unwrap()
    }

    fn run(given: Given) -> Server {
        let listen = given.listen.or(Some(SocketAddr::from(([127, 0, 0, 1], 0))));
        let in_memory = given.in_memory.or(Some(true));
        let settings = Given { listen, in_memory, ..given }.settle().unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let running = runtime.block_on(start(settings, Exceptions::default())).unwrap();
        let address = running.report().address;
        let (stop, stopped) = oneshot::channel();
        let (end, ended) = std::sync::mpsc::channel();
        let handle = runtime.handle().clone();
        std::thread::spawn(move || {
            let stopped = async { stopped.await.unwrap_or(()) };
            handle.block_on(running.until(stopped)).unwrap();
            let _ = end.send(());
        });
        Server { address, runtime: Some(runtime), stop: Some(stop), ended }
    }

    /// A client of its own.
    pub async fn client(&self, owner: &str) -> Client {
        client(self.address, owner).await
    }
}

/// A client of whatever listens there.
pub async fn client(address: SocketAddr, owner: &str) -> Client {
    Client::builder(&address.to_string()).owner(owner).connect().await.unwrap()
}

/// One attempt, so that a test of failures need not wait for many.
pub fn once() -> RetryPolicy {
    RetryPolicy::once(Duration::from_secs(2))
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        let ended = self.ended.recv_timeout(PATIENCE);
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
        if !std::thread::panicking() {
            ended.expect("the server stops when it is told to");
        }
    }
}
