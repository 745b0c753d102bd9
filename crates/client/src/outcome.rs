//! What a server tells on a stream, read no deeper than everybody needs it: a lease stays as it lies in bytes until whoever asked
//! for it reads it, into the texts that they asked with. What is told most often is read where it lies; everything else, and
//! whatever is not as usual, as messages that are those of the protocol field by field.

#[cfg(test)]
mod tests;

use std::time::Duration;

use leasehold_protocol::v1;
use prost::bytes::Bytes;
use prost::{DecodeError, Message};
use prost_types::Timestamp;

use crate::error::Error;
use crate::fields::Fields;
use crate::view::{Grant, Metadata, Mode, time, token};

/// The fields of the messages `OutcomeGroup` and `Outcome`.
const OUTCOMES: u8 = 1;
const NUMBER: u8 = 1;
const LEASE: u8 = 5;
const RELEASED: u8 = 6;

/// What an outcome takes in a group, between that of a lease and that of a release.
const OUTCOME_BYTES: usize = 64;

/// An `OutcomeGroup`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct OutcomeGroup {
    #[prost(message, repeated, tag = "1")]
    pub outcomes: Vec<Outcome>,
}

/// An `Outcome`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Outcome {
    #[prost(uint64, tag = "1")]
    pub number: u64,
    #[prost(oneof = "Told", tags = "2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12")]
    pub told: Option<Told>,
}

/// What one outcome says.
#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum Told {
    #[prost(message, tag = "2")]
    Welcome(v1::Welcome),
    #[prost(message, tag = "3")]
    Queued(v1::Queued),
    #[prost(message, tag = "4")]
    Ended(Box<v1::Ended>),
    /// To be read by [`grant`] or [`lease`].
    #[prost(bytes = "bytes", tag = "5")]
    Lease(Bytes),
    #[prost(message, tag = "6")]
    Released(v1::ReleaseResponse),
    #[prost(message, tag = "7")]
    Cancelled(v1::CancelResponse),
    #[prost(message, tag = "8")]
    Verified(v1::VerifyResponse),
    #[prost(message, tag = "9")]
    Snapshot(Box<v1::Snapshot>),
    #[prost(message, tag = "10")]
    Session(Box<v1::Session>),
    #[prost(message, tag = "11")]
    Closed(v1::CloseSessionResponse),
    #[prost(message, tag = "12")]
    Error(Box<v1::Error>),
}

impl OutcomeGroup {
    /// Reads a group, all of it or nothing. Leases stay where they are, as a part of these bytes.
    pub fn read(bytes: &Bytes) -> Result<OutcomeGroup, DecodeError> {
        match usual_group(bytes) {
            Some(group) => Ok(group),
            None => OutcomeGroup::decode(bytes.clone()),
        }
    }
}

/// None: it is not as usual.
fn usual_group(bytes: &Bytes) -> Option<OutcomeGroup> {
    let mut outcomes = Vec::with_capacity(bytes.len() / OUTCOME_BYTES);
    let mut fields = Fields::new(bytes);
    while let Some(outcome) = fields.bytes(OUTCOMES)? {
        outcomes.push(match usual_outcome(bytes, outcome) {
            Some(usual) => usual,
            None => Outcome::decode(bytes.slice_ref(outcome)).ok()?,
        });
    }
    fields.are_over().then_some(OutcomeGroup { outcomes })
}

fn usual_outcome(group: &Bytes, bytes: &[u8]) -> Option<Outcome> {
    let mut fields = Fields::new(bytes);
    let number = fields.number(NUMBER)?;
    let told = match fields.bytes(LEASE)? {
        Some(lease) => Told::Lease(group.slice_ref(lease)),
        None => Told::Released(released(fields.bytes(RELEASED)??)?),
    };
    fields.are_over().then_some(Outcome { number, told: Some(told) })
}

fn released(bytes: &[u8]) -> Option<v1::ReleaseResponse> {
    let mut fields = Fields::new(bytes);
    let released = fields.number(1)? != 0;
    fields.are_over().then_some(v1::ReleaseResponse { released })
}

