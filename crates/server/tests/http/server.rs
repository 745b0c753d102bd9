//! A server for one test: in memory unless the test says otherwise, on a free port, stopped when it is dropped.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use leasehold_server::config::Given;
use leasehold_server::serve::{Exceptions, start};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use crate::client::{Answer, Pending, send};

/// Long enough for any machine; only a test that fails takes it.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub struct Server {
    pub address: SocketAddr,
    runtime: Option<Runtime>,
    stop: Option<oneshot::Sender<()>>,
    /// Shared, so that a test's threads can share the server.
    ended: std::sync::Mutex<std::sync::mpsc::Receiver<()>>,
}

impl Server {
    pub fn start() -> Server {
        Server::start_with(Given::default())
    }

    pub fn start_with(given: Given) -> Server {
        let listen = Some("127.0.0.1:0".parse().unwrap());
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
        Server { address, runtime: Some(runtime), stop: Some(stop), ended: ended.into() }
    }

    /// Sends a request with a JSON body and waits for its answer.
    pub fn post(&self, path: &str, body: Value) -> Answer {
        self.begin(path, body).answer()
    }

    /// Sends a request with a JSON body on a connection of its own.
    pub fn begin(&self, path: &str, body: Value) -> Pending {
        self.begin_raw(request(
            "POST",
            path,
            &[("Content-Type", "application/json")],
            body.to_string().as_bytes(),
        ))
    }

    pub fn begin_raw(&self, bytes: Vec<u8>) -> Pending {
        Pending::send(self.address, &bytes)
    }

    pub fn get(&self, path: &str) -> Answer {
        self.request("GET", path, &[], b"")
    }

    pub fn delete(&self, path: &str) -> Answer {
        self.request("DELETE", path, &[], b"")
    }

    pub fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        send(self.address, &request(method, path, headers, body))
    }

    /// Sends a request under a lease, with a request id unless that is empty.
    pub fn under(&self, lease: &Value, id: &str, method: &str, path: &str, body: &[u8]) -> Answer {
        let headers = lease_headers(lease, id);
        self.request(method, path, &borrowed(&headers), body)
    }

    /// Acquires and expects to get it.
    pub fn acquire(&self, lock: &str, owner: &str) -> Value {
        self.post(&format!("/v1/locks/{lock}/acquire"), json!({"owner_id": owner})).expect(200)
    }

    /// Looks at a lock until it is as it should be.
    pub fn until(&self, lock: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            let snapshot = self.get(&format!("/v1/locks/{lock}")).expect(200);
            if is_so(&snapshot) {
                return snapshot;
            }
            assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}: {snapshot}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits until so many stand in line.
    pub fn until_waiting(&self, lock: &str, count: usize) -> Value {
        self.until(lock, &format!("{count} wait"), |snapshot| {
            snapshot["waiters"].as_array().is_some_and(|waiters| waiters.len() == count)
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        let ended = self.ended.get_mut().unwrap().recv_timeout(PATIENCE);
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
        if !std::thread::panicking() {
            ended.expect("the server stops when it is told to");
        }
    }
}

/// The bytes of a request. `Host` and `Content-Length` are added unless the headers have them.
pub fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let has = |name: &str| headers.iter().any(|(header, _)| header.eq_ignore_ascii_case(name));
    let mut head = format!("{method} {path} HTTP/1.1\r\n");
    if !has("Host") {
        head += "Host: localhost\r\n";
    }
    if !has("Content-Length") && !has("Transfer-Encoding") && !body.is_empty() {
        head += &format!("Content-Length: {}\r\n", body.len());
    }
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    let mut bytes = (head + "\r\n").into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// What a lease's holder shows.
pub fn proof(lease: &Value) -> Value {
    json!({
        "owner_id": lease["owner_id"],
        "lease_id": lease["lease_id"],
        "fencing_token": lease["fencing_token"],
    })
}

/// The headers in which a lease is shown to write to a file, as everybody may send them: encoded more than need be.
pub fn lease_headers(lease: &Value, request_id: &str) -> Vec<(&'static str, String)> {
    let text = |name: &str| lease[name].as_str().unwrap();
    let mut headers = vec![
        ("Leasehold-Lock", escaped(text("lock"))),
        ("Leasehold-Owner", escaped(text("owner_id"))),
        ("Leasehold-Lease", text("lease_id").to_owned()),
        ("Leasehold-Token", lease["fencing_token"].to_string()),
    ];
    if !request_id.is_empty() {
        headers.push(("Idempotency-Key", request_id.to_owned()));
    }
    headers
}

/// Headers as requests take them.
pub fn borrowed<'h>(headers: &'h [(&'h str, String)]) -> Vec<(&'h str, &'h str)> {
    headers.iter().map(|(name, value)| (*name, value.as_str())).collect()
}

/// Every byte percent-encoded.
pub fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}
