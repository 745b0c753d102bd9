//! The stream of operations: how it begins and ends, what it carries, and how much.

use leasehold_protocol::v1;
use leasehold_protocol::v1::operation::What;
use leasehold_protocol::v1::outcome::What as Told;
use leasehold_server::config::Given;
use serde_json::json;
use tonic::Code;

use crate::caller::{acquire, detail, release, renew};
use crate::conversation::{Conversation, hello, operation};
use crate::server::Server;

fn waiting(lock: &str, owner: &str) -> What {
    What::Acquire(v1::AcquireRequest { wait_ms: 600_000, ..acquire(lock, owner) })
}

#[test]
fn it_begins_with_a_hello() {
    let server = Server::start();
    let malformed = |operations: Vec<v1::Operation>, field: &str| {
        let mut conversation = Conversation::silent(server.address);
        conversation.send(operations);
        let status = conversation.end();
        let error = detail(&status);
        assert_eq!((error.code.as_str(), error.field.as_str()), ("invalid_argument", field));
    };
    malformed(vec![], "hello");
    malformed(vec![operation(1, What::Get(v1::GetRequest { lock: "a".into() }))], "hello");
    malformed(vec![v1::Operation { number: 1, ..hello("c") }], "hello");
    malformed(vec![hello("")], "client_id");
    malformed(vec![hello("a b")], "client_id");
    malformed(vec![hello(&"x".repeat(129))], "client_id");

    let mut conversation = Conversation::with(server.address, "c");
    assert_eq!(conversation.in_flight_max, 1024);
    conversation.send([v1::Operation { number: 1, ..hello("d") }]);
    assert_eq!(conversation.error(1).field, "hello", "one hello is enough");
    conversation.send([operation(0, What::Get(v1::GetRequest { lock: "a".into() }))]);
    assert_eq!(conversation.error(0).field, "number");
    conversation.send([v1::Operation { number: 2, what: None }]);
    assert_eq!(conversation.error(2).field, "what");
    let id = v1::AcquireRequest { request_id: Some("r".into()), ..acquire("a", "w") };
    let number = 3;
    conversation.send([operation(number, What::Acquire(id))]);
    assert_eq!(conversation.error(number).field, "request_id", "the number is the id");
}

#[test]
fn it_ends_when_all_is_said_and_answered() {
    let server = Server::start();
    let mut conversation = Conversation::with(server.address, "c");
    let lease = server.acquire("a", "w0");
    let number = conversation.ask(waiting("a", "w1"));
    conversation.finish();
    assert_eq!(conversation.queued(number), 1);
    server.post("/v1/locks/a/release", crate::server::proof(&lease)).expect(200);
    assert_eq!(conversation.lease(number).owner_id, "w1");
    assert_eq!(conversation.group().unwrap(), None);
}

#[test]
fn a_server_that_stops_answers_what_is_in_flight_and_ends_the_stream() {
    let server = Server::start();
    let mut conversation = Conversation::with(server.address, "c");
    server.acquire("a", "w0");
    let number = conversation.ask(waiting("a", "w1"));
    conversation.queued(number);
    let stopped = std::thread::spawn(move || drop(server));
    assert_eq!(conversation.error(number).code, "unavailable");
    assert_eq!(conversation.end().code(), Code::Unavailable);
    stopped.join().unwrap();
}

#[test]
fn answers_come_as_they_are_ready() {
    let server = Server::start();
    let mut conversation = Conversation::with(server.address, "c");
    let held = conversation.ask(What::Acquire(acquire("a", "w1")));
    let lease = conversation.lease(held);
    // In one group: one that waits, and many that do not.
    let mut operations = vec![operation(100, waiting("a", "w2"))];
    operations.extend((101..200).map(|n| operation(n, What::Acquire(acquire(&format!("l{n}"), "w1")))));
    conversation.send(operations);
    let later: Vec<_> = (101..200).map(|n| conversation.lease(n)).collect();
    assert!(later.iter().all(|later| later.fencing_token > lease.fencing_token));
    assert_eq!(conversation.queued(100), 1);
    conversation.send([operation(200, What::Release(release(&lease)))]);
    let granted = conversation.lease(100);
    assert!(later.iter().all(|later| granted.fencing_token > later.fencing_token), "it was granted last");
    assert!(matches!(conversation.outcome_of(200), Told::Released(_)));
}

