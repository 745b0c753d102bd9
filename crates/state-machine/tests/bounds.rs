//! A server at its bounds: what still goes through at the bound itself, what is refused one beyond it, and what makes room
//! again; and the time that whoever is refused is told to wait.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use leasehold_state_machine::answer::{Answer, LeaseView, Outcome, Refusal};
use leasehold_state_machine::command::{Acquire, Attachment, Command, Proof, Request, WriteFile};
use leasehold_state_machine::event::Event;
use leasehold_state_machine::file::{FileBytes, FileName, Offset};
use leasehold_state_machine::ids::{HashKey, Secret};
use leasehold_state_machine::limits::Limits;
use leasehold_state_machine::resource::Resource;
use leasehold_state_machine::time::Now;
use leasehold_state_machine::words::{ClientId, Metadata, Mode, Owner, RequestId, Ttl, Wait};
use leasehold_state_machine::{Machine, Output};

const S: u64 = 1_000_000;

struct Bench {
    machine: Machine,
    now: Now,
    drawn: u64,
    /// The bits that spread the times to try again.
    spread: u64,
    output: Output,
}

impl Bench {
    fn new(limits: Limits) -> Bench {
        let mut machine = Machine::new(limits);
        assert!(!machine.is_founded());
        let now = Now { us: S, raw_us: S, wall_ms: 1_790_000_000_000, wall_trusted: true };
        machine.begin(now);
        machine.record(Event::Founded { key: HashKey([1, 2]) }, &mut Output::default());
        assert!(machine.is_founded());
        Bench { machine, now, drawn: 0, spread: 0, output: Output::default() }
    }

    fn tell(&mut self, command: Command) -> Attachment {
        self.drawn += 1;
        self.output = Output::default();
        let secret = Secret([self.drawn, self.spread]);
        let (attachment, arrived_raw_us) = (Attachment(self.drawn), self.now.raw_us);
        let request = Request { attachment, arrived_raw_us, secret, command };
        assert!(self.machine.decide(request, &mut self.output).is_none());
        attachment
    }

    fn ask(&mut self, command: Command) -> Outcome {
        let to = self.tell(command);
        let reply = self.output.replies.iter().find(|reply| reply.to == to);
        reply.expect("an answer at once").outcome.clone()
    }

    fn granted(&mut self, lock: &str, ttl_ms: u64, id: Option<RequestId>) -> LeaseView {
        match self.ask(acquire(lock, ttl_ms, 0, id)) {
            Ok(Answer::Lease(lease)) => *lease,
            other => panic!("{other:?}"),
        }
    }

    /// A request id that is used and done with.
    fn use_up(&mut self, id: RequestId) {
        let lease = self.granted("used", 10_000, Some(id));
        self.ask(Command::Release(proof(&lease))).unwrap();
    }

    /// The refusal's time to try again, and what it says is full.
    fn busy(&mut self, command: Command) -> (&'static str, u64) {
        match self.ask(command) {
            Err(Refusal::Busy { what, retry_ms }) => (what, retry_ms),
            other => panic!("{other:?}"),
        }
    }

    fn pass(&mut self, us: u64) {
        self.now.us += us;
        self.now.raw_us += us;
        self.machine.begin(self.now);
        while self.machine.housekeep(&mut Output::default()) {
            self.machine.begin(self.now);
        }
    }

    fn mark(&mut self, client: &ClientId, answered_through: u64) -> usize {
        self.tell(Command::Mark { client: client.clone(), answered_through, open: Vec::new() });
        self.output.events.len()
    }

    fn append(&mut self, lease: &LeaseView, name: &str, bytes: usize) -> Outcome {
        self.write(lease, name, Offset::End, bytes)
    }

    fn write(&mut self, lease: &LeaseView, name: &str, offset: Offset, bytes: usize) -> Outcome {
        let name = FileName::parse(name).unwrap();
        let write = WriteFile::new(name, offset, FileBytes::new(vec![7; bytes]), proof(lease), None);
        self.ask(Command::WriteFile(Box::new(write)))
    }
}

fn acquire(lock: &str, ttl_ms: u64, wait_ms: u64, request_id: Option<RequestId>) -> Command {
    Command::Acquire(Acquire {
        resource: Resource::parse(lock).unwrap(),
        owner: Owner::parse("w1").unwrap(),
        ttl: Some(Ttl::from_ms(ttl_ms).unwrap()),
        mode: Mode::Exclusive,
        wait: Wait::from_ms(wait_ms).unwrap(),
        session: None,
        request_id,
        metadata: Metadata::default(),
    })
}

fn proof(lease: &LeaseView) -> Proof {
    let LeaseView { resource, owner, lease, token, .. } = lease.clone();
    Proof { resource, owner, lease, token }
}

