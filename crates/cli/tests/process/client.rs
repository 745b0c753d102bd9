//! A small blocking HTTP client. A connection that breaks is an error and not a panic: servers are killed here.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};

use crate::program::PATIENCE;

/// One client with a connection that it keeps.
pub struct Client {
    address: SocketAddr,
    connection: Option<BufReader<TcpStream>>,
}

impl Client {
    pub fn new(address: SocketAddr) -> Client {
        Client { address, connection: None }
    }

    /// One request and its answer: the status and the body. After an error nobody knows what came of it.
    pub fn call(&mut self, method: &str, path: &str, body: Option<&Value>) -> io::Result<(u16, Value)> {
        self.begin(method, path, body)?;
        self.answer()
    }

    /// Sends a request.
    pub fn begin(&mut self, method: &str, path: &str, body: Option<&Value>) -> io::Result<()> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => {
                let stream = TcpStream::connect(self.address)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                none.insert(BufReader::new(stream))
            }
        };
        let body = body.map(Value::to_string).unwrap_or_default();
        let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{kind}Content-Length: {}\r\n\r\n",
            body.len()
        );
        let sent = connection.get_mut().write_all((head + &body).as_bytes());
        if sent.is_err() {
            self.connection = None;
        }
        sent
    }

    /// Waits for the answer.
    pub fn answer(&mut self) -> io::Result<(u16, Value)> {
        let answer = self.connection.as_mut().map_or_else(|| Err(io::ErrorKind::NotConnected.into()), read);
        if answer.is_err() {
            self.connection = None;
        }
        answer
    }

    pub fn post(&mut self, path: &str, body: &Value) -> io::Result<(u16, Value)> {
        self.call("POST", path, Some(body))
    }

    /// A request to a server that lives, with the status it must have.
    pub fn expect(&mut self, status: u16, method: &str, path: &str, body: Option<&Value>) -> Value {
        let (found, answer) = self.call(method, path, body).unwrap();
        assert_eq!(found, status, "{method} {path} {body:?}: {answer}");
        answer
    }

    pub fn get_lock(&mut self, lock: &str) -> Value {
        self.expect(200, "GET", &format!("/v1/locks/{lock}"), None)
    }

    pub fn acquire(&mut self, lock: &str, body: &Value) -> Value {
        self.expect(200, "POST", &format!("/v1/locks/{lock}/acquire"), Some(body))
    }
}

fn read(connection: &mut BufReader<TcpStream>) -> io::Result<(u16, Value)> {
    let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let mut line = String::new();
    connection.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(|| bad("no status"))?;
    let mut length = 0;
    loop {
        line.clear();
        if connection.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if line == "\r\n" {
            break;
        }
        if let Some(text) = line.strip_prefix("content-length: ") {
            length = text.trim().parse().map_err(|_| bad("no length"))?;
        }
    }
    let mut body = vec![0; length];
    connection.read_exact(&mut body)?;
    Ok((status, serde_json::from_slice(&body).unwrap_or(Value::Null)))
}

/// What a lease's holder shows.
pub fn proof(lease: &Value) -> Value {
    json!({
        "owner_id": lease["owner_id"],
        "lease_id": lease["lease_id"],
        "fencing_token": lease["fencing_token"],
    })
}
