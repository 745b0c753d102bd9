//! Before the command: in line, for a while or for ever, and out of it again.

use rustix::process::Signal;
use serde_json::json;

use super::holder::{Holder, lock};
use super::stage::{lines, until};
use crate::client::proof;
use crate::program::{Place, stderr};

#[test]
fn what_is_not_to_be_had_in_time_is_75_and_the_command_does_not_run() {
    let place = Place::new();
    let server = place.serve();
    server.client().acquire("a", &json!({"owner_id": "alice", "ttl_ms": 600_000}));
    for wait in ["0s", "300ms"] {
        let script = format!("touch {}", place.text("ran"));
        let output = lock(&server, &["a", "--wait", wait], &script).output().unwrap();
        assert_eq!(output.status.code(), Some(75), "{}", stderr(&output));
        assert!(stderr(&output).contains("alice holds it"), "{}", stderr(&output));
        assert!(!place.path("ran").exists());
    }
    assert!(server.client().get_lock("a")["waiters"].as_array().unwrap().is_empty());
}

#[test]
fn waits_for_as_long_as_it_takes_and_says_for_whom_when_told() {
    let place = Place::new();
    let server = place.serve();
    let mut client = server.client();
    let lease = client.acquire("a", &json!({"owner_id": "alice", "ttl_ms": 600_000}));
    let first = Holder::start(&place, "first", &mut lock(&server, &["a", "--owner", "one"], "exit 1"));
    until("one waits", || client.get_lock("a")["waiters"].as_array().unwrap().len() == 1);
    let second = lock(&server, &["a", "--owner", "two", "--verbose"], "exit 2");
    let second = Holder::start(&place, "second", &mut { second });
    let said = lines(&place.path("second.stderr"), 1);
    assert_eq!(said, ["leasehold: in line for a, held by alice; 1 waits before us"]);
    assert_eq!(first.errors(), "", "only who is asked says so where nobody watches");
    client.expect(200, "POST", "/v1/locks/a/release", Some(&proof(&lease)));
    assert_eq!((first.wait().0, second.wait().0), (Some(1), Some(2)));
}

#[test]
fn a_signal_takes_it_out_of_the_line() {
    let place = Place::new();
    let server = place.serve();
    let mut client = server.client();
    client.acquire("a", &json!({"owner_id": "alice", "ttl_ms": 600_000}));
    for (signal, status) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129), (Signal::QUIT, 131)]
    {
        let waiting = Holder::start(&place, "waiting", &mut lock(&server, &["a"], "true"));
        until("it waits", || !client.get_lock("a")["waiters"].as_array().unwrap().is_empty());
        waiting.send(signal);
        assert_eq!(waiting.wait().0, Some(status));
        assert!(client.get_lock("a")["waiters"].as_array().unwrap().is_empty(), "at once, not after a grace");
    }
}

#[test]
fn shared_locks_run_side_by_side() {
    let place = Place::new();
    let server = place.serve();
    let script = |name: &str, other: &str| {
        format!("touch {}; until [ -e {} ]; do sleep 0.02; done", place.text(name), place.text(other))
    };
    let one = Holder::start(&place, "one", &mut lock(&server, &["a", "--shared"], &script("1", "2")));
    let two = Holder::start(&place, "two", &mut lock(&server, &["a", "--shared"], &script("2", "1")));
    assert_eq!((one.wait().0, two.wait().0), (Some(0), Some(0)));
}
