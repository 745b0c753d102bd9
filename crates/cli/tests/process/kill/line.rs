//! A line whose order is known before the kill. Those with a request id come back by themselves, in no particular
//! order, and must find the places they had; those without are gone.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::spawn;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Client, proof};
use crate::program::PATIENCE;

pub struct Line {
    lock: String,
    holder: Value,
    /// Who waits, in order.
    order: Vec<String>,
    grants: Receiver<Value>,
}

impl Line {
    /// Takes the lock, and lets so many stand in line behind it one after the other, with somebody in between who has
    /// no request id.
    pub fn form(address: SocketAddr, lock: &str, patient: usize) -> Line {
        let mut client = Client::new(address);
        let holder = client.acquire(lock, &json!({"owner_id": "holder", "ttl_ms": 3_600_000}));
        let (granted, grants) = channel();
        let mut order = Vec::new();
        for place in 0..patient {
            let owner = format!("{lock}-waiter{place}");
            wait(address, lock, &owner, granted.clone());
            order.push(owner);
            stand(&mut client, lock, order.len() + usize::from(place > patient / 2));
            if place == patient / 2 {
                let path = format!("/v1/locks/{lock}/acquire");
                spawn(move || {
                    let body = json!({"owner_id": "hasty", "wait_ms": 600_000});
                    // Ends with the server.
                    let _ = Client::new(address).post(&path, &body);
                });
                stand(&mut client, lock, order.len() + 1);
            }
        }
        Line { lock: lock.to_owned(), holder, order, grants }
    }

    /// After a restart: the same order, nobody without an id, and grants in that order.
    pub fn judge(self, client: &mut Client) {
        let begun = Instant::now();
        loop {
            let snapshot = client.get_lock(&self.lock);
            assert_eq!(snapshot["holders"][0]["fencing_token"], self.holder["fencing_token"], "{snapshot}");
            let waiters = snapshot["waiters"].as_array().unwrap();
            let found: Vec<_> = waiters.iter().map(|waiter| waiter["owner_id"].as_str().unwrap()).collect();
            assert_eq!(found, self.order, "the line of {} has another order", self.lock);
            if waiters.iter().all(|waiter| waiter["attached"] == true) {
                break;
            }
            assert!(begun.elapsed() < PATIENCE, "not everybody came back: {snapshot}");
        }
        let mut holder = self.holder;
        for owner in &self.order {
            client.expect(200, "POST", &format!("/v1/locks/{}/release", self.lock), Some(&proof(&holder)));
            let lease = self.grants.recv_timeout(PATIENCE).unwrap();
            assert_eq!(lease["owner_id"], owner.as_str(), "granted out of turn");
            assert!(lease["fencing_token"].as_u64() > holder["fencing_token"].as_u64());
            holder = lease;
        }
        client.expect(200, "POST", &format!("/v1/locks/{}/release", self.lock), Some(&proof(&holder)));
        assert_eq!(client.get_lock(&self.lock)["state"], "free");
    }
}

/// Waits in line, and comes back under the same id as often as the connection breaks.
fn wait(address: SocketAddr, lock: &str, owner: &str, granted: Sender<Value>) {
    let path = format!("/v1/locks/{lock}/acquire");
    let body = json!({"owner_id": owner, "request_id": format!("{owner}-id"), "wait_ms": 600_000, "ttl_ms": 3_600_000});
    spawn(move || {
        let mut client = Client::new(address);
        loop {
            match client.post(&path, &body) {
                Ok((200, lease)) => {
                    let _ = granted.send(lease);
                    return;
                }
                Ok((503, _)) | Err(_) => std::thread::sleep(Duration::from_millis(10)),
                Ok((status, answer)) => panic!("{path}: {status} {answer}"),
            }
        }
    });
}

/// Waits until so many stand in line.
fn stand(client: &mut Client, lock: &str, count: usize) {
    let begun = Instant::now();
    while client.get_lock(lock)["waiters"].as_array().unwrap().len() != count {
        assert!(begun.elapsed() < PATIENCE, "{lock} has no line of {count}");
    }
}
