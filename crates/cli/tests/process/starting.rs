//! The first lines, and the one sentence for everything that keeps a server from starting.

use std::fs;
use std::net::TcpListener;

use serde_json::json;

use crate::program::{Place, flip_bit, run, stderr, stdout};

#[test]
fn the_first_lines_say_where_what_and_how_to_try() {
    let place = Place::new();
    let server = place.serve();
    assert_eq!(server.lines.len(), 3, "{:?}", server.lines);
    assert!(
        server.lines[0].ends_with(&format!("listening on http://{}", server.address)),
        "{:?}",
        server.lines
    );
    assert!(server.lines[1].contains(&place.data()), "{:?}", server.lines);
    assert!(server.lines[2].contains(&format!("curl -H 'Content-Type: application/json' -d '{{\"owner_id\":\"me\"}}' http://{}/v1/locks/deploy/acquire", server.address)));
    let body = json!({"owner_id": "w", "ttl_ms": 600_000});
    server.client().acquire("a", &body);
    server.kill();

    let server = place.serve();
    assert!(server.lines[1].contains("recovered 1 lease, 0 waiters, 1 session from"), "{:?}", server.lines);
    server.stop();
}

#[test]
fn a_server_in_memory_says_that_nothing_is_kept() {
    let place = Place::new();
    let server = place.serve_with(&["--in-memory", "--listen", "127.0.0.1:0"]);
    assert!(server.lines[1].contains("in memory"), "{:?}", server.lines);
    server.client().acquire("a", &json!({"owner_id": "w"}));
    assert!(!place.path("data").exists());
    server.stop();
}

/// Runs a server that must not start; its status and its one sentence.
fn refused(arguments: &[&str]) -> (Option<i32>, String) {
    let output = run(arguments);
    assert_eq!(stdout(&output), "");
    let sentence = stderr(&output);
    assert_eq!(sentence.trim_end().lines().count(), 1, "{sentence}");
    (output.status.code(), sentence)
}

#[test]
fn a_taken_port_is_said_before_any_data_is_touched() {
    let place = Place::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (status, sentence) = refused(&["serve", "--data", &place.data(), "--listen", &address]);
    assert_eq!(status, Some(69));
    assert!(sentence.contains(&address) && sentence.contains("--listen"), "{sentence}");
    assert!(!place.path("data").exists());
}

#[test]
fn a_used_data_directory_is_refused() {
    let place = Place::new();
    let server = place.serve();
    let (status, sentence) = refused(&["serve", "--data", &place.data(), "--listen", "127.0.0.1:0"]);
    assert_eq!(status, Some(75));
    assert!(sentence.contains(&place.data()) && sentence.contains("in use"), "{sentence}");
    server.client().acquire("a", &json!({"owner_id": "w"}));
}

#[test]
fn a_data_directory_that_is_none_is_refused() {
    let place = Place::new();
    fs::write(place.path("data"), "a file").unwrap();
    let (status, sentence) = refused(&["serve", "--data", &place.data(), "--listen", "127.0.0.1:0"]);
    assert_eq!(status, Some(70));
    assert!(sentence.contains(&place.data()), "{sentence}");
    assert_eq!(fs::read_to_string(place.path("data")).unwrap(), "a file");
}

#[test]
fn damage_is_refused_with_file_and_offset_and_nothing_is_changed() {
    let place = Place::new();
    let server = place.serve();
    let mut client = server.client();
    for lock in ["a", "b", "c"] {
        client.acquire(lock, &json!({"owner_id": "w"}));
    }
    server.kill();
    let segment = fs::read_dir(place.path("data")).unwrap().map(|entry| entry.unwrap().path());
    let segment = segment.filter(|path| path.to_string_lossy().contains("segment-")).min().unwrap();
    // The first record begins behind the header, which has one sector.
    flip_bit(&segment, 512 + 100);
    let before = fs::read(&segment).unwrap();
    let (status, sentence) = refused(&["serve", "--data", &place.data(), "--listen", "127.0.0.1:0"]);
    assert_eq!(status, Some(70));
    assert!(sentence.contains(segment.to_str().unwrap()) && sentence.contains("at byte 512"), "{sentence}");
    assert!(fs::read(&segment).unwrap() == before);

    let check = run(&["journal", "check", "--data", &place.data()]);
    assert_eq!(check.status.code(), Some(70));
    assert!(stderr(&check).contains("at byte 512"), "{}", stderr(&check));
}