/// Reads a lease for whoever asked with these texts, which are most likely its own.
pub(crate) fn grant(told: &[u8], lock: String, owner: String, sent_us: u64) -> Result<Grant, Error> {
    match usual_lease(told, &lock, &owner) {
        Some(usual) => Ok(Grant {
            fencing_token: token(usual.fencing_token)?,
            mode: Mode::told(usual.mode)?,
            ttl: Duration::from_millis(usual.ttl_ms),
            expires_in: Duration::from_millis(usual.expires_in_ms),
            renew_after: Duration::from_millis(usual.renew_after_ms),
            stop_after: Duration::from_millis(usual.stop_after_ms),
            acquired_at: time(usual.acquired_at),
            expires_at: time(usual.expires_at),
            lock: usual.lock.map_or(lock, str::to_owned),
            owner_id: usual.owner_id.map_or(owner, str::to_owned),
            session_id: usual.session_id.to_owned(),
            lease_id: usual.lease_id.to_owned(),
            version: usual.version,
            seq: usual.seq,
            metadata: Metadata::new(),
            sent_us,
        }),
        None => Grant::told(lease(told)?, sent_us),
    }
}

/// Reads a lease.
pub(crate) fn lease(told: &[u8]) -> Result<v1::Lease, Error> {
    v1::Lease::decode(told)
        .map_err(|error| Error::Unexpected { detail: format!("a lease that cannot be read: {error}") })
}

/// A `Lease` without metadata.
struct UsualLease<'t> {
    /// None is the one that was asked for.
    lock: Option<&'t str>,
    /// None is the one who asked.
    owner_id: Option<&'t str>,
    session_id: &'t str,
    lease_id: &'t str,
    fencing_token: i64,
    mode: i32,
    ttl_ms: u64,
    expires_in_ms: u64,
    renew_after_ms: u64,
    stop_after_ms: u64,
    acquired_at: Option<Timestamp>,
    expires_at: Option<Timestamp>,
    version: u64,
    seq: u64,
}

/// None: it is not as usual.
fn usual_lease<'t>(told: &'t [u8], lock: &str, owner: &str) -> Option<UsualLease<'t>> {
    let mut fields = Fields::new(told);
    let lease = UsualLease {
        lock: other_text(fields.bytes(1)?, lock)?,
        owner_id: other_text(fields.bytes(2)?, owner)?,
        session_id: text(fields.bytes(3)?)?,
        lease_id: text(fields.bytes(4)?)?,
        fencing_token: fields.number(5)?.cast_signed(),
        // As much of it as an enum has.
        mode: fields.number(6)? as i32,
        ttl_ms: fields.number(7)?,
        expires_in_ms: fields.number(8)?,
        renew_after_ms: fields.number(9)?,
        stop_after_ms: fields.number(10)?,
        acquired_at: moment(fields.bytes(11)?)?,
        expires_at: moment(fields.bytes(12)?)?,
        version: fields.number(13)?,
        seq: fields.number(14)?,
    };
    fields.are_over().then_some(lease)
}

/// A text that is left out is empty.
fn text(bytes: Option<&[u8]>) -> Option<&str> {
    str::from_utf8(bytes.unwrap_or_default()).ok()
}

/// None inside if it is this one.
fn other_text<'t>(bytes: Option<&'t [u8]>, this: &str) -> Option<Option<&'t str>> {
    match bytes.unwrap_or_default() == this.as_bytes() {
        true => Some(None),
        false => text(bytes).map(Some),
    }
}

/// None inside if it is left out.
fn moment(bytes: Option<&[u8]>) -> Option<Option<Timestamp>> {
    let Some(bytes) = bytes else { return Some(None) };
    let mut fields = Fields::new(bytes);
    let moment = Timestamp { seconds: fields.number(1)?.cast_signed(), nanos: fields.number(2)? as i32 };
    fields.are_over().then_some(Some(moment))
}

#[cfg(any(test, feature = "testing"))]
impl From<v1::OutcomeGroup> for OutcomeGroup {
    fn from(group: v1::OutcomeGroup) -> OutcomeGroup {
        let read = OutcomeGroup::decode(&*group.encode_to_vec());
        assert!(read.is_ok(), "both are the same bytes: {read:?}");
        read.unwrap_or_default()
    }
}
