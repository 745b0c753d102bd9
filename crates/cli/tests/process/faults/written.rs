//! What was written to one fenced file and acknowledged, and whether it is still so.

use std::io;

use serde_json::Value;

use crate::client::Client;

/// A file as its only writer knows it.
#[derive(Clone)]
pub struct Written {
    name: String,
    /// The lock as it stands in headers and paths.
    lock: String,
    lease: Value,
    /// None: there is no such file.
    content: Option<Vec<u8>>,
    acknowledged: Vec<Change>,
    /// Was about to be made, and nobody knows what came of it.
    open: Option<Change>,
}

#[derive(Clone)]
struct Change {
    key: String,
    how: How,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy)]
pub enum How {
    Append,
    /// At this offset.
    Put(usize),
    Delete,
}

impl Written {
    /// A file that is not there yet, to be written under this lease on this lock.
    pub fn new(name: &str, lock: &str, lease: &Value) -> Written {
        let (name, lock, lease) = (name.to_owned(), lock.to_owned(), lease.clone());
        Written { name, lock, lease, content: None, acknowledged: Vec::new(), open: None }
    }

    /// Makes a change. It is written down before, and again when it was acknowledged.
    pub fn change(&mut self, client: &mut Client, how: How, bytes: &[u8]) -> io::Result<()> {
        let key = format!("{}-{}", self.name.replace('/', "-"), self.acknowledged.len());
        let change = Change { key, how, bytes: bytes.to_vec() };
        self.open = Some(change.clone());
        let (status, answer) = self.send(client, &change)?;
        if status == 503 {
            return Err(io::Error::other(answer));
        }
        assert_eq!(status, 200, "{}: {answer}", self.name);
        self.open = None;
        self.content = change.made(self.content.take());
        self.acknowledged.push(change);
        Ok(())
    }

    /// Compares with what the server says; whether a change had been left open.
    pub fn judge(mut self, client: &mut Client) -> bool {
        let found = self.read(client);
        let open = self.open.take();
        match &open {
            None => self.same(&found, &self.content),
            Some(change) => {
                let made = change.made(self.content.clone());
                assert!(found == self.content || found == made, "{} is neither before nor after", self.name);
                // Made before the crash or only now: once.
                let (status, answer) = self.send(client, change).unwrap();
                assert_eq!(status, 200, "{}: {answer}", self.name);
                self.content = made;
            }
        }
        for change in self.acknowledged.iter().rev().take(3) {
            let (status, answer) = self.send(client, change).unwrap();
            assert_eq!(status, 200, "{}: a repeat is told {answer}", self.name);
        }
        self.same(&self.read(client), &self.content);
        open.is_some()
    }

    fn same(&self, found: &Option<Vec<u8>>, expected: &Option<Vec<u8>>) {
        let bytes = |content: &Option<Vec<u8>>| content.as_ref().map(Vec::len);
        assert!(
            found == expected,
            "{} is not as it was acknowledged: {:?} bytes found, {:?} expected",
            self.name,
            bytes(found),
            bytes(expected)
        );
    }

    fn path(&self) -> String {
        format!("/v1/files/{}", self.name.replace('/', "%2F"))
    }

    fn read(&self, client: &mut Client) -> Option<Vec<u8>> {
        client.begin_bytes("GET", &self.path(), "", &[]).unwrap();
        match client.answer_bytes().unwrap() {
            (200, bytes) => Some(bytes),
            (404, _) => None,
            (status, _) => panic!("reading {}: {status}", self.name),
        }
    }

    fn send(&self, client: &mut Client, change: &Change) -> io::Result<(u16, String)> {
        let (method, path) = match change.how {
            How::Append => ("POST", format!("{}/append", self.path())),
            How::Put(offset) => ("PUT", format!("{}?offset={offset}", self.path())),
            How::Delete => ("DELETE", self.path()),
        };
        let headers =
            proof_headers(&self.lock, &self.lease) + &format!("Idempotency-Key: {}\r\n", change.key);
        client.begin_bytes(method, &path, &headers, &change.bytes)?;
        let (status, answer) = client.answer_bytes()?;
        Ok((status, String::from_utf8_lossy(&answer).into_owned()))
    }
}

/// What a writer shows, in headers. The lock is percent-encoded.
pub fn proof_headers(lock: &str, lease: &Value) -> String {
    let text = |field: &str| lease[field].as_str().unwrap().to_owned();
    format!(
        "Leasehold-Lock: {lock}\r\nLeasehold-Owner: {}\r\nLeasehold-Lease: {}\r\nLeasehold-Token: {}\r\n",
        text("owner_id"),
        text("lease_id"),
        lease["fencing_token"]
    )
}

impl Change {
    /// The content after it.
    fn made(&self, content: Option<Vec<u8>>) -> Option<Vec<u8>> {
        let mut bytes = content.unwrap_or_default();
        match self.how {
            How::Append => bytes.extend_from_slice(&self.bytes),
            How::Put(offset) => {
                let end = bytes.len().max(offset + self.bytes.len());
                bytes.resize(end, 0);
                bytes[offset..offset + self.bytes.len()].copy_from_slice(&self.bytes);
            }
            How::Delete => return None,
        }
        Some(bytes)
    }
}
