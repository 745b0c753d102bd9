//! Clients that work on locks of their own until the server dies, and remember each lock's last step.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::thread::{JoinHandle, spawn};
use std::time::Instant;

use serde_json::{Value, json};

use super::Progress;
use super::history::{Fate, SessionEnding, SessionFate};
use crate::client::{Client, proof};

const LONG_MS: u64 = 3_600_000;

/// Acquires one lock after the other; keeps, changes or releases them in turn.
pub fn locks(
    address: SocketAddr,
    round: usize,
    worker: usize,
    progress: Progress,
) -> JoinHandle<BTreeMap<String, Fate>> {
    spawn(move || {
        let mut fates = BTreeMap::new();
        let mut client = Client::new(address);
        for count in 0.. {
            let lock = format!("round{round}-worker{worker}-{count}");
            if own_lock(&mut client, &format!("worker{worker}"), &lock, count, &mut fates).is_err() {
                break;
            }
            progress.step();
        }
        fates
    })
}

/// Acquires a lock that nobody else wants; keeps, changes or releases it as the count has it.
pub fn own_lock(
    client: &mut Client,
    owner: &str,
    lock: &str,
    count: u64,
    fates: &mut BTreeMap<String, Fate>,
) -> io::Result<()> {
    let body = json!({
        "owner_id": owner,
        "request_id": format!("{lock}-id"),
        "ttl_ms": LONG_MS + count,
        "mode": if count.is_multiple_of(5) { "shared" } else { "exclusive" },
        "metadata": {"count": count.to_string()},
    });
    Steps { client, lock, body: &body, fates }.take(count % 4 >= 2, count.is_multiple_of(2))
}

/// The steps with one lock: each is written down before it is taken.
struct Steps<'a> {
    client: &'a mut Client,
    lock: &'a str,
    body: &'a Value,
    fates: &'a mut BTreeMap<String, Fate>,
}

impl Steps<'_> {
    fn take(&mut self, change: bool, release: bool) -> io::Result<()> {
        let mut lease = self.acquire()?;
        if change {
            lease = self.change(&lease)?;
        }
        if release {
            self.release(&lease)?;
        }
        Ok(())
    }

    fn acquire(&mut self) -> io::Result<Value> {
        self.note(Fate::Asked { body: self.body.clone() });
        let sent = Instant::now();
        let lease = self.call("acquire", self.body.clone())?;
        self.note(Fate::Held { body: self.body.clone(), lease: lease.clone(), sent });
        Ok(lease)
    }

    fn change(&mut self, lease: &Value) -> io::Result<Value> {
        let metadata = json!({"changed": self.lock});
        let (body, before) = (self.body.clone(), lease.clone());
        self.note(Fate::Changing { body, lease: before, metadata: metadata.clone() });
        let mut renewal = proof(lease);
        renewal["metadata"] = metadata;
        let sent = Instant::now();
        let lease = self.call("renew", renewal)?;
        self.note(Fate::Held { body: self.body.clone(), lease: lease.clone(), sent });
        Ok(lease)
    }

    fn release(&mut self, lease: &Value) -> io::Result<()> {
        self.note(Fate::Releasing { body: self.body.clone(), lease: lease.clone() });
        self.call("release", proof(lease))?;
        self.note(Fate::Released { body: self.body.clone(), lease: lease.clone() });
        Ok(())
    }

    fn note(&mut self, fate: Fate) {
        self.fates.insert(self.lock.to_owned(), fate);
    }

    fn call(&mut self, call: &str, body: Value) -> io::Result<Value> {
        let (status, answer) = self.client.post(&format!("/v1/locks/{}/{call}", self.lock), &body)?;
        done(status, answer)
    }
}

/// Opens one session after the other, with a few locks under each; closes every second one.
pub fn sessions(
    address: SocketAddr,
    round: usize,
    worker: usize,
    progress: Progress,
) -> JoinHandle<Vec<SessionFate>> {
    spawn(move || {
        let mut fates = Vec::new();
        let mut client = Client::new(address);
        for count in 0.. {
            let name = format!("round{round}-session{worker}-{count}");
            let lived = session(&mut client, &name, count % 2 == 1, &mut fates);
            if lived.is_err() {
                break;
            }
            progress.step();
        }
        fates
    })
}

/// Opens a session, takes a few locks under it, and closes it or not.
pub fn session(client: &mut Client, name: &str, close: bool, fates: &mut Vec<SessionFate>) -> io::Result<()> {
    let body = json!({"owner_id": name, "request_id": format!("{name}-id"), "ttl_ms": LONG_MS});
    let mut fate = SessionFate { body, session: None, locks: Vec::new(), ending: SessionEnding::Open };
    let lived = live(client, name, &mut fate, close);
    fates.push(fate);
    lived
}

/// A server that is just failing says so; whether the step was taken, nobody knows then.
fn done(status: u16, answer: Value) -> io::Result<Value> {
    if status == 503 {
        return Err(io::Error::other(answer.to_string()));
    }
    assert_eq!(status, 200, "{answer}");
    Ok(answer)
}

fn live(client: &mut Client, name: &str, fate: &mut SessionFate, close: bool) -> io::Result<()> {
    let mut call = |path: &str, body: &Value| {
        let (status, answer) = client.post(path, body)?;
        done(status, answer)
    };
    let session = call("/v1/sessions", &fate.body)?;
    let id = json!({"session_id": session["session_id"]});
    fate.session = Some(session);
    for count in 0..3 {
        let lock = format!("{name}-{count}");
        let mut ask = id.clone();
        ask["owner_id"] = json!(name);
        ask["request_id"] = json!(format!("{lock}-id"));
        fate.locks.push((lock.clone(), None));
        let lease = call(&format!("/v1/locks/{lock}/acquire"), &ask)?;
        fate.locks[count].1 = Some(lease);
    }
    if close {
        fate.ending = SessionEnding::Closing;
        call("/v1/sessions/close", &id)?;
        fate.ending = SessionEnding::Closed;
    }
    Ok(())
}
