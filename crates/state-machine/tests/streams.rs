//! The numbers of streams: a repeat has no second effect, a mark lets numbers go, and what was let go never comes back.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use leasehold_state_machine::answer::{Answer, LeaseView, Outcome, Refusal};
use leasehold_state_machine::command::{Acquire, Attachment, Break, Command, Proof, Request};
use leasehold_state_machine::event::{CancelFound, Event};
use leasehold_state_machine::ids::{HashKey, Secret, SessionId};
use leasehold_state_machine::limits::Limits;
use leasehold_state_machine::resource::Resource;
use leasehold_state_machine::time::Now;
use leasehold_state_machine::words::{ClientId, Mode, Owner, Reason, RequestId, Ttl, Wait};
use leasehold_state_machine::{Machine, Output, Rearm};

const S: u64 = 1_000_000;

struct Bench {
    machine: Machine,
    now: Now,
    drawn: u64,
    /// All events since the journal was founded.
    journal: Vec<Event>,
    output: Output,
}

impl Bench {
    fn new() -> Bench {
        let mut machine = Machine::new(Limits::default());
        let now = Now { us: S, raw_us: S, wall_ms: 1_790_000_000_000, wall_trusted: true };
        let mut output = Output::default();
        machine.begin(now);
        machine.record(Event::Founded { key: HashKey([1, 2]) }, &mut output);
        let journal = output.events.drain(..).map(|(_, event)| event).collect();
        Bench { machine, now, drawn: 0, journal, output }
    }

    fn tell(&mut self, command: Command) -> u64 {
        self.drawn += 1;
        self.output = Output::default();
        let request = Request {
            attachment: Attachment(self.drawn),
            arrived_raw_us: self.now.raw_us,
            secret: Secret([self.drawn, 77]),
            command,
        };
        assert!(self.machine.decide(request, &mut self.output).is_none());
        self.journal.extend(self.output.events.iter().map(|(_, event)| event.clone()));
        self.machine.assert_invariants();
        self.drawn
    }

    fn ask(&mut self, command: Command) -> Outcome {
        let to = Attachment(self.tell(command));
        let reply = self.output.replies.iter().find(|reply| reply.to == to);
        reply.expect("an answer at once").outcome.clone()
    }

    fn acquire(&mut self, number: u64, lock: &str, wait_ms: u64) -> Outcome {
        self.ask(acquire(number, lock, wait_ms))
    }

    fn granted(&mut self, number: u64, lock: &str) -> LeaseView {
        match self.acquire(number, lock, 0) {
            Ok(Answer::Lease(lease)) => *lease,
            other => panic!("{other:?}"),
        }
    }

    fn mark(&mut self, answered_through: u64, open: &[u64]) {
        self.tell(Command::Mark { client: client(), answered_through, open: open.to_vec() });
    }

    fn pass(&mut self, us: u64) {
        self.now.us += us;
        self.now.raw_us += us;
        self.machine.begin(self.now);
        let mut output = Output::default();
        while self.machine.housekeep(&mut output) {
            self.machine.begin(self.now);
        }
        self.journal.extend(output.events.into_iter().map(|(_, event)| event));
        self.machine.assert_invariants();
    }

    /// Replays the journal into a fresh machine, through a snapshot half of the time, as a restart would.
    fn restart(&mut self, through_a_snapshot: bool) {
        let mut machine = Machine::new(Limits::default());
        for event in &self.journal {
            machine.apply(self.now.wall_ms, event);
        }
        let (mut live, mut replayed) = (Vec::new(), Vec::new());
        self.machine.write_snapshot(&mut live);
        machine.write_snapshot(&mut replayed);
        assert_eq!(live, replayed, "the same journal gives the same state");
        if through_a_snapshot {
            machine = Machine::read_snapshot(&live, Limits::default()).unwrap();
        }
        machine.recover(self.now, Rearm::Elsewhere, &mut Output::default());
        self.machine = machine;
        self.pass(0);
    }
}

fn client() -> ClientId {
    ClientId::parse("client-1").unwrap()
}

fn acquire(number: u64, lock: &str, wait_ms: u64) -> Command {
    Command::Acquire(Acquire {
        resource: Resource::parse(lock).unwrap(),
        owner: Owner::parse("w1").unwrap(),
        ttl: Some(Ttl::from_ms(10_000).unwrap()),
        mode: Mode::Exclusive,
        wait: Wait::from_ms(wait_ms).unwrap(),
        session: None,
        request_id: Some(RequestId::Numbered(client(), number)),
        metadata: Default::default(),
    })
}

