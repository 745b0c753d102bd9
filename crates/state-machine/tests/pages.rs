//! Lists come in pages: together they name every lock and every session once, in order, whatever the page's size.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use leasehold_state_machine::answer::{Answer, Refusal};
use leasehold_state_machine::command::{Acquire, Attachment, Command, List, Request};
use leasehold_state_machine::event::Event;
use leasehold_state_machine::ids::{HashKey, Secret};
use leasehold_state_machine::limits::Limits;
use leasehold_state_machine::resource::Resource;
use leasehold_state_machine::time::Now;
use leasehold_state_machine::words::{Metadata, Mode, Owner, Ttl, Wait};
use leasehold_state_machine::{Machine, Output};

/// 40 locks of two owners, every fourth of them waited for by a third; three opened sessions.
fn a_busy_machine() -> Machine {
    let mut machine = Machine::new(Limits::default());
    machine.begin(Now { us: 1, raw_us: 1, wall_ms: 1_790_000_000_000, wall_trusted: true });
    machine.record(Event::Founded { key: HashKey([1, 2]) }, &mut Output::default());
    for number in 0..40u64 {
        let lock = if number % 2 == 0 { format!("path:/p{number}") } else { format!("n{number}") };
        acquire(&mut machine, &lock, if number % 3 == 0 { "w1" } else { "w2" });
        if number % 4 == 0 {
            acquire(&mut machine, &lock, "w3");
        }
    }
    for owner in ["s1", "s2", "s3"] {
        let owner = Owner::parse(owner).unwrap();
        let opening = Command::OpenSession {
            owner,
            ttl: Ttl::default(),
            request_id: None,
            metadata: Metadata::default(),
        };
        assert!(matches!(ask(&mut machine, opening), Some(Ok(Answer::Session(_)))));
    }
    machine
}

fn acquire(machine: &mut Machine, lock: &str, owner: &str) {
    let wanted = Acquire {
        resource: Resource::parse(lock).unwrap(),
        owner: Owner::parse(owner).unwrap(),
        ttl: None,
        mode: Mode::Exclusive,
        wait: Wait::from_ms(60_000).unwrap(),
        session: None,
        request_id: None,
        metadata: Metadata::default(),
    };
    ask(machine, Command::Acquire(wanted));
}

/// The answer, if there is one already. An attachment is used once, so it is drawn from the state's own number.
fn ask(machine: &mut Machine, command: Command) -> Option<Result<Answer, Refusal>> {
    let number = machine.seq();
    let (attachment, secret) = (Attachment(number), Secret([number, !number]));
    let mut out = Output::default();
    let request = Request { attachment, arrived_raw_us: 1, secret, command };
    assert!(machine.decide(request, &mut out).is_none());
    out.replies.pop().map(|reply| reply.outcome)
}

fn locks(machine: &mut Machine, prefix: &str, owner: Option<&str>, limit: usize) -> Vec<String> {
    let mut found = Vec::new();
    let mut cursor = None;
    loop {
        let owner = owner.map(|owner| Owner::parse(owner).unwrap());
        let page = List { prefix: prefix.into(), owner, limit, cursor };
        let Some(Ok(Answer::Locks { locks, next_cursor })) = ask(machine, Command::List(page)) else {
            panic!("a list is answered with locks");
        };
        assert!(locks.len() <= limit);
        found.extend(locks.iter().map(|row| row.resource.text().to_string()));
        cursor = next_cursor;
        if cursor.is_none() {
            return found;
        }
    }
}

#[test]
fn pages_of_locks_are_the_list() {
    let mut machine = a_busy_machine();
    for (prefix, owner, count) in [
        ("", None, 40),
        ("n", None, 20),
        ("path:/p1", None, 5),
        ("", Some("w1"), 14),
        ("", Some("w3"), 10),
        ("n", Some("w3"), 0),
        ("zzz", None, 0),
    ] {
        let whole = locks(&mut machine, prefix, owner, 1000);
        assert_eq!(whole.len(), count, "prefix {prefix:?}, owner {owner:?}");
        assert!(whole.is_sorted(), "{whole:?}");
        assert!(whole.iter().all(|lock| lock.starts_with(prefix)));
        for limit in [1, 3, 7, 39, 40] {
            assert_eq!(locks(&mut machine, prefix, owner, limit), whole, "in pages of {limit}");
        }
    }
}

#[test]
fn pages_of_sessions_are_the_list() {
    let mut machine = a_busy_machine();
    let mut whole: Option<Vec<String>> = None;
    for limit in [1000, 1, 2, 3, 4, 42, 43] {
        let mut found = Vec::new();
        let mut cursor = None;
        loop {
            let asked = Command::ListSessions { limit, cursor };
            let Some(Ok(Answer::Sessions { sessions, next_cursor, .. })) = ask(&mut machine, asked) else {
                panic!("a list is answered with sessions");
            };
            assert!(sessions.len() <= limit);
            found.extend(sessions.iter().map(|row| row.owner.to_string()));
            cursor = next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(found.len(), 43, "three that were opened, and one of each lease");
        assert_eq!(*whole.get_or_insert_with(|| found.clone()), found, "in pages of {limit}");
    }
    let wrong = Command::ListSessions { limit: 10, cursor: Some("ß".into()) };
    assert!(matches!(ask(&mut machine, wrong), Some(Err(Refusal::Invalid(_)))));
}
