//! Sizes that are ordinary. Nothing is timed here, but an operation that scanned everything would never end: a hundred
//! thousand waiters looked at by each of a hundred thousand releases are ten thousand million looks.
//!
//! The largest tests run with 200,000 instead of a million; `LEASEHOLD_SIZES=full` runs them in full.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::ops::Range;

use leasehold_state_machine::answer::{Answer, LeaseView, Outcome, Refusal, Reply};
use leasehold_state_machine::command::{Acquire, Attachment, Command, Proof, Request};
use leasehold_state_machine::event::{CancelFound, Event};
use leasehold_state_machine::ids::{HashKey, Secret, SessionId};
use leasehold_state_machine::limits::{Limits, SLICE};
use leasehold_state_machine::resource::Resource;
use leasehold_state_machine::time::Now;
use leasehold_state_machine::words::{Metadata, Mode, Owner, RequestId, Ttl, Wait};
use leasehold_state_machine::{Machine, Output};

const LINE: u64 = 100_000;
const OVERLAPPING: u64 = 10_000;

fn a_million() -> u64 {
    if std::env::var("LEASEHOLD_SIZES").is_ok_and(|size| size == "full") { 1_000_000 } else { 200_000 }
}

/// A server and everybody at its door.
struct Server {
    machine: Machine,
    now_us: u64,
    asked: u64,
}

impl Server {
    fn new() -> Self {
        let mut server = Server { machine: Machine::new(Limits::default()), now_us: 1_000_000, asked: 0 };
        server.turn();
        server.machine.record(Event::Founded { key: HashKey([1, 2]) }, &mut Output::default());
        let until_raw_us = u64::MAX / 2;
        let horizon = Event::Horizon { until_raw_us, length_us: 2_000_000 };
        server.machine.record(horizon, &mut Output::default());
        server
    }

    fn turn(&mut self) {
        let (us, wall_ms) = (self.now_us, 1_790_000_000_000 + self.now_us / 1000);
        self.machine.begin(Now { us, raw_us: us, wall_ms, wall_trusted: true });
    }

    /// Asks once; nothing when it was held back.
    fn try_ask(&mut self, command: Command) -> Option<Vec<Reply>> {
        self.asked += 1;
        let request = Request {
            attachment: Attachment(self.asked),
            arrived_raw_us: self.now_us,
            secret: Secret([self.asked, !self.asked]),
            command,
        };
        let mut out = Output::default();
        match self.machine.decide(request, &mut out) {
            None => Some(out.replies),
            Some(_) => None,
        }
    }

    /// Asks until it is taken, and sweeps until nothing is due: every reply, the caller's own first.
    fn ask(&mut self, command: Command) -> Vec<Reply> {
        let mut replies = loop {
            self.turn();
            match self.try_ask(command.clone()) {
                Some(replies) => break replies,
                None => {
                    self.sweep();
                }
            }
        };
        replies.extend(self.sweep());
        replies
    }

    fn sweep(&mut self) -> Vec<Reply> {
        let mut out = Output::default();
        while self.machine.housekeep(&mut out) {
            self.turn();
        }
        out.replies
    }

    fn acquire(&mut self, lock: &str, wait_ms: u64, id: Option<u64>) -> Vec<Reply> {
        self.ask(Command::Acquire(acquire(lock, wait_ms, id)))
    }

    /// The view of a grant that must be the only answer.
    fn granted(&mut self, lock: &str) -> LeaseView {
        let replies = self.acquire(lock, 0, None);
        lease(&replies[0].outcome)
    }

    fn release(&mut self, view: &LeaseView) -> Vec<Reply> {
        let proof = Proof {
            resource: view.resource.clone(),
            owner: view.owner.clone(),
            lease: view.lease,
            token: view.token,
        };
        let mut replies = self.ask(Command::Release(proof));
        assert!(matches!(replies[0].outcome, Ok(Answer::Released { .. })));
        replies.remove(0);
        replies
    }

    /// Releases whatever was granted, and what that grants, until nothing more is; the number of grants.
    fn drain(&mut self, first: LeaseView) -> u64 {
        let mut held = vec![first];
        let mut grants = 0;
        while let Some(view) = held.pop() {
            for reply in self.release(&view) {
                grants += 1;
                held.push(lease(&reply.outcome));
            }
        }
        grants
    }
}

fn acquire(lock: &str, wait_ms: u64, id: Option<u64>) -> Acquire {
    Acquire {
        resource: Resource::parse(lock).unwrap(),
        owner: Owner::parse("w").unwrap(),
        ttl: Some(Ttl::from_ms(60_000).unwrap()),
        mode: Mode::Exclusive,
        wait: Wait::from_ms(wait_ms).unwrap(),
        session: None,
        request_id: id.map(|id| RequestId::parse(&format!("r{id}")).unwrap()),
        metadata: Metadata::default(),
    }
}

