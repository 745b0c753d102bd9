//! Reads a stream of server-sent events as a careful program would: by the format's own rules.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use serde_json::Value;

use crate::server::{PATIENCE, request};

/// An event as it came.
#[derive(Clone, Debug, PartialEq)]
pub struct Heard {
    pub id: u64,
    pub kind: String,
    pub data: Value,
}

impl Heard {
    pub fn lock(&self) -> &str {
        self.data["lock"].as_str().unwrap()
    }

    pub fn what(&self) -> (&str, &str) {
        (&self.kind, self.lock())
    }
}

/// What a stream brings.
#[derive(Debug)]
pub enum News {
    Event(Heard),
    Comment(String),
    End,
}

/// A reader of one stream. Dropping it closes the connection.
pub struct Reader {
    stream: TcpStream,
    /// What is left of the chunk that is being read.
    chunk: usize,
    text: Vec<u8>,
    /// What the format calls the last event id: what the reader would resume with.
    pub last_id: Option<u64>,
    lines: Vec<String>,
}

impl Reader {
    /// Begins to watch, and returns when the server has begun too.
    pub fn open(address: SocketAddr, path: &str, last_id: Option<u64>) -> Reader {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let id = last_id.map(|id| id.to_string());
        let header: Vec<_> = id.iter().map(|id| ("Last-Event-ID", id.as_str())).collect();
        stream.write_all(&request("GET", path, &header, b"")).unwrap();
        Reader::over(stream, last_id)
    }

    /// Reads on a connection over which the request has been sent.
    pub fn over(mut stream: TcpStream, last_id: Option<u64>) -> Reader {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
        assert!(head.starts_with("http/1.1 200 "), "{head}");
        assert!(head.contains("content-type: text/event-stream\r\n"), "{head}");
        assert!(head.contains("cache-control: no-store\r\n"), "{head}");
        assert!(head.contains("transfer-encoding: chunked\r\n"), "{head}");
        let mut reader = Reader { stream, chunk: 0, text: Vec::new(), last_id, lines: Vec::new() };
        match reader.news() {
            News::Comment(text) if text.starts_with(" watching from ") => reader,
            other => panic!("the first words are {other:?}"),
        }
    }

    /// The next event; none when the stream has ended.
    pub fn next(&mut self) -> Option<Heard> {
        let begun = Instant::now();
        loop {
            match self.news() {
                News::Event(heard) => return Some(heard),
                News::Comment(_) => assert!(begun.elapsed() < PATIENCE, "nothing but comments is heard"),
                News::End => return None,
            }
        }
    }

    pub fn expect(&mut self) -> Heard {
        self.next().expect("another event")
    }

    /// The next block, whatever it is.
    pub fn news(&mut self) -> News {
        loop {
            let Some(line) = self.line() else { return News::End };
            if !line.is_empty() {
                self.lines.push(line);
                continue;
            }
            let (mut kind, mut data, mut comment) = (None, None, None);
            for line in std::mem::take(&mut self.lines) {
                let (field, value) = line.split_once(':').unwrap();
                let value = if field.is_empty() { value } else { value.strip_prefix(' ').unwrap() };
                match field {
                    "" => comment = Some(value.to_owned()),
                    "id" => {
                        let id = value.parse().unwrap();
                        assert!(self.last_id.is_none_or(|last| id > last), "{id} after {:?}", self.last_id);
                        self.last_id = Some(id);
                    }
                    "event" => kind = Some(value.to_owned()),
                    "data" => data = Some(serde_json::from_str(value).unwrap()),
                    other => panic!("no field is called {other}"),
                }
            }
            match (data, comment) {
                (Some(data), None) => {
                    let heard = Heard { id: self.last_id.unwrap(), kind: kind.unwrap(), data };
                    assert_eq!(heard.data["seq"], heard.id);
                    assert_eq!(heard.data["type"], heard.kind);
                    return News::Event(heard);
                }
                (None, Some(comment)) => return News::Comment(comment),
                other => panic!("an event or a comment: {other:?}"),
            }
        }
    }

    fn line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.text.iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<_> = self.text.drain(..=end).collect();
                line.pop();
                return Some(String::from_utf8(line).unwrap());
            }
            let mut buffer = [0; 64 * 1024];
            let length = self.read(&mut buffer);
            if length == 0 {
                return None;
            }
            self.text.extend_from_slice(&buffer[..length]);
        }
    }

    /// Bytes of the body; none at its end, or when the connection has ended without one.
    fn read(&mut self, buffer: &mut [u8]) -> usize {
        if self.chunk == 0 {
            let mut size = Vec::new();
            while !size.ends_with(b"\r\n") {
                let mut byte = [0];
                if self.read_some(&mut byte) == 0 {
                    return 0;
                }
                size.push(byte[0]);
                if size == b"\r\n" {
                    // The end of the chunk before.
                    size.clear();
                }
            }
            self.chunk = usize::from_str_radix(std::str::from_utf8(&size).unwrap().trim(), 16).unwrap();
            if self.chunk == 0 {
                return 0;
            }
        }
        let room = buffer.len().min(self.chunk);
        let length = self.read_some(&mut buffer[..room]);
        self.chunk -= length;
        length
    }

    fn read_some(&mut self, buffer: &mut [u8]) -> usize {
        match self.stream.read(buffer) {
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => 0,
            Err(error) => panic!("nothing is heard: {error}"),
        }
    }
}
