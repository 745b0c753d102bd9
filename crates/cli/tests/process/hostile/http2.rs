//! HTTP/2 as nobody should speak it: streams taken back as fast as they are opened, floods of frames, headers without
//! end, windows that never open.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::frames::{
    Abuse, CONTINUATION, DATA, END_HEADERS, END_STREAM, End, GOAWAY, HEADERS, PING, PRIORITY, RST_STREAM,
    SETTINGS, WINDOW_UPDATE, frame, header, request, setting,
};
use super::life::Life;
use crate::program::Place;

const FLOW_CONTROL_ERROR: u32 = 3;
const PROTOCOL_ERROR: u32 = 1;
/// How long each abuse goes on, on connections one after the other.
const LASTS: Duration = Duration::from_secs(2);
const THREADS: usize = 4;
/// Far more than any head may have.
const ENDLESS_BYTES: usize = 16 * 1024 * 1024;

/// Numbers of the streams that a client opens.
fn streams() -> impl Iterator<Item = u32> {
    (1..).step_by(2)
}

/// Abuses a server from several threads for a while, beside ordinary life.
fn abuse(attack: fn(SocketAddr)) {
    let place = Place::new();
    let server = place.serve();
    let life = Life::beside(&server);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let begun = Instant::now();
                while begun.elapsed() < LASTS {
                    attack(server.address);
                }
            });
        }
    });
    life.finish(&server);
    server.stop();
}

#[test]
fn an_ordinary_request_is_answered() {
    let place = Place::new();
    let server = place.serve();
    let mut connection = Abuse::begin(server.address, &[]);
    let ask = frame(HEADERS, END_HEADERS | END_STREAM, 1, &request("GET", "/healthz"));
    connection.send(&ask).unwrap();
    let body = loop {
        let (kind, _, stream, payload) = connection.next().unwrap();
        if (kind, stream) == (DATA, 1) {
            break payload;
        }
    };
    assert_eq!(body, br#"{"status":"ok"}"#);
    assert_eq!(connection.end(), End::Open);
    server.stop();
}

#[test]
fn streams_that_are_taken_back_at_once_end_the_connection() {
    abuse(|address| {
        let mut connection = Abuse::begin(address, &[]);
        let acquire = request("POST", "/v1/locks/rapid/acquire");
        for stream in streams().take(10_000) {
            let reset = frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes());
            let opened = frame(HEADERS, END_HEADERS, stream, &acquire);
            if connection.send(&[opened, reset].concat()).is_err() {
                break;
            }
        }
        assert_ne!(connection.end(), End::Open);
    });
}

#[test]
fn floods_of_small_frames_slow_nobody_down() {
    abuse(|address| {
        for flood in [
            frame(PING, 0, 0, b"12345678"),
            frame(SETTINGS, 0, 0, &setting(4, 65_535)),
            frame(SETTINGS, 0, 0, &[]),
            frame(PRIORITY, 0, 1, &[0, 0, 0, 3, 7]),
            frame(WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes()),
            frame(0xbb, 0, 0, b"nobody knows this"),
        ] {
            let mut connection = Abuse::begin(address, &[]);
            let many = flood.repeat(1000);
            // Ends when all is sent, or when the server reads no more because nobody takes its answers.
            let _ = (0..50).try_for_each(|_| connection.send(&many));
        }
        // Bodies of nothing.
        let mut connection = Abuse::begin(address, &[]);
        let _ = connection.send(&frame(HEADERS, END_HEADERS, 1, &request("POST", "/v1/locks/a/acquire")));
        let many = frame(DATA, 0, 1, &[]).repeat(1000);
        let _ = (0..50).try_for_each(|_| connection.send(&many));
    });
}

#[test]
fn headers_without_end_end_the_connection() {
    abuse(|address| {
        let fields = header("x-some", &"a".repeat(1000)).repeat(16);
        for start in [request("GET", "/healthz"), Vec::new()] {
            let mut connection = Abuse::begin(address, &[]);
            let _ = connection.send(&frame(HEADERS, END_STREAM, 1, &start));
            let more = frame(CONTINUATION, 0, 1, &fields);
            let mut sent = 0;
            while sent < ENDLESS_BYTES && connection.send(&more).is_ok() {
                sent += more.len();
            }
            assert!(sent < ENDLESS_BYTES, "it listened to {sent} bytes of headers");
            assert_ne!(connection.end(), End::Open);
        }
        // Frames without anything in them have no end either.
        let mut connection = Abuse::begin(address, &[]);
        let _ = connection.send(&frame(HEADERS, END_STREAM, 1, &request("GET", "/healthz")));
        let empty = frame(CONTINUATION, 0, 1, &[]).repeat(100);
        let _ = (0..1000).try_for_each(|_| connection.send(&empty));
    });
}

#[test]
fn a_head_that_is_too_large_is_refused() {
    abuse(|address| {
        // Small on the wire, large when it is unpacked: the name once, and then only its number in the table.
        let kept = [&[0x40, 6][..], b"x-bomb", &[0x7f, 0x80, 0x1e], &[b'a'; 3967]].concat();
        let bomb = [request("GET", "/healthz"), kept, vec![0xbe; 8000]].concat();
        let mut connection = Abuse::begin(address, &[]);
        connection.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &bomb)).unwrap();
        let answer = loop {
            match connection.next() {
                Some((kind, _, 1, payload)) if kind == HEADERS || kind == RST_STREAM => {
                    break Some((kind, payload));
                }
                Some(_) => {}
                None => break None,
            }
        };
        if let Some((HEADERS, payload)) = answer {
            assert_ne!(payload[0], 0x88, "a status of 200");
        }
    });
}

