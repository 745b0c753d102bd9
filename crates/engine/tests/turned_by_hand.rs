//! The engine behind its handle without a thread: it moves when it is turned, and exactly as far as the clock says.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod by_hand;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};

use by_hand::{acquire, queue, release};
use leasehold_engine::{
    ByHand, Clock, DriverOptions, Engine, EngineOptions, Handle, Metrics, Reading, Replay, Secrets,
};
use leasehold_journal::{Journal, MemoryJournal};
use leasehold_state_machine::answer::{Answer, LeaseView, Outcome, Refusal};
use leasehold_state_machine::codec::BootId;
use leasehold_state_machine::ids::HashKey;
use leasehold_state_machine::limits::Limits;

const START_US: u64 = 50_000_000;

struct Hands(AtomicU64);

impl Clock for Hands {
    fn read(&self) -> Reading {
        let raw_us = self.0.load(Relaxed);
        Reading { raw_us, wall_ms: 1_790_000_000_000 + raw_us / 1000 }
    }

    fn boot_id(&self) -> BootId {
        [1; 16]
    }
}

fn begin() -> (ByHand, Handle, Arc<Hands>) {
    let clock = Arc::new(Hands(AtomicU64::new(START_US)));
    let journal = MemoryJournal::new();
    let options = EngineOptions {
        founding_key: HashKey([1, 2]),
        restored: None,
        accept_clock: false,
        batch_bytes_max: journal.batch_bytes_max(),
        metrics: Arc::new(Metrics::default()),
    };
    let (engine, _) = Engine::recover(Replay::new(Limits::default()), clock.boot_id(), clock.read(), options);
    let secrets = Secrets::from_seed(7);
    let (hand, handle) =
        ByHand::new(engine, Box::new(journal), clock.clone(), secrets, DriverOptions::default());
    (hand, handle, clock)
}

fn look(asked: &mut (impl Future<Output = Outcome> + Unpin)) -> Poll<Outcome> {
    std::pin::Pin::new(asked).poll(&mut Context::from_waker(Waker::noop()))
}

fn lease(outcome: Poll<Outcome>) -> LeaseView {
    match outcome {
        Poll::Ready(Ok(Answer::Lease(lease))) => *lease,
        other => panic!("not a lease: {other:?}"),
    }
}

#[test]
fn answers_when_it_is_turned_and_hands_over_at_the_deadline() {
    let (mut hand, handle, clock) = begin();
    let mut first = pin!(handle.ask(acquire("a", "w1", 30_000)));
    let mut second = pin!(handle.ask(queue("a", "w2", 30_000, 600_000, None)));
    assert!(look(&mut first).is_pending() && look(&mut second).is_pending());
    assert!(hand.is_wanted());
    assert!(hand.turn().unwrap());
    assert!(!hand.is_wanted());
    let granted = lease(look(&mut first));
    assert!(look(&mut second).is_pending());

    let deadline_us = START_US + 30_000_000;
    while let Some(wake_us) = hand.wake_raw_us().filter(|wake_us| *wake_us < deadline_us) {
        clock.0.store(wake_us, Relaxed);
        hand.turn().unwrap();
    }
    assert!(look(&mut second).is_pending(), "it is not over yet");
    assert_eq!(hand.wake_raw_us(), Some(deadline_us));
    clock.0.store(deadline_us, Relaxed);
    assert!(hand.turn().unwrap());
    assert!(lease(look(&mut second)).token > granted.token);

    let mut late = pin!(handle.ask(release(&granted)));
    assert!(look(&mut late).is_pending());
    hand.turn().unwrap();
    assert!(matches!(look(&mut late), Poll::Ready(Err(Refusal::LeaseExpired))));
}

#[test]
fn a_seed_gives_the_same_secrets() {
    let granted = || {
        let (mut hand, handle, _) = begin();
        let mut asked = pin!(handle.ask(acquire("a", "w1", 30_000)));
        assert!(look(&mut asked).is_pending());
        hand.turn().unwrap();
        let lease = lease(look(&mut asked));
        (lease.lease, lease.session, lease.token)
    };
    assert_eq!(granted(), granted());
}

#[test]
fn whoever_waits_when_it_is_dropped_is_told() {
    let (mut hand, handle, _) = begin();
    let mut decided = pin!(handle.ask(acquire("a", "w1", 30_000)));
    let mut waits = pin!(handle.ask(queue("a", "w2", 30_000, 600_000, None)));
    let mut late = pin!(handle.ask(acquire("b", "w1", 30_000)));
    assert!(look(&mut decided).is_pending() && look(&mut waits).is_pending());
    hand.turn().unwrap();
    assert!(look(&mut late).is_pending());
    drop(hand);
    lease(look(&mut decided));
    assert!(matches!(look(&mut waits), Poll::Ready(Err(Refusal::Unavailable { .. }))));
    assert!(matches!(look(&mut late), Poll::Ready(Err(Refusal::Unavailable { .. }))));
}
