//! Fenced files over HTTP: written under a lease, read by everybody.

mod bounds;
mod leases;
mod names;
mod quota;
mod reading;
mod refusals;
mod repeats;
mod restart;
mod slow;
mod together;
mod writing;

use serde_json::Value;

use crate::client::Answer;
use crate::server::{Server, escaped};

/// Whoever holds a lease, and writes under it.
#[derive(Clone)]
pub struct Holder<'s> {
    server: &'s Server,
    pub lease: Value,
    /// The id that its next requests have; empty for none.
    pub id: &'static str,
}

impl<'s> Holder<'s> {
    /// Whoever holds this lock, for long.
    pub fn of(server: &'s Server, lock: &str) -> Holder<'s> {
        Holder::with(server, server.acquire(&escaped(lock), "w1"))
    }

    pub fn with(server: &'s Server, lease: Value) -> Holder<'s> {
        Holder { server, lease, id: "" }
    }

    /// The same, with a request id.
    pub fn as_request(&self, id: &'static str) -> Holder<'s> {
        Holder { id, ..self.clone() }
    }

    pub fn append(&self, name: &str, bytes: &[u8]) -> Answer {
        self.send("POST", &format!("/v1/files/{}/append", escaped(name)), bytes)
    }

    pub fn write(&self, name: &str, offset: u64, bytes: &[u8]) -> Answer {
        self.send("PUT", &format!("/v1/files/{}?offset={offset}", escaped(name)), bytes)
    }

    pub fn delete(&self, name: &str) -> Answer {
        self.send("DELETE", &format!("/v1/files/{}", escaped(name)), b"")
    }

    pub fn send(&self, method: &str, path: &str, bytes: &[u8]) -> Answer {
        self.server.under(&self.lease, self.id, method, path, bytes)
    }

    /// Gives the lease back.
    pub fn release(&self) {
        let lock = escaped(self.lease["lock"].as_str().unwrap());
        let proof = crate::server::proof(&self.lease);
        self.server.post(&format!("/v1/locks/{lock}/release"), proof).expect(200);
    }
}

/// The bytes of a file.
fn read(server: &Server, name: &str) -> Vec<u8> {
    let answer = server.get(&format!("/v1/files/{}", escaped(name)));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.bytes().to_vec()
}

/// Looks at a file.
fn head(server: &Server, name: &str) -> Answer {
    server.request("HEAD", &format!("/v1/files/{}", escaped(name)), &[], b"")
}

/// What a header says, as a number.
fn number(answer: &Answer, header: &str) -> u64 {
    answer.header(header).unwrap_or_else(|| panic!("no {header}: {answer:?}")).parse().unwrap()
}

/// Bytes that differ from place to place.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|place| (place ^ (place >> 8) ^ (place >> 16)) as u8).collect()
}
