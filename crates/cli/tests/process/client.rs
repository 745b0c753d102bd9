//! A small blocking HTTP client. A connection that breaks is an error and not a panic: servers are killed here.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::program::PATIENCE;

/// One client with a connection that it keeps.
pub struct Client {
    address: SocketAddr,
    tls: Option<Arc<ClientConfig>>,
    headers: String,
    patience: Duration,
    connection: Option<BufReader<Box<dyn Stream>>>,
}

/// A connection, encrypted or not.
trait Stream: Read + Write + Send {}

impl<T: Read + Write + Send> Stream for T {}

impl Client {
    pub fn new(address: SocketAddr) -> Client {
        Client { address, tls: None, headers: String::new(), patience: PATIENCE, connection: None }
    }

    /// Gives up on a connection that says nothing for so long.
    pub fn patience(mut self, patience: Duration) -> Client {
        self.patience = patience;
        self
    }

    /// Shows this token from now on.
    pub fn show(mut self, token: &str) -> Client {
        self.headers = format!("Authorization: Bearer {token}\r\n");
        self
    }

    /// Encrypts, and trusts these certificates.
    pub fn trust(mut self, pem: &str) -> Client {
        self.tls = Some(Arc::new(trusting(pem)));
        self
    }

    /// The next request goes over a connection of its own.
    pub fn hang_up(&mut self) {
        self.connection = None;
    }

    fn connect(&self) -> io::Result<Box<dyn Stream>> {
        let stream = TcpStream::connect_timeout(&self.address, self.patience)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(self.patience))?;
        let Some(config) = &self.tls else { return Ok(Box::new(stream)) };
        let name = "localhost".try_into().unwrap();
        let tls = ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
        Ok(Box::new(StreamOwned::new(tls, stream)))
    }

    /// One request and its answer: the status and the body. After an error nobody knows what came of it.
    pub fn call(&mut self, method: &str, path: &str, body: Option<&Value>) -> io::Result<(u16, Value)> {
        self.begin(method, path, body)?;
        self.answer()
    }

    /// Sends a request.
    pub fn begin(&mut self, method: &str, path: &str, body: Option<&Value>) -> io::Result<()> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
        self.begin_bytes(method, path, kind, body.as_bytes())
    }

    /// Sends a request with these headers, each with its line end, and these bytes.
    pub fn begin_bytes(&mut self, method: &str, path: &str, headers: &str, body: &[u8]) -> io::Result<()> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => BufReader::new(self.connect()?),
        };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{}{headers}Content-Length: {}\r\n\r\n",
            self.headers,
            body.len()
        );
        connection.get_mut().write_all(&[head.as_bytes(), body].concat())?;
        self.connection = Some(connection);
        Ok(())
    }

    /// Waits for the answer.
    pub fn answer(&mut self) -> io::Result<(u16, Value)> {
        let (status, body) = self.answer_bytes()?;
        Ok((status, serde_json::from_slice(&body).unwrap_or(Value::Null)))
    }

    /// Waits for the answer, whatever it is made of.
    pub fn answer_bytes(&mut self) -> io::Result<(u16, Vec<u8>)> {
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

fn read(connection: &mut BufReader<Box<dyn Stream>>) -> io::Result<(u16, Vec<u8>)> {
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
    Ok((status, body))
}

/// TLS that trusts these certificates.
pub fn trusting(pem: &str) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        roots.add(certificate.unwrap()).unwrap();
    }
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth()
}

/// What a lease's holder shows.
pub fn proof(lease: &Value) -> Value {
    json!({
        "owner_id": lease["owner_id"],
        "lease_id": lease["lease_id"],
        "fencing_token": lease["fencing_token"],
    })
}