fn chosen(text: &str) -> Option<RequestId> {
    Some(RequestId::parse(text).unwrap())
}

fn client(number: usize) -> ClientId {
    ClientId::parse(&format!("client-{number}")).unwrap()
}

fn numbered(client_number: usize, number: u64) -> Option<RequestId> {
    Some(RequestId::Numbered(client(client_number), number))
}

#[test]
fn request_ids_younger_than_two_minutes_are_never_forgotten_for_a_new_one() {
    let mut bench = Bench::new(Limits { request_ids_max: 3, ..Limits::default() });
    // The id of a live lease is not counted.
    let live = bench.granted("live", 600_000, chosen("live"));
    for id in ["a", "b", "c"] {
        bench.use_up(chosen(id).unwrap());
    }
    let (what, _) = bench.busy(acquire("used", 10_000, 0, chosen("d")));
    assert!(what.contains("too young"), "{what}");
    bench.pass(119 * S);
    bench.busy(acquire("used", 10_000, 0, chosen("d")));
    assert_eq!(bench.ask(acquire("used", 10_000, 0, chosen("a"))), Err(Refusal::Released), "still known");
    bench.pass(2 * S);
    bench.use_up(chosen("d").unwrap());
    // It made room: what was forgotten for it is judged anew.
    bench.use_up(chosen("a").unwrap());
    assert_eq!(bench.ask(acquire("used", 10_000, 0, chosen("d"))), Err(Refusal::Released), "young, and kept");
    assert_eq!(bench.granted("live", 600_000, chosen("live")).token, live.token);
}

#[test]
fn numbers_of_streams_are_bounded_in_all_until_their_answers_are_named() {
    let mut bench = Bench::new(Limits { request_ids_max: 3, ..Limits::default() });
    for number in 1..=3 {
        bench.use_up(numbered(1, number).unwrap());
    }
    let (what, _) = bench.busy(acquire("used", 10_000, 0, numbered(1, 4)));
    assert!(what.contains("numbers of streams"), "{what}");
    assert_eq!(bench.mark(&client(1), 2), 1);
    assert_eq!(bench.mark(&client(1), 2), 0, "it says nothing new");
    bench.use_up(numbered(1, 4).unwrap());
    bench.use_up(numbered(2, 1).unwrap());
    bench.busy(acquire("used", 10_000, 0, numbered(2, 2)));
}

#[test]
fn one_client_has_8192_numbers_open_at_most() {
    let mut bench = Bench::new(Limits::default());
    for number in 1..=8192 {
        bench.use_up(numbered(1, number).unwrap());
    }
    let (what, _) = bench.busy(acquire("used", 10_000, 0, numbered(1, 8193)));
    assert!(what.contains("of this client"), "{what}");
    bench.use_up(numbered(2, 1).unwrap());
    assert_eq!(bench.mark(&client(1), 1), 1);
    bench.use_up(numbered(1, 8193).unwrap());
}

#[test]
fn the_marks_of_100_000_clients_are_remembered_and_of_no_more() {
    let mut bench = Bench::new(Limits::default());
    assert_eq!(bench.mark(&client(0), 0), 0, "who has no answer yet has nothing to say");
    for number in 0..100_000 {
        assert_eq!(bench.mark(&client(number), 1), 1);
    }
    assert_eq!(bench.mark(&client(100_000), 1), 0);
    let (what, _) = bench.busy(acquire("used", 10_000, 0, numbered(100_000, 1)));
    assert!(what.contains("clients"), "{what}");
    assert_eq!(bench.mark(&client(7), 2), 1, "who is known is heard");
    bench.use_up(numbered(7, 3).unwrap());
}

#[test]
fn who_is_refused_for_a_limit_is_told_a_time_of_about_a_second_that_differs() {
    let mut bench = Bench::new(Limits { leases_max: 1, ..Limits::default() });
    bench.granted("held", 10_000, None);
    let mut told: Vec<u64> = Vec::new();
    for spread in 0..2_000 {
        bench.spread = spread;
        told.push(bench.busy(acquire("other", 10_000, 0, None)).1);
    }
    told.sort_unstable();
    told.dedup();
    assert_eq!((told[0], told[told.len() - 1], told.len()), (501, 1500, 1000));
}

#[test]
fn the_time_to_try_again_grows_with_the_holders_time_and_with_the_line() {
    let retry_ms = |ttl_ms: u64, line: usize| {
        let mut bench = Bench::new(Limits::default());
        bench.granted("build", ttl_ms, None);
        for _ in 0..line {
            bench.tell(acquire("build", 10_000, 3_600_000, None));
            assert_eq!(bench.output.queued.len(), 1);
        }
        match bench.ask(acquire("build", 10_000, 0, None)) {
            Err(Refusal::Held(held)) => held.retry_ms,
            other => panic!("{other:?}"),
        }
    };
    let by_time = [100, 1_000, 8_000, 30_000, 86_400_000].map(|ttl_ms| retry_ms(ttl_ms, 0));
    assert!(by_time[0] > 0 && by_time.is_sorted_by(|a, b| a < b), "{by_time:?}");
    assert!(by_time[1] < 1_000 && by_time[4] < 10_000, "it is worth trying before the end: {by_time:?}");
    let by_line = [0, 1, 2, 10, 50, 300].map(|line| retry_ms(8_000, line));
    assert!(by_line.is_sorted_by(|a, b| a < b), "{by_line:?}");
}

