//! A group of operations as it goes over the wire, put together of operations that were encoded when they were asked: a
//! repetition costs a copy, and nothing is encoded twice. Knows how a group lies in bytes, not what it asks.

use leasehold_protocol::v1;
use leasehold_protocol::v1::operation::What;
use prost::Message;
use prost::bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, int64, uint64};
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

use crate::outcome::OutcomeGroup;

/// The fields of the messages `OperationGroup` and `Operation`.
const OPERATIONS: u32 = 1;
const ANSWERED_THROUGH: u32 = 2;
const OPEN: u32 = 3;
const NUMBER: u32 = 1;
const ACQUIRE: u32 = 3;
const RELEASE: u32 = 5;

/// The most that stands before what an operation asks: two keys, its length and its number.
const HEAD_BYTES_MAX: usize = 2 + 2 * 10;

/// An encoded `OperationGroup`.
#[derive(Clone, Debug)]
pub(crate) struct Group(Bytes);

impl Group {
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The message.
    #[cfg(any(test, feature = "testing"))]
    pub fn read(&self) -> v1::OperationGroup {
        let group = v1::OperationGroup::decode(self.bytes());
        assert!(group.is_ok(), "a group is written as it is read: {group:?}");
        group.unwrap_or_default()
    }
}

/// What an operation asks, as it lies in a group beside its number.
pub(crate) fn encoded(what: &What) -> Box<[u8]> {
    let mut bytes = Vec::with_capacity(what.encoded_len());
    what.encode(&mut bytes);
    bytes.into_boxed_slice()
}

/// What asks for a lease, encoded like the others without being made into one of them.
pub(crate) fn encoded_acquire(request: &v1::AcquireRequest) -> Box<[u8]> {
    let length = request.encoded_len();
    let mut bytes = Vec::with_capacity(1 + encoded_len_varint(length as u64) + length);
    encode_key(ACQUIRE, WireType::LengthDelimited, &mut bytes);
    encode_varint(length as u64, &mut bytes);
    request.encode_raw(&mut bytes);
    bytes.into_boxed_slice()
}

/// What gives a lease back, encoded like the others without being made first: whoever lets go of many keeps what shows that
/// they are its own.
pub(crate) fn encoded_release(lock: &str, owner_id: &str, lease_id: &str, fencing_token: i64) -> Box<[u8]> {
    let texts = [(1, lock), (2, owner_id), (3, lease_id)].into_iter().filter(|(_, text)| !text.is_empty());
    let text_len = |text: &str| 1 + encoded_len_varint(text.len() as u64) + text.len();
    let token_len = if fencing_token == 0 { 0 } else { int64::encoded_len(4, &fencing_token) };
    let length = texts.clone().map(|(_, text)| text_len(text)).sum::<usize>() + token_len;
    let mut bytes = Vec::with_capacity(1 + encoded_len_varint(length as u64) + length);
    encode_key(RELEASE, WireType::LengthDelimited, &mut bytes);
    encode_varint(length as u64, &mut bytes);
    for (field, text) in texts {
        encode_key(field, WireType::LengthDelimited, &mut bytes);
        encode_varint(text.len() as u64, &mut bytes);
        bytes.put_slice(text.as_bytes());
    }
    if fencing_token != 0 {
        int64::encode(4, &fencing_token, &mut bytes);
    }
    bytes.into_boxed_slice()
}

/// A group in the making. One writer makes one after the other, in the same memory when nobody has the last one any more.
#[derive(Default)]
pub(crate) struct GroupWriter(BytesMut);

impl GroupWriter {
    /// Whether there is no operation in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds an operation that asks this; see [`encoded`].
    pub fn add(&mut self, number: u64, what: &[u8]) {
        let numbered = if number == 0 { 0 } else { uint64::encoded_len(NUMBER, &number) };
        // Put together aside, because each piece that is added looks for room first.
        let mut head = [0; HEAD_BYTES_MAX];
        let mut rest = &mut head[..];
        encode_key(OPERATIONS, WireType::LengthDelimited, &mut rest);
        encode_varint((numbered + what.len()) as u64, &mut rest);
        if number != 0 {
            uint64::encode(NUMBER, &number, &mut rest);
        }
        let left = rest.len();
        self.0.reserve(HEAD_BYTES_MAX - left + what.len());
        self.0.put_slice(&head[..HEAD_BYTES_MAX - left]);
        self.0.put_slice(what);
    }

    /// The group, with which answers have come.
    pub fn finish(&mut self, answered_through: u64, open: &[u64]) -> Group {
        if answered_through != 0 {
            uint64::encode(ANSWERED_THROUGH, &answered_through, &mut self.0);
        }
        uint64::encode_packed(OPEN, open, &mut self.0);
        Group(self.0.split().freeze())
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
        // A message lies there in one piece; reading plain bytes is much cheaper than taking them from a buffer one by one.
        let bytes = from.copy_to_bytes(from.remaining());
        OutcomeGroup::read(&bytes).map(Some).map_err(|error| Status::internal(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
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
