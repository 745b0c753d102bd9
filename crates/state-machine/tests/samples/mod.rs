//! One event of every type with every field filled, and a machine in which most of them have happened.

use leasehold_state_machine::Machine;
use leasehold_state_machine::event::{
    Ask, CancelFound, Departure, Ending, Event, LeaseName, Release, RequestMark, Under,
};
use leasehold_state_machine::file::{FileBytes, FileName};
use leasehold_state_machine::ids::{ClientKey, HashKey, Payload, RequestKey, RequestName, Secret};
use leasehold_state_machine::limits::{FILE_INODE_END, FILE_INODE_FIRST, Limits};
use leasehold_state_machine::resource::Resource;
use leasehold_state_machine::words::{Metadata, Mode, Owner, Reason, Ttl, Wait};

const WALL_MS: u64 = 1_790_000_000_000;

fn resource(text: &str) -> Resource {
    Resource::parse(text).unwrap()
}

fn owner(text: &str) -> Owner {
    Owner::parse(text).unwrap()
}

fn metadata() -> Metadata {
    Metadata::new([("host".into(), "h7".into()), ("ß".into(), String::new())].into()).unwrap()
}

fn mark(number: u64) -> RequestMark {
    RequestMark { name: RequestName::Chosen(RequestKey([number, !number])), payload: Payload(number << 32) }
}

fn numbered(number: u64) -> RequestMark {
    RequestMark { name: RequestName::Numbered(ClientKey([3, 4]), number), payload: Payload(number << 32) }
}

fn ask(number: u64, lock: &str, mode: Mode, under: Under, request: Option<RequestMark>) -> Ask {
    let metadata = if request.is_some() { metadata() } else { Metadata::default() };
    Ask {
        secret: Secret([number, u64::MAX - number]),
        resource: resource(lock),
        owner: owner("worker-1@host7"),
        mode,
        under,
        request,
        metadata,
    }
}

fn lease(slot: u32, token: u64, lock: &str, mode: Mode) -> LeaseName {
    LeaseName { slot, token, resource: resource(lock), owner: owner("worker-1@host7"), mode }
}

fn ttl(ttl_ms: u64) -> Ttl {
    Ttl::from_ms(ttl_ms).unwrap()
}

fn wait(wait_ms: u64) -> Wait {
    Wait::from_ms(wait_ms).unwrap()
}

fn name(text: &str) -> FileName {
    FileName::parse(text).unwrap()
}

