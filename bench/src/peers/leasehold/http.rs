//! Leasehold over HTTP/1.1 and JSON: a kept-alive connection for each client, one call after the other, and as little work in the
//! client as can be.

use std::fmt::Write as _;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::stream::wait;
use crate::drive::{TTL, Workload};
use crate::http::field;
use crate::peers::{LockClient, Way};

/// The way.
pub struct Http {
    /// The server.
    pub address: SocketAddr,
}

/// One client.
pub struct Caller {
    stream: TcpStream,
    host: SocketAddr,
    owner: String,
    wait_ms: u128,
    out: String,
    body: String,
    heard: Vec<u8>,
}

/// A lease.
pub struct Held {
    lock: String,
    lease_id: String,
    token: u64,
}

impl Way for Http {
    type Client = Caller;

    async fn clients(&self, count: usize, workload: Workload) -> Result<Vec<Caller>, String> {
        let mut callers = Vec::with_capacity(count);
        for number in 0..count {
            let stream = TcpStream::connect(self.address).await.map_err(|error| error.to_string())?;
            stream.set_nodelay(true).map_err(|error| error.to_string())?;
            callers.push(Caller {
                stream,
                host: self.address,
                owner: format!("bench/{number}"),
                wait_ms: wait(workload).as_millis(),
                out: String::new(),
                body: String::new(),
                heard: Vec::new(),
            });
        }
        Ok(callers)
    }
}

impl Caller {
    /// Sends the body, and gives back that of the answer, which must be 200.
    async fn call(&mut self, lock: &str, verb: &str) -> Result<&str, String> {
        self.out.clear();
        let _ = write!(
            self.out,
            "POST /v1/locks/{lock}/{verb} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{}",
            self.host,
            self.body.len(),
            self.body,
        );
        let told = |error: std::io::Error| error.to_string();
        self.stream.write_all(self.out.as_bytes()).await.map_err(told)?;
        self.heard.clear();
        let (mut head_end, mut length) = (0, 0);
        while head_end == 0 || self.heard.len() < head_end + length {
            if self.stream.read_buf(&mut self.heard).await.map_err(told)? == 0 {
                return Err("the server closed the connection".to_owned());
            }
            if head_end == 0
                && let Some(end) = self.heard.windows(4).position(|four| four == b"\r\n\r\n")
            {
                head_end = end + 4;
                length = content_length(&self.heard[..end])?;
            }
        }
        let body = std::str::from_utf8(&self.heard[head_end..]).map_err(|_| "an answer that is no text")?;
        if !self.heard.starts_with(b"HTTP/1.1 200") {
            return Err(format!("{verb} of {lock} was answered {body}"));
        }
        Ok(body)
    }

    /// Shows that the lease is one's own.
    fn claim(&mut self, held: &Held) {
        self.body.clear();
        let (owner, lease_id, token) = (&self.owner, &held.lease_id, held.token);
        let _ = write!(
            self.body,
            "{{\"owner_id\":\"{owner}\",\"lease_id\":\"{lease_id}\",\"fencing_token\":{token}}}"
        );
    }
}

fn content_length(head: &[u8]) -> Result<usize, String> {
    let head = std::str::from_utf8(head).map_err(|_| "an answer that is no text".to_owned())?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    length.ok_or_else(|| format!("an answer without a length: {head}"))
}

impl LockClient for Caller {
    type Held = Held;

    async fn acquire(&mut self, lock: &str) -> Result<Held, String> {
        self.body.clear();
        let (owner, ttl_ms, wait_ms) = (&self.owner, TTL.as_millis(), self.wait_ms);
        let _ = write!(self.body, "{{\"owner_id\":\"{owner}\",\"ttl_ms\":{ttl_ms},\"wait_ms\":{wait_ms}}}");
        let told = self.call(lock, "acquire").await?;
        let token = field(told, "fencing_token")?;
        let token = token.parse().map_err(|_| format!("the token {token:?}"))?;
        Ok(Held { lock: lock.to_owned(), lease_id: field(told, "lease_id")?.to_owned(), token })
    }

    async fn renew(&mut self, held: &mut Held) -> Result<(), String> {
        self.claim(held);
        self.call(&held.lock, "renew").await.map(drop)
    }

    async fn release(&mut self, held: Held) -> Result<(), String> {
        self.claim(&held);
        self.call(&held.lock, "release").await.map(drop)
    }

    fn token(held: &Held) -> Option<u64> {
        Some(held.token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_is_found_in_the_head() {
        assert_eq!(content_length(b"HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 17"), Ok(17));
        assert!(content_length(b"HTTP/1.1 200 OK\r\nA: b").is_err());
    }
}
