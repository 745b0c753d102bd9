//! A group of operations as it goes over the wire, put together of operations that were encoded when they were asked: a
//! repetition costs a copy, and nothing is encoded twice. Knows how a group lies in bytes, not what it asks.

use leasehold_protocol::v1::operation::What;
use prost::bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::encoding::{WireType, btree_map, encoded_len_varint, string, uint64};
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

use crate::outcome::OutcomeGroup;
use crate::view::Metadata;

/// The fields of the messages `OperationGroup` and `Operation`.
const OPERATIONS: u32 = 1;
const ANSWERED_THROUGH: u32 = 2;
const OPEN: u32 = 3;
const NUMBER: u32 = 1;
const ACQUIRE: u32 = 3;
const RELEASE: u32 = 5;

/// The most that stands before what an operation asks: two keys, its length and its number.
const HEAD_BYTES_MAX: usize = 2 + 2 * 10;

/// A field of the message `AcquireRequest`.
const METADATA: u32 = 8;

/// An encoded `OperationGroup`.
#[derive(Clone, Debug)]
pub(crate) struct Group(Bytes);

impl Group {
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The message.
    #[cfg(any(test, feature = "testing"))]
    pub fn read(&self) -> leasehold_protocol::v1::OperationGroup {
        let group = <leasehold_protocol::v1::OperationGroup as prost::Message>::decode(self.bytes());
        assert!(group.is_ok(), "a group is written as it is read: {group:?}");
        group.unwrap_or_default()
    }
}

/// What an operation asks, as it lies in a group beside its number.
pub(crate) fn encoded(what: &What) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(what.encoded_len());
    what.encode(&mut bytes);
    bytes
}

/// What asks for a lease, without a wait and without an id of its own.
pub(crate) struct Acquire<'a> {
    pub lock: &'a str,
    pub owner_id: &'a str,
    pub ttl_ms: Option<u64>,
    pub mode: i32,
    pub session_id: Option<&'a str>,
    pub metadata: &'a Metadata,
}

/// What gives a lease back.
pub(crate) struct Release<'a> {
    pub lock: &'a str,
    pub owner_id: &'a str,
    pub lease_id: &'a str,
    pub fencing_token: i64,
}

/// What is asked most often: encoded like everything else, without being made first, and where there is room already.
pub(crate) struct Usual<'a> {
    what: UsualWhat<'a>,
    /// Of the message.
    length: usize,
}

