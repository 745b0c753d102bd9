//! A group of operations as it came, read where it lies: what is asked most often, acquires and releases, without a string
//! being made of each of its fields. Whatever is not as clients usually write it is left to the generated messages, so that
//! everything is read, and refused, as they read it.

use leasehold_protocol::v1;
use leasehold_protocol::v1::operation::What;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use prost::{DecodeError, Message};

/// The fields of the messages `OperationGroup` and `Operation`.
const OPERATIONS: u32 = 1;
const ANSWERED_THROUGH: u32 = 2;
const OPEN: u32 = 3;
const NUMBER: u32 = 1;
const ACQUIRE: u32 = 3;
const RELEASE: u32 = 5;

/// About as short as operations are; only saves growing.
const OPERATION_BYTES: usize = 48;

/// How values lie.
const VARINT: u8 = WireType::Varint as u8;
const LENGTH_DELIMITED: u8 = WireType::LengthDelimited as u8;

/// Every number of so many bytes fits, so that there is nothing to check.
const PLAIN_VARINT_BYTES: usize = 9;

/// An `OperationGroup`.
#[derive(Debug, Default)]
pub struct AskedGroup<'g> {
    /// In order.
    pub operations: Vec<AskedOperation<'g>>,
    /// See the message.
    pub answered_through: u64,
    /// See the message.
    pub open: Vec<u64>,
}

/// An `Operation`.
#[derive(Debug)]
pub struct AskedOperation<'g> {
    /// Its number.
    pub number: u64,
    /// What it asks for.
    pub what: Asked<'g>,
}

/// What is asked.
#[derive(Debug)]
pub enum Asked<'g> {
    /// An acquire without metadata and without an id of its own.
    Acquire(AskedAcquire<'g>),
    /// A release.
    Release(AskedRelease<'g>),
    /// Anything.
    Any(Box<Option<What>>),
}

/// An `AcquireRequest` without metadata and without an id.
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "they are the message's fields")]
pub struct AskedAcquire<'g> {
    pub lock: &'g str,
    pub owner_id: &'g str,
    pub ttl_ms: Option<u64>,
    pub mode: i32,
    pub wait_ms: u64,
    pub session_id: Option<&'g str>,
}

/// A `ReleaseRequest`.
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "they are the message's fields")]
pub struct AskedRelease<'g> {
    pub lock: &'g str,
    pub owner_id: &'g str,
    /// In ASCII, as all that were given out are.
    pub lease_id: &'g [u8],
    pub fencing_token: i64,
}

impl Asked<'_> {
    /// Whether it is an acquire.
    pub fn is_acquire(&self) -> bool {
        match self {
            Asked::Acquire(_) => true,
            Asked::Release(_) => false,
            Asked::Any(what) => matches!(**what, Some(What::Acquire(_))),
        }
    }

    /// The message, of what is not read where it lies.
    pub fn any(self) -> Option<Option<What>> {
        match self {
            Asked::Any(what) => Some(*what),
            Asked::Acquire(_) | Asked::Release(_) => None,
        }
    }
}

/// How many operations are in a group, which may be no group at all. An operation that says nothing takes two bytes, and hundreds
/// when it has been read: so they are counted before.
pub fn count_operations(mut bytes: &[u8]) -> Result<usize, DecodeError> {
    let mut count = 0;
    while !bytes.is_empty() {
        let (field, kind) = decode_key(&mut bytes)?;
        skip_field(kind, field, &mut bytes, DecodeContext::default())?;
        count += usize::from(field == OPERATIONS);
    }
    Ok(count)
}

/// The least that an operation takes.
pub const OPERATION_BYTES_MIN: usize = 2;

impl<'g> AskedGroup<'g> {
    /// Reads a group, all of it or nothing.
    pub fn read(bytes: &'g [u8]) -> Result<AskedGroup<'g>, DecodeError> {
        match group(bytes) {
            Some(group) => Ok(group),
            None => v1::OperationGroup::decode(bytes).map(AskedGroup::from),
        }
    }
}

impl From<v1::OperationGroup> for AskedGroup<'_> {
    fn from(group: v1::OperationGroup) -> Self {
        let v1::OperationGroup { operations, answered_through, open } = group;
        AskedGroup {
            operations: operations.into_iter().map(AskedOperation::from).collect(),
            answered_through,
            open,
        }
    }
}

impl From<v1::Operation> for AskedOperation<'_> {
    fn from(operation: v1::Operation) -> Self {
        AskedOperation { number: operation.number, what: Asked::Any(Box::new(operation.what)) }
    }
}