#[test]
fn a_torn_tail_is_cut_off_and_reported() {
    let place = Place::new();
    let server = place.serve();
    let mut client = server.client();
    client.acquire("a", &json!({"owner_id": "w", "ttl_ms": 600_000}));
    let long = json!({"owner_id": "w", "ttl_ms": 600_000, "metadata": {"note": "x".repeat(3000)}});
    client.acquire("b", &long);
    server.kill();

    // The second grant has several sectors. Its first is kept, and the rest is as if it had never been written.
    let dump = stdout(&run(&["journal", "dump", "--data", &place.data()]));
    let records: Vec<&str> = dump.lines().filter(|line| line.starts_with("record ")).collect();
    let record = dump.split("record ").find(|record| record.contains("lock=b ")).unwrap();
    let (path, rest) = record.split_once(" in ").unwrap().1.split_once(" at byte ").unwrap();
    let offset: usize = rest.split(',').next().unwrap().parse().unwrap();
    let mut bytes = fs::read(path).unwrap();
    bytes[offset + 512..].fill(0);
    fs::write(path, &bytes).unwrap();
    assert!(records.len() >= 2);

    let check = run(&["journal", "check", "--data", &place.data()]);
    assert_eq!(check.status.code(), Some(0), "{}", stderr(&check));
    assert!(stdout(&check).contains(&format!("torn      {path} at byte {offset}")), "{}", stdout(&check));
    let server = place.serve();
    assert!(server.lines[1].contains("recovered 1 lease"), "{:?}", server.lines);
    assert!(server.lines[2].contains(&format!("cut off in {path} at byte {offset}")), "{:?}", server.lines);
    assert_eq!(server.client().get_lock("b")["state"], "free");
    server.stop();
}

#[test]
fn beyond_loopback_needs_a_word() {
    let place = Place::new();
    let (status, sentence) = refused(&["serve", "--data", &place.data(), "--listen", "0.0.0.0:0"]);
    assert_eq!(status, Some(64));
    assert!(sentence.contains("--insecure"), "{sentence}");
    place.serve_with(&["--listen", "0.0.0.0:0", "--insecure"]).stop();
}

#[test]
fn an_audit_log_that_cannot_be_opened_keeps_the_server_from_starting() {
    let place = Place::new();
    let log = place.text("no/such/folder/audit");
    let (status, sentence) =
        refused(&["serve", "--data", &place.data(), "--listen", "127.0.0.1:0", "--audit-log", &log]);
    assert_eq!(status, Some(70));
    assert!(sentence.contains(&log), "{sentence}");
}

#[test]
fn usage_errors_have_their_status() {
    for arguments in
        [&["serve", "--no-such-flag"][..], &["no-such-command"], &[], &["serve", "--listen", "nowhere"]]
    {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(64), "{arguments:?}");
        assert!(!stderr(&output).is_empty());
    }
    for arguments in [&["--help"][..], &["--version"], &["serve", "--help"], &["journal", "dump", "--help"]] {
        assert_eq!(run(arguments).status.code(), Some(0), "{arguments:?}");
    }
    assert_eq!(stdout(&run(&["--version"])), format!("leasehold {}\n", env!("CARGO_PKG_VERSION")));
    assert!(stdout(&run(&["--help"])).contains("Exit status:"));
}

#[test]
fn restored_data_grants_nothing_at_first() {
    let place = Place::new();
    let server = place.serve();
    let lease = server.client().acquire("a", &json!({"owner_id": "w", "ttl_ms": 600_000}));
    server.stop();
    let server = place.serve_with(&["--listen", "127.0.0.1:0", "--restored"]);
    assert!(
        server.lines.iter().any(|line| line.contains("nothing is granted for 600 s")),
        "{:?}",
        server.lines
    );
    let mut client = server.client();
    client.expect(503, "POST", "/v1/locks/b/acquire", Some(&json!({"owner_id": "w"})));
    client.expect(200, "POST", "/v1/locks/a/renew", Some(&crate::client::proof(&lease)));
    server.stop();
    let place = Place::new();
    let server = place.serve_with(&["--listen", "127.0.0.1:0", "--restored=1h"]);
    server.client().expect(503, "POST", "/v1/locks/b/acquire", Some(&json!({"owner_id": "w"})));
    server.stop();
}
