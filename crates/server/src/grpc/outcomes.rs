//! Outcomes as they lie in the bytes of a group. What is told most often, grants and releases, is written straight from the
//! engine's answer, on the engine's thread, without a message being made of it first. A test holds it to the generated messages.

use leasehold_engine::Scribe;
use leasehold_protocol::v1;
use leasehold_protocol::v1::outcome::What;
use leasehold_state_machine::answer::{Answer, LeaseView};
use leasehold_state_machine::ids::SessionId;
use leasehold_state_machine::words::Metadata;
use prost::Message;
use prost::encoding::{WireType, encoded_len_varint};

use super::shapes;

/// The fields of the messages `OutcomeGroup` and `Outcome`.
const OUTCOMES: u32 = 1;
const NUMBER: u32 = 1;
const LEASE: u32 = 5;
const RELEASED: u32 = 6;

/// Appends an outcome as one of its group.
pub fn put_any(into: &mut Vec<u8>, outcome: &v1::Outcome) {
    put_length(into, OUTCOMES, outcome.encoded_len());
    let written = outcome.encode(into);
    assert!(written.is_ok(), "a growing buffer takes every message");
}

/// Writes what is told most often.
#[derive(Default)]
pub struct Outcomes {
    /// The message inside an outcome, whose length stands before it; kept to be used again.
    message: Vec<u8>,
    acquired: MomentBytes,
    expires: MomentBytes,
}

impl Scribe for Outcomes {
    fn write(&mut self, number: u64, answer: &Answer, into: &mut Vec<u8>) -> bool {
        match answer {
            Answer::Lease(view) => self.put_lease(number, view, into),
            Answer::Released { .. } => self.put_released(number, into),
            _ => return false,
        }
        true
    }
}

impl Outcomes {
    fn put_lease(&mut self, number: u64, view: &LeaseView, into: &mut Vec<u8>) {
        if view.metadata != Metadata::default() {
            let what = Some(What::Lease(Box::new(shapes::lease_of(view))));
            return put_any(into, &v1::Outcome { number, what });
        }
        self.message.clear();
        let moments = [self.acquired.of(view.acquired_wall_ms), self.expires.of(view.expires_wall_ms)];
        put_lease(&mut self.message, view, moments);
        self.put_message(number, LEASE, into);
    }

    fn put_released(&mut self, number: u64, into: &mut Vec<u8>) {
        self.message.clear();
        put_number(&mut self.message, 1, u64::from(true));
        self.put_message(number, RELEASED, into);
    }

    /// Appends an outcome with the message that has just been written, as this field.
    fn put_message(&self, number: u64, field: u32, into: &mut Vec<u8>) {
        let length = self.message.len();
        let numbered = if number == 0 { 0 } else { 1 + encoded_len_varint(number) };
        let outcome = numbered + 1 + encoded_len_varint(length as u64) + length;
        put_length(into, OUTCOMES, outcome);
        put_number(into, NUMBER, number);
        put_bytes(into, field, &self.message);
    }
}

/// A moment as it is written. What is granted together is granted at one moment, and much of it ends at one.
#[derive(Default)]
struct MomentBytes {
    unix_ms: u64,
    /// Empty before the first.
    bytes: Vec<u8>,
}

impl MomentBytes {
    fn of(&mut self, unix_ms: u64) -> &[u8] {
        if self.bytes.is_empty() || self.unix_ms != unix_ms {
            self.unix_ms = unix_ms;
            self.bytes.clear();
            put_moment(&mut self.bytes, unix_ms);
        }
        &self.bytes
    }
}

/// With the moments of its grant and its deadline as they are written.
fn put_lease(into: &mut Vec<u8>, view: &LeaseView, [acquired, expires]: [&[u8]; 2]) {
    let lease = view.lease.id_text();
    let session = match view.session {
        SessionId::Own(own) if own == view.lease => lease.of_own_session(),
        other => other.id_text(),
    };
    put_text(into, 1, view.resource.text().as_bytes());
    put_text(into, 2, view.owner.text().as_bytes());
    put_text(into, 3, session.as_bytes());
    put_text(into, 4, lease.as_bytes());
    put_number(into, 5, shapes::token(view.token).cast_unsigned());
    put_number(into, 6, i64::from(shapes::mode(view.mode)).cast_unsigned());
    put_number(into, 7, view.ttl.ms());
    put_number(into, 8, view.expires_in_ms);
    put_number(into, 9, view.renew_after_ms);
    put_number(into, 10, view.stop_after_ms);
    put_bytes(into, 11, acquired);
    put_bytes(into, 12, expires);
    put_number(into, 13, view.version);
    put_number(into, 14, view.seq);
}

/// A `Timestamp`.
fn put_moment(into: &mut Vec<u8>, unix_ms: u64) {
    let moment = shapes::moment(unix_ms);
    put_number(into, 1, moment.seconds.cast_unsigned());
    put_number(into, 2, i64::from(moment.nanos).cast_unsigned());
}

