//! JSON that no program writes: nested deeply, endless, and full of what readers stumble over.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::life::Life;
use crate::program::{PATIENCE, Place};

const THREADS: usize = 4;
const ROUNDS: usize = 40;

/// The status of the answer; none when the connection was closed without one.
fn status(address: SocketAddr, head: &str, body: &[u8]) -> Option<u16> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    let head = format!("POST {head} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n");
    // Both may be cut short by a server that has heard enough.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
    let mut line = [0; 12];
    stream.read_exact(&mut line).ok()?;
    std::str::from_utf8(&line[9..]).unwrap().parse().ok()
}

fn whole(body: &[u8]) -> Vec<u8> {
    [format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes(), body].concat()
}

fn chunked(body: &[u8], chunk_bytes: usize) -> Vec<u8> {
    let mut sent = b"Transfer-Encoding: chunked\r\n\r\n".to_vec();
    for chunk in body.chunks(chunk_bytes) {
        sent.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        sent.extend_from_slice(chunk);
        sent.extend_from_slice(b"\r\n");
    }
    sent.extend_from_slice(b"0\r\n\r\n");
    sent
}

#[test]
fn nested_and_gigantic_json_is_refused_and_nothing_else_happens() {
    let place = Place::new();
    let server = place.serve();
    let life = Life::beside(&server);
    let nested = |open: &str, count: usize| format!(r#"{{"owner_id":{}"#, open.repeat(count)).into_bytes();
    let deep = |open: &str, close: &str, count: usize| {
        format!(r#"{{"owner_id":{}1{}}}"#, open.repeat(count), close.repeat(count)).into_bytes()
    };
    let many = |count: usize| {
        let fields: Vec<_> = (0..count).map(|n| format!(r#""f{n}":{n}"#)).collect();
        format!("{{{}}}", fields.join(",")).into_bytes()
    };
    let bodies = [
        whole(&nested("[", 60_000)),
        whole(&nested(r#"{"a":"#, 10_000)),
        whole(&deep("[", "]", 30_000)),
        whole(&deep(r#"{"a":"#, "}", 9_000)),
        whole(&deep("[", "]", 128)),
        whole(&many(5_000)),
        whole(&format!(r#"{{"owner_id":"{}"}}"#, "a".repeat(65_000)).into_bytes()),
        whole(&format!(r#"{{"owner_id":"{}"}}"#, "\\u0000".repeat(10_000)).into_bytes()),
        whole(&format!(r#"{{"owner_id":"w","ttl_ms":{}}}"#, "9".repeat(60_000)).into_bytes()),
        whole(&format!(r#"{{"owner_id":"w","ttl_ms":1{}}}"#, "0".repeat(400)).into_bytes()),
        whole(&[b'['; 8 * 1024 * 1024]),
        whole(&vec![b' '; 8 * 1024 * 1024]),
        whole(&vec![0; 64 * 1024]),
        whole(&vec![0xff; 64 * 1024]),
        whole(b"{\"owner_id\":\"\xc0\xaf\"}"),
        whole(b"{\"owner_id\":\"\xed\xa0\x80\"}"),
        chunked(&nested("[", 60_000), 1),
        chunked(&vec![b' '; 4 * 1024 * 1024], 4096),
        b"Content-Length: 9223372036854775807\r\n\r\n{".to_vec(),
        [b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", &[b'['; 2 * 1024 * 1024][..]].concat(),
        b"Transfer-Encoding: chunked\r\n\r\n1;".iter().chain(&[b'x'; 200_000]).copied().collect(),
    ];
    let answered: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (bodies, address) = (&bodies, server.address);
                scope.spawn(move || {
                    let mut answered = 0;
                    for round in 0..ROUNDS {
                        let body = &bodies[(thread + round) % bodies.len()];
                        for path in ["/v1/locks/a/acquire", "/v1/sessions"] {
                            let Some(status) = status(address, path, body) else { continue };
                            assert!((400..500).contains(&status), "{status} to {} bytes", body.len());
                            answered += 1;
                        }
                    }
                    answered
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(answered > THREADS * ROUNDS, "only {answered} were answered at all");
    std::thread::sleep(Duration::from_millis(100));
    life.finish(&server);
    assert_eq!(server.client().get_lock("a")["state"], "free");
    server.stop();
}
