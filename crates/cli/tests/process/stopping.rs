//! A stop in good order: who waits is told, and everything ends within five seconds.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use crate::program::{PATIENCE, Place};

#[test]
fn a_signal_answers_who_waits_and_ends_with_status_0() {
    for signal in [Signal::TERM, Signal::INT] {
        let place = Place::new();
        let server = place.serve();
        let mut client = server.client();
        client.acquire("a", &json!({"owner_id": "holder", "ttl_ms": 600_000}));
        let mut waiting = server.client();
        let wait = json!({"owner_id": "w", "request_id": "r1", "wait_ms": 600_000});
        waiting.begin("POST", "/v1/locks/a/acquire", Some(&wait)).unwrap();
        let begun = std::time::Instant::now();
        while client.get_lock("a")["waiters"].as_array().unwrap().is_empty() {
            assert!(begun.elapsed() < PATIENCE);
        }
        // A connection that says nothing does not hold the end up.
        let _silent = std::net::TcpStream::connect(server.address).unwrap();
        server.signal(signal);
        let (status, answer) = waiting.answer().unwrap();
        assert_eq!((status, answer["code"].as_str()), (503, Some("unavailable")), "{answer}");
        let (status, took) = server.wait();
        assert_eq!(status, Some(0));
        assert!(took < Duration::from_secs(5), "{took:?}");

        // The place in line was journaled, and its caller finds it again.
        let server = place.serve();
        let snapshot = server.client().get_lock("a");
        assert_eq!(snapshot["holders"][0]["owner_id"], "holder");
        assert_eq!(snapshot["waiters"][0]["owner_id"], "w");
        assert_eq!(snapshot["waiters"][0]["attached"], false);
        server.stop();
    }
}

#[test]
fn a_storage_error_ends_the_process_with_a_sentence() {
    let place = Place::new();
    let server = place.serve_with(&["--listen", "127.0.0.1:0", "--segment-bytes", "1048576"]);
    let mut client = server.client();
    client.acquire("first", &json!({"owner_id": "w"}));
    // The next segment cannot be made where there is no folder any more.
    std::fs::remove_dir_all(place.path("data")).unwrap();
    let mut answered = 0;
    while let Ok((200, _)) =
        client.post(&format!("/v1/locks/lock{answered}/acquire"), &json!({"owner_id": "w"}))
    {
        answered += 1;
        assert!(answered < 10_000, "a disk that is gone is still written to");
    }
    assert_eq!(server.wait().0, Some(70));
    let log = std::fs::read_to_string(place.path("stderr")).unwrap();
    let sentence = log.lines().last().unwrap();
    assert!(sentence.starts_with("leasehold: stopped: cannot ") && sentence.contains(&place.data()), "{log}");
}
