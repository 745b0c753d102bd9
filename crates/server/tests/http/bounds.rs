//! Bodies, heads, times and connections have bounds, and whoever meets one is told.

use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use leasehold_server::config::Given;
use leasehold_server::http::accept::{ConnectionLimits, accept};
use leasehold_server::http::door::Door;
use leasehold_server::http::gate::Gate;
use tokio::net::TcpListener;

use crate::client::{Pending, send};
use crate::server::{PATIENCE, Server, request};

const ACQUIRE: &str = "/v1/locks/a/acquire";
const JSON: (&str, &str) = ("Content-Type", "application/json");

/// A body of exactly this length that asks for something.
fn body(bytes: usize) -> Vec<u8> {
    let mut body = br#"{"owner_id":"w"}"#.to_vec();
    body.resize(bytes, b' ');
    body
}

#[test]
fn a_body_has_at_most_64_kib() {
    let server = Server::start();
    server.request("POST", ACQUIRE, &[JSON], &body(64 * 1024)).expect(200);
    for bytes in [64 * 1024 + 1, 1024 * 1024, 4 * 1024 * 1024] {
        let answer = server.request("POST", ACQUIRE, &[JSON], &body(bytes));
        answer.expect_code(413, "too_large");
    }
}

#[test]
fn a_chunked_body_has_the_same_bound() {
    let server = Server::start();
    let chunked = |bytes: usize| {
        let mut chunks = Vec::new();
        for chunk in body(bytes).chunks(1000) {
            chunks.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            chunks.extend_from_slice(chunk);
            chunks.extend_from_slice(b"\r\n");
        }
        chunks.extend_from_slice(b"0\r\n\r\n");
        server.request("POST", ACQUIRE, &[JSON, ("Transfer-Encoding", "chunked")], &chunks)
    };
    chunked(64 * 1024).expect(200);
    chunked(64 * 1024 + 1).expect_code(413, "too_large");
}

#[test]
fn a_connection_too_many_is_told_so() {
    let server = Server::start_with(Given { connections_max: Some(2), ..Given::default() });
    let healthy = request("GET", "/healthz", &[], b"");
    let mut kept: Vec<_> = (0..2).map(|_| Pending::send(server.address, &healthy)).collect();
    for connection in &mut kept {
        assert_eq!(connection.next().unwrap().status, 200);
    }
    let refused = send(server.address, &healthy);
    refused.expect_code(503, "busy");
    assert_eq!(refused.header("retry-after"), Some("1"));
    // Those that were there first are still served, and a place that is given back is taken again.
    kept[0].send_more(&healthy);
    assert_eq!(kept[0].next().unwrap().status, 200);
    drop(kept.pop());
    let begun = std::time::Instant::now();
    while send(server.address, &healthy).status != 200 {
        assert!(begun.elapsed() < PATIENCE);
    }
}

#[test]
fn many_requests_follow_each_other_on_one_connection() {
    let server = Server::start();
    let mut connection = Pending::send(server.address, b"");
    for _ in 0..100 {
        connection.send_more(&request("GET", "/v1/locks/a", &[], b""));
        assert_eq!(connection.next().unwrap().status, 200);
    }
}

/// A door with nothing behind it and little patience.
fn impatient(test: impl FnOnce(std::net::SocketAddr)) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let brief = Duration::from_millis(50);
    let limits = ConnectionLimits {
        first_request_timeout: brief,
        head_timeout: brief,
        body_timeout: brief,
        write_timeout: brief,
        ..ConnectionLimits::default()
    };
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let door = Arc::new(Door::new(Gate::new(address.ip(), Vec::new())));
    runtime.spawn(async move { accept(listener, door, None, limits, std::future::pending()).await });
    test(address);
    runtime.shutdown_background();
}

#[test]
fn silent_and_slow_connections_are_closed() {
    impatient(|address| {
        for sent in [&b""[..], b"GET /healthz HT", b"GET /healthz HTTP/1.1\r\nHost: loc"] {
            let mut connection = Pending::send(address, sent);
            if let Some(answer) = connection.next() {
                assert_eq!(answer.status, 408, "{answer:?}");
            }
        }
        let late = request("POST", ACQUIRE, &[("Content-Length", "100")], b"{");
        send(address, &late).expect_invalid("body");
    });
}

#[test]
fn who_never_takes_the_answer_is_cut_off() {
    impatient(|address| {
        // Far more answers than the buffers in between hold, and nobody reads one.
        let asked = request("GET", "/metrics", &[], b"").repeat(64);
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        let closed = loop {
            if let Err(error) = std::io::Write::write_all(&mut stream, &asked) {
                break error;
            }
        };
        assert!(
            matches!(closed.kind(), std::io::ErrorKind::ConnectionReset | std::io::ErrorKind::BrokenPipe),
            "{closed}"
        );
    });
}

#[test]
fn a_door_without_an_engine_says_that_it_is_starting() {
    impatient(|address| {
        assert_eq!(send(address, &request("GET", "/healthz", &[], b"")).status, 200);
        assert_eq!(send(address, &request("GET", "/metrics", &[], b"")).status, 200);
        let ready = send(address, &request("GET", "/readyz", &[], b""));
        ready.expect_code(503, "unavailable");
        assert_eq!(ready.header("retry-after"), Some("1"));
        send(address, &request("GET", "/v1/locks/a", &[], b"")).expect_code(503, "unavailable");
        let acquire = request("POST", ACQUIRE, &[JSON], br#"{"owner_id":"w"}"#);
        send(address, &acquire).expect_code(503, "unavailable");
    });
}