#[test]
fn windows_that_never_open_hold_up_nobody_else() {
    abuse(|address| {
        // No byte of an answer may be sent, ever.
        let mut closed: Vec<_> = (0..8).map(|_| Abuse::begin(address, &setting(4, 0))).collect();
        for connection in &mut closed {
            for stream in streams().take(100) {
                let ask = frame(HEADERS, END_HEADERS | END_STREAM, stream, &request("GET", "/metrics"));
                if connection.send(&ask).is_err() {
                    break;
                }
            }
        }
        let said = |bytes: &[u8]| {
            let mut connection = Abuse::begin(address, &[]);
            let _ = connection.send(bytes);
            connection.end()
        };
        let widest = frame(WINDOW_UPDATE, 0, 0, &0x7fff_ffff_u32.to_be_bytes());
        assert_eq!(said(&widest.repeat(2)), End::GoAway(FLOW_CONTROL_ERROR));
        assert_eq!(said(&frame(WINDOW_UPDATE, 0, 0, &[0; 4])), End::GoAway(PROTOCOL_ERROR));
        assert!(matches!(said(&frame(SETTINGS, 0, 0, &setting(4, 0x8000_0000))), End::GoAway(_)));
        drop(closed);
    });
}

#[test]
fn more_streams_than_there_may_be_are_refused() {
    abuse(|address| {
        let mut connection = Abuse::begin(address, &[]);
        let acquire = request("POST", "/v1/locks/many/acquire");
        for stream in streams().take(3000) {
            // A body that never comes.
            if connection.send(&frame(HEADERS, END_HEADERS, stream, &acquire)).is_err() {
                break;
            }
        }
        let _ = connection.send(&frame(PING, 0, 0, b"and now?"));
        let mut refused = 0;
        loop {
            match connection.next() {
                Some((RST_STREAM, ..)) => refused += 1,
                Some((PING, _, _, payload)) if payload == b"and now?" => break,
                Some((GOAWAY, ..)) | None => return,
                Some(_) => {}
            }
        }
        assert!(refused > 0, "all of them were taken");
    });
}

#[test]
fn bodies_that_never_end_have_their_number() {
    let place = Place::new();
    let server = place.serve();
    let life = Life::beside(&server);
    let acquire = request("POST", "/v1/locks/never/acquire");
    let mut connections: Vec<_> = (0..25).map(|_| Abuse::begin(server.address, &[])).collect();
    let mut refused = 0;
    for connection in &mut connections {
        while connection.next().unwrap().0 != WINDOW_UPDATE {}
        // As many as fit into the window of a connection.
        for stream in streams().take(200) {
            let part = frame(DATA, 0, stream, &[b' '; 5000]);
            let ask = [frame(HEADERS, END_HEADERS, stream, &acquire), part].concat();
            connection.send(&ask).unwrap();
        }
        connection.send(&frame(PING, 0, 0, b"and now?")).unwrap();
    }
    for connection in &mut connections {
        // Those that were taken are given up after ten seconds; until then nothing more comes.
        while let Some((kind, _, _, payload)) = connection.next() {
            let text = String::from_utf8_lossy(&payload);
            refused += usize::from(kind == DATA && text.contains("\"busy\""));
            if kind == DATA && text.contains("in time") || refused > 100 {
                break;
            }
        }
    }
    assert!(refused > 100, "all of them were taken");
    life.finish(&server);
    server.stop();
}

#[test]
fn frames_that_make_no_sense_end_the_connection_and_nothing_else() {
    abuse(|address| {
        let get = request("GET", "/healthz");
        let senseless = [
            frame(DATA, 0, 1, b"out of nowhere"),
            frame(DATA, 0, 0, b"to nobody"),
            frame(HEADERS, END_HEADERS, 0, &get),
            frame(HEADERS, END_HEADERS, 2, &get),
            frame(CONTINUATION, END_HEADERS, 1, &get),
            frame(PING, 0, 0, b"short"),
            frame(PING, 0, 1, b"12345678"),
            frame(SETTINGS, 0, 1, &[]),
            frame(SETTINGS, 0, 0, &[1, 2, 3]),
            frame(SETTINGS, 1, 0, &setting(1, 1)),
            frame(RST_STREAM, 0, 1, &[0; 4]),
            frame(RST_STREAM, 0, 0, &[0; 4]),
            frame(WINDOW_UPDATE, 0, 0, &[1]),
            frame(HEADERS, END_HEADERS, 1, &[0xff; 100]),
            frame(HEADERS, END_HEADERS, 1, &[0x80]),
            // A length that no frame may have.
            vec![0xff, 0xff, 0xff, DATA, 0, 0, 0, 0, 1],
        ];
        for bytes in senseless {
            let mut connection = Abuse::begin(address, &[]);
            let _ = connection.send(&bytes);
            let end = connection.end();
            assert_ne!(end, End::Open, "{bytes:?}");
        }
        // Heads that are no requests: the stream is refused, and the connection may go on.
        for head in [
            header(":method", "GET"),
            [header("x", "y"), request("GET", "/healthz")].concat(),
            [request("GET", "/healthz"), header("Upper", "case")].concat(),
            [request("GET", "/healthz"), header("connection", "close")].concat(),
            [request("GET", "/healthz"), header("x", "a\r\nb: c")].concat(),
            [request("GET", "/healthz"), header(":status", "200")].concat(),
            request("GET", ""),
            request("GET", "/v1/locks/\0"),
            request("G\0T", "/healthz"),
            request("CONNECT", "/healthz"),
        ] {
            let mut connection = Abuse::begin(address, &[]);
            let _ = connection.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &head));
            let _ = connection.end();
        }
    });
}