/// Every type of event, and every tag inside them.
pub fn events() -> Vec<(&'static str, Event)> {
    let exclusive = Mode::Exclusive;
    let shared = Mode::Shared;
    let dequeued = |why| Event::Dequeued {
        ticket: 9,
        resource: resource("path:/a/b"),
        owner: owner("w2"),
        mode: shared,
        why,
    };
    let released = |why| Event::Released { lease: lease(300, 1 << 52, "build", exclusive), why };
    let cancelled = |found| Event::Cancelled { request: RequestName::Chosen(RequestKey([5, 6])), found };
    let session_ended = |how| Event::SessionEnded { slot: 4, owner: owner("w4"), how };
    vec![
        ("founded", Event::Founded { key: HashKey([0x0123_4567_89ab_cdef, u64::MAX]) }),
        (
            "granted_bare",
            Event::Granted {
                ticket: 1,
                slot: 0,
                token: 872_833_843_200_000,
                ask: ask(1, "build", exclusive, Under::Own(ttl(100)), None),
            },
        ),
        (
            "granted_full",
            Event::Granted {
                ticket: u64::MAX,
                slot: u32::MAX,
                token: (1 << 53) - 1,
                ask: ask(2, "range:42:0-4096", shared, Under::Session(3), Some(mark(7))),
            },
        ),
        (
            "queued",
            Event::Queued {
                ticket: 128,
                wait: wait(3_600_000),
                ask: ask(3, "inode:42", exclusive, Under::Own(ttl(86_400_000)), Some(mark(8))),
            },
        ),
        ("dequeued_timeout", dequeued(Departure::Timeout)),
        ("dequeued_cancelled", dequeued(Departure::Cancelled)),
        ("dequeued_session", dequeued(Departure::Session)),
        ("dequeued_gone", dequeued(Departure::Gone)),
        (
            "updated_both",
            Event::Updated {
                lease: lease(1, 2, "path:/", shared),
                ttl: Some(ttl(30_000)),
                metadata: Some(metadata()),
            },
        ),
        (
            "updated_neither",
            Event::Updated { lease: lease(1, 2, "path:/", shared), ttl: None, metadata: None },
        ),
        ("released_holder", released(Release::Holder)),
        ("released_cancelled", released(Release::Cancelled)),
        ("released_closed", released(Release::Closed)),
        ("released_gone", released(Release::Gone)),
        ("released_broken", released(Release::Broken)),
        ("expired", Event::Expired { lease: lease(5, 77, "ß/ü", exclusive) }),
        (
            "broken_force",
            Event::Broken {
                lease: lease(5, 77, "build", exclusive),
                reason: Reason::parse("the host is gone").unwrap(),
                force: true,
            },
        ),
        (
            "broken",
            Event::Broken {
                lease: lease(5, 77, "build", shared),
                reason: Reason::parse("x").unwrap(),
                force: false,
            },
        ),
        (
            "session_opened_bare",
            Event::SessionOpened {
                slot: 4,
                secret: Secret([1, 2]),
                owner: owner("w4"),
                ttl: ttl(10_000),
                metadata: Metadata::default(),
                request: None,
            },
        ),
        (
            "session_opened_full",
            Event::SessionOpened {
                slot: 4,
                secret: Secret([u64::MAX, 0]),
                owner: owner("w4"),
                ttl: ttl(10_000),
                metadata: metadata(),
                request: Some(mark(9)),
            },
        ),
        ("session_ended_expired", session_ended(Ending::Expired)),
        ("session_ended_released", session_ended(Ending::Released)),
        ("seen", Event::Seen { slot: 4, through: 1_000_000 }),
        ("cancelled_waiting", cancelled(CancelFound::Waiting)),
        ("cancelled_released", cancelled(CancelFound::Released)),
        ("cancelled_unknown", cancelled(CancelFound::Unknown)),
        (
            "break_answered",
            Event::BreakAnswered { request: mark(10), tokens: vec![1, 1 << 40], free_in_ms: 29_999 },
        ),
        ("forgotten", Event::Forgotten { requests_before: 12, tombstones_before: 13 }),
        ("horizon", Event::Horizon { until_raw_us: 9_000_000, length_us: 2_000_000 }),
        ("grants_held", Event::GrantsHeld { for_ms: 30_000 }),
        ("grants_resumed", Event::GrantsResumed),
        (
            "granted_numbered",
            Event::Granted {
                ticket: 2,
                slot: 1,
                token: 872_833_843_200_001,
                ask: ask(4, "build", exclusive, Under::Own(ttl(100)), Some(numbered(300))),
            },
        ),
        (
            "cancelled_numbered",
            Event::Cancelled { request: numbered(u64::MAX).name, found: CancelFound::Unknown },
        ),
        (
            "marked",
            Event::Marked { client: ClientKey([3, 4]), answered_through: 1 << 40, open: vec![1, 300] },
        ),
        ("client_forgotten", Event::ClientForgotten { client: ClientKey([3, 4]) }),
        (
            "file_written_bare",
            Event::FileWritten {
                number: FILE_INODE_FIRST,
                name: name("a"),
                lease: lease(1, 2, "path:/", exclusive),
                offset: 0,
                bytes: FileBytes::new([]),
                request: None,
            },
        ),
        (
            "file_written_full",
            Event::FileWritten {
                number: FILE_INODE_END - 1,
                name: name("reports/ß.log"),
                lease: lease(300, 1 << 52, "range:4503603922337791:0-1073741824", exclusive),
                offset: (1 << 30) - 5,
                bytes: FileBytes::new(*b"\x00\xffabc"),
                request: Some(mark(11)),
            },
        ),
        (
            "file_deleted_bare",
            Event::FileDeleted {
                number: FILE_INODE_FIRST,
                name: name("a"),
                lease: lease(1, 2, "path:/", exclusive),
                request: None,
            },
        ),
        (
            "file_deleted_full",
            Event::FileDeleted {
                number: FILE_INODE_FIRST + 300,
                name: name("a/b"),
                lease: lease(1, 2, "inode:4503599627370796", exclusive),
                request: Some(numbered(12)),
            },
        ),
        ("tokens_raised", Event::TokensRaised { to: 1000 }),
    ]
}

/// A machine with a bit of everything in it but files: leases of every kind, a line, a session, remembered ids, ended
/// leases.
pub fn eventful_machine() -> Machine {
    let mut machine = Machine::new(Limits::default());
    for event in a_history() {
        machine.apply(WALL_MS, &event);
    }
    machine
}