fn under(session: SessionId, lock: &str) -> Command {
    Command::Acquire(Acquire { ttl: None, session: Some(session), ..acquire(lock, 0, None) })
}

fn lease(outcome: &Outcome) -> LeaseView {
    match outcome {
        Ok(Answer::Lease(view)) => (**view).clone(),
        other => panic!("expected a grant, not {other:?}"),
    }
}

/// Stands this many in line, each behind the others.
fn line_up(server: &mut Server, numbers: Range<u64>, lock: impl Fn(u64) -> String) {
    for number in numbers {
        assert!(server.acquire(&lock(number), 3_600_000, Some(number)).is_empty(), "{number} waits");
    }
}

#[test]
fn a_long_line_on_one_name_is_drained_in_order() {
    let mut server = Server::new();
    let mut view = server.granted("build");
    line_up(&mut server, 0..LINE, |_| "build".into());
    assert_eq!(server.machine.counts().waiters as u64, LINE);
    server.machine.assert_invariants();
    let mut last = Attachment(0);
    for _ in 0..LINE {
        let replies = server.release(&view);
        assert_eq!(replies.len(), 1, "a release grants to one");
        assert!(replies[0].to > last, "in order of arrival");
        last = replies[0].to;
        view = lease(&replies[0].outcome);
    }
    assert_eq!(server.machine.counts().waiters, 0);
    server.machine.assert_invariants();
}

#[test]
fn a_line_can_be_cancelled_from_either_end() {
    let mut server = Server::new();
    let view = server.granted("build");
    line_up(&mut server, 0..LINE, |_| "build".into());
    let order = (0..LINE / 2).flat_map(|number| [number, LINE - 1 - number]);
    for number in order {
        let replies = server.ask(Command::Cancel {
            resource: view.resource.clone(),
            owner: view.owner.clone(),
            request_id: RequestId::parse(&format!("r{number}")).unwrap(),
        });
        assert_eq!(replies.len(), 2, "the cancel is answered, and the waiter");
        let found = replies.iter().filter(|r| r.outcome == Ok(Answer::Cancelled(CancelFound::Waiting)));
        assert_eq!(found.count(), 1);
        assert!(replies.iter().any(|reply| reply.outcome == Err(Refusal::Cancelled)));
    }
    assert_eq!(server.machine.counts().waiters, 0);
    server.machine.assert_invariants();
    assert_eq!(server.drain(view), 0);
}

#[test]
fn shared_waiters_are_all_granted_by_one_release() {
    let mut server = Server::new();
    let view = server.granted("build");
    for _ in 0..LINE {
        let wanted = Acquire { mode: Mode::Shared, ..acquire("build", 3_600_000, None) };
        assert!(server.ask(Command::Acquire(wanted)).is_empty());
    }
    assert_eq!(server.release(&view).len() as u64, LINE);
    assert_eq!(server.machine.counts().leases as u64, LINE);
    server.machine.assert_invariants();
}

#[test]
fn overlapping_ranges_are_drained() {
    let mut server = Server::new();
    let view = server.granted("inode:42");
    // Each overlaps its neighbours and every twentieth overlaps all.
    line_up(&mut server, 0..OVERLAPPING, |number| match number % 20 {
        0 => format!("range:42:0-{}", 10 * OVERLAPPING),
        _ => format!("range:42:{}-{}", number * 7, number * 7 + 100),
    });
    server.machine.assert_invariants();
    assert_eq!(server.drain(view), OVERLAPPING);
    server.machine.assert_invariants();
}

#[test]
fn one_range_many_times_is_drained() {
    let mut server = Server::new();
    let view = server.granted("range:42:0-10");
    line_up(&mut server, 0..OVERLAPPING, |number| {
        format!("range:42:{}-{}", number % 10, number % 10 + 1 + number % 7)
    });
    assert_eq!(server.drain(view), OVERLAPPING);
    server.machine.assert_invariants();
}

#[test]
fn nested_paths_are_drained() {
    let mut server = Server::new();
    let view = server.granted("path:/");
    line_up(&mut server, 0..OVERLAPPING, |number| match number % 20 {
        0 => "path:/".into(),
        1 => "path:/a".into(),
        2..10 => format!("path:/a/{}", number % 100),
        10..15 => format!("path:/a/{}/b/c", number % 100),
        _ => format!("path:/z/{number}"),
    });
    server.machine.assert_invariants();
    assert_eq!(server.drain(view), OVERLAPPING);
    server.machine.assert_invariants();
}

#[test]
fn a_very_deep_path_is_drained() {
    let mut server = Server::new();
    let deep: Vec<String> = (0..250).map(|depth| format!("path:{}", "/x".repeat(depth + 1))).collect();
    let view = server.granted("path:/");
    line_up(&mut server, 0..OVERLAPPING, |number| deep[(number * 37 % 250) as usize].clone());
    assert_eq!(server.drain(view), OVERLAPPING);
    server.machine.assert_invariants();
}

