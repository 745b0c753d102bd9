//! The JSON of answers, field for field as the contract names them: each struct here *is* a wire shape. Secrets leave
//! only in a lease and in a session, towards whoever asked for them.

use leasehold_state_machine::answer::{
    Answer, EndedView, FileView, HolderView, LeaseView, SessionRow, SessionView, Snapshot, WaiterView,
    Written,
};
use leasehold_state_machine::words::Metadata;
use serde::{Serialize, Serializer};

use crate::rfc3339::Timestamp;

/// The body of an answer.
pub fn render(answer: &Answer) -> Vec<u8> {
    match answer {
        Answer::Lease(view) => to_json(&LeaseJson::from(&**view)),
        Answer::Released { .. } => to_json(&ReleasedJson { released: true }),
        Answer::Cancelled(found) => to_json(&CancelledJson { cancelled: found.text() }),
        Answer::Valid { expires_in_ms } => to_json(&ValidJson { valid: true, expires_in_ms: *expires_in_ms }),
        Answer::Snapshot(snapshot) => to_json(&SnapshotJson::from(&**snapshot)),
        Answer::Locks { locks, next_cursor } => to_json(&LocksJson {
            locks: locks.iter().map(SnapshotJson::from).collect(),
            next_cursor: next_cursor.as_deref(),
        }),
        Answer::Broke { tokens, free_in_ms } => to_json(&BrokeJson { tokens, free_in_ms: *free_in_ms }),
        Answer::Session(view) => to_json(&SessionJson::from(&**view)),
        Answer::Closed => to_json(&ClosedJson { closed: true }),
        Answer::Sessions { sessions, next_cursor, seq: _ } => to_json(&SessionsJson {
            sessions: sessions.iter().map(SessionRowJson::from).collect(),
            next_cursor: next_cursor.as_deref(),
        }),
        Answer::Wrote(Written { offset, length, size }) => {
            to_json(&WroteJson { offset: *offset, length: *length, size: *size })
        }
        Answer::Deleted => to_json(&DeletedJson { deleted: true }),
        Answer::File(view) => to_json(&FileJson::from(&**view)),
        Answer::Files { files, next_cursor } => to_json(&FilesJson {
            files: files.iter().map(FileJson::from).collect(),
            next_cursor: next_cursor.as_deref(),
        }),
    }
}

/// The JSON of a shape.
pub fn to_json(shape: &impl Serialize) -> Vec<u8> {
    let bytes = serde_json::to_vec(shape);
    assert!(bytes.is_ok(), "shapes have string keys and no fallible parts, so they always have a JSON text");
    bytes.unwrap_or_default()
}

#[derive(Serialize)]
struct LeaseJson<'a> {
    lock: &'a str,
    owner_id: &'a str,
    session_id: String,
    lease_id: String,
    fencing_token: u64,
    mode: &'static str,
    ttl_ms: u64,
    expires_in_ms: u64,
    renew_after_ms: u64,
    stop_after_ms: u64,
    acquired_at: Timestamp,
    expires_at: Timestamp,
    version: u64,
    seq: u64,
    metadata: MetadataJson<'a>,
}

impl<'a> From<&'a LeaseView> for LeaseJson<'a> {
    fn from(view: &'a LeaseView) -> Self {
        LeaseJson {
            lock: view.resource.text(),
            owner_id: view.owner.text(),
            session_id: view.session.text(),
            lease_id: view.lease.text(),
            fencing_token: view.token,
            mode: view.mode.text(),
            ttl_ms: view.ttl.ms(),
            expires_in_ms: view.expires_in_ms,
            renew_after_ms: view.renew_after_ms,
            stop_after_ms: view.stop_after_ms,
            acquired_at: Timestamp(view.acquired_wall_ms),
            expires_at: Timestamp(view.expires_wall_ms),
            version: view.version,
            seq: view.seq,
            metadata: MetadataJson(&view.metadata),
        }
    }
}

#[derive(Serialize)]
struct ReleasedJson {
    released: bool,
}

#[derive(Serialize)]
struct CancelledJson {
    cancelled: &'static str,
}

#[derive(Serialize)]
struct ValidJson {
    valid: bool,
    expires_in_ms: u64,
}

#[derive(Serialize)]
struct SnapshotJson<'a> {
    lock: &'a str,
    state: &'static str,
    holders: Vec<HolderJson<'a>>,
    waiters: Vec<WaiterJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_token: Option<u64>,
    version: u64,
    seq: u64,
}

impl<'a> From<&'a Snapshot> for SnapshotJson<'a> {
    fn from(snapshot: &'a Snapshot) -> Self {
        SnapshotJson {
            lock: snapshot.resource.text(),
            state: if snapshot.holders.is_empty() { "free" } else { "held" },
            holders: snapshot.holders.iter().map(HolderJson::from).collect(),
            waiters: snapshot.waiters.iter().map(WaiterJson::from).collect(),
            last_token: snapshot.last_token,
            version: snapshot.version,
            seq: snapshot.seq,
        }
    }
}

