//! Sound requests with a few bytes changed, by the thousand: whatever comes of it, it is no 500 and no panic.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use crate::server::{Server, borrowed, lease_headers, proof, request};

const THREADS: u64 = 8;
const REQUESTS: u64 = 200;

/// A small generator with its state in the open: the same seed makes the same noise.
struct Noise(u64);

impl Noise {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % end as u64).unwrap()
    }

    /// Changes, drops, doubles or adds a byte somewhere.
    fn spoil(&mut self, bytes: &mut Vec<u8>) {
        const LIKELY: &[u8] = b"\0\r\n\"\\{}[]:,%/?&=~+-.e019 \x7f\x80\xff";
        let place = self.below(bytes.len());
        let byte = LIKELY[self.below(LIKELY.len())];
        match self.below(4) {
            0 => bytes[place] = byte,
            1 => drop(bytes.remove(place)),
            2 => bytes.insert(place, bytes[place]),
            _ => bytes.insert(place, byte),
        }
    }
}

/// The status of the answer, if there is one before long.
fn status(address: SocketAddr, bytes: &[u8]) -> Option<u16> {
    let mut stream = TcpStream::connect(address).unwrap();
    // Many of these are never complete, and nobody answers half a request.
    stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let _ = stream.write_all(bytes);
    let mut head = [0; 12];
    let read = stream.read_exact(&mut head);
    let _ = stream.shutdown(Shutdown::Both);
    read.ok().and_then(|()| std::str::from_utf8(&head[9..]).unwrap().parse().ok())
}

#[test]
fn spoiled_requests_are_refused_or_carried_out_and_nothing_else() {
    let server = Server::start();
    let lease = server.acquire("a", "w");
    let json = [("Content-Type", "application/json"), ("Idempotency-Key", "r1")];
    let acquire = br#"{"owner_id":"w2","ttl_ms":1000,"mode":"shared","metadata":{"a":"b"}}"#;
    let file = server.acquire("path:%2Fa", "w");
    let headers = lease_headers(&file, "r2");
    let writing = borrowed(&headers);
    server.request("POST", "/v1/files/a/append", &writing, b"0123456789").expect(200);
    let sound = [
        request("POST", "/v1/locks/path:%2Fa%2Fb/acquire", &json, acquire),
        request("POST", "/v1/locks/~/acquire?lock=range:1:0-10", &json, acquire),
        request("POST", "/v1/locks/a/renew", &json, proof(&lease).to_string().as_bytes()),
        request("POST", "/v1/sessions", &json, br#"{"owner_id":"w","ttl_ms":1000,"request_id":"r1"}"#),
        request("POST", "/v1/sessions/keepalive", &json, br#"{"session_id":"s0-0","seen":1}"#),
        request("GET", "/v1/locks?prefix=a&owner=w&limit=10&cursor=b", &[], b""),
        request("DELETE", "/v1/locks/b?reason=x&force=true&token=1", &[], b""),
        request("POST", "/v1/files/a/append", &writing[..4], b"hello"),
        request("PUT", "/v1/files/~?name=a&offset=3", &writing[..4], b"hello"),
        request("GET", "/v1/files/a", &[("Range", "bytes=2-5")], b""),
        request("GET", "/v1/files?prefix=a&limit=10&cursor=a", &[], b""),
    ];
    let answered: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (sound, address) = (&sound, server.address);
                scope.spawn(move || {
                    let mut noise = Noise(0x9e37_79b9_7f4a_7c15 ^ thread);
                    let mut answered = 0;
                    for _ in 0..REQUESTS {
                        let mut bytes = sound[noise.below(sound.len())].clone();
                        for _ in 0..=noise.below(3) {
                            noise.spoil(&mut bytes);
                        }
                        let Some(status) = status(address, &bytes) else { continue };
                        answered += 1;
                        let fine = (200..500).contains(&status);
                        assert!(fine, "{status} to {}", String::from_utf8_lossy(&bytes));
                    }
                    answered
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(answered > THREADS * REQUESTS / 10, "only {answered} were answered at all");
    server.get("/healthz").expect(200);
    server.acquire("still-here", "w");
}
