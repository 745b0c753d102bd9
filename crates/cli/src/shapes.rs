//! Answers as JSON, one line each, member for member as the HTTP interface has them. Secrets leave only in a lease, towards
//! whoever asked for it.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold_client::{
    Broke, Cancelled, Event, FileRow, Grant, Holder, SessionRow, Snapshot, Waiter, Written,
};
use leasehold_server::rfc3339::Timestamp;
use leasehold_server::wire::shapes::to_json;
use serde::Serialize;
use serde_json::json;

use crate::duration::ms;

/// A lease.
pub fn lease(grant: &Grant) -> String {
    #[derive(Serialize)]
    struct Lease<'a> {
        lock: &'a str,
        owner_id: &'a str,
        session_id: &'a str,
        lease_id: &'a str,
        fencing_token: u64,
        mode: String,
        ttl_ms: u64,
        expires_in_ms: u64,
        renew_after_ms: u64,
        stop_after_ms: u64,
        acquired_at: Timestamp,
        expires_at: Timestamp,
        version: u64,
        seq: u64,
        metadata: &'a BTreeMap<String, String>,
    }
    line(&Lease {
        lock: &grant.lock,
        owner_id: &grant.owner_id,
        session_id: &grant.session_id,
        lease_id: &grant.lease_id,
        fencing_token: grant.fencing_token,
        mode: grant.mode.to_string(),
        ttl_ms: ms(grant.ttl),
        expires_in_ms: ms(grant.expires_in),
        renew_after_ms: ms(grant.renew_after),
        stop_after_ms: ms(grant.stop_after),
        acquired_at: time(grant.acquired_at),
        expires_at: time(grant.expires_at),
        version: grant.version,
        seq: grant.seq,
        metadata: &grant.metadata,
    })
}

/// A release.
pub fn released() -> String {
    line(&json!({"released": true}))
}

/// A cancel.
pub fn cancelled(found: Cancelled) -> String {
    let word = match found {
        Cancelled::Waiting => "waiting",
        Cancelled::Released => "released",
        Cancelled::Unknown => "unknown",
    };
    line(&json!({"cancelled": word}))
}

/// A token that is good, with this time left.
pub fn valid(left: Duration) -> String {
    #[derive(Serialize)]
    struct Valid {
        valid: bool,
        expires_in_ms: u64,
    }
    line(&Valid { valid: true, expires_in_ms: ms(left) })
}

/// A break.
pub fn broke(broke: &Broke) -> String {
    #[derive(Serialize)]
    struct Tokens<'a> {
        tokens: &'a [u64],
        free_in_ms: u64,
    }
    line(&Tokens { tokens: &broke.tokens, free_in_ms: ms(broke.free_in) })
}

/// One lock.
pub fn snapshot(lock: &Snapshot) -> String {
    line(&Lock::from(lock))
}

/// Many locks.
pub fn locks(locks: &[Snapshot]) -> String {
    #[derive(Serialize)]
    struct Locks<'a> {
        locks: Vec<Lock<'a>>,
    }
    line(&Locks { locks: locks.iter().map(Lock::from).collect() })
}

/// Many sessions.
pub fn sessions(rows: &[SessionRow]) -> String {
    #[derive(Serialize)]
    struct Session<'a> {
        owner_id: &'a str,
        ttl_ms: u64,
        expires_in_ms: u64,
        leases: u64,
        waiters: u64,
        metadata: &'a BTreeMap<String, String>,
    }
    #[derive(Serialize)]
    struct Sessions<'a> {
        sessions: Vec<Session<'a>>,
    }
    let sessions = rows.iter().map(|row| Session {
        owner_id: &row.owner_id,
        ttl_ms: ms(row.ttl),
        expires_in_ms: ms(row.expires_in),
        leases: row.leases,
        waiters: row.waiters,
        metadata: &row.metadata,
    });
    line(&Sessions { sessions: sessions.collect() })
}

/// A write.
pub fn written(written: &Written) -> String {
    #[derive(Serialize)]
    struct Wrote {
        offset: u64,
        length: u64,
        size: u64,
    }
    let Written { offset, length, size } = *written;
    line(&Wrote { offset, length, size })
}