/// A holder as everybody may see it.
#[derive(Serialize)]
pub struct HolderJson<'a> {
    lock: &'a str,
    owner_id: &'a str,
    mode: &'static str,
    fencing_token: u64,
    acquired_at: Timestamp,
    expires_at: Timestamp,
    expires_in_ms: u64,
    metadata: MetadataJson<'a>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    broken: bool,
}

impl<'a> From<&'a HolderView> for HolderJson<'a> {
    fn from(view: &'a HolderView) -> Self {
        HolderJson {
            lock: view.resource.text(),
            owner_id: view.owner.text(),
            mode: view.mode.text(),
            fencing_token: view.token,
            acquired_at: Timestamp(view.acquired_wall_ms),
            expires_at: Timestamp(view.expires_wall_ms),
            expires_in_ms: view.expires_in_ms,
            metadata: MetadataJson(&view.metadata),
            broken: view.broken,
        }
    }
}

/// A waiter as everybody may see it.
#[derive(Serialize)]
pub struct WaiterJson<'a> {
    lock: &'a str,
    owner_id: &'a str,
    mode: &'static str,
    position: u64,
    waiting_ms: u64,
    attached: bool,
}

impl<'a> From<&'a WaiterView> for WaiterJson<'a> {
    fn from(view: &'a WaiterView) -> Self {
        WaiterJson {
            lock: view.resource.text(),
            owner_id: view.owner.text(),
            mode: view.mode.text(),
            position: view.position,
            waiting_ms: view.waiting_ms,
            attached: view.attached,
        }
    }
}

#[derive(Serialize)]
struct LocksJson<'a> {
    locks: Vec<SnapshotJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<&'a str>,
}

#[derive(Serialize)]
struct BrokeJson<'a> {
    tokens: &'a [u64],
    free_in_ms: u64,
}

#[derive(Serialize)]
struct SessionJson<'a> {
    session_id: String,
    owner_id: &'a str,
    ttl_ms: u64,
    expires_in_ms: u64,
    renew_after_ms: u64,
    stop_after_ms: u64,
    ended: Vec<EndedJson<'a>>,
    seq: u64,
    metadata: MetadataJson<'a>,
}

impl<'a> From<&'a SessionView> for SessionJson<'a> {
    fn from(view: &'a SessionView) -> Self {
        SessionJson {
            session_id: view.session.text(),
            owner_id: view.owner.text(),
            ttl_ms: view.ttl.ms(),
            expires_in_ms: view.expires_in_ms,
            renew_after_ms: view.renew_after_ms,
            stop_after_ms: view.stop_after_ms,
            ended: view.ended.iter().map(EndedJson::from).collect(),
            seq: view.seq,
            metadata: MetadataJson(&view.metadata),
        }
    }
}

#[derive(Serialize)]
struct EndedJson<'a> {
    lock: &'a str,
    fencing_token: u64,
    reason: &'static str,
    seq: u64,
}

impl<'a> From<&'a EndedView> for EndedJson<'a> {
    fn from(view: &'a EndedView) -> Self {
        EndedJson {
            lock: view.resource.text(),
            fencing_token: view.token,
            reason: view.reason,
            seq: view.seq,
        }
    }
}

#[derive(Serialize)]
struct ClosedJson {
    closed: bool,
}

#[derive(Serialize)]
struct SessionsJson<'a> {
    sessions: Vec<SessionRowJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<&'a str>,
}

#[derive(Serialize)]
struct SessionRowJson<'a> {
    owner_id: &'a str,
    ttl_ms: u64,
    expires_in_ms: u64,
    leases: u64,
    waiters: u64,
    metadata: MetadataJson<'a>,
}

impl<'a> From<&'a SessionRow> for SessionRowJson<'a> {
    fn from(row: &'a SessionRow) -> Self {
        SessionRowJson {
            owner_id: row.owner.text(),
            ttl_ms: row.ttl.ms(),
            expires_in_ms: row.expires_in_ms,
            leases: row.leases,
            waiters: row.waiters,
            metadata: MetadataJson(&row.metadata),
        }
    }
}

struct MetadataJson<'a>(&'a Metadata);

impl Serialize for MetadataJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.entries())
    }
}

#[derive(Serialize)]
struct WroteJson {
    offset: u64,
    length: u64,
    size: u64,
}

#[derive(Serialize)]
struct DeletedJson {
    deleted: bool,
}

#[derive(Serialize)]
struct FileJson<'a> {
    name: &'a str,
    size: u64,
    inode: u64,
    fencing_token: u64,
    created_at: Timestamp,
    written_at: Timestamp,
    version: u64,
}

impl<'a> From<&'a FileView> for FileJson<'a> {
    fn from(view: &'a FileView) -> Self {
        FileJson {
            name: view.name.text(),
            size: view.size,
            inode: view.number,
            fencing_token: view.token,
            created_at: Timestamp(view.created_wall_ms),
            written_at: Timestamp(view.written_wall_ms),
            version: view.version,
        }
    }
}

#[derive(Serialize)]
struct FilesJson<'a> {
    files: Vec<FileJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<&'a str>,
}
