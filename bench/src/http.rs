//! A plain HTTP/1.1 client on one kept-alive connection: as little work as can be, so that the server is measured.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

/// One connection.
pub struct Connection {
    reader: BufReader<TcpStream>,
    host: SocketAddr,
    request: Vec<u8>,
    line: String,
}

impl Connection {
    /// Connects to a server.
    pub fn open(to: SocketAddr) -> Result<Connection, String> {
        let stream = TcpStream::connect(to).map_err(|error| format!("cannot connect to {to}: {error}"))?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        Ok(Connection { reader: BufReader::new(stream), host: to, request: Vec::new(), line: String::new() })
    }

    /// Sends a request and reads its answer: the status and the body.
    pub fn call(&mut self, method: &str, path: &str, body: &str) -> Result<(u16, String), String> {
        self.call_inner(method, path, body).map_err(|error| format!("{method} {path}: {error}"))
    }

    fn call_inner(&mut self, method: &str, path: &str, body: &str) -> std::io::Result<(u16, String)> {
        self.request.clear();
        write!(
            self.request,
            "{method} {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.host,
            body.len()
        )?;
        self.reader.get_mut().write_all(&self.request)?;
        let status = {
            self.read_line()?;
            self.line.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0)
        };
        let mut length = 0;
        loop {
            self.read_line()?;
            if self.line.is_empty() {
                break;
            }
            if let Some((name, value)) = self.line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        let mut body = vec![0; length];
        self.reader.read_exact(&mut body)?;
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    }

    fn read_line(&mut self) -> std::io::Result<()> {
        self.line.clear();
        if self.reader.read_line(&mut self.line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        self.line.truncate(self.line.trim_end().len());
        Ok(())
    }
}

/// A field of a flat JSON answer that we know the shape of.
pub fn field<'a>(json: &'a str, name: &str) -> Result<&'a str, String> {
    let missing = || format!("no {name} in {json}");
    let at = json.find(&format!("\"{name}\":")).ok_or_else(missing)?;
    let value = json[at + name.len() + 3..].trim_start();
    match value.strip_prefix('"') {
        Some(text) => text.split('"').next().ok_or_else(missing),
        None => value.split([',', '}']).next().ok_or_else(missing),
    }
}
