//! Conversations: many requests over one channel, against a real engine and its threads.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod by_hand;

use std::sync::Arc;

use by_hand::{acquire, queue, release, renew};
use leasehold_engine::{
    Clock, DriverOptions, Engine, EngineOptions, Handle, Heard, MachineClock, Metrics, Replay, Stream,
    founding_key, start,
};
use leasehold_journal::{Journal, MemoryJournal};
use leasehold_state_machine::answer::{Answer, LeaseView, Outcome, Refusal};
use leasehold_state_machine::command::Command;
use leasehold_state_machine::limits::Limits;
use leasehold_state_machine::words::{ClientId, RequestId};

fn launch() -> Handle {
    let journal = MemoryJournal::new();
    let clock = Arc::new(MachineClock::new().unwrap());
    let options = EngineOptions {
        founding_key: founding_key().unwrap(),
        restored: None,
        accept_clock: true,
        batch_bytes_max: journal.batch_bytes_max(),
        metrics: Arc::new(Metrics::default()),
    };
    let replay = Replay::new(Limits::default());
    let (engine, _) = Engine::recover(replay, clock.boot_id(), clock.read(), options);
    start(engine, Box::new(journal), clock, DriverOptions::default()).unwrap()
}

fn client() -> ClientId {
    ClientId::parse("client-1").unwrap()
}

/// The same request as the operation of a stream.
fn numbered(number: u64, command: Command) -> Command {
    let Command::Acquire(mut wanted) = command else { unreachable!() };
    wanted.request_id = Some(RequestId::Numbered(client(), number));
    Command::Acquire(wanted)
}

async fn hear(stream: &mut Stream) -> Vec<Heard> {
    loop {
        stream.hear().await;
        let heard: Vec<_> = std::iter::from_fn(|| stream.heard()).collect();
        if !heard.is_empty() {
            return heard;
        }
    }
}

async fn outcome(stream: &mut Stream, wanted: u64) -> Outcome {
    loop {
        for heard in hear(stream).await {
            if let Heard::Outcome { number, outcome, .. } = heard {
                assert_eq!(number, wanted);
                return outcome;
            }
        }
    }
}

fn lease(outcome: Outcome) -> LeaseView {
    match outcome {
        Ok(Answer::Lease(lease)) => *lease,
        other => panic!("not a lease: {other:?}"),
    }
}

#[tokio::test]
async fn a_number_asked_again_is_heard_of_once_and_detached_when_the_stream_goes() {
    let engine = launch();
    let holder = lease(engine.ask(acquire("a", "holder", 30_000)).await);
    let mut stream = engine.stream();
    stream.ask(1, (), numbered(1, queue("a", "w1", 30_000, 60_000, None))).unwrap();
    assert!(matches!(hear(&mut stream).await[..], [Heard::Queued { number: 1, position: 1 }]));
    stream.ask_again(1, numbered(1, queue("a", "w1", 30_000, 60_000, None))).unwrap();
    // The older attempt's `cancelled` is not heard; the newer one's place is.
    assert!(matches!(hear(&mut stream).await[..], [Heard::Queued { number: 1, position: 1 }]));
    assert_eq!(stream.in_flight(), 1);
    drop(stream);
    engine.ask(release(&holder)).await.unwrap();
    // Were the waiter still attached, it would have been granted, and this one refused.
    lease(engine.ask(acquire("a", "other", 30_000)).await);
    engine.stop().await;
}

#[tokio::test]
async fn a_mark_goes_with_the_next_change_and_not_with_a_renewal() {
    let engine = launch();
    let mut stream = engine.stream();
    stream.ask(1, (), numbered(1, acquire("a", "w1", 30_000))).unwrap();
    let held = lease(outcome(&mut stream, 1).await);
    stream.mark(client(), 1, Vec::new());
    stream.ask(2, (), renew(&held)).unwrap();
    outcome(&mut stream, 2).await.unwrap();
    stream.ask(3, (), numbered(3, acquire("b", "w1", 30_000))).unwrap();
    lease(outcome(&mut stream, 3).await);
    stream.ask(1, (), numbered(1, acquire("a", "w1", 30_000))).unwrap();
    assert!(matches!(outcome(&mut stream, 1).await, Err(Refusal::NotFound(_))));
    engine.stop().await;
}

#[tokio::test]
async fn half_of_them_ask_again_while_the_others_are_decided() {
    const ASKED: u64 = 9;
    let engine = launch();
    let mut stream = engine.stream();
    for number in 1..=ASKED {
        stream.ask(number, (), numbered(number, acquire(&format!("lock-{number}"), "w1", 30_000))).unwrap();
    }
    stream.send();
    // Answers come in order: what was asked last and by another way is answered after all of these.
    lease(engine.ask(acquire("last", "w2", 30_000)).await);
    let mut groups = Vec::new();
    while stream.in_flight() > 0 {
        groups.push(hear(&mut stream).await.len());
    }
    assert_eq!(groups, [4, 4, 1]);
    engine.stop().await;
}

#[tokio::test]
async fn a_server_that_stops_tells_the_conversation() {
    let engine = launch();
    lease(engine.ask(acquire("a", "holder", 30_000)).await);
    let mut stream = engine.stream();
    stream.ask(7, (), numbered(7, queue("a", "w1", 30_000, 60_000, None))).unwrap();
    assert!(matches!(hear(&mut stream).await[..], [Heard::Queued { .. }]));
    engine.stop().await;
    assert!(matches!(outcome(&mut stream, 7).await, Err(Refusal::Unavailable { .. })));
}
