//! A group of outcomes as it goes out, written as they come: what is told most often, grants and releases, straight from the
//! engine's answer, without a message being made of it first. Knows how a group lies in bytes; a test holds it to the
//! generated messages.

use bytes::{Bytes, BytesMut};
use leasehold_protocol::v1;
use leasehold_protocol::v1::outcome::What;
use leasehold_state_machine::answer::LeaseView;
use leasehold_state_machine::ids::SessionId;
use leasehold_state_machine::words::Metadata;
use prost::Message;
use prost::encoding::{WireType, encoded_len_varint};

use super::{frame, shapes};

/// The fields of the messages `OutcomeGroup` and `Outcome`.
const OUTCOMES: u32 = 1;
const NUMBER: u32 = 1;
const LEASE: u32 = 5;
const RELEASED: u32 = 6;

/// What comes before a message in its outcome is at most this long: two keys, two lengths, and a number with its key.
const OUTCOME_HEAD_BYTES: usize = 2 * (1 + 10) + 1 + 10;

/// An `OutcomeGroup` in the making.
#[derive(Default)]
pub struct ToldGroup {
    /// The group as it will lie in a body, where it leaves from: its room is used again when it has been sent.
    outgoing: BytesMut,
    /// How long the last one was; only saves growing.
    last_length: usize,
    /// One message of it; kept to be used again.
    message: Vec<u8>,
    /// What comes before it.
    head: Vec<u8>,
    acquired: MomentBytes,
    expires: MomentBytes,
}

impl ToldGroup {
    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.outgoing.is_empty()
    }

    /// Adds an outcome.
    pub fn add(&mut self, number: u64, what: What) {
        self.message.clear();
        let written = v1::Outcome { number, what: Some(what) }.encode(&mut self.message);
        assert!(written.is_ok(), "a growing buffer takes every message");
        self.head.clear();
        put_length(&mut self.head, OUTCOMES, self.message.len());
        self.add_written();
    }

    /// Adds a lease.
    pub fn add_lease(&mut self, number: u64, view: &LeaseView) {
        if view.metadata != Metadata::default() {
            return self.add(number, What::Lease(Box::new(shapes::lease_of(view))));
        }
        self.message.clear();
        let moments = [self.acquired.of(view.acquired_wall_ms), self.expires.of(view.expires_wall_ms)];
        put_lease(&mut self.message, view, moments);
        self.add_message(number, LEASE);
    }

    /// Adds that something was released.
    pub fn add_released(&mut self, number: u64) {
        self.message.clear();
        put_number(&mut self.message, 1, u64::from(true));
        self.add_message(number, RELEASED);
    }

    /// Adds an outcome with the message that has just been written, as this field.
    fn add_message(&mut self, number: u64, field: u32) {
        let length = self.message.len();
        let numbered = if number == 0 { 0 } else { 1 + encoded_len_varint(number) };
        let outcome = numbered + 1 + encoded_len_varint(length as u64) + length;
        self.head.clear();
        self.head.reserve(OUTCOME_HEAD_BYTES);
        put_length(&mut self.head, OUTCOMES, outcome);
        put_number(&mut self.head, NUMBER, number);
        put_length(&mut self.head, field, length);
        self.add_written();
    }

    /// Adds what was written: a head and a message.
    fn add_written(&mut self) {
        if self.outgoing.is_empty() {
            self.outgoing.reserve(self.last_length);
            // What stands before the group says how long it is, which is known when it leaves.
            self.outgoing.extend_from_slice(&[0; frame::HEAD_BYTES]);
        }
        self.outgoing.extend_from_slice(&self.head);
        self.outgoing.extend_from_slice(&self.message);
    }

    /// The group as it lies in a body; an empty one is left. There must be something in it.
    pub fn take(&mut self) -> Bytes {
        assert!(!self.is_empty(), "a group that says nothing is not sent");
        self.last_length = self.outgoing.len();
        let head = frame::head_of(self.outgoing.len() - frame::HEAD_BYTES);
        self.outgoing[..frame::HEAD_BYTES].copy_from_slice(&head);
        self.outgoing.split().freeze()
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
        let mut told = ToldGroup::default();
        assert!(told.is_empty());
        for round in 0..3 {
            let mut outcomes = Vec::new();
            for (number, view) in (0..).map(|place: u64| place * 100).zip(views()) {
                told.add_lease(number, &view);
                let lease = What::Lease(Box::new(shapes::lease_of(&view)));
                outcomes.push(v1::Outcome { number, what: Some(lease) });
            }
            for number in [0, 1, u64::MAX] {
                told.add_released(number);
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
    }
}
