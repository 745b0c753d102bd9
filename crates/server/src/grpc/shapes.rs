//! Answers as messages, field for field the same as the JSON. Secrets leave only in a lease and in a session, towards
//! whoever asked for them.

use std::collections::BTreeMap;

use leasehold_protocol::v1;
use leasehold_state_machine::answer::{
    Answer, EndedView, HolderView, LeaseView, SessionRow, SessionView, Snapshot, WaiterView,
};
use leasehold_state_machine::words::{Metadata, Mode};
use prost_types::Timestamp;

/// What an answer to a call must be. Another one is a bug of ours, and no state to go on from.
macro_rules! only {
    ($answer:expr, $pattern:pat => $message:expr) => {
        match $answer {
            $pattern => $message,
            other => panic!("an answer to another call: {other:?}"),
        }
    };
}
pub(super) use only;

/// The answer to an acquire or a renewal.
pub fn lease(answer: Answer) -> v1::Lease {
    only!(answer, Answer::Lease(view) => lease_of(&view))
}

/// The answer to a release.
pub fn released(answer: Answer) -> v1::ReleaseResponse {
    only!(answer, Answer::Released { .. } => v1::ReleaseResponse { released: true })
}

/// The answer to a cancel.
pub fn cancelled(answer: Answer) -> v1::CancelResponse {
    only!(answer, Answer::Cancelled(found) => v1::CancelResponse { cancelled: found.text().into() })
}

/// The answer to a verify.
pub fn verified(answer: Answer) -> v1::VerifyResponse {
    only!(answer, Answer::Valid { expires_in_ms } => v1::VerifyResponse { valid: true, expires_in_ms })
}

/// The answer to a get.
pub fn snapshot(answer: Answer) -> v1::Snapshot {
    only!(answer, Answer::Snapshot(snapshot) => snapshot_of(*snapshot))
}

/// The answer to a list.
pub fn locks(answer: Answer) -> v1::ListResponse {
    only!(answer, Answer::Locks { locks, next_cursor } => v1::ListResponse {
        locks: locks.into_iter().map(snapshot_of).collect(),
        next_cursor,
    })
}

/// The answer to a break.
pub fn broke(answer: Answer) -> v1::BreakResponse {
    only!(answer, Answer::Broke { tokens, free_in_ms } => v1::BreakResponse {
        tokens: tokens.into_iter().map(token).collect(),
        free_in_ms,
    })
}

/// The answer to the opening of a session or a heartbeat.
pub fn session(answer: Answer) -> v1::Session {
    only!(answer, Answer::Session(view) => session_of(&view))
}

/// The answer to the close of a session.
pub fn closed(answer: Answer) -> v1::CloseSessionResponse {
    only!(answer, Answer::Closed => v1::CloseSessionResponse {})
}

/// The answer to a list of sessions.
pub fn sessions(answer: Answer) -> v1::ListSessionsResponse {
    only!(answer, Answer::Sessions { sessions, next_cursor, seq: _ } => v1::ListSessionsResponse {
        sessions: sessions.into_iter().map(row_of).collect(),
        next_cursor,
    })
}

/// A lease as its holder sees it.
pub fn lease_of(view: &LeaseView) -> v1::Lease {
    v1::Lease {
        lock: view.resource.text().into(),
        owner_id: view.owner.text().into(),
        session_id: view.session.text(),
        lease_id: view.lease.text(),
        fencing_token: token(view.token),
        mode: mode(view.mode),
        ttl_ms: view.ttl.ms(),
        expires_in_ms: view.expires_in_ms,
        renew_after_ms: view.renew_after_ms,
        stop_after_ms: view.stop_after_ms,
        acquired_at: Some(moment(view.acquired_wall_ms)),
        expires_at: Some(moment(view.expires_wall_ms)),
        version: view.version,
        seq: view.seq,
        metadata: map(&view.metadata),
    }
}

/// A lock as everybody may see it.
pub fn snapshot_of(snapshot: Snapshot) -> v1::Snapshot {
    v1::Snapshot {
        lock: snapshot.resource.text().into(),
        state: if snapshot.holders.is_empty() { "free" } else { "held" }.into(),
        holders: snapshot.holders.iter().map(holder).collect(),
        waiters: snapshot.waiters.iter().map(waiter).collect(),
        last_token: snapshot.last_token.map(token),
        version: snapshot.version,
        seq: snapshot.seq,
    }
}

/// A session as its owner sees it.
pub fn session_of(view: &SessionView) -> v1::Session {
    v1::Session {
        session_id: view.session.text(),
        owner_id: view.owner.text().into(),
        ttl_ms: view.ttl.ms(),
        expires_in_ms: view.expires_in_ms,
        renew_after_ms: view.renew_after_ms,
        stop_after_ms: view.stop_after_ms,
        ended: view.ended.iter().map(ended).collect(),
        seq: view.seq,
        metadata: map(&view.metadata),
    }
}

/// A holder as everybody may see it.
pub fn holder(view: &HolderView) -> v1::Holder {
    v1::Holder {
        lock: view.resource.text().into(),
        owner_id: view.owner.text().into(),
        mode: mode(view.mode),
        fencing_token: token(view.token),
        acquired_at: Some(moment(view.acquired_wall_ms)),
        expires_at: Some(moment(view.expires_wall_ms)),
        expires_in_ms: view.expires_in_ms,
        metadata: map(&view.metadata),
        broken: view.broken,
    }
}

/// A waiter as everybody may see it.
pub fn waiter(view: &WaiterView) -> v1::Waiter {
    v1::Waiter {
        lock: view.resource.text().into(),
        owner_id: view.owner.text().into(),
        mode: mode(view.mode),
        position: view.position,
        waiting_ms: view.waiting_ms,
        attached: view.attached,
    }
}

/// A lease that ended under its session.
pub fn ended(view: &EndedView) -> v1::EndedLease {
    v1::EndedLease {
        lock: view.resource.text().into(),
        fencing_token: token(view.token),
        reason: view.reason.into(),
        seq: view.seq,
    }
}

/// A token, which is below 2^53.
pub fn token(token: u64) -> i64 {
    let number = i64::try_from(token);
    assert!(number.is_ok(), "tokens stay below 2^53");
    number.unwrap_or_default()
}

/// A mode.
pub fn mode(mode: Mode) -> i32 {
    let mode = match mode {
        Mode::Exclusive => v1::Mode::Exclusive,
        Mode::Shared => v1::Mode::Shared,
    };
    mode.into()
}

/// A moment in Unix milliseconds.
pub fn moment(unix_ms: u64) -> Timestamp {
    let seconds = i64::try_from(unix_ms / 1000).unwrap_or(i64::MAX);
    let nanos = i32::try_from(unix_ms % 1000 * 1_000_000).unwrap_or_default();
    Timestamp { seconds, nanos }
}

fn row_of(row: SessionRow) -> v1::SessionRow {
    v1::SessionRow {
        owner_id: row.owner.text().into(),
        ttl_ms: row.ttl.ms(),
        expires_in_ms: row.expires_in_ms,
        leases: row.leases,
        waiters: row.waiters,
        metadata: map(&row.metadata),
    }
}

fn map(metadata: &Metadata) -> BTreeMap<String, String> {
    metadata.entries().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}