#[test]
fn what_is_ready_together_is_told_together() {
    let server = Server::start();
    let mut conversation = Conversation::with(server.address, "c");
    let operations: Vec<_> =
        (1..=1000).map(|n| operation(n, What::Acquire(acquire(&format!("l{n}"), "w1")))).collect();
    conversation.send(operations);
    let (mut groups, mut outcomes) = (0, 0);
    while outcomes < 1000 {
        let group = conversation.group().unwrap().unwrap();
        assert!(!group.outcomes.is_empty());
        groups += 1;
        outcomes += group.outcomes.len();
    }
    assert_eq!(outcomes, 1000);
    assert!(groups <= 250, "a group of 1000 operations was answered in {groups} groups");
}

#[test]
fn one_too_many_in_flight_is_busy_and_upkeep_goes_on() {
    let server = Server::start();
    let mut conversation = Conversation::with(server.address, "c");
    let number = conversation.ask(What::Acquire(acquire("a", "w0")));
    let lease = conversation.lease(number);
    let max = u64::from(conversation.in_flight_max);
    let operations: Vec<_> = (2..2 + max).map(|n| operation(n, waiting("a", &format!("w{n}")))).collect();
    for chunk in operations.chunks(100) {
        conversation.send(chunk.to_vec());
    }
    server.until_waiting("a", max as usize);
    let too_many = 2 + max;
    conversation.send([operation(too_many, What::Get(v1::GetRequest { lock: "a".into() }))]);
    let error = conversation.error(too_many);
    assert_eq!(error.code, "busy");
    assert!(error.recommended_retry_ms > 0);

    // Whoever holds something can still keep it up, and end it.
    let renewed = too_many + 1;
    conversation.send([operation(renewed, What::Renew(renew(&lease)))]);
    assert_eq!(conversation.lease(renewed).lease_id, lease.lease_id);
    let released = too_many + 2;
    conversation.send([operation(released, What::Release(release(&lease)))]);
    assert_eq!(conversation.lease(2).owner_id, "w2");
    // One has left, so there is room for one.
    conversation.send([operation(released + 1, What::Get(v1::GetRequest { lock: "a".into() }))]);
    assert!(matches!(conversation.outcome_of(released + 1), Told::Snapshot(_)));
}

#[test]
fn the_bound_can_be_set() {
    let server = Server::start_with(Given { in_flight_max: Some(2), ..Given::default() });
    server.acquire("a", "w0");
    let mut conversation = Conversation::with(server.address, "c");
    assert_eq!(conversation.in_flight_max, 2);
    conversation.send([1, 2, 3].map(|n| operation(n, waiting("a", &format!("w{n}")))));
    assert_eq!(conversation.error(3).code, "busy");
    for in_flight_max in [0, 1025] {
        let given = Given { in_flight_max: Some(in_flight_max), ..Given::default() };
        assert!(given.settle().unwrap_err().to_string().contains("in_flight_max"));
    }
}

#[test]
fn a_group_has_its_bound() {
    let server = Server::start();
    let mut conversation = Conversation::with(server.address, "c");
    let long = v1::GetRequest { lock: "x".repeat(1 << 20) };
    conversation.send([operation(1, What::Get(long))]);
    assert_eq!(detail(&conversation.end()).code, "too_large");
    let mut conversation = Conversation::with(server.address, "c");
    let long = v1::GetRequest { lock: "x".repeat((1 << 20) - 100) };
    conversation.send([operation(1, What::Get(long))]);
    assert_eq!(conversation.error(1).field, "lock");
}

#[test]
fn a_group_has_no_more_operations_than_are_answered_without_much_room() {
    let server = Server::start_with(Given { in_flight_max: Some(2), ..Given::default() });
    let operations =
        |count| (1..=count).map(|number| v1::Operation { number, what: None }).collect::<Vec<_>>();
    let mut conversation = Conversation::with(server.address, "c");
    conversation.send(operations(1032));
    assert_eq!(conversation.error(1032).field, "what");
    conversation.send(operations(1033));
    let error = detail(&conversation.end());
    assert_eq!((error.code.as_str(), error.field.as_str()), ("invalid_argument", "operations"));
}

#[test]
fn operations_are_counted_as_calls_are() {
    let server = Server::start();
    let mut conversation = Conversation::with(server.address, "c");
    let number = conversation.ask(What::Acquire(acquire("a", "w")));
    conversation.lease(number);
    let number = conversation.ask(What::Acquire(acquire("a", "w")));
    conversation.error(number);
    let metrics = server.get("/metrics").text();
    for line in ["lock_acquire_total{result=\"success\"} 1", "lock_acquire_total{result=\"fail\"} 1"] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
    assert_eq!(server.get("/v1/locks").expect(200)["locks"].as_array().unwrap().len(), 1);
    assert_ne!(server.get("/v1/locks/a").expect(200)["holders"], json!([]));
}
