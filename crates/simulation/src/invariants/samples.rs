//! Events made by hand, for the tests of the invariants.

use leasehold_state_machine::command::Proof;
use leasehold_state_machine::event::{Ask, Departure, Event, LeaseName, Release, Ticket, Under};
use leasehold_state_machine::file::{FileBytes, FileName};
use leasehold_state_machine::ids::{LeaseId, Secret};
use leasehold_state_machine::resource::Resource;
use leasehold_state_machine::words::{Metadata, Mode, Owner, Reason, Ttl, Wait};

use super::Committed;

pub fn committed(seq: u64, event: Event) -> Committed {
    Committed { seq, at_us: seq * 1000, life: 1, wall_ms: 0, event }
}

pub fn ask(secret: u64, resource: &str, mode: Mode, ttl_ms: u64) -> Ask {
    Ask {
        secret: Secret([secret, 0]),
        resource: Resource::parse(resource).unwrap(),
        owner: Owner::parse("w").unwrap(),
        mode,
        under: Under::Own(Ttl::from_ms(ttl_ms).unwrap()),
        request: None,
        metadata: Metadata::default(),
    }
}

pub fn granted(seq: u64, token: u64, resource: &str, mode: Mode) -> Committed {
    committed(seq, Event::Granted { ticket: token, slot: 0, token, ask: ask(token, resource, mode, 1000) })
}

pub fn granted_at(at_us: u64, seq: u64, token: u64, resource: &str, ttl_ms: u64) -> Committed {
    let ask = ask(token, resource, Mode::Exclusive, ttl_ms);
    let event = Event::Granted { ticket: token, slot: 0, token, ask };
    Committed { at_us, ..committed(seq, event) }
}

pub fn queued(seq: u64, ticket: Ticket, resource: &str, wait_ms: u64) -> Committed {
    let ask = ask(ticket, resource, Mode::Exclusive, 1000);
    committed(seq, Event::Queued { ticket, wait: Wait::from_ms(wait_ms).unwrap(), ask })
}

pub fn dequeued(seq: u64, ticket: Ticket, resource: &str) -> Committed {
    let LeaseName { resource, owner, mode, .. } = name(0, resource);
    committed(seq, Event::Dequeued { ticket, resource, owner, mode, why: Departure::Timeout })
}

pub fn name(token: u64, resource: &str) -> LeaseName {
    LeaseName {
        slot: 0,
        token,
        resource: Resource::parse(resource).unwrap(),
        owner: Owner::parse("w").unwrap(),
        mode: Mode::Exclusive,
    }
}

pub fn released(seq: u64, token: u64, resource: &str) -> Committed {
    committed(seq, Event::Released { lease: name(token, resource), why: Release::Holder })
}

pub fn expired(token: u64, resource: &str) -> Event {
    Event::Expired { lease: name(token, resource) }
}

pub fn broken(token: u64, resource: &str, force: bool) -> Event {
    let reason = Reason::parse("because").unwrap();
    Event::Broken { lease: name(token, resource), reason, force }
}

/// The number of the one file of the samples.
pub const FILE: u64 = 1 << 52;

/// A write under an exclusive lease on the file's path.
pub fn written(seq: u64, token: u64, file: &str, offset: u64, bytes: &[u8]) -> Committed {
    let lease = name(token, &format!("path:/{file}"));
    written_under(seq, lease, file, offset, bytes)
}

pub fn written_under(seq: u64, lease: LeaseName, file: &str, offset: u64, bytes: &[u8]) -> Committed {
    let (name, bytes) = (FileName::parse(file).unwrap(), FileBytes::new(bytes));
    committed(seq, Event::FileWritten { number: FILE, name, lease, offset, bytes, request: None })
}

pub fn deleted(seq: u64, token: u64, file: &str) -> Committed {
    let lease = name(token, &format!("path:/{file}"));
    let name = FileName::parse(file).unwrap();
    committed(seq, Event::FileDeleted { number: FILE, name, lease, request: None })
}

/// What the holder of a sample's lease shows.
pub fn proof(token: u64, resource: &str) -> Proof {
    let LeaseName { resource, owner, slot, .. } = name(token, resource);
    Proof { resource, owner, lease: LeaseId { slot, secret: Secret([token, 0]) }, token }
}
