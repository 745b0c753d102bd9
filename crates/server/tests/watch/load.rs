//! Somebody who keeps a server busy: acquires and releases, over one connection, one after the other.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use serde_json::{Value, json};

use crate::server::{PATIENCE, proof, request};

/// A connection that is kept.
pub struct Caller(TcpStream);

impl Caller {
    pub fn new(address: SocketAddr) -> Caller {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Caller(stream)
    }

    /// The answer's body, if it is 200; none when the server is not there any more.
    pub fn call(&mut self, path: &str, body: &Value) -> Option<Value> {
        let json = [("Content-Type", "application/json")];
        self.0.write_all(&request("POST", path, &json, body.to_string().as_bytes())).ok()?;
        let mut answer = Vec::new();
        loop {
            let mut buffer = [0; 8192];
            let length = self.0.read(&mut buffer).ok().filter(|length| *length > 0)?;
            answer.extend_from_slice(&buffer[..length]);
            let text = std::str::from_utf8(&answer).unwrap();
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            if body.len() == length.parse::<usize>().unwrap() {
                return head.starts_with("HTTP/1.1 200 ").then(|| serde_json::from_str(body).unwrap());
            }
        }
    }

    /// Two events on this lock. The number of the grant.
    pub fn cycle(&mut self, lock: &str, owner: &str) -> Option<u64> {
        let lease = self.call(&format!("/v1/locks/{lock}/acquire"), &json!({"owner_id": owner}))?;
        self.call(&format!("/v1/locks/{lock}/release"), &proof(&lease))?;
        lease["version"].as_u64()
    }
}

/// Busy until it is told to stop, or the server does.
pub struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    /// One caller for each of these locks.
    pub fn start(address: SocketAddr, locks: &[&str]) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = locks.iter().map(|lock| {
            let (stop, lock) = (stop.clone(), (*lock).to_owned());
            std::thread::spawn(move || {
                let mut caller = Caller::new(address);
                while !stop.load(Ordering::Relaxed) && caller.cycle(&lock, "load").is_some() {}
            })
        });
        Load { threads: threads.collect(), stop }
    }

    pub fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().unwrap();
        }
    }
}
