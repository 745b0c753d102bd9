//! The load over HTTP/1.1: one kept-alive connection for each client, and as little work as can be, so that the server is
//! measured. A connection that was left in the middle of a call, or that the server closes, is replaced by the next call.

use std::fmt::Write as _;
use std::io::Write as _;

use leasehold_client::bare::{self, Bare};
use leasehold_client::keeper::Confirmation;
use leasehold_client::{BootClock, Claim, ClientBuilder, Clock, Error, Trouble, Unavailable, Written};
use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::door::{Door, Held, Wish};
use crate::duration::ms;

/// The longest answer that is taken: a refusal that names many holders, a page of metrics.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// One client's connection.
pub struct Http {
    builder: ClientBuilder,
    connection: Option<Bare>,
    /// What is sent, and what is heard: kept for its room.
    request: Vec<u8>,
    body: String,
    heard: Vec<u8>,
}

#[derive(Deserialize)]
struct Appended {
    offset: u64,
    length: u64,
    size: u64,
}

#[derive(Deserialize)]
struct Lease {
    lease_id: String,
    fencing_token: u64,
    ttl_ms: u64,
    renew_after_ms: u64,
    stop_after_ms: u64,
}

#[derive(Deserialize)]
struct Problem {
    code: String,
    detail: String,
    #[serde(default)]
    field: String,
}

/// The status and the length of an answer, and whether the connection ends with it.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    body_bytes: usize,
    closes: bool,
}

impl Http {
    pub fn new(builder: ClientBuilder) -> Http {
        let (request, body, heard) = (Vec::new(), String::new(), Vec::new());
        Http { builder, connection: None, request, body, heard }
    }

    /// Sends what `body` holds, and reads its answer, which must be as expected.
    async fn ask<T: for<'a> Deserialize<'a>>(&mut self, lock: &str, verb: &str) -> Result<T, Error> {
        let (path, body) = (format!("/v1/locks/{}/{verb}", encoded(lock)), std::mem::take(&mut self.body));
        let answered = self.call(&path, "content-type: application/json\r\n", body.as_bytes(), lock).await;
        self.body = body;
        answered
    }

    /// One call, for this lock.
    async fn call<T: for<'a> Deserialize<'a>>(
        &mut self,
        path: &str,
        headers: &str,
        body: &[u8],
        lock: &str,
    ) -> Result<T, Error> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.builder.dial().await?,
        };
        self.request.clear();
        head(&mut self.request, &connection, "POST", path);
        let _ = write!(self.request, "{headers}content-length: {}\r\n\r\n", body.len());
        self.request.extend_from_slice(body);
        let exchanged = exchange(&mut connection, &self.request, &mut self.heard).await;
        let (head, body) = exchanged.map_err(|problem| broken(&connection.authority, problem))?;
        if !head.closes {
            self.connection = Some(connection);
        }
        let odd = |what: &str| Error::Unexpected { detail: format!("{what} with status {}", head.status) };
        if head.status == 200 {
            return serde_json::from_slice(body).map_err(|_| odd("an answer of another shape"));
        }
        let problem: Problem = serde_json::from_slice(body).map_err(|_| odd("something"))?;
        Err(bare::refusal(&problem.code, problem.detail, problem.field, lock))
    }
}

/// What stands at the head of every request.
fn head(request: &mut Vec<u8>, connection: &Bare, method: &str, path: &str) {
    let _ = write!(request, "{method} {path} HTTP/1.1\r\nhost: {}\r\n", connection.authority);
    if let Some(authorization) = &connection.authorization {
        let _ = write!(request, "authorization: {authorization}\r\n");
    }
}

/// A page of a server, over a connection of its own.
pub async fn page(builder: &ClientBuilder, path: &str) -> Result<String, Error> {
    let mut connection = builder.dial().await?;
    let (mut request, mut heard) = (Vec::new(), Vec::new());
    head(&mut request, &connection, "GET", path);
    request.extend_from_slice(b"connection: close\r\n\r\n");
    let exchanged = exchange(&mut connection, &request, &mut heard).await;
    let (head, body) = exchanged.map_err(|problem| broken(&connection.authority, problem))?;
    match (head.status, std::str::from_utf8(body)) {
        (200, Ok(text)) => Ok(text.to_owned()),
        (status, _) => Err(Error::Unexpected { detail: format!("{path} was answered with status {status}") }),
    }
}

impl Door for Http {
    async fn open(&mut self) -> Result<(), Error> {
        self.connection = Some(self.builder.dial().await?);
        Ok(())
    }

    async fn acquire(&mut self, wish: Wish<'_>) -> Result<Held, Error> {
        let owner = serde_json::Value::from(wish.owner);
        self.body.clear();
        let _ = write!(
            self.body,
            "{{\"owner_id\":{owner},\"ttl_ms\":{},\"wait_ms\":{}}}",
            ms(wish.ttl),
            ms(wish.wait)
        );
        let sent_us = BootClock.now_us();
        let lease: Lease = self.ask(wish.lock, "acquire").await?;
        Ok(Held {
            claim: Claim {
                lock: wish.lock.to_owned(),
                owner_id: wish.owner.to_owned(),
                lease_id: lease.lease_id,
                fencing_token: lease.fencing_token,
            },
            confirmation: Confirmation {
                sent_us,
                heard_us: BootClock.now_us(),
                ttl_us: lease.ttl_ms * 1000,
                renew_after_us: lease.renew_after_ms * 1000,
                stop_after_us: lease.stop_after_ms * 1000,
            },
        })
    }