#[test]
fn a_million_names_are_held_read_and_released() {
    let mut server = Server::new();
    let views: Vec<LeaseView> =
        (0..a_million()).map(|number| server.granted(&format!("name-{number}"))).collect();
    assert_eq!(server.machine.counts().leases as u64, a_million());
    for view in views.iter().step_by(10) {
        let replies = server.ask(Command::Get { resource: view.resource.clone() });
        assert!(matches!(&replies[0].outcome, Ok(Answer::Snapshot(snapshot)) if snapshot.holders.len() == 1));
    }
    server.machine.assert_invariants();
    for view in &views {
        assert!(server.release(view).is_empty());
    }
    assert_eq!(server.machine.counts().leases, 0);
    server.machine.assert_invariants();
}

#[test]
fn everything_due_at_one_instant_goes_in_slices() {
    let mut server = Server::new();
    let count = a_million();
    for number in 0..count {
        server.granted(&format!("name-{number}"));
    }
    let late = server.granted_for("kept", 3_600_000);
    server.now_us += 60_000_000;
    let (mut slices, mut expired) = (0, 0);
    loop {
        server.turn();
        let mut out = Output::default();
        let more = server.machine.housekeep(&mut out);
        assert!(out.events.len() <= 2 * SLICE, "a turn is a slice, not {} events", out.events.len());
        expired +=
            out.events.iter().filter(|(_, event)| matches!(event, Event::Expired { .. })).count() as u64;
        slices += 1;
        answered_in_between(&mut server, slices, count, &late);
        if !more {
            break;
        }
    }
    assert!(slices as u64 >= count / SLICE as u64, "{slices} slices");
    assert!(expired <= count && expired > count / 2, "most were left to the sweep");
    assert_eq!(server.machine.counts().leases, 2 + slices, "kept, and what was granted in between");
    server.machine.assert_invariants();
}

impl Server {
    fn granted_for(&mut self, lock: &str, ttl_ms: u64) -> LeaseView {
        let ttl = Some(Ttl::from_ms(ttl_ms).unwrap());
        let replies = self.ask(Command::Acquire(Acquire { ttl, ..acquire(lock, 0, None) }));
        lease(&replies[0].outcome)
    }

    /// One answer, in this very turn.
    fn answer_now(&mut self, command: Command) -> Outcome {
        let replies = self.try_ask(command).expect("answered in this turn");
        assert_eq!(replies.len(), 1);
        replies[0].outcome.clone()
    }
}

/// While a million leases wait to be swept: reads pass over the overdue, an acquire ends what it meets, others renew.
fn answered_in_between(server: &mut Server, slice: usize, count: u64, kept: &LeaseView) {
    // From the far end, which the sweep has not reached.
    let overdue = format!("name-{}", count - slice as u64);
    let resource = Resource::parse(&overdue).unwrap();
    let Ok(Answer::Snapshot(snapshot)) = server.answer_now(Command::Get { resource: resource.clone() })
    else {
        panic!("a get has a snapshot");
    };
    assert!(snapshot.holders.is_empty(), "an overdue lease is over, swept or not");
    lease(&server.answer_now(Command::Acquire(acquire(&overdue, 0, None))));
    let valid = Command::Verify { resource: kept.resource.clone(), token: kept.token };
    assert!(matches!(server.answer_now(valid), Ok(Answer::Valid { .. })));
    if slice == 1 {
        lease(&server.answer_now(Command::Acquire(acquire("new", 0, None))));
    }
}

#[test]
fn a_session_closes_with_all_its_leases_in_slices() {
    let mut server = Server::new();
    let opening = Command::OpenSession {
        owner: Owner::parse("w").unwrap(),
        ttl: Ttl::from_ms(60_000).unwrap(),
        request_id: None,
        metadata: Metadata::default(),
    };
    let Ok(Answer::Session(session)) = server.ask(opening)[0].outcome.clone() else { panic!("opened") };
    for number in 0..LINE {
        lease(&server.ask(under(session.session, &format!("name-{number}")))[0].outcome);
    }
    let kept = server.granted("kept");
    server.turn();
    let closed = server.answer_now(Command::CloseSession { session: session.session });
    assert_eq!(closed, Ok(Answer::Closed));
    let (mut slices, mut granted) = (0u64, 0);
    loop {
        server.turn();
        let mut out = Output::default();
        let more = server.machine.housekeep(&mut out);
        assert!(out.events.len() <= 2 * SLICE);
        slices += 1;
        answered_in_between(&mut server, slices as usize, LINE, &kept);
        granted += 1;
        if !more {
            break;
        }
    }
    assert!(slices >= LINE / SLICE as u64);
    assert_eq!(server.machine.counts().leases as u64, granted + 2);
    assert_eq!(server.machine.counts().opened_sessions, 0);
    server.machine.assert_invariants();
}
