//! A client that sends any bytes and reads one HTTP answer.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

use crate::server::PATIENCE;

#[path = "conform.rs"]
pub mod conform;

/// A request that is on its way. Dropping it closes its connection.
pub struct Pending {
    stream: TcpStream,
    head_only: bool,
    sent: Vec<u8>,
}

impl Pending {
    pub fn send(address: SocketAddr, bytes: &[u8]) -> Pending {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        // A server that has heard enough may close before everything is sent.
        let _ = stream.write_all(bytes);
        Pending { stream, head_only: bytes.starts_with(b"HEAD "), sent: bytes.to_vec() }
    }

    /// Sends more on the same connection.
    pub fn send_more(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// The answer, if there is one already.
    pub fn is_answered(&mut self) -> Option<Answer> {
        self.stream.set_nonblocking(true).unwrap();
        let here = matches!(self.stream.peek(&mut [0]), Ok(1..));
        self.stream.set_nonblocking(false).unwrap();
        here.then(|| self.next()).flatten()
    }

    pub fn answer(mut self) -> Answer {
        let answer = self.next().expect("an answer");
        conform::check(&self.sent, &answer);
        answer
    }

    /// The next answer on this connection; none when the server closed it.
    pub fn next(&mut self) -> Option<Answer> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            match self.stream.read(&mut byte) {
                Ok(0) => break,
                Ok(_) => head.push(byte[0]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
                Err(error) => panic!("no answer: {error}; so far {:?}", String::from_utf8_lossy(&head)),
            }
        }
        if head.is_empty() {
            return None;
        }
        let head = String::from_utf8(head).unwrap();
        let mut lines = head.trim_end().split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|code| code.parse().ok());
        let headers: Vec<(String, String)> = lines
            .map(|line| line.split_once(": ").unwrap())
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let length = headers.iter().find(|(name, _)| name == "content-length").map(|(_, text)| text);
        let length: usize = length.map_or(0, |text| text.parse().unwrap());
        let mut body = vec![0; if self.head_only { 0 } else { length }];
        self.stream.read_exact(&mut body).unwrap();
        Some(Answer { status: status.unwrap(), headers, body })
    }
}

/// Sends bytes on a connection of their own and reads the answer.
pub fn send(address: SocketAddr, bytes: &[u8]) -> Answer {
    Pending::send(address, bytes).answer()
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub fn bytes(&self) -> &[u8] {
        &self.body
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }

    /// The body of an answer that has this status.
    pub fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        self.json()
    }

    /// The body of a refusal that has this status and code.
    pub fn expect_code(&self, status: u16, code: &str) -> Value {
        let problem = self.expect(status);
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        assert_eq!(problem["code"], code, "{problem}");
        assert_eq!(problem["status"], status, "{problem}");
        assert!(problem["title"].is_string() && problem["detail"].is_string(), "{problem}");
        problem
    }

    /// A refusal of a malformed request, naming this field.
    pub fn expect_invalid(&self, field: &str) -> Value {
        let problem = self.expect_code(400, "invalid_argument");
        assert_eq!(problem["field"], field, "{problem}");
        problem
    }
}

/// The names of an object's members, in order of the alphabet.
pub fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}