/// A deletion.
pub fn deleted() -> String {
    line(&json!({"deleted": true}))
}

/// Many files.
pub fn files(rows: &[FileRow]) -> String {
    #[derive(Serialize)]
    struct File<'a> {
        name: &'a str,
        size: u64,
        inode: u64,
        fencing_token: u64,
        created_at: Timestamp,
        written_at: Timestamp,
        version: u64,
    }
    #[derive(Serialize)]
    struct Files<'a> {
        files: Vec<File<'a>>,
    }
    let files = rows.iter().map(|row| File {
        name: &row.name,
        size: row.size,
        inode: row.inode,
        fencing_token: row.fencing_token,
        created_at: time(row.created_at),
        written_at: time(row.written_at),
        version: row.version,
    });
    line(&Files { files: files.collect() })
}

/// Something that happened.
pub fn event(event: &Event) -> String {
    #[derive(Serialize)]
    struct Happened<'a> {
        seq: u64,
        time: Timestamp,
        lock: &'a str,
        #[serde(rename = "type")]
        kind: &'a str,
        owner_id: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        fencing_token: Option<u64>,
        mode: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<&'a str>,
    }
    line(&Happened {
        seq: event.seq,
        time: time(event.time),
        lock: &event.lock,
        kind: event.kind.text(),
        owner_id: &event.owner_id,
        fencing_token: event.fencing_token,
        mode: event.mode.to_string(),
        reason: event.reason.as_deref(),
    })
}

#[derive(Serialize)]
struct Lock<'a> {
    lock: &'a str,
    state: &'static str,
    holders: Vec<Holding<'a>>,
    waiters: Vec<Waiting<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_token: Option<u64>,
    version: u64,
    seq: u64,
}

impl<'a> From<&'a Snapshot> for Lock<'a> {
    fn from(lock: &'a Snapshot) -> Lock<'a> {
        Lock {
            lock: &lock.lock,
            state: if lock.is_held() { "held" } else { "free" },
            holders: lock.holders.iter().map(Holding::from).collect(),
            waiters: lock.waiters.iter().map(Waiting::from).collect(),
            last_token: lock.last_token,
            version: lock.version,
            seq: lock.seq,
        }
    }
}

/// Who holds.
#[derive(Serialize)]
pub struct Holding<'a> {
    lock: &'a str,
    owner_id: &'a str,
    mode: String,
    fencing_token: u64,
    acquired_at: Timestamp,
    expires_at: Timestamp,
    expires_in_ms: u64,
    metadata: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    broken: bool,
}

impl<'a> From<&'a Holder> for Holding<'a> {
    fn from(holder: &'a Holder) -> Holding<'a> {
        Holding {
            lock: &holder.lock,
            owner_id: &holder.owner_id,
            mode: holder.mode.to_string(),
            fencing_token: holder.fencing_token,
            acquired_at: time(holder.acquired_at),
            expires_at: time(holder.expires_at),
            expires_in_ms: ms(holder.expires_in),
            metadata: &holder.metadata,
            broken: holder.broken,
        }
    }
}

/// Who waits.
#[derive(Serialize)]
pub struct Waiting<'a> {
    lock: &'a str,
    owner_id: &'a str,
    mode: String,
    position: u64,
    waiting_ms: u64,
    attached: bool,
}

impl<'a> From<&'a Waiter> for Waiting<'a> {
    fn from(waiter: &'a Waiter) -> Waiting<'a> {
        Waiting {
            lock: &waiter.lock,
            owner_id: &waiter.owner_id,
            mode: waiter.mode.to_string(),
            position: waiter.position,
            waiting_ms: ms(waiter.waiting),
            attached: waiter.attached,
        }
    }
}

/// A moment as people read it.
pub fn time(moment: SystemTime) -> Timestamp {
    Timestamp(moment.duration_since(UNIX_EPOCH).map_or(0, ms))
}

/// The shape's JSON and a line end.
pub fn line(shape: &impl Serialize) -> String {
    String::from_utf8_lossy(&to_json(shape)).into_owned() + "\n"
}
