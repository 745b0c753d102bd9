//! The line over streams: queued and then granted, cancelled, detached; and sessions whose leases end.

use leasehold_protocol::v1;
use leasehold_protocol::v1::operation::What;
use leasehold_protocol::v1::outcome::What as Told;
use serde_json::json;

use crate::caller::{acquire, release};
use crate::conversation::{Conversation, operation};
use crate::server::Server;

fn waiting(lock: &str, owner: &str) -> What {
    What::Acquire(v1::AcquireRequest { wait_ms: 600_000, ..acquire(lock, owner) })
}

fn found(told: Told) -> String {
    match told {
        Told::Cancelled(response) => response.cancelled,
        other => panic!("{other:?}"),
    }
}

#[test]
fn who_waits_is_told_its_place_and_then_granted() {
    let server = Server::start();
    let mut conversation = Conversation::with(server.address, "c");
    let first = conversation.ask(What::Acquire(acquire("a", "w0")));
    let mut lease = conversation.lease(first);
    let numbers: Vec<u64> = (1..=5).map(|n| conversation.ask(waiting("a", &format!("w{n}")))).collect();
    for (place, number) in numbers.iter().enumerate() {
        assert_eq!(conversation.queued(*number), place as u64 + 1);
    }
    for number in numbers {
        conversation.ask(What::Release(release(&lease)));
        lease = conversation.lease(number);
    }
    assert_eq!(lease.owner_id, "w5");
}

#[test]
fn a_cancel_takes_back_by_number() {
    let server = Server::start();
    let mut conversation = Conversation::with(server.address, "c");
    let held = conversation.ask(What::Acquire(acquire("a", "w0")));
    conversation.lease(held);
    let waits = conversation.ask(waiting("a", "w1"));
    conversation.queued(waits);
    let cancel = conversation.ask(What::Cancel(waits));
    assert_eq!(found(conversation.outcome_of(cancel)), "waiting");
    assert_eq!(conversation.error(waits).code, "cancelled");
    let cancel = conversation.ask(What::Cancel(held));
    assert_eq!(found(conversation.outcome_of(cancel)), "released");
    assert_eq!(server.get("/v1/locks/a").expect(200)["state"], "free");

    let not_yet = cancel + 10;
    let cancel = conversation.ask(What::Cancel(not_yet));
    assert_eq!(found(conversation.outcome_of(cancel)), "unknown");
    conversation.send([operation(not_yet, What::Acquire(acquire("a", "w2")))]);
    assert_eq!(conversation.error(not_yet).code, "cancelled", "the cancel came first");
}

#[test]
fn another_stream_of_the_same_client_can_cancel() {
    let server = Server::start();
    server.acquire("a", "w0");
    let mut first = Conversation::with(server.address, "c");
    let number = first.ask(waiting("a", "w1"));
    first.queued(number);
    let mut second = Conversation::with(server.address, "c");
    second.send([operation(50, What::Cancel(number))]);
    assert_eq!(found(second.outcome_of(50)), "waiting");
    assert_eq!(first.error(number).code, "cancelled");
    let mut stranger = Conversation::with(server.address, "d");
    stranger.send([operation(50, What::Cancel(number))]);
    assert_eq!(found(stranger.outcome_of(50)), "unknown", "numbers are their client's own");
}

#[test]
fn a_closed_connection_detaches_and_the_same_number_comes_back() {
    let server = Server::start();
    let lease = server.acquire("a", "w0");
    let mut first = Conversation::with(server.address, "c");
    let number = first.ask(waiting("a", "w1"));
    first.queued(number);
    drop(first);
    let attached = |is: bool| {
        server.until("a", "its client is gone or back", |snapshot| {
            snapshot["waiters"].as_array().is_some_and(|line| line.len() == 1)
                && snapshot["waiters"][0]["attached"] == json!(is)
        })
    };
    attached(false);
    let mut second = Conversation::with(server.address, "c");
    second.send([operation(number, waiting("a", "w1"))]);
    attached(true);
    server.post("/v1/locks/a/release", crate::server::proof(&lease)).expect(200);
    let granted = second.lease(number);
    second.send([operation(number, waiting("a", "w1"))]);
    assert_eq!(second.lease(number).fencing_token, granted.fencing_token, "a repeat brings the same grant");
}