#[test]
fn files_may_be_as_many_and_as_long_as_the_limits_say() {
    let limits = Limits {
        files_max: 2,
        file_bytes_max: 10,
        files_bytes_max: 15,
        write_bytes_max: 8,
        ..Limits::default()
    };
    let mut bench = Bench::new(limits);
    let lease = bench.granted("path:/", 10_000, None);
    let too_large = |outcome: Outcome, text: &str, bytes: u64| match outcome {
        Err(Refusal::TooLarge { what, bytes_max }) => assert_eq!((what, bytes_max), (text, bytes)),
        other => panic!("{other:?}"),
    };
    too_large(bench.append(&lease, "a", 9), "one write", 8);
    bench.append(&lease, "a", 8).unwrap();
    too_large(bench.append(&lease, "a", 3), "one file", 10);
    bench.append(&lease, "a", 2).unwrap();
    too_large(bench.append(&lease, "b", 6), "all files together", 15);
    bench.append(&lease, "b", 5).unwrap();
    assert_eq!((bench.machine.counts().files, bench.machine.counts().file_bytes), (2, 15));
    bench.write(&lease, "a", Offset::At(2), 8).unwrap();
    match bench.append(&lease, "c", 0) {
        Err(Refusal::Busy { what, .. }) => assert!(what.contains("files"), "{what}"),
        other => panic!("{other:?}"),
    }
    bench.machine.limit_writes(20);
    bench.write(&lease, "a", Offset::At(0), 8).unwrap();
    bench.machine.limit_writes(5);
    too_large(bench.write(&lease, "a", Offset::At(0), 6), "one write", 5);
    bench.write(&lease, "a", Offset::At(0), 5).unwrap();
}

#[test]
fn places_are_told_exactly_near_both_ends_of_a_long_line() {
    let mut bench = Bench::new(Limits::default());
    bench.granted("build", 10_000, None);
    let waiting = |number: u64| acquire("build", 10_000, 3_600_000, chosen(&format!("w{number}")));
    for number in 1..=600 {
        bench.tell(waiting(number));
        assert_eq!(bench.output.queued[0].position, number);
    }
    // Asking again attaches anew and tells the place again.
    let mut place = |number: u64| {
        bench.tell(waiting(number));
        bench.output.queued[0].position
    };
    for number in [1, 2, 100, 256, 257, 346, 400, 599, 600] {
        assert_eq!(place(number), number);
    }
    for number in [258, 300, 344] {
        assert!((200..=number).contains(&place(number)), "{number}: {}", place(number));
    }
}

#[test]
fn what_the_machine_tells_of_itself() {
    let mut bench = Bench::new(Limits::default());
    let counts = bench.machine.counts();
    assert_eq!((counts.leases, counts.waiters, counts.sessions, counts.request_ids), (0, 0, 0, 0));
    assert_eq!((bench.machine.last_token(), bench.machine.largest_ttl_ms()), (0, 0));
    let lease = bench.granted("a", 20_000, chosen("r"));
    bench.granted("b", 10_000, None);
    bench.tell(acquire("a", 10_000, 9_000, None));
    let owner = Owner::parse("w2").unwrap();
    let ttl = Ttl::from_ms(5_000).unwrap();
    let open = Command::OpenSession { owner, ttl, request_id: None, metadata: Metadata::default() };
    bench.ask(open).unwrap();
    let counts = bench.machine.counts();
    assert_eq!((counts.leases, counts.waiters, counts.sessions, counts.opened_sessions), (2, 1, 3, 1));
    assert_eq!((counts.request_ids, counts.tombstones), (1, 0));
    assert_eq!(bench.machine.last_token(), lease.token + 1);
    assert_eq!(bench.machine.largest_ttl_ms(), 20_000);
    assert_eq!(lease.expires_wall_ms, lease.acquired_wall_ms + 20_000);
    bench.ask(Command::Release(proof(&lease))).unwrap();
    assert_eq!(bench.machine.counts().tombstones, 1);
    assert_eq!(bench.machine.grants_held(), None);
    bench.machine.record(Event::GrantsHeld { for_ms: 7_000 }, &mut Output::default());
    assert_eq!(bench.machine.grants_held(), Some(7_000));
}