/// The same, and files: written to, deleted, and deleted with somebody on the number.
pub fn machine_with_files() -> Machine {
    let mut machine = eventful_machine();
    let path = lease(7, 1014, "path:/f", Mode::Exclusive);
    let own = Under::Own(ttl(30_000));
    let written = |number: u64, file: &str, offset, bytes: &[u8], request| Event::FileWritten {
        number: FILE_INODE_FIRST + number,
        name: name(file),
        lease: path.clone(),
        offset,
        bytes: FileBytes::new(bytes),
        request,
    };
    let deleted = |number: u64, file: &str, request| Event::FileDeleted {
        number: FILE_INODE_FIRST + number,
        name: name(file),
        lease: path.clone(),
        request,
    };
    let granted = |ticket, slot, lock, mode| Event::Granted {
        ticket,
        slot,
        token: 1000 + ticket,
        ask: ask(ticket, lock, mode, own, None),
    };
    for event in [
        granted(14, 7, "path:/f", Mode::Exclusive),
        written(0, "f/a.log", 0, b"hello", Some(mark(12))),
        written(1, "f/b/c", 0, b"", None),
        written(0, "f/a.log", 3, b"p!", Some(numbered(5))),
        written(2, "f/gone", 0, b"1", None),
        deleted(2, "f/gone", Some(mark(13))),
        written(3, "f/left", 0, b"22", None),
        Event::Released { lease: path.clone(), why: Release::Holder },
        granted(15, 7, "range:4503599627370499:0-2", Mode::Shared),
        deleted(3, "f/left", None),
        written(4, "f/left", 0, b"333", None),
        Event::Queued {
            ticket: 16,
            wait: wait(60_000),
            ask: ask(16, "inode:4503599627370500", Mode::Exclusive, own, Some(mark(14))),
        },
    ] {
        machine.apply(WALL_MS, &event);
    }
    machine
}

fn a_history() -> Vec<Event> {
    let (exclusive, shared) = (Mode::Exclusive, Mode::Shared);
    let own = Under::Own(ttl(30_000));
    let granted = |ticket: u64, slot, lock, mode, under, request| Event::Granted {
        ticket,
        slot,
        token: 1000 + ticket,
        ask: ask(ticket, lock, mode, under, request),
    };
    let queued = |ticket: u64, lock, under, request| Event::Queued {
        ticket,
        wait: wait(60_000),
        ask: ask(ticket, lock, exclusive, under, request),
    };
    vec![
        Event::Founded { key: HashKey([1, 2]) },
        Event::Horizon { until_raw_us: 9_000_000, length_us: 2_000_000 },
        Event::SessionOpened {
            slot: 0,
            secret: Secret([50, 51]),
            owner: owner("worker-1@host7"),
            ttl: ttl(10_000),
            metadata: metadata(),
            request: Some(mark(1)),
        },
        granted(1, 0, "build", exclusive, own, Some(mark(2))),
        granted(2, 1, "path:/a/b", shared, own, None),
        granted(3, 2, "range:42:0-4096", exclusive, Under::Session(0), None),
        granted(4, 3, "inode:7", shared, Under::Session(0), Some(mark(3))),
        queued(5, "build", own, Some(mark(4))),
        queued(6, "inode:42", Under::Session(0), None),
        queued(7, "path:/", own, Some(mark(5))),
        queued(8, "build", own, Some(mark(6))),
        Event::Dequeued {
            ticket: 8,
            resource: resource("build"),
            owner: owner("worker-1@host7"),
            mode: exclusive,
            why: Departure::Cancelled,
        },
        Event::Cancelled { request: mark(6).name, found: CancelFound::Waiting },
        Event::Updated {
            lease: lease(0, 1001, "build", exclusive),
            ttl: Some(ttl(60_000)),
            metadata: Some(Metadata::default()),
        },
        granted(9, 4, "old", exclusive, own, Some(mark(7))),
        Event::Released { lease: lease(4, 1009, "old", exclusive), why: Release::Holder },
        Event::Broken {
            lease: lease(3, 1004, "inode:7", shared),
            reason: Reason::parse("stuck").unwrap(),
            force: false,
        },
        Event::BreakAnswered { request: mark(8), tokens: vec![1004], free_in_ms: 9_000 },
        Event::Cancelled { request: mark(9).name, found: CancelFound::Unknown },
        granted(10, 4, "numbered-1", exclusive, own, Some(numbered(1))),
        granted(11, 5, "numbered-2", exclusive, own, Some(numbered(2))),
        Event::Released { lease: lease(5, 1011, "numbered-2", exclusive), why: Release::Holder },
        granted(12, 5, "numbered-3", exclusive, own, Some(numbered(3))),
        Event::Marked { client: ClientKey([3, 4]), answered_through: 3, open: vec![2] },
        granted(13, 6, "numbered-4", exclusive, own, Some(numbered(4))),
        Event::GrantsHeld { for_ms: 60_000 },
    ]
}
