//! How bodies come: in how many pieces, how much at once, and not at all when they would come in vain.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{Holder, read};
use crate::client::Pending;
use crate::server::{PATIENCE, Server, borrowed, lease_headers, request};

const MIB: usize = 1024 * 1024;

/// The head of an append, with more headers.
fn append(holder: &Holder<'_>, more: &[(&'static str, &str)]) -> Vec<u8> {
    let mut headers = lease_headers(&holder.lease, "");
    headers.extend(more.iter().map(|(name, value)| (*name, (*value).to_owned())));
    request("POST", "/v1/files/a/append", &borrowed(&headers), b"")
}

#[test]
fn a_chunked_body_has_the_same_bound() {
    let server = Server::start();
    let holder = Holder::of(&server, "path:/a");
    let send = |bytes: usize| {
        let mut sent = append(&holder, &[("Transfer-Encoding", "chunked")]);
        for chunk in vec![b'x'; bytes].chunks(50_000) {
            sent.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            sent.extend_from_slice(chunk);
            sent.extend_from_slice(b"\r\n");
        }
        sent.extend_from_slice(b"0\r\n\r\n");
        Pending::send(server.address, &sent).answer()
    };
    assert_eq!(send(MIB).expect(200), json!({"offset": 0, "length": MIB, "size": MIB}));
    send(MIB + 1).expect_code(413, "too_large");
    assert_eq!(read(&server, "a").len(), MIB);
}

#[test]
fn a_body_cut_short_writes_nothing() {
    let server = Server::start();
    let holder = Holder::of(&server, "path:/a");
    for sent in [0, 1, 99, 50_000] {
        let mut bytes = append(&holder, &[("Content-Length", "100000")]);
        bytes.extend(vec![b'x'; sent]);
        drop(Pending::send(server.address, &bytes));
    }
    let mut bytes = append(&holder, &[("Transfer-Encoding", "chunked")]);
    bytes.extend_from_slice(b"5\r\nhello\r\n");
    drop(Pending::send(server.address, &bytes));
    holder.append("a", b"whole").expect(200);
    assert_eq!(read(&server, "a"), b"whole");
}

#[test]
fn who_asks_before_sending_is_told_to_go_on() {
    let server = Server::start();
    let holder = Holder::of(&server, "path:/a");
    let head = append(&holder, &[("Content-Length", "5"), ("Expect", "100-continue")]);
    let mut sending = Pending::send(server.address, &head);
    assert_eq!(sending.next().unwrap().status, 100);
    sending.send_more(b"hello");
    assert_eq!(sending.next().unwrap().expect(200), json!({"offset": 0, "length": 5, "size": 5}));
}

#[test]
fn who_asks_before_sending_need_not_send_in_vain() {
    let server = Server::start();
    let mut holder = Holder::of(&server, "path:/a");
    let expects = [("Content-Length", "1048577"), ("Expect", "100-continue")];
    // Nothing of these bodies is ever sent.
    Pending::send(server.address, &append(&holder, &expects)).answer().expect_code(413, "too_large");
    holder.lease["owner_id"] = json!("a\0b");
    let expects = [("Content-Length", "5"), ("Expect", "100-continue")];
    Pending::send(server.address, &append(&holder, &expects)).answer().expect_invalid("Leasehold-Owner");
    let foreign =
        request("POST", "/v1/files/a/append", &[("Host", "evil.example"), expects[0], expects[1]], b"");
    Pending::send(server.address, &foreign).answer().expect_code(403, "permission_denied");
}

#[test]
fn bodies_that_have_come_in_part_are_bounded_and_keep_no_lock_call_out() {
    let server = Server::start();
    let holder = Holder::of(&server, "path:/a");
    // Each announces a mebibyte and sends a little more than is not counted.
    let mut begun = append(&holder, &[("Content-Length", "1048576")]);
    begun.extend(vec![b'x'; 8 * 1024]);
    let mut unfinished: Vec<_> = (0..140).map(|_| Pending::send(server.address, &begun)).collect();
    let mut refused = Vec::new();
    let started = Instant::now();
    while refused.len() < 12 {
        assert!(started.elapsed() < PATIENCE, "there is no bound");
        unfinished.retain_mut(|sending| match sending.is_answered() {
            Some(answer) => {
                refused.push(answer);
                false
            }
            None => true,
        });
        std::thread::sleep(Duration::from_millis(2));
    }
    for answer in &refused {
        assert!(answer.expect_code(503, "busy")["recommended_retry_ms"].as_u64().unwrap() > 0);
    }
    assert_eq!(unfinished.len(), 128, "as many as there is room for are waited for");
    // Small writes, and lock calls of any size in any number of pieces, go on.
    holder.append("a", b"small").expect(200);
    let body = format!("{{\"owner_id\":\"w2\"{}}}", " ".repeat(20_000));
    let length = body.len().to_string();
    let mut pieces = Pending::send(
        server.address,
        &request("POST", "/v1/locks/b/acquire", &[("Content-Length", &length)], &body.as_bytes()[..10_000]),
    );
    pieces.send_more(&body.as_bytes()[10_000..]);
    pieces.answer().expect(200);
    drop(unfinished);
    assert_eq!(read(&server, "a"), b"small");
}
