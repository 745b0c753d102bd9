//! Long polls: who waits is answered when the lock is free, and a connection that closes leaves the line at once.

use serde_json::{Value, json};

use crate::client::Pending;
use crate::server::{Server, proof, request};

fn wait(server: &Server, owner: &str, id: Option<&str>) -> Pending {
    let mut body = json!({"owner_id": owner, "wait_ms": 600_000});
    if let Some(id) = id {
        body["request_id"] = json!(id);
    }
    server.begin("/v1/locks/a/acquire", body)
}

/// Each waiter's owner, and whether somebody is there to be answered.
fn line(snapshot: &Value) -> Vec<(&str, bool)> {
    let waiters = snapshot["waiters"].as_array().unwrap();
    waiters.iter().map(|w| (w["owner_id"].as_str().unwrap(), w["attached"].as_bool().unwrap())).collect()
}

fn release(server: &Server, lease: &Value) {
    server.post("/v1/locks/a/release", proof(lease)).expect(200);
}

#[test]
fn grants_follow_the_order_of_arrival() {
    let server = Server::start();
    let mut lease = server.acquire("a", "w0");
    let mut waiting = Vec::new();
    for place in 1..=5 {
        waiting.push(wait(&server, &format!("w{place}"), None));
        server.until_waiting("a", place);
    }
    let mut token = lease["fencing_token"].as_u64();
    for (place, pending) in waiting.into_iter().enumerate() {
        release(&server, &lease);
        lease = pending.answer().expect(200);
        assert_eq!(lease["owner_id"], format!("w{}", place + 1));
        assert!(lease["fencing_token"].as_u64() > token);
        token = lease["fencing_token"].as_u64();
    }
}

#[test]
fn a_grant_comes_at_the_deadline_of_a_holder_who_is_gone() {
    let server = Server::start();
    server.post("/v1/locks/a/acquire", json!({"owner_id": "gone", "ttl_ms": 300})).expect(200);
    assert_eq!(wait(&server, "w1", None).answer().expect(200)["owner_id"], "w1");
}

#[test]
fn a_closed_connection_detaches_at_once() {
    let server = Server::start();
    let lease = server.acquire("a", "w0");
    let first = wait(&server, "w1", Some("r1"));
    server.until_waiting("a", 1);
    let second = wait(&server, "w2", None);
    server.until_waiting("a", 2);

    drop(first);
    server.until("a", "w1 is detached", |snapshot| line(snapshot) == [("w1", false), ("w2", true)]);
    release(&server, &lease);
    let lease = second.answer().expect(200);
    assert_eq!(lease["owner_id"], "w2", "who is not there is skipped");

    let again = wait(&server, "w1", Some("r1"));
    server.until("a", "w1 is back in its place", |snapshot| line(snapshot) == [("w1", true)]);
    let third = wait(&server, "w3", None);
    server.until_waiting("a", 2);
    release(&server, &lease);
    let lease = again.answer().expect(200);
    assert_eq!(lease["owner_id"], "w1");
    release(&server, &lease);
    assert_eq!(third.answer().expect(200)["owner_id"], "w3");
}

#[test]
fn a_waiter_without_an_id_goes_with_its_connection() {
    let server = Server::start();
    let lease = server.acquire("a", "w0");
    let first = wait(&server, "w1", None);
    server.until_waiting("a", 1);
    let second = wait(&server, "w2", None);
    server.until_waiting("a", 2);
    drop(first);
    server.until("a", "w1 is gone", |snapshot| line(snapshot) == [("w2", true)]);
    release(&server, &lease);
    assert_eq!(second.answer().expect(200)["owner_id"], "w2");
}

#[test]
fn a_hang_up_is_noticed_behind_requests_sent_ahead() {
    let server = Server::start();
    let lease = server.acquire("a", "w0");
    let mut first = wait(&server, "w1", None);
    first.send_more(&request("GET", "/healthz", &[], b""));
    server.until_waiting("a", 1);
    let second = wait(&server, "w2", None);
    server.until_waiting("a", 2);
    drop(first);
    server.until("a", "w1 is gone", |snapshot| line(snapshot) == [("w2", true)]);
    release(&server, &lease);
    assert_eq!(second.answer().expect(200)["owner_id"], "w2");
}

#[test]
fn requests_sent_ahead_are_answered_in_order() {
    let server = Server::start();
    let lease = server.acquire("a", "w0");
    let mut first = wait(&server, "w1", None);
    first.send_more(&request("GET", "/version", &[], b""));
    server.until_waiting("a", 1);
    release(&server, &lease);
    assert_eq!(first.next().unwrap().expect(200)["owner_id"], "w1");
    assert_eq!(first.next().unwrap().expect(200)["name"], "leasehold");
}

#[test]
fn a_newer_attempt_is_answered_instead_of_an_older_one() {
    let server = Server::start();
    let lease = server.acquire("a", "w0");
    let old = wait(&server, "w1", Some("r1"));
    server.until_waiting("a", 1);
    let new = wait(&server, "w1", Some("r1"));
    old.answer().expect_code(499, "cancelled");
    server.until("a", "w1 stands once", |snapshot| line(snapshot) == [("w1", true)]);
    release(&server, &lease);
    let lease = new.answer().expect(200);
    let again = wait(&server, "w1", Some("r1")).answer().expect(200);
    assert_eq!(again["lease_id"], lease["lease_id"], "a repeat brings the same grant");
    assert_eq!(again["fencing_token"], lease["fencing_token"]);
}

#[test]
fn an_old_connection_that_closes_late_does_not_detach_the_new_one() {
    let server = Server::start();
    let lease = server.acquire("a", "w0");
    let old = wait(&server, "w1", Some("r1"));
    server.until_waiting("a", 1);
    let new = wait(&server, "w1", Some("r1"));
    // The old one has been answered, so its connection is idle; it closes after the new one came.
    let mut old = old;
    assert_eq!(old.next().unwrap().status, 499);
    drop(old);
    release(&server, &lease);
    assert_eq!(new.answer().expect(200)["owner_id"], "w1");
}

#[test]
fn a_storm_of_waiters_that_leave_strands_nobody() {
    let server = Server::start();
    let lease = server.acquire("a", "w0");
    let leaving: Vec<_> = (0..100).map(|n| wait(&server, &format!("leaving{n}"), None)).collect();
    let staying = wait(&server, "staying", None);
    server.until_waiting("a", 101);
    drop(leaving);
    release(&server, &lease);
    // Some may be granted before their closing is noticed; such a grant is given back.
    assert_eq!(staying.answer().expect(200)["owner_id"], "staying");
    server.until_waiting("a", 0);
}

#[test]
fn a_stopping_server_answers_who_waits() {
    let server = Server::start();
    server.acquire("a", "w0");
    let waiting = wait(&server, "w1", Some("r1"));
    server.until_waiting("a", 1);
    let mut idle = Pending::send(server.address, &request("GET", "/healthz", &[], b""));
    assert_eq!(idle.next().unwrap().status, 200);
    let address = server.address;
    drop(server);
    let answer = waiting.answer();
    answer.expect_code(503, "unavailable");
    assert!(answer.header("retry-after").is_some());
    assert!(idle.next().is_none(), "an idle connection is closed");
    assert!(std::net::TcpStream::connect(address).is_err());
}