    async fn append(&mut self, claim: &Claim, name: &str, data: &[u8]) -> Result<Written, Error> {
        let Claim { lock, owner_id, lease_id, fencing_token } = claim;
        let headers = format!(
            "content-type: application/octet-stream\r\nleasehold-lock: {}\r\nleasehold-owner: {}\r\n\
             leasehold-lease: {lease_id}\r\nleasehold-token: {fencing_token}\r\n",
            encoded(lock),
            encoded(owner_id),
        );
        let path = format!("/v1/files/{}/append", encoded(name));
        let Appended { offset, length, size } = self.call(&path, &headers, data, lock).await?;
        Ok(Written { offset, length, size })
    }

    async fn release(&mut self, claim: &Claim) -> Result<(), Error> {
        let (owner, lease) =
            (serde_json::Value::from(&*claim.owner_id), serde_json::Value::from(&*claim.lease_id));
        self.body.clear();
        let _ = write!(
            self.body,
            "{{\"owner_id\":{owner},\"lease_id\":{lease},\"fencing_token\":{}}}",
            claim.fencing_token
        );
        self.ask::<serde::de::IgnoredAny>(&claim.lock, "release").await.map(drop)
    }
}

/// One request and its answer.
async fn exchange<'h>(
    connection: &mut Bare,
    request: &[u8],
    heard: &'h mut Vec<u8>,
) -> Result<(Head, &'h [u8]), String> {
    let told = |error: std::io::Error| error.to_string();
    connection.stream.write_all(request).await.map_err(told)?;
    connection.stream.flush().await.map_err(told)?;
    heard.clear();
    let (head, begin) = loop {
        more(connection, heard).await?;
        if let Some(end) = heard.windows(4).position(|window| window == b"\r\n\r\n") {
            break (read_head(&heard[..end])?, end + 4);
        }
    };
    while heard.len() < begin + head.body_bytes {
        more(connection, heard).await?;
    }
    let body = &heard[begin..begin + head.body_bytes];
    Ok((head, body))
}

async fn more(connection: &mut Bare, heard: &mut Vec<u8>) -> Result<(), String> {
    if heard.len() > ANSWER_BYTES_MAX {
        return Err(format!("it sent more than {ANSWER_BYTES_MAX} bytes"));
    }
    match connection.stream.read_buf(heard).await {
        Ok(0) => Err("the server closed it".to_owned()),
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

fn read_head(head: &[u8]) -> Result<Head, String> {
    let text = std::str::from_utf8(head).map_err(|_| "its answer is not HTTP".to_owned())?;
    let mut lines = text.split("\r\n");
    let status =
        lines.next().filter(|line| line.starts_with("HTTP/1.")).and_then(|line| line.split(' ').nth(1));
    let status = status.and_then(|status| status.parse().ok()).ok_or("its answer is not HTTP/1")?;
    let mut read = Head { status, body_bytes: 0, closes: false };
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            read.body_bytes = value.parse().map_err(|_| "its answer has no length".to_owned())?;
        } else if name.eq_ignore_ascii_case("connection") {
            read.closes = value.eq_ignore_ascii_case("close");
        }
    }
    Ok(read)
}

fn broken(authority: &str, problem: String) -> Error {
    Error::ServerUnavailable(Box::new(Unavailable {
        server: format!("http://{authority}"),
        attempts: 1,
        trouble: Trouble::Broken(problem),
        may_have_happened: true,
    }))
}

/// A lock's name as one segment of a path.
fn encoded(lock: &str) -> String {
    let mut text = String::with_capacity(lock.len());
    for byte in lock.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => text.push(byte.into()),
            _ => {
                let _ = write!(text, "%{byte:02X}");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_heads_and_refuses_what_is_none() {
        let head = |text: &str| read_head(text.as_bytes());
        assert_eq!(
            head("HTTP/1.1 200 OK\r\nDate: now\r\nContent-Length: 17"),
            Ok(Head { status: 200, body_bytes: 17, closes: false })
        );
        assert_eq!(
            head("HTTP/1.1 503 Busy\r\nconnection: Close\r\ncontent-length:0"),
            Ok(Head { status: 503, body_bytes: 0, closes: true })
        );
        for text in ["", "SSH-2.0-x", "HTTP/1.1 OK", "HTTP/1.1 200 OK\r\ncontent-length: many"] {
            assert!(head(text).is_err(), "{text}");
        }
    }

    #[test]
    fn names_are_one_segment() {
        assert_eq!(encoded("load-7"), "load-7");
        assert_eq!(encoded("a/b c%ü"), "a%2Fb%20c%25%C3%BC");
    }
}