#[test]
fn a_number_sent_twice_has_one_effect_and_is_answered() {
    let server = Server::start();
    let lease = server.acquire("a", "w0");
    let mut conversation = Conversation::with(server.address, "c");
    conversation.send([operation(7, waiting("a", "w1")), operation(7, waiting("a", "w1"))]);
    conversation.queued(7);
    conversation.send([operation(7, waiting("a", "w1"))]);
    let number = 8;
    conversation.send([operation(number, What::Get(v1::GetRequest { lock: "a".into() }))]);
    match conversation.outcome_of(number) {
        Told::Snapshot(snapshot) => assert_eq!(snapshot.waiters.len(), 1),
        other => panic!("{other:?}"),
    }
    server.post("/v1/locks/a/release", crate::server::proof(&lease)).expect(200);
    conversation.lease(7);
}

#[test]
fn a_number_sent_again_waits_anew_in_its_old_place() {
    let server = Server::start();
    let mut conversation = Conversation::with(server.address, "c");
    let held = conversation.ask(What::Acquire(acquire("a", "w0")));
    let lease = conversation.lease(held);
    let waits = conversation.ask(waiting("a", "w1"));
    conversation.queued(waits);
    let behind = conversation.ask(waiting("a", "w2"));
    assert_eq!(conversation.queued(behind), 2);

    // Far longer than before, and then hardly at all: the newest word counts, and the place is the old one.
    let again = |wait_ms| What::Acquire(v1::AcquireRequest { wait_ms, ..acquire("a", "w1") });
    conversation.send([operation(waits, again(3_600_000))]);
    assert_eq!(conversation.queued(waits), 1);
    conversation.send([operation(waits, again(1))]);
    assert_eq!(conversation.error(waits).code, "held");
    conversation.ask(What::Release(release(&lease)));
    assert_eq!(conversation.lease(behind).owner_id, "w2");
}

#[test]
fn ended_leases_are_told_unasked() {
    let server = Server::start();
    let mut conversation = Conversation::with(server.address, "c");
    let open = v1::OpenSessionRequest { owner_id: "w".into(), ttl_ms: Some(60_000), ..Default::default() };
    let number = conversation.ask(What::OpenSession(open));
    let session = conversation.session(number);
    let under = |lock: &str| {
        What::Acquire(v1::AcquireRequest {
            session_id: Some(session.session_id.clone()),
            ..acquire(lock, "w")
        })
    };
    let number = conversation.ask(under("a"));
    let broken = conversation.lease(number);
    let number = conversation.ask(under("b"));
    let released = conversation.lease(number);
    conversation.ask(What::Release(release(&released)));
    server.delete("/v1/locks/a?reason=stuck").expect(200);
    let ended = conversation.ended();
    assert_eq!(ended.session_id, session.session_id);
    assert_eq!(ended.ended.len(), 1, "its own release is no news: {ended:?}");
    assert_eq!((ended.ended[0].lock.as_str(), ended.ended[0].reason.as_str()), ("a", "broken"));
    assert_eq!(ended.ended[0].fencing_token, broken.fencing_token);

    // Another stream hears of it once it keeps the session alive, and the answer tells what ended before.
    let mut second = Conversation::with(server.address, "d");
    let beat = v1::KeepAliveRequest { session_id: session.session_id.clone(), ..Default::default() };
    let number = second.ask(What::KeepAlive(beat));
    assert_eq!(second.session(number).ended.len(), 1);
    let number = second.ask(under("c"));
    second.lease(number);
    server.delete("/v1/locks/c?reason=stuck&force=true").expect(200);
    assert_eq!(second.ended().ended[0].lock, "c");
    assert_eq!(conversation.ended().ended[0].lock, "c");
}
