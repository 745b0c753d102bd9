//! Messages as commands: each is read into the form that HTTP fills in too, and which judges it. Nothing is checked here
//! but what only a message can get wrong: numbers below zero, and enum values that nobody knows.

use std::collections::BTreeMap;

use leasehold_protocol::v1;
use leasehold_state_machine::command::Command;
use leasehold_state_machine::invalid::Invalid;
use leasehold_state_machine::words::{Metadata, Mode, RequestId};

use super::asked::{AskedAcquire, AskedRelease};
use crate::wire::forms::{self, AcquireForm, BreakForm, ListForm, ProofForm};

/// An acquire.
pub fn acquire(asked: v1::AcquireRequest) -> Result<Command, Invalid> {
    let request_id = chosen(asked.request_id.as_deref())?;
    acquire_as(v1::AcquireRequest { request_id: None, ..asked }, request_id)
}

/// An acquire whose id came by another way than its field, which must be left out.
pub fn acquire_as(asked: v1::AcquireRequest, request_id: Option<RequestId>) -> Result<Command, Invalid> {
    no_id(&asked.request_id)?;
    AcquireForm {
        lock: &asked.lock,
        owner_id: &asked.owner_id,
        ttl_ms: asked.ttl_ms,
        mode: Some(mode(asked.mode)?),
        wait_ms: Some(asked.wait_ms),
        session_id: asked.session_id.as_deref(),
        request_id,
        metadata: metadata(asked.metadata)?,
    }
    .command()
}

/// The same of one that is read where it lies.
pub fn asked_acquire(asked: &AskedAcquire<'_>, request_id: Option<RequestId>) -> Result<Command, Invalid> {
    AcquireForm {
        lock: asked.lock,
        owner_id: asked.owner_id,
        ttl_ms: asked.ttl_ms,
        mode: Some(mode(asked.mode)?),
        wait_ms: Some(asked.wait_ms),
        session_id: asked.session_id,
        request_id,
        metadata: Metadata::default(),
    }
    .command()
}

/// A renewal.
pub fn renew(asked: v1::RenewRequest) -> Result<Command, Invalid> {
    let metadata = asked.metadata.map(|given| metadata(given.entries)).transpose()?;
    proof(&asked.lock, &asked.owner_id, asked.lease_id.as_bytes(), asked.fencing_token)?
        .renew(asked.ttl_ms, metadata)
}

/// A release.
pub fn release(asked: v1::ReleaseRequest) -> Result<Command, Invalid> {
    proof(&asked.lock, &asked.owner_id, asked.lease_id.as_bytes(), asked.fencing_token)?.release()
}

/// The same of one that is read where it lies.
pub fn asked_release(asked: &AskedRelease<'_>) -> Result<Command, Invalid> {
    proof(asked.lock, asked.owner_id, asked.lease_id, asked.fencing_token)?.release()
}

/// A cancel.
pub fn cancel(asked: v1::CancelRequest) -> Result<Command, Invalid> {
    forms::cancel(&asked.lock, &asked.owner_id, &asked.request_id)
}

/// A verify.
pub fn verify(asked: v1::VerifyRequest) -> Result<Command, Invalid> {
    forms::verify(&asked.lock, token("fencing_token", asked.fencing_token)?)
}

/// A look at one lock.
pub fn get(asked: v1::GetRequest) -> Result<Command, Invalid> {
    forms::get(&asked.lock)
}

/// A look at many locks.
pub fn list(asked: v1::ListRequest) -> Result<Command, Invalid> {
    ListForm {
        prefix: &asked.prefix,
        owner_id: asked.owner_id.as_deref(),
        limit: rows(asked.limit),
        cursor: asked.cursor.as_deref(),
    }
    .command()
}

/// A break.
pub fn break_lock(asked: v1::BreakRequest) -> Result<Command, Invalid> {
    BreakForm {
        lock: &asked.lock,
        reason: &asked.reason,
        force: asked.force,
        token: asked.token.map(|given| token("token", given)).transpose()?,
        request_id: chosen(asked.request_id.as_deref())?,
    }
    .command()
}

/// The opening of a session.
pub fn open_session(asked: v1::OpenSessionRequest) -> Result<Command, Invalid> {
    let request_id = chosen(asked.request_id.as_deref())?;
    open_session_as(v1::OpenSessionRequest { request_id: None, ..asked }, request_id)
}

/// The opening of a session whose id came by another way than its field, which must be left out.
pub fn open_session_as(
    asked: v1::OpenSessionRequest,
    request_id: Option<RequestId>,
) -> Result<Command, Invalid> {
    no_id(&asked.request_id)?;
    forms::open_session(&asked.owner_id, asked.ttl_ms, request_id, metadata(asked.metadata)?)
}

/// A heartbeat.
pub fn keep_alive(asked: v1::KeepAliveRequest) -> Result<Command, Invalid> {
    forms::keep_alive(&asked.session_id, asked.seen)
}

/// The close of a session.
pub fn close_session(asked: v1::CloseSessionRequest) -> Result<Command, Invalid> {
    forms::close_session(&asked.session_id)
}

/// A look at the sessions.
pub fn list_sessions(asked: v1::ListSessionsRequest) -> Result<Command, Invalid> {
    forms::list_sessions(rows(asked.limit), asked.cursor.as_deref())
}

/// What a holder shows.
pub fn proof<'f>(
    lock: &'f str,
    owner_id: &'f str,
    lease_id: &'f [u8],
    fencing_token: i64,
) -> Result<ProofForm<'f>, Invalid> {
    Ok(ProofForm { lock, owner_id, lease_id, fencing_token: token("fencing_token", fencing_token)? })
}

fn mode(number: i32) -> Result<Mode, Invalid> {
    match v1::Mode::try_from(number) {
        Ok(v1::Mode::Unspecified | v1::Mode::Exclusive) => Ok(Mode::Exclusive),
        Ok(v1::Mode::Shared) => Ok(Mode::Shared),
        Err(_) => Err(Invalid::new("mode", "a mode is `MODE_EXCLUSIVE` or `MODE_SHARED`")),
    }
}

fn token(field: &'static str, number: i64) -> Result<u64, Invalid> {
    u64::try_from(number).map_err(|_| Invalid::new(field, "a fencing token is not below 0"))
}

/// On the wire, 0 rows leave it to the server.
pub fn rows(limit: u32) -> Option<u64> {
    (limit > 0).then_some(limit.into())
}

fn metadata(entries: BTreeMap<String, String>) -> Result<Metadata, Invalid> {
    Metadata::new(entries)
}

/// The id that a caller chose.
pub fn chosen(id: Option<&str>) -> Result<Option<RequestId>, Invalid> {
    id.map(RequestId::parse).transpose()
}

fn no_id(id: &Option<String>) -> Result<(), Invalid> {
    match id {
        None => Ok(()),
        Some(_) => {
            Err(Invalid::new("request_id", "on a stream the number is the request id: leave this out"))
        }
    }
}
