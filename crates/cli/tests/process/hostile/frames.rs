//! HTTP/2 frames as bytes, written by hand so that any of them can be wrong. Reads only where a connection ends.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::program::PATIENCE;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const PRIORITY: u8 = 2;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// One frame.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// One setting.
pub fn setting(id: u16, value: u32) -> Vec<u8> {
    [&id.to_be_bytes()[..], &value.to_be_bytes()].concat()
}

/// A header that is kept in no table.
pub fn header(name: &str, value: &str) -> Vec<u8> {
    [&[0][..], &text(name), &text(value)].concat()
}

fn text(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut length = text.len();
    // An integer with a prefix of seven bits.
    if length < 127 {
        bytes.push(u8::try_from(length).unwrap());
    } else {
        bytes.push(127);
        length -= 127;
        while length >= 128 {
            bytes.push(u8::try_from(length % 128).unwrap() | 128);
            length /= 128;
        }
        bytes.push(u8::try_from(length).unwrap());
    }
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

/// The headers of a request.
pub fn request(method: &str, path: &str) -> Vec<u8> {
    [
        header(":method", method),
        header(":scheme", "http"),
        header(":authority", "localhost"),
        header(":path", path),
    ]
    .concat()
}

/// How a connection that was abused ended.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// With a last word and its code.
    GoAway(u32),
    /// Without one.
    Closed,
    /// It did not.
    Open,
}

/// A connection that has said hello.
pub struct Abuse(TcpStream);

impl Abuse {
    pub fn begin(address: SocketAddr, settings: &[u8]) -> Abuse {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // Who does not read its answers is at some point no longer read from.
        stream.set_write_timeout(Some(std::time::Duration::from_secs(1))).unwrap();
        stream.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, settings)].concat()).unwrap();
        Abuse(stream)
    }

    /// Sends; an error when the server has closed, or reads no more.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    /// The next frame: its kind, flags, stream and payload. None when there is no more.
    pub fn next(&mut self) -> Option<(u8, u8, u32, Vec<u8>)> {
        let mut head = [0; 9];
        self.0.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        self.0.read_exact(&mut payload).ok()?;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        Some((head[3], head[4], stream, payload))
    }

    /// Asks for a sign of life and reads until it comes or the connection ends.
    pub fn end(mut self) -> End {
        const SIGN: &[u8] = b"alive???";
        let _ = self.send(&frame(PING, 0, 0, SIGN));
        while let Some((kind, _, _, payload)) = self.next() {
            match kind {
                GOAWAY => return End::GoAway(u32::from_be_bytes(payload[4..8].try_into().unwrap())),
                PING if payload == SIGN => return End::Open,
                _ => {}
            }
        }
        End::Closed
    }
}
