//! How long a connection may take for what, and what comes of it when it takes longer. Every bound is brief here.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold_server::http::accept::{ConnectionLimits, accept};
use leasehold_server::http::door::Door;
use leasehold_server::http::gate::Gate;
use leasehold_server::tls::self_signed;
use tokio::net::TcpListener;

use crate::client::{Pending, send};
use crate::server::{PATIENCE, request};

const BRIEF: Duration = Duration::from_millis(100);
/// Longer than any test lasts.
const LONG: Duration = Duration::from_secs(3600);

/// Nothing but what the test is about runs out.
const PATIENT: ConnectionLimits = ConnectionLimits {
    connections_max: 100,
    per_peer_max: 100,
    per_loopback_peer_max: 100,
    handshake_timeout: LONG,
    first_request_timeout: LONG,
    head_timeout: LONG,
    body_timeout: LONG,
    write_timeout: LONG,
};

/// HTTP/2: the preface and empty settings.
const HELLO: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// HTTP/2: the preface and settings with a window in which nothing can be sent.
const HELLO_CLOSED: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x06\x04\0\0\0\0\0\0\x04\0\0\0\0";
/// HTTP/2: `GET /metrics` of localhost on the first stream.
const GET: &[u8] = b"\0\0\x17\x01\x05\0\0\0\x01\x82\x86\x41\x09localhost\x44\x08/metrics";

/// A door with nothing behind it.
fn door(limits: ConnectionLimits, tls: bool, test: impl FnOnce(SocketAddr)) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let tls = tls.then(|| Arc::new(self_signed::tls(None, &["localhost".into()]).unwrap().0));
    let door = Arc::new(Door::new(Gate::new(address.ip(), Vec::new())));
    runtime.spawn(async move { accept(listener, door, tls, limits, std::future::pending()).await });
    test(address);
    runtime.shutdown_background();
}

fn connect(address: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(bytes).unwrap();
    stream
}

/// Reads to the end, which must come.
fn until_closed(mut stream: TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    match stream.read_to_end(&mut all) {
        Ok(_) => all,
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => all,
        Err(error) => panic!("it was never closed: {error}"),
    }
}

/// Sends a byte now and then until the connection is closed.
fn dribble(address: SocketAddr, bytes: impl Iterator<Item = u8>) {
    let begun = Instant::now();
    let mut stream = connect(address, b"");
    for byte in bytes {
        if stream.write_all(&[byte]).is_err() {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "it was never closed");
        std::thread::sleep(Duration::from_millis(5));
    }
    until_closed(stream);
}

#[test]
fn a_handshake_has_its_time() {
    door(ConnectionLimits { handshake_timeout: BRIEF, ..PATIENT }, true, |address| {
        until_closed(connect(address, b""));
        until_closed(connect(address, b"\x16\x03\x01\x02\x00\x01\x00"));
        dribble(address, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".iter().copied());
        // Plain words are not understood, and not waited for.
        until_closed(connect(address, &request("GET", "/healthz", &[], b"")));
    });
}

/// Who talks on is not cut off before it can have read that it is not understood.
#[test]
fn plain_words_to_an_encrypted_door_are_answered_with_an_alert() {
    let heard = |address| {
        let mut stream = connect(address, HELLO);
        let mut alert = [0; 7];
        stream.read_exact(&mut alert)?;
        assert_eq!(alert[..2], [0x15, 0x03], "{alert:?}");
        for _ in 0..3 {
            stream.write_all(GET)?;
        }
        stream.shutdown(Shutdown::Write)?;
        stream.read_to_end(&mut Vec::new())
    };
    door(PATIENT, true, |address| {
        // It is waited for, but not for ever: a machine that is busy elsewhere may be late once.
        let heard: Vec<_> = (0..5).map(|_| heard(address)).collect();
        assert!(heard.iter().any(Result::is_ok), "{heard:?}");
    });
}

#[test]
fn the_first_request_has_its_time_however_it_is_begun() {
    door(ConnectionLimits { first_request_timeout: BRIEF, ..PATIENT }, false, |address| {
        let long = b"GET /healthz HTTP/1.1\r\nX-Long: ".iter().copied().chain(std::iter::repeat(b'a'));
        let head_in_pieces = [HELLO, b"\0\0\x01\x01\x01\0\0\0\x01\x82"].concat();
        let begun = [&b""[..], b"P", b"PRI * HTTP/2.0\r\n", b"GET /healthz HT", HELLO, &head_in_pieces];
        let connections = begun.map(|bytes| connect(address, bytes));
        dribble(address, long);
        dribble(address, HELLO.iter().copied());
        for connection in connections {
            until_closed(connection);
        }
    });
}

#[test]
fn an_idle_connection_is_closed_whatever_it_speaks() {
    door(ConnectionLimits { head_timeout: BRIEF, ..PATIENT }, false, |address| {
        let answer = until_closed(connect(address, &request("GET", "/healthz", &[], b"")));
        assert!(answer.starts_with(b"HTTP/1.1 200 OK"));
        let answer = until_closed(connect(address, &[HELLO, GET].concat()));
        assert!(
            answer.windows(18).any(|bytes| bytes == b"process_open_fds 1" || bytes.starts_with(b"lock_"))
        );
    });
}

#[test]
fn an_answer_that_is_not_taken_ends_the_connection() {
    door(ConnectionLimits { write_timeout: BRIEF, ..PATIENT }, false, |address| {
        let answer = until_closed(connect(address, &[HELLO_CLOSED, GET].concat()));
        assert!(!answer.windows(5).any(|bytes| bytes == b"lock_"), "there was no room for a body");
    });
}

#[test]
fn one_peer_has_its_share_of_connections() {
    let limits = ConnectionLimits { per_loopback_peer_max: 2, ..PATIENT };
    door(limits, false, |address| {
        let healthy = request("GET", "/healthz", &[], b"");
        let mut kept: Vec<_> = (0..2).map(|_| Pending::send(address, &healthy)).collect();
        for connection in &mut kept {
            assert_eq!(connection.next().unwrap().status, 200);
        }
        let problem = send(address, &healthy).expect_code(503, "busy");
        assert!(problem["detail"].as_str().unwrap().contains("from your address"), "{problem}");
        drop(kept);
        let begun = Instant::now();
        while send(address, &healthy).status != 200 {
            assert!(begun.elapsed() < PATIENCE);
        }
    });
}