/// None: it is not as usual.
fn group(bytes: &[u8]) -> Option<AskedGroup<'_>> {
    let operations = Vec::with_capacity(bytes.len() / OPERATION_BYTES);
    let mut group = AskedGroup { operations, ..AskedGroup::default() };
    let mut fields = Fields { rest: bytes, seen: 0 };
    while let Some((field, value)) = fields.next()? {
        match (field, value) {
            (OPERATIONS, Value::Bytes(operation)) => {
                fields.forget(OPERATIONS);
                group.operations.push(match usual(operation) {
                    Some(usual) => usual,
                    None => v1::Operation::decode(operation).ok()?.into(),
                });
            }
            (ANSWERED_THROUGH, Value::Number(number)) => group.answered_through = number,
            (OPEN, Value::Bytes(mut packed)) => {
                while !packed.is_empty() {
                    group.open.push(decode_varint(&mut packed).ok()?);
                }
            }
            _ => return None,
        }
    }
    Some(group)
}

fn usual(bytes: &[u8]) -> Option<AskedOperation<'_>> {
    let (mut number, mut what) = (0, None);
    let mut fields = Fields { rest: bytes, seen: 0 };
    while let Some((field, value)) = fields.next()? {
        match (field, value) {
            (NUMBER, Value::Number(value)) => number = value,
            (ACQUIRE, Value::Bytes(bytes)) if what.is_none() => what = Some(Asked::Acquire(acquire(bytes)?)),
            (RELEASE, Value::Bytes(bytes)) if what.is_none() => what = Some(Asked::Release(release(bytes)?)),
            _ => return None,
        }
    }
    Some(AskedOperation { number, what: what? })
}

fn acquire(bytes: &[u8]) -> Option<AskedAcquire<'_>> {
    let mut asked = AskedAcquire::default();
    let mut fields = Fields { rest: bytes, seen: 0 };
    while let Some(field) = fields.next()? {
        match field {
            (1, Value::Bytes(bytes)) => asked.lock = text(bytes)?,
            (2, Value::Bytes(bytes)) => asked.owner_id = text(bytes)?,
            (3, Value::Number(number)) => asked.ttl_ms = Some(number),
            // As much of it as an enum has.
            (4, Value::Number(number)) => asked.mode = number as i32,
            (5, Value::Number(number)) => asked.wait_ms = number,
            (6, Value::Bytes(bytes)) => asked.session_id = Some(text(bytes)?),
            _ => return None,
        }
    }
    Some(asked)
}

fn release(bytes: &[u8]) -> Option<AskedRelease<'_>> {
    let mut asked = AskedRelease::default();
    let mut fields = Fields { rest: bytes, seen: 0 };
    while let Some(field) = fields.next()? {
        match field {
            (1, Value::Bytes(bytes)) => asked.lock = text(bytes)?,
            (2, Value::Bytes(bytes)) => asked.owner_id = text(bytes)?,
            (3, Value::Bytes(bytes)) if bytes.is_ascii() => asked.lease_id = bytes,
            (4, Value::Number(number)) => asked.fencing_token = number.cast_signed(),
            _ => return None,
        }
    }
    Some(asked)
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// The fields of a message, each of which comes once.
struct Fields<'g> {
    rest: &'g [u8],
    /// A bit for each field that has come.
    seen: u32,
}

enum Value<'g> {
    Number(u64),
    Bytes(&'g [u8]),
}

impl<'g> Fields<'g> {
    /// The next field; none inside at the end, and none at all if it is not as usual.
    fn next(&mut self) -> Option<Option<(u32, Value<'g>)>> {
        if self.rest.is_empty() {
            return Some(None);
        }
        // Keys of one byte, as those of all fields here are.
        let (key, rest) = self.rest.split_first().filter(|(key, _)| **key < 0x80)?;
        self.rest = rest;
        let (field, kind) = (u32::from(key >> 3), key & 7);
        let bit = 1 << field;
        if self.seen & bit != 0 {
            return None;
        }
        self.seen |= bit;
        let value = match kind {
            VARINT => Value::Number(self.varint()?),
            LENGTH_DELIMITED => {
                let length = usize::try_from(self.varint()?).ok()?;
                let (value, rest) = self.rest.split_at_checked(length)?;
                self.rest = rest;
                Value::Bytes(value)
            }
            _ => return None,
        };
        Some(Some((field, value)))
    }