fn release(lease: &LeaseView) -> Command {
    let LeaseView { resource, owner, lease, token, .. } = lease.clone();
    Command::Release(Proof { resource, owner, lease, token })
}

fn is_forgotten(outcome: Outcome) -> bool {
    matches!(outcome, Err(Refusal::NotFound(_)))
}

#[test]
fn a_repeated_number_gets_the_same_lease_also_after_a_restart() {
    for through_a_snapshot in [false, true] {
        let mut bench = Bench::new();
        let lease = bench.granted(1, "a");
        assert_eq!(bench.granted(1, "a").token, lease.token);
        bench.restart(through_a_snapshot);
        assert_eq!(bench.granted(1, "a").token, lease.token);
        assert!(matches!(bench.acquire(1, "b", 0), Err(Refusal::Invalid(_))), "another payload");
        bench.ask(release(&lease)).unwrap();
        assert_eq!(bench.acquire(1, "a", 0), Err(Refusal::Released));
        bench.restart(through_a_snapshot);
        assert_eq!(bench.acquire(1, "a", 0), Err(Refusal::Released));
    }
}

#[test]
fn marked_numbers_are_refused_and_never_carried_out() {
    for through_a_snapshot in [false, true] {
        let mut bench = Bench::new();
        let first = bench.granted(1, "a");
        let second = bench.granted(2, "b");
        bench.ask(release(&second)).unwrap();
        bench.granted(3, "c");
        bench.mark(4, &[3]);
        assert!(is_forgotten(bench.acquire(1, "a", 0)), "its lease lives, but the answer was taken in");
        assert!(is_forgotten(bench.acquire(2, "b", 0)));
        assert!(is_forgotten(bench.acquire(4, "d", 0)), "it never came, and must not come now");
        bench.granted(3, "c");
        bench.restart(through_a_snapshot);
        assert!(is_forgotten(bench.acquire(2, "b", 0)));
        assert!(is_forgotten(bench.acquire(4, "d", 0)));
        bench.granted(3, "c");
        assert!(is_forgotten(bench.ask(Command::CancelNumber { client: client(), number: 4 })));
        bench.ask(release(&first)).unwrap();
        assert!(is_forgotten(bench.acquire(1, "a", 0)));
        bench.granted(5, "a");
    }
}

#[test]
fn a_mark_never_goes_back_and_opens_nothing_again() {
    let mut bench = Bench::new();
    bench.granted(1, "a");
    bench.mark(10, &[7, 8]);
    let seq = bench.machine.seq();
    bench.mark(9, &[1, 2, 3]);
    bench.mark(10, &[1, 7, 8, 99]);
    assert_eq!(bench.machine.seq(), seq, "no news, no event");
    assert!(is_forgotten(bench.acquire(1, "a", 0)));
    bench.granted(7, "b");
    bench.mark(10, &[8]);
    assert!(is_forgotten(bench.acquire(7, "b", 0)), "one that is no longer open is forgotten");
    bench.granted(8, "c");
    bench.mark(u64::MAX, &[8]);
    assert!(is_forgotten(bench.acquire((1 << 63) - 1, "d", 0)));
    for number in [0, 1 << 63, u64::MAX] {
        assert!(matches!(bench.acquire(number, "d", 0), Err(Refusal::Invalid(_))));
        let cancel = Command::CancelNumber { client: client(), number };
        assert!(matches!(bench.ask(cancel), Err(Refusal::Invalid(_))));
    }
    bench.granted(8, "c");
    bench.restart(true);
}

#[test]
fn a_number_in_line_is_told_of_its_place_and_can_be_cancelled() {
    let mut bench = Bench::new();
    let lease = bench.granted(1, "a");
    let second = bench.tell(acquire(2, "a", 60_000));
    assert_eq!(bench.output.queued[0].to, Attachment(second));
    assert_eq!(bench.output.queued[0].position, 1);
    bench.tell(acquire(3, "a", 60_000));
    assert_eq!(bench.output.queued[0].position, 2);
    bench.mark(1, &[]);
    let cancel = |number| Command::CancelNumber { client: client(), number };
    assert_eq!(bench.ask(cancel(2)), Ok(Answer::Cancelled(CancelFound::Waiting)));
    assert_eq!(bench.acquire(2, "a", 0), Err(Refusal::Cancelled));
    bench.tell(release(&lease));
    assert!(matches!(bench.output.replies[1].outcome, Ok(Answer::Lease(_))), "the third has it");
    assert_eq!(bench.ask(cancel(3)), Ok(Answer::Cancelled(CancelFound::Released)));
    assert_eq!(bench.ask(cancel(9)), Ok(Answer::Cancelled(CancelFound::Unknown)));
    assert_eq!(bench.acquire(9, "a", 0), Err(Refusal::Cancelled), "the cancel came first");
}

