//! Sockets that say nothing, too little, or nothing more.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;

use super::life::Life;
use crate::program::{PATIENCE, Place, leasehold};

/// How long the attack lasts when nothing else ends it.
const LASTS: Duration = Duration::from_secs(4);
/// Half of the time after which the first silent connections would be gone anyway.
const ROOM_WITHIN: Duration = Duration::from_secs(15);
/// Files that the test and the server need besides the idle connections.
const OTHER_FILES: u64 = 500;

const HEALTHY: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";

#[test]
fn five_hundred_silent_and_dribbling_sockets_bother_nobody() {
    let place = Place::new();
    let server = place.serve();
    let life = Life::beside(&server);
    let connect = || TcpStream::connect(server.address).unwrap();
    let _silent: Vec<_> = (0..250).map(|_| connect()).collect();
    let mut dribbling: Vec<_> = (0..250).map(|_| connect()).collect();
    let requests: [&[u8]; 3] = [
        b"GET /v1/locks/a HTTP/1.1\r\nHost: localhost\r\nX-Long: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        b"POST /v1/locks/a/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n{\"owner_id\":\"aaaaaaaaaa",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x20\x01\x04\0\0\0\x01\x82\x87",
    ];
    let begun = Instant::now();
    let mut at = 0;
    while begun.elapsed() < LASTS {
        for (n, stream) in dribbling.iter_mut().enumerate() {
            if let Some(byte) = requests[n % requests.len()].get(at) {
                // Whoever is too slow may have been cut off.
                let _ = stream.write_all(&[*byte]);
            }
        }
        at += 1;
        std::thread::sleep(Duration::from_millis(20));
    }
    life.finish(&server);
    server.stop();
}

#[test]
fn ten_thousand_idle_connections_are_ordinary() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    // Where fewer files may be open, the server is told to have fewer places, and all of them are taken all the same.
    let allowed = limit.maximum.unwrap_or(u64::MAX).saturating_sub(OTHER_FILES);
    let count = usize::try_from(allowed).unwrap().min(10_000);
    let place = Place::new();
    let server = place.serve_with(&["--listen", "127.0.0.1:0", "--connections-max", &count.to_string()]);
    let life = Life::beside(&server);
    let mut idle: Vec<TcpStream> = Vec::new();
    while idle.len() < count {
        let mut stream = TcpStream::connect(server.address).unwrap();
        // Every other one asks something, and keeps its connection; there may be no place for it any more.
        if idle.len().is_multiple_of(2) {
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.write_all(HEALTHY).unwrap();
            let mut answer = [0; 12];
            stream.read_exact(&mut answer).unwrap();
            assert!([b"HTTP/1.1 200", b"HTTP/1.1 503"].contains(&&answer));
        }
        idle.push(stream);
    }
    // Every place is taken. Before any of them times out, whoever has been idle longest makes room for newcomers.
    let begun = Instant::now();
    let mut came = Vec::new();
    while came.len() < 100 {
        let mut client = server.client();
        match client.call("GET", "/v1/locks/held-1", None) {
            Ok((200, snapshot)) => {
                assert_eq!(snapshot["state"], "held");
                came.push(client);
            }
            Ok((503, _)) | Err(_) => {}
            other => panic!("{other:?}"),
        }
        assert!(begun.elapsed() < ROOM_WITHIN, "there was room for {}", came.len());
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(LASTS);
    life.finish(&server);
    drop((idle, came));
    server.stop();
}

/// A segment that cannot be opened is a failed disk, and ends the server: connections must never take the last file.
#[test]
fn connections_leave_the_journal_its_files() {
    let place = Place::new();
    let mut few_files = Command::new("sh");
    let program = leasehold();
    few_files.args(["-c", "ulimit -n 420; exec \"$0\" \"$@\""]).arg(program.get_program());
    let server = place.serve_by(few_files, &["--listen", "127.0.0.1:0", "--segment-bytes", "1048576"]);
    let warned = std::fs::read_to_string(place.path("stderr")).unwrap();
    assert!(warned.contains("connections at once") && warned.contains("420 open files"), "{warned}");
    let mut client = server.client();
    let why = "x".repeat(3500);
    let mut acquire = |lock: &str| {
        client.acquire(lock, &json!({"owner_id": "a", "ttl_ms": 60_000, "metadata": {"why": why}}))
    };
    acquire("before");
    let _silent: Vec<_> = (0..470).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    // Several segments are begun meanwhile.
    for n in 0..600 {
        acquire(&format!("lock-{n}"));
    }
    server.stop();
}
