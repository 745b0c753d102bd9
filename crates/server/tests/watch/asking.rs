//! How watching is asked for, and refused.

use leasehold_server::config::Given;
use serde_json::json;

use crate::reader::{News, Reader};
use crate::server::{Server, request};

#[test]
fn only_what_is_well_formed_is_watched() {
    let server = Server::start();
    server.get("/v1/locks/path:a/watch").expect_invalid("lock");
    server.get("/v1/locks/a/watch?from=x").expect_invalid("from");
    server.get("/v1/locks/a/watch?prefix=a").expect_invalid("prefix");
    server.get("/v1/watch?lock=a").expect_invalid("lock");
    server.get(&format!("/v1/watch?prefix={}", "a".repeat(600))).expect_invalid("prefix");
    server.request("GET", "/v1/watch", &[("Last-Event-ID", "x")], b"").expect_invalid("Last-Event-ID");
    server.request("GET", "/v1/watch?from=2", &[("Last-Event-ID", "1")], b"").expect_invalid("from");
    server.request("GET", "/v1/watch", &[], b"{}").expect_invalid("body");
    for (method, path) in [("HEAD", "/v1/watch"), ("POST", "/v1/watch"), ("HEAD", "/v1/locks/a/watch")] {
        let answer = server.begin_raw(request(method, path, &[], b"")).next().unwrap();
        assert_eq!((answer.status, answer.header("allow")), (405, Some("GET")), "{method} {path}");
    }
}

#[test]
fn nothing_comes_after_what_has_not_happened() {
    let server = Server::start();
    let lease = server.acquire("a", "w");
    let seq = lease["seq"].as_u64().unwrap();
    server.get(&format!("/v1/watch?from={}", seq + 1000)).expect_invalid("from");
    server.get(&format!("/v1/watch?from={}", u64::MAX)).expect_invalid("from");
    // Whatever number an answer names is known to the feed, however short the time since.
    for n in 0..200 {
        let lease = server.acquire(&format!("b{n}"), "w");
        drop(Reader::open(server.address, &format!("/v1/watch?from={}", lease["seq"]), None));
    }
}

#[test]
fn one_watcher_too_many_is_told_so() {
    let server = Server::start_with(Given { watchers_max: Some(2), ..Given::default() });
    let first = Reader::open(server.address, "/v1/watch", None);
    let second = Reader::open(server.address, "/v1/locks/a/watch", None);
    let busy = server.get("/v1/watch").expect_code(503, "busy");
    assert!(busy["recommended_retry_ms"].as_u64().unwrap() > 0, "{busy}");
    assert!(server.get("/metrics").text().contains("\nlock_watchers 2\n"));
    drop(first);
    // Its place is free when the server has noticed.
    let begun = std::time::Instant::now();
    while server.get("/metrics").text().contains("\nlock_watchers 2\n") {
        assert!(begun.elapsed() < crate::server::PATIENCE);
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let third = Reader::open(server.address, "/v1/watch", None);
    drop((second, third));
    server.post("/v1/locks/a/acquire", json!({"owner_id": "w"})).expect(200);
}

#[test]
fn a_comment_keeps_the_connection_open() {
    let server = Server::start_with(Given { watch_comment_ms: Some(20), ..Given::default() });
    let mut reader = Reader::open(server.address, "/v1/locks/a/watch", None);
    let begun = reader.last_id;
    for _ in 0..3 {
        assert!(matches!(reader.news(), News::Comment(text) if text == " still here"));
    }
    assert_eq!(reader.last_id, begun, "nothing has passed it");
    server.acquire("a", "w");
    assert_eq!(reader.expect().what(), ("granted", "a"));
}

#[test]
fn a_quiet_reader_learns_where_it_stands() {
    let server = Server::start_with(Given { watch_comment_ms: Some(20), ..Given::default() });
    let mut reader = Reader::open(server.address, "/v1/locks/quiet/watch", None);
    let begun = reader.last_id.unwrap();
    let mut caller = crate::load::Caller::new(server.address);
    let mut seq = 0;
    while seq < begun + 1000 {
        seq = caller.cycle("busy", "w").unwrap();
    }
    while reader.last_id.unwrap() < begun + 1000 {
        assert!(matches!(reader.news(), News::Comment(_)));
    }
    // Resuming there, it has missed nothing and hears nothing twice.
    let last_id = reader.last_id;
    drop(reader);
    let mut reader = Reader::open(server.address, "/v1/locks/quiet/watch", last_id);
    server.acquire("quiet", "w");
    assert_eq!(reader.expect().what(), ("granted", "quiet"));
}

#[test]
fn a_stopping_server_ends_its_streams() {
    let server = Server::start();
    let mut readers: Vec<_> = (0..20).map(|_| Reader::open(server.address, "/v1/watch", None)).collect();
    server.acquire("a", "w");
    let stopping = std::thread::spawn(move || drop(server));
    for reader in &mut readers {
        assert_eq!(reader.expect().what(), ("granted", "a"));
        assert!(reader.next().is_none());
    }
    stopping.join().unwrap();
}