    fn varint(&mut self) -> Option<u64> {
        match self.rest {
            [short, rest @ ..] if *short < 0x80 => {
                self.rest = rest;
                Some(u64::from(*short))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Option<u64> {
        let mut number = 0;
        for (place, byte) in self.rest.iter().take(PLAIN_VARINT_BYTES).enumerate() {
            number |= u64::from(byte & 0x7f) << (7 * place);
            if *byte < 0x80 {
                self.rest = &self.rest[place + 1..];
                return Some(number);
            }
        }
        decode_varint(&mut self.rest).ok()
    }

    /// This field may come again.
    fn forget(&mut self, field: u32) {
        self.seen &= !(1 << field);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acquire(number: u64) -> v1::Operation {
        let what = v1::AcquireRequest {
            lock: "orders/ü".into(),
            owner_id: "w1".into(),
            ttl_ms: Some(0),
            mode: v1::Mode::Shared.into(),
            wait_ms: 1 << 40,
            session_id: Some(String::new()),
            ..Default::default()
        };
        v1::Operation { number, what: Some(What::Acquire(what)) }
    }

    fn release(number: u64) -> v1::Operation {
        let what = v1::ReleaseRequest {
            lock: "a".into(),
            owner_id: "w".into(),
            lease_id: "l0-1".into(),
            fencing_token: -1,
        };
        v1::Operation { number, what: Some(What::Release(what)) }
    }

    fn whole() -> v1::OperationGroup {
        let any = |number, what| v1::Operation { number, what: Some(what) };
        let metadata = [("k".to_owned(), "v".to_owned())].into();
        let operations = vec![
            any(0, What::Hello(v1::Hello { client_id: "me".into() })),
            acquire(1),
            release(u64::MAX),
            any(3, What::Acquire(v1::AcquireRequest { metadata, ..Default::default() })),
            any(4, What::Acquire(v1::AcquireRequest { request_id: Some("r".into()), ..Default::default() })),
            any(5, What::Acquire(Default::default())),
            any(0, What::Release(Default::default())),
            any(7, What::Cancel(3)),
            v1::Operation { number: 8, what: None },
        ];
        v1::OperationGroup { operations, answered_through: 300, open: vec![1, 1 << 40, 0] }
    }

    fn message(asked: AskedGroup<'_>) -> v1::OperationGroup {
        let operation = |asked: AskedOperation<'_>| {
            let what = match asked.what {
                Asked::Acquire(acquire) => Some(What::Acquire(v1::AcquireRequest {
                    lock: acquire.lock.into(),
                    owner_id: acquire.owner_id.into(),
                    ttl_ms: acquire.ttl_ms,
                    mode: acquire.mode,
                    wait_ms: acquire.wait_ms,
                    session_id: acquire.session_id.map(str::to_owned),
                    ..Default::default()
                })),
                Asked::Release(release) => Some(What::Release(v1::ReleaseRequest {
                    lock: release.lock.into(),
                    owner_id: release.owner_id.into(),
                    lease_id: str::from_utf8(release.lease_id).unwrap().into(),
                    fencing_token: release.fencing_token,
                })),
                Asked::Any(what) => *what,
            };
            v1::Operation { number: asked.number, what }
        };
        let operations = asked.operations.into_iter().map(operation).collect();
        v1::OperationGroup { operations, answered_through: asked.answered_through, open: asked.open }
    }

    fn is_read_as_the_message_is(bytes: &[u8]) {
        assert_eq!(AskedGroup::read(bytes).map(message), v1::OperationGroup::decode(bytes), "{bytes:?}");
    }

    #[test]
    fn what_is_usual_is_read_where_it_lies() {
        let group = v1::OperationGroup { operations: vec![acquire(1), release(2)], ..whole() };
        let bytes = group.encode_to_vec();
        let read = AskedGroup::read(&bytes).unwrap();
        assert!(matches!(read.operations[0].what, Asked::Acquire(_)));
        assert!(matches!(read.operations[1].what, Asked::Release(_)));
        assert_eq!(message(read), group);
    }

    #[test]
    fn every_group_is_read_as_the_message_is() {
        is_read_as_the_message_is(&[]);
        let bytes = whole().encode_to_vec();
        is_read_as_the_message_is(&bytes);
        for length in 0..bytes.len() {
            is_read_as_the_message_is(&bytes[..length]);
        }
        for at in 0..bytes.len() {
            for byte in 0..=u8::MAX {
                let mut changed = bytes.clone();
                changed[at] = byte;
                is_read_as_the_message_is(&changed);
            }
        }
    }

    #[test]
    fn also_one_that_was_put_together_by_chance() {
        let mut chance: u64 = 1;
        let mut below = |end: usize| {
            chance = chance.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (chance >> 33) as usize % end
        };
        let whole = whole().encode_to_vec();
        for _ in 0..20_000 {
            let mut bytes = whole.clone();
            for _ in 0..=below(4) {
                // A stretch of it is put in the place of another, which may be empty, and a byte is changed.
                let (from, to) = (below(bytes.len()), below(bytes.len()));
                let stretch = bytes[from..(from + below(12)).min(bytes.len())].to_vec();
                let end = (to + below(12)).min(bytes.len());
                bytes.splice(to..end, stretch);
                bytes.push(0);
                let at = below(bytes.len());
                bytes[at] = below(256) as u8;
            }
            is_read_as_the_message_is(&bytes);
        }
    }

    #[test]
    fn also_one_that_says_something_twice() {
        let twice = [whole().encode_to_vec(), whole().encode_to_vec()].concat();
        is_read_as_the_message_is(&twice);
        // Merged, both as a whole and field by field.
        for (one, other) in [(acquire(1), acquire(2)), (release(1), acquire(2)), (release(1), release(1))] {
            let operation = [one.encode_to_vec(), other.encode_to_vec()].concat();
            let length = u8::try_from(operation.len()).unwrap();
            let mut group = vec![(OPERATIONS << 3 | 2) as u8, length & 0x7f | 0x80, length >> 7];
            group.extend(operation);
            is_read_as_the_message_is(&group);
            assert_eq!(AskedGroup::read(&group).unwrap().operations.len(), 1);
        }
    }
}