#[test]
fn a_client_not_heard_of_is_forgotten_but_not_while_something_of_it_lives() {
    let mut bench = Bench::new();
    // A machine that has been up for long: a client that is new is not an old one.
    bench.pass(5_000 * S);
    let lease = bench.granted(1, "a");
    bench.mark(1, &[]);
    bench.pass(5 * S);
    bench.ask(release(&lease)).unwrap();
    bench.pass(300 * S);
    assert!(is_forgotten(bench.acquire(1, "a", 0)), "heard of, and remembered");
    bench.pass(599 * S);
    assert!(!bench.journal.iter().any(|event| matches!(event, Event::ClientForgotten { .. })));
    bench.pass(62 * S);
    assert!(bench.journal.iter().any(|event| matches!(event, Event::ClientForgotten { .. })));
    bench.granted(1, "a");
    bench.restart(true);
}

#[test]
fn a_new_client_is_not_taken_for_an_old_one() {
    let mut bench = Bench::new();
    bench.pass(5_000 * S);
    let lease = bench.granted(1, "a");
    bench.ask(release(&lease)).unwrap();
    let cancel = Command::CancelNumber { client: client(), number: 9 };
    assert_eq!(bench.ask(cancel), Ok(Answer::Cancelled(CancelFound::Unknown)));
    bench.pass(61 * S);
    assert_eq!(bench.acquire(1, "a", 0), Err(Refusal::Released));
    assert_eq!(bench.acquire(9, "a", 0), Err(Refusal::Cancelled));
}

#[test]
fn what_is_let_go_while_it_waits_goes_on_without_an_id() {
    for through_a_snapshot in [false, true] {
        let mut bench = Bench::new();
        bench.granted(1, "a");
        let waiting = bench.tell(acquire(2, "a", 3_600_000));
        bench.mark(2, &[]);
        bench.pass(5 * S);
        assert!(is_forgotten(bench.acquire(2, "a", 0)));
        if through_a_snapshot {
            bench.restart(true);
            bench.pass(S);
        } else {
            bench.tell(Command::Detach { gone: Attachment(waiting) });
            assert_eq!(bench.output.gone, [Attachment(waiting)]);
        }
        assert_eq!(bench.machine.counts().waiters, 0, "nobody can come back for it");
        bench.pass(700 * S);
        bench.restart(false);
    }
}

#[test]
fn a_number_is_its_owners_too() {
    let mut bench = Bench::new();
    bench.granted(1, "a");
    let Command::Acquire(mut wanted) = acquire(1, "a", 0) else { unreachable!() };
    wanted.owner = Owner::parse("somebody-else").unwrap();
    assert!(matches!(bench.ask(Command::Acquire(wanted)), Err(Refusal::Invalid(_))));
}

#[test]
fn a_sessions_owner_hears_of_an_ended_lease_before_it_asks() {
    let mut bench = Bench::new();
    let opened = bench.ask(Command::OpenSession {
        owner: Owner::parse("w1").unwrap(),
        ttl: Ttl::from_ms(10_000).unwrap(),
        request_id: Some(RequestId::Numbered(client(), 1)),
        metadata: Default::default(),
    });
    let Ok(Answer::Session(session)) = opened else { panic!("{opened:?}") };
    let Command::Acquire(mut wanted) = acquire(2, "a", 0) else { unreachable!() };
    (wanted.ttl, wanted.session) = (None, Some(session.session));
    let Ok(Answer::Lease(lease)) = bench.ask(Command::Acquire(wanted)) else { panic!() };
    bench.tell(Command::Break(Box::new(Break {
        resource: Resource::parse("a").unwrap(),
        reason: Reason::parse("stuck").unwrap(),
        force: false,
        token: None,
        request_id: None,
        broken: Default::default(),
    })));
    let [notice] = &bench.output.ended[..] else { panic!("{:?}", bench.output.ended) };
    assert_eq!((notice.session, notice.ended.token), (session.session, lease.token));
    assert!(matches!(notice.session, SessionId::Opened { .. }));
    bench.tell(release(&lease));
    assert!(bench.output.ended.is_empty(), "its own release is no news");
}