/// A number; 0 is left out.
fn put_number(into: &mut Vec<u8>, field: u32, number: u64) {
    if number != 0 {
        put_key(into, field, WireType::Varint);
        put_varint(into, number);
    }
}

/// A text; an empty one is left out.
fn put_text(into: &mut Vec<u8>, field: u32, text: &[u8]) {
    if !text.is_empty() {
        put_bytes(into, field, text);
    }
}

fn put_bytes(into: &mut Vec<u8>, field: u32, bytes: &[u8]) {
    put_length(into, field, bytes.len());
    into.extend_from_slice(bytes);
}

/// What stands before so many bytes.
fn put_length(into: &mut Vec<u8>, field: u32, length: usize) {
    put_key(into, field, WireType::LengthDelimited);
    put_varint(into, length as u64);
}

/// What stands before a field; the numbers of all fields here are below 16.
fn put_key(into: &mut Vec<u8>, field: u32, kind: WireType) {
    into.push((field << 3 | kind as u32) as u8);
}

fn put_varint(into: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        into.push(number as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}

#[cfg(test)]
mod tests {
    use leasehold_state_machine::ids::{LeaseId, Secret};
    use leasehold_state_machine::resource::Resource;
    use leasehold_state_machine::words::{Mode, Owner, Ttl};

    use super::*;
    use crate::grpc::frame;
    use crate::grpc::told::ToldGroup;

    fn view() -> LeaseView {
        let lease = LeaseId { slot: 77, secret: Secret([1, 2]) };
        LeaseView {
            resource: Resource::parse("path:/orders/ü").unwrap(),
            owner: Owner::parse("w1@host").unwrap(),
            session: SessionId::Own(lease),
            lease,
            token: (1 << 53) - 1,
            mode: Mode::Shared,
            ttl: Ttl::default(),
            expires_in_ms: 29_999,
            renew_after_ms: 10_000,
            stop_after_ms: 15_000,
            acquired_wall_ms: 1_790_000_000_123,
            expires_wall_ms: 1_790_000_030_000,
            version: 300,
            seq: u64::MAX,
            metadata: Metadata::default(),
            repeatable: true,
        }
    }

    fn views() -> Vec<LeaseView> {
        let opened = SessionId::Opened { slot: u32::MAX, secret: Secret([u64::MAX; 2]) };
        let metadata = Metadata::new([("k".into(), "v".into())].into()).unwrap();
        let least = LeaseView {
            token: 0,
            mode: Mode::Exclusive,
            expires_in_ms: 0,
            renew_after_ms: 0,
            stop_after_ms: 0,
            acquired_wall_ms: 0,
            expires_wall_ms: 7,
            version: 0,
            seq: 0,
            ..view()
        };
        let long = Resource::parse(&"long".repeat(100)).unwrap();
        vec![
            view(),
            least,
            LeaseView { session: opened, acquired_wall_ms: u64::MAX, ..view() },
            LeaseView { session: SessionId::Own(LeaseId { slot: 78, ..view().lease }), ..view() },
            LeaseView { resource: long, ..view() },
            LeaseView { metadata, ..view() },
        ]
    }

    #[test]
    fn lies_in_bytes_as_the_message_does() {
        let (mut scribe, mut told) = (Outcomes::default(), ToldGroup::default());
        let mut write = |number, answer: &Answer, told: &mut ToldGroup| {
            let mut outcome = Vec::new();
            assert!(scribe.write(number, answer, &mut outcome));
            told.add_written(&outcome);
        };
        assert!(told.is_empty());
        for round in 0..3 {
            let mut outcomes = Vec::new();
            for (number, view) in (0..).map(|place: u64| place * 100).zip(views()) {
                write(number, &Answer::Lease(Box::new(view.clone())), &mut told);
                let lease = What::Lease(Box::new(shapes::lease_of(&view)));
                outcomes.push(v1::Outcome { number, what: Some(lease) });
            }
            for number in [0, 1, u64::MAX] {
                write(number, &Answer::Released { remaining_ms: Some(number) }, &mut told);
                let released = What::Released(v1::ReleaseResponse { released: true });
                outcomes.push(v1::Outcome { number, what: Some(released) });
                let queued = What::Queued(v1::Queued { position: number });
                told.add(number, queued.clone());
                outcomes.push(v1::Outcome { number, what: Some(queued) });
            }
            assert!(!told.is_empty());
            let written = told.take();
            assert!(told.is_empty());
            assert_eq!(written, frame::encoded(&v1::OutcomeGroup { outcomes }), "round {round}");
        }
        let mut nothing = Vec::new();
        assert!(!scribe.write(1, &Answer::Closed, &mut nothing) && nothing.is_empty());
    }
}
