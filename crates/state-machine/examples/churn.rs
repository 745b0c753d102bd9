//! What it costs the state machine alone when many clients of one stream take locks and give them back: nanoseconds for each
//! request, what of that is writing the events down, and what a release of a lease costs that nobody knows.
//!
//! `cargo run --release -p leasehold-state-machine --example churn -- [clients] [requests]`
//!
//! A turn takes in a quarter of the clients, as it does under load. Requests are made outside of the time. Shown is the middle of
//! all turns, so that what others do on the machine counts for little.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Instant;

use leasehold_state_machine::answer::Answer;
use leasehold_state_machine::codec::{BatchWriter, Stamp};
use leasehold_state_machine::command::{Acquire, Attachment, Command, Proof, Request};
use leasehold_state_machine::event::Event;
use leasehold_state_machine::ids::{HashKey, LeaseId, Secret};
use leasehold_state_machine::limits::Limits;
use leasehold_state_machine::resource::Resource;
use leasehold_state_machine::time::Now;
use leasehold_state_machine::words::{ClientId, Metadata, Mode, Owner, RequestId, Ttl, Wait};
use leasehold_state_machine::{Machine, Output};

/// Names that each client uses in turn.
const NAMES_EACH: u64 = 8;
/// Leases that nobody knows are asked for so often.
const UNKNOWN: u64 = 100_000;
/// Numbers after which the stream's client says that it has their answers.
const MARK_EVERY: u64 = 4096;

fn main() {
    let mut words = std::env::args().skip(1);
    let clients: u64 = words.next().map_or(1024, |text| text.parse().expect("a number of clients"));
    let requests: u64 = words.next().map_or(4_000_000, |text| text.parse().expect("a number of requests"));
    let mut now_us = 1_000_000;
    let mut machine = Machine::new(Limits::default());
    let mut out = Output::default();
    machine.begin(now(now_us));
    machine.record(Event::Founded { key: HashKey([1, 2]) }, &mut out);
    out.events.clear();

    let stream = ClientId::parse("0190d9b2-7c51-7e0a-9d11-client").unwrap();
    let mut held: Vec<Option<Proof>> = (0..clients).map(|_| None).collect();
    let mut cycles = vec![0_u64; held.len()];
    let mut writer = BatchWriter::new([7; 16]);
    let (mut decided_ns, mut written_ns) = (Vec::new(), Vec::new());
    let (mut number, mut marked) = (0, 0);
    let turn = (clients / 4).max(1);
    while number < requests {
        now_us += 500;
        let first = number;
        let mut asked: Vec<Request> = (0..turn)
            .map(|_| {
                let who = (number % clients) as usize;
                number += 1;
                let command = match held[who].take() {
                    Some(proof) => Command::Release(proof),
                    None => Command::Acquire(acquire(who as u64, cycles[who] % NAMES_EACH, &stream, number)),
                };
                Request {
                    attachment: Attachment(number),
                    arrived_raw_us: now_us,
                    secret: Secret([mix(number), mix(!number)]),
                    command,
                }
            })
            .collect();
        if first >= marked + MARK_EVERY {
            marked = first;
            let command = Command::Mark { client: stream.clone(), answered_through: first, open: Vec::new() };
            let (attachment, secret) = (Attachment(requests + number), Secret([0, number]));
            asked.insert(0, Request { attachment, arrived_raw_us: now_us, secret, command });
        }

        let began = Instant::now();
        machine.begin(now(now_us));
        machine.housekeep(&mut out);
        for request in asked {
            assert!(machine.decide(request, &mut out).is_none(), "taken at once");
        }
        decided_ns.push(began.elapsed().as_nanos() as u64 / turn);

        let began = Instant::now();
        let stamp = Stamp { raw_us: now_us, wall_ms: 1, wall_trusted: true };
        writer.turn(&stamp, out.events[0].0, &out.events);
        drop(writer.take());
        written_ns.push(began.elapsed().as_nanos() as u64 / turn);

        out.events.clear();
        for reply in out.replies.drain(..) {
            let who = ((reply.to.0 - 1) % clients) as usize;
            match reply.outcome.expect("nobody is in the way") {
                Answer::Lease(view) => {
                    let (resource, owner, token) = (view.resource, view.owner, view.token);
                    held[who] = Some(Proof { resource, owner, lease: view.lease, token });
                }
                _ => cycles[who] += 1,
            }
        }
    }
    for (what, mut each_ns) in [("decided", decided_ns), ("written", written_ns)] {
        each_ns.sort_unstable();
        let middle_ns = each_ns[each_ns.len() / 2];
        println!(
            "{what}: {middle_ns} ns a request (a tenth of the turns less than {})",
            each_ns[each_ns.len() / 10]
        );
    }
    let unknown: Vec<Request> = (0..UNKNOWN).map(|n| unknown(requests * 2 + n, now_us)).collect();
    let began = Instant::now();
    for request in unknown {
        assert!(machine.decide(request, &mut out).is_none(), "taken at once");
    }
    let each_ns = began.elapsed().as_nanos() as u64 / UNKNOWN;
    assert!(out.replies.iter().all(|reply| reply.outcome.is_err()), "nobody knows them");
    println!("{} ended leases kept; {each_ns} ns to look for one in vain", machine.counts().tombstones);
}

fn now(us: u64) -> Now {
    Now { us, raw_us: us, wall_ms: 1_790_000_000_000 + us / 1000, wall_trusted: true }
}

fn acquire(client: u64, name: u64, stream: &ClientId, number: u64) -> Acquire {
    Acquire {
        resource: Resource::parse(&format!("bench-{client}-{name}")).unwrap(),
        owner: Owner::parse(&format!("bench/{client}")).unwrap(),
        mode: Mode::Exclusive,
        ttl: Some(Ttl::from_ms(30_000).unwrap()),
        session: None,
        wait: Wait::default(),
        request_id: Some(RequestId::Numbered(stream.clone(), number)),
        metadata: Metadata::default(),
    }
}

/// A release of a lease that never was.
fn unknown(number: u64, now_us: u64) -> Request {
    let proof = Proof {
        resource: Resource::parse("bench-0-0").unwrap(),
        owner: Owner::parse("bench/0").unwrap(),
        lease: LeaseId { slot: u32::MAX, secret: Secret([mix(number), mix(!number)]) },
        token: 1,
    };
    let (attachment, secret) = (Attachment(number), Secret([1, number]));
    Request { attachment, arrived_raw_us: now_us, secret, command: Command::Release(proof) }
}

/// Spreads bits.
fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (number ^ (number >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ (number >> 32)
}
