//! How much memory a held lock takes in the state machine alone, and how long its steps at a recovery take.
//!
//! `cargo run --release -p leasehold-state-machine --example held -- [locks] [none|chosen|numbered] [order|scattered]`
//!
//! Reads the resident size from the operating system (Linux), so that what the allocator adds is counted too. Seconds
//! are those of the CPU, so that others on the machine do not count.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use leasehold_state_machine::answer::Answer;
use leasehold_state_machine::command::{Acquire, Attachment, Command, Request};
use leasehold_state_machine::event::Event;
use leasehold_state_machine::ids::{HashKey, Secret};
use leasehold_state_machine::limits::Limits;
use leasehold_state_machine::resource::Resource;
use leasehold_state_machine::time::Now;
use leasehold_state_machine::words::{ClientId, Metadata, Mode, Owner, RequestId, Ttl, Wait};
use leasehold_state_machine::{Machine, Output, Rearm};

/// Requests that one turn takes in.
const TURN: u64 = 32;
/// Numbers after which a client says that it has their answers.
const MARK_EVERY: u64 = 1024;

fn main() {
    let mut words = std::env::args().skip(1);
    let locks: u64 = words.next().map_or(1_000_000, |text| text.parse().expect("a number of locks"));
    let ids = words.next().unwrap_or("none".into());
    let scattered = words.next().is_some_and(|order| order == "scattered");
    let mut server = Server { machine: Machine::new(Limits::default()), now_us: 1_000_000, asked: 0 };
    server.turn();
    server.machine.record(Event::Founded { key: HashKey([1, 2]) }, &mut Output::default());
    let horizon = Event::Horizon { until_raw_us: u64::MAX / 2, length_us: 2_000_000 };
    server.machine.record(horizon, &mut Output::default());

    let empty_bytes = resident_bytes();
    let began = cpu_seconds();
    for number in 0..locks {
        if number % TURN == 0 {
            server.now_us += 700;
            server.turn();
        }
        server.acquire(number, &ids, scattered);
    }
    let seconds = cpu_seconds() - began;
    let held_bytes = resident_bytes() - empty_bytes;
    println!(
        "{locks} held, request ids: {ids}: {:.0} bytes each, in {seconds:.2} s",
        each(held_bytes, locks)
    );

    let mut bytes = Vec::new();
    timed("write_snapshot", || server.machine.write_snapshot(&mut bytes));
    println!("{:.0} bytes of snapshot each", each(bytes.len(), locks));
    let before_bytes = resident_bytes();
    let mut read = timed("read_snapshot", || Machine::read_snapshot(&bytes, Limits::default()).unwrap());
    let now = Now { us: server.now_us, raw_us: server.now_us, ..server.machine_now() };
    timed("recover", || read.recover(now, Rearm::Elsewhere, &mut Output::default()));
    println!("{:.0} bytes each when read back", each(resident_bytes() - before_bytes, locks));
    timed("assert_invariants", || read.assert_invariants());
    timed("drop", || drop(read));
    drop(bytes);
    println!("{:.0} bytes each after the drop", each(resident_bytes().saturating_sub(empty_bytes), locks));

    timed("expire all", || server.expire_all());
    server.machine.assert_invariants();
    println!(
        "{:.0} bytes each when expired, {} tombstones kept",
        each(resident_bytes().saturating_sub(empty_bytes), locks),
        server.machine.counts().tombstones
    );
}

/// A state machine and its clock.
struct Server {
    machine: Machine,
    now_us: u64,
    asked: u64,
}

impl Server {
    fn machine_now(&self) -> Now {
        let (us, wall_ms) = (self.now_us, 1_790_000_000_000 + self.now_us / 1000);
        Now { us, raw_us: us, wall_ms, wall_trusted: true }
    }

    fn turn(&mut self) {
        let now = self.machine_now();
        self.machine.begin(now);
        while self.machine.housekeep(&mut Output::default()) {}
    }

    fn ask(&mut self, command: Command) -> Output {
        self.asked += 1;
        let secret = Secret([mix(self.asked), mix(!self.asked)]);
        let attachment = Attachment(self.asked);
        let request = Request { attachment, arrived_raw_us: self.now_us, secret, command };
        let mut out = Output::default();
        assert!(self.machine.decide(request, &mut out).is_none(), "taken at once");
        out
    }

    fn acquire(&mut self, number: u64, ids: &str, scattered: bool) {
        let worker = number % 64;
        let client = || ClientId::parse(&format!("client-{worker}")).unwrap();
        let request_id = match ids {
            "chosen" => Some(RequestId::parse(&format!("request-{number}")).unwrap()),
            "numbered" => Some(RequestId::Numbered(client(), number / 64 + 1)),
            _ => None,
        };
        let place = if scattered { mix(number) % 100_000_000 } else { number };
        let acquire = Acquire {
            resource: Resource::parse(&format!("orders/region-7/{place:08}")).unwrap(),
            owner: Owner::parse(&format!("worker-{worker}@host-{}", worker % 8)).unwrap(),
            mode: Mode::Exclusive,
            ttl: Some(Ttl::from_ms(86_400_000).unwrap()),
            session: None,
            wait: Wait::default(),
            request_id,
            metadata: Metadata::default(),
        };
        let out = self.ask(Command::Acquire(acquire));
        let granted = matches!(out.replies[0].outcome, Ok(Answer::Lease(_)));
        // Names that are scattered meet now and then.
        assert!(granted || scattered, "granted at once");
        if ids == "numbered" && (number / 64 + 1).is_multiple_of(MARK_EVERY) {
            self.ask(Command::Mark { client: client(), answered_through: number / 64 + 1, open: Vec::new() });
        }
    }

    /// Lets everything's time run out.
    fn expire_all(&mut self) {
        self.now_us += 2 * 86_400_000_000;
        loop {
            let now = self.machine_now();
            self.machine.begin(now);
            if !self.machine.housekeep(&mut Output::default()) {
                break;
            }
        }
        assert_eq!(self.machine.counts().leases, 0);
    }
}

fn timed<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let began = cpu_seconds();
    let made = work();
    println!("{what}: {:.2} s", cpu_seconds() - began);
    made
}

fn each(bytes: usize, locks: u64) -> f64 {
    bytes as f64 / locks as f64
}

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// What this process has used so far, in the hundredths of a second that Linux counts.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    let ticks = |at: usize| fields[at].parse::<f64>().unwrap();
    (ticks(11) + ticks(12)) / 100.0
}

/// Scatters a number over all bits (the finaliser of splitmix64).
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