enum UsualWhat<'a> {
    Acquire(Acquire<'a>),
    Release(Release<'a>),
}

impl<'a> Usual<'a> {
    pub fn acquire(acquire: Acquire<'a>) -> Usual<'a> {
        let length = acquire.length();
        Usual { what: UsualWhat::Acquire(acquire), length }
    }

    pub fn release(release: Release<'a>) -> Usual<'a> {
        let length = release.length();
        Usual { what: UsualWhat::Release(release), length }
    }

    /// Whether it asks for a lease, and does not give one back.
    pub fn is_acquire(&self) -> bool {
        matches!(self.what, UsualWhat::Acquire(_))
    }

    /// How many bytes it takes.
    pub fn encoded_len(&self) -> usize {
        1 + encoded_len_varint(self.length as u64) + self.length
    }

    /// Adds it to this.
    pub fn encode(&self, into: &mut Vec<u8>) {
        into.reserve(self.encoded_len());
        let field = if self.is_acquire() { ACQUIRE } else { RELEASE };
        put_key(into, field, WireType::LengthDelimited);
        put_varint(into, self.length as u64);
        match &self.what {
            UsualWhat::Acquire(acquire) => acquire.put(into),
            UsualWhat::Release(release) => release.put(into),
        }
    }
}

impl Acquire<'_> {
    fn length(&self) -> usize {
        text_len(self.lock)
            + text_len(self.owner_id)
            + self.ttl_ms.map_or(0, |ttl_ms| 1 + encoded_len_varint(ttl_ms))
            + number_len(self.mode())
            + self.session_id.map_or(0, bytes_len)
            + self.metadata_len()
    }

    fn put(&self, into: &mut Vec<u8>) {
        put_text(into, 1, self.lock);
        put_text(into, 2, self.owner_id);
        if let Some(ttl_ms) = self.ttl_ms {
            put_key(into, 3, WireType::Varint);
            put_varint(into, ttl_ms);
        }
        put_number(into, 4, self.mode());
        if let Some(session_id) = self.session_id {
            put_bytes(into, 6, session_id.as_bytes());
        }
        if !self.metadata.is_empty() {
            btree_map::encode(
                string::encode,
                string::encoded_len,
                string::encode,
                string::encoded_len,
                METADATA,
                self.metadata,
                into,
            );
        }
    }

    fn mode(&self) -> u64 {
        i64::from(self.mode).cast_unsigned()
    }

    fn metadata_len(&self) -> usize {
        match self.metadata.is_empty() {
            true => 0,
            false => {
                btree_map::encoded_len(string::encoded_len, string::encoded_len, METADATA, self.metadata)
            }
        }
    }
}

impl Release<'_> {
    fn length(&self) -> usize {
        text_len(self.lock) + text_len(self.owner_id) + text_len(self.lease_id) + number_len(self.token())
    }

    fn put(&self, into: &mut Vec<u8>) {
        put_text(into, 1, self.lock);
        put_text(into, 2, self.owner_id);
        put_text(into, 3, self.lease_id);
        put_number(into, 4, self.token());
    }

    fn token(&self) -> u64 {
        self.fencing_token.cast_unsigned()
    }
}

fn bytes_len(text: &str) -> usize {
    1 + encoded_len_varint(text.len() as u64) + text.len()
}

/// A text; an empty one is left out.
fn text_len(text: &str) -> usize {
    if text.is_empty() { 0 } else { bytes_len(text) }
}

/// A number; 0 is left out.
fn number_len(number: u64) -> usize {
    if number == 0 { 0 } else { 1 + encoded_len_varint(number) }
}

fn put_text(into: &mut Vec<u8>, field: u32, text: &str) {
    if !text.is_empty() {
        put_bytes(into, field, text.as_bytes());
    }
}

fn put_number(into: &mut Vec<u8>, field: u32, number: u64) {
    if number != 0 {
        put_key(into, field, WireType::Varint);
        put_varint(into, number);
    }
}

fn put_bytes(into: &mut Vec<u8>, field: u32, bytes: &[u8]) {
    match u8::try_from(bytes.len()) {
        Ok(length @ ..0x80) => into.extend_from_slice(&[key(field, WireType::LengthDelimited), length]),
        _ => {
            put_key(into, field, WireType::LengthDelimited);
            put_varint(into, bytes.len() as u64);
        }
    }
    into.extend_from_slice(bytes);
}

fn put_key(into: &mut Vec<u8>, field: u32, kind: WireType) {
    into.push(key(field, kind));
}

/// What stands before a field; the numbers of all fields here are below 16.
fn key(field: u32, kind: WireType) -> u8 {
    (field << 3 | kind as u32) as u8
}

fn put_varint(into: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        into.push(number as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}

/// A group in the making. One writer makes one after the other, in the same memory when nobody has the last one any more.
#[derive(Default)]
pub(crate) struct GroupWriter {
    group: Vec<u8>,
    /// Where groups leave from: its room is used again when they have been sent.
    outgoing: BytesMut,
}

impl GroupWriter {
    /// Whether there is no operation in it.
    pub fn is_empty(&self) -> bool {
        self.group.is_empty()
    }

    /// Adds an operation that asks this; see [`encoded`].
    pub fn add(&mut self, number: u64, what: &[u8]) {
        self.group.reserve(HEAD_BYTES_MAX + what.len());
        put_key(&mut self.group, OPERATIONS, WireType::LengthDelimited);
        put_varint(&mut self.group, (number_len(number) + what.len()) as u64);
        put_number(&mut self.group, NUMBER, number);
        self.group.extend_from_slice(what);
    }

    /// The group, with which answers have come.
    pub fn finish(&mut self, answered_through: u64, open: &[u64]) -> Group {
        put_number(&mut self.group, ANSWERED_THROUGH, answered_through);
        uint64::encode_packed(OPEN, open, &mut self.group);
        self.outgoing.extend_from_slice(&self.group);
        self.group.clear();
        Group(self.outgoing.split().freeze())
    }
}

/// Groups go out as they are; what comes back is read.
#[derive(Clone, Copy, Default)]
pub(crate) struct GroupCodec;

impl Codec for GroupCodec {
    type Encode = Group;
    type Decode = OutcomeGroup;
    type Encoder = GroupCodec;
    type Decoder = GroupCodec;

    fn encoder(&mut self) -> GroupCodec {
        GroupCodec
    }

    fn decoder(&mut self) -> GroupCodec {
        GroupCodec
    }
}

impl Encoder for GroupCodec {
    type Item = Group;
    type Error = Status;

    fn encode(&mut self, group: Group, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        into.put_slice(group.bytes());
        Ok(())
    }
}

impl Decoder for GroupCodec {
    type Item = OutcomeGroup;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<OutcomeGroup>, Status> {
        // Reading plain bytes is much cheaper than taking them from a buffer one by one; and leases stay a part of them, while
        // what they came in is to be used again at once.
        let mut bytes = Vec::with_capacity(from.remaining());
        bytes.put(from);
        let bytes = Bytes::from(bytes);
        OutcomeGroup::read(&bytes).map(Some).map_err(|error| Status::internal(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use leasehold_protocol::v1;
    use prost::Message;

    use super::*;

    #[test]
    fn lies_in_bytes_as_the_message_does() {
        let acquire = |lock: &str| {
            let request = v1::AcquireRequest { lock: lock.into(), wait_ms: 7, ..Default::default() };
            Some(What::Acquire(request))
        };
        let operations = Vec::from([
            v1::Operation { number: 0, what: Some(What::Hello(v1::Hello { client_id: "me".into() })) },
            v1::Operation { number: 1, what: acquire("a") },
            v1::Operation { number: u64::MAX, what: acquire(&"long".repeat(100)) },
            v1::Operation { number: 300, what: Some(What::Cancel(1)) },
        ]);
        for (answered_through, open) in [(0, Vec::new()), (1 << 40, Vec::from([1, 300, 1 << 33]))] {
            let group = v1::OperationGroup { operations: operations.clone(), answered_through, open };
            let mut writer = GroupWriter::default();
            assert!(writer.is_empty());
            for operation in &group.operations {
                writer.add(operation.number, &encoded(operation.what.as_ref().unwrap()));
            }
            let written = writer.finish(answered_through, &group.open);
            assert_eq!(written.bytes(), group.encode_to_vec());
            assert_eq!(written.read(), group);
        }
    }
}
