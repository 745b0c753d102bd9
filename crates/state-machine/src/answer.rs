//! What is told. Answers and refusals in the domain's words; they become status codes in one table at the edge.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use crate::command::Attachment;
use crate::event::{CancelFound, Seq};
use crate::file::FileName;
use crate::ids::{LeaseId, SessionId};
use crate::invalid::Invalid;
use crate::resource::Resource;
use crate::words::{Metadata, Mode, Owner, Ttl};

/// An answer, whom it is for, and what must be durable before it may leave.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Who hears it.
    pub to: Attachment,
    /// What is told.
    pub outcome: Outcome,
    /// The newest event that it depends on.
    pub after: Seq,
    /// Whether it promises time to a holder, so that a horizon above the raw time of its decision must be durable.
    pub promises_time: bool,
    /// The event whose bytes must be in their file, beside being durable: whoever is told of them may read them.
    pub applied: Option<Seq>,
}

/// An answer or a refusal.
pub type Outcome = Result<Answer, Refusal>;

/// What is told to somebody whose request was carried out. It passes through many hands, so what is large is boxed.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// To an acquire or a renewal.
    Lease(Box<LeaseView>),
    /// To a release.
    Released {
        /// What was left of the lease, when this was what ended it.
        remaining_ms: Option<u64>,
    },
    /// To a cancel.
    Cancelled(CancelFound),
    /// To a verify.
    Valid {
        /// What is left of the lease.
        expires_in_ms: u64,
    },
    /// To a get.
    Snapshot(Box<Snapshot>),
    /// To a list.
    Locks {
        /// In order of their text.
        locks: Vec<Snapshot>,
        /// Where the next page begins.
        next_cursor: Option<String>,
    },
    /// To a break.
    Broke {
        /// The tokens that were broken.
        tokens: Vec<u64>,
        /// When the last of them ends.
        free_in_ms: u64,
    },
    /// To the opening of a session or a keep-alive.
    Session(Box<SessionView>),
    /// To the close of a session.
    Closed,
    /// To a list of sessions.
    Sessions {
        /// In a stable order.
        sessions: Vec<SessionRow>,
        /// Where the next page begins.
        next_cursor: Option<String>,
        /// After which event this holds.
        seq: Seq,
    },
    /// To a write.
    Wrote(Written),
    /// To the deletion of a file.
    Deleted,
    /// To a question about a file.
    File(Box<FileView>),
    /// To a list of files.
    Files {
        /// In order of their names.
        files: Vec<FileView>,
        /// Where the next page begins.
        next_cursor: Option<String>,
    },
}

/// What is told to somebody whose request was not carried out.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    /// An argument is malformed or contradicts another.
    Invalid(Invalid),
    /// There is no such thing, or it is forgotten. Says which.
    NotFound(&'static str),
    /// Somebody holds it or stands before the caller, or the wait ran out.
    Held(Held),
    /// It was the caller's, and its time ran out.
    LeaseExpired,
    /// It was the caller's, and was released, closed or broken.
    Released,
    /// Owner, lease, token and lock do not belong together.
    StaleToken {
        /// A newer token that was seen on the resource.
        highest_token: Option<u64>,
    },
    /// A live lease, but shared, or not covering what is written. Says which.
    ScopeMismatch(&'static str),
    /// A file, a write, or all files together would be over their limit. Says which, and how many bytes that is.
    TooLarge {
        /// What would be too large.
        what: &'static str,
        /// Its limit.
        bytes_max: u64,
    },
    /// The caller took the request back, or a newer attempt of it is answered instead.
    Cancelled,
    /// A limit is reached. Says which.
    Busy {
        /// Which limit.
        what: &'static str,
        /// When to try again.
        retry_ms: u64,
    },
    /// Not now. Says why.
    Unavailable {
        /// Why.
        why: &'static str,
        /// When to try again.
        retry_ms: u64,
    },
}

/// Who is in the way.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    /// Who holds something that overlaps; the first of them when there are many.
    pub holders: Vec<HolderView>,
    /// Who waits for something that overlaps; the first of them when there are many.
    pub waiters: Vec<WaiterView>,
    /// When to try again; never 0.
    pub retry_ms: u64,
}

/// A lease as its holder sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct LeaseView {
    /// What is held.
    pub resource: Resource,
    /// Who holds it.
    pub owner: Owner,
    /// The session it lives by.
    pub session: SessionId,
    /// The secret id.
    pub lease: LeaseId,
    /// The fencing token.
    pub token: u64,
    /// The mode.
    pub mode: Mode,
    /// The TTL.
    pub ttl: Ttl,
    /// What is left to the deadline.
    pub expires_in_ms: u64,
    /// When to renew, counted from the sending of the attempt that is answered.
    pub renew_after_ms: u64,
    /// When to stop believing, counted from the sending of the attempt that is answered.
    pub stop_after_ms: u64,
    /// Wall time of the grant, for people.
    pub acquired_wall_ms: u64,
    /// Wall time of the deadline, for people.
    pub expires_wall_ms: u64,
    /// The `seq` of the lock's last change.
    pub version: Seq,
    /// After which event this holds.
    pub seq: Seq,
    /// What the holder said of itself.
    pub metadata: Metadata,
    /// Whether a request id can bring this answer again; without one, an undelivered grant is given back.
    pub repeatable: bool,
}

/// A lock as everybody may see it: no secrets.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Which lock.
    pub resource: Resource,
    /// Who holds something that overlaps.
    pub holders: Vec<HolderView>,
    /// Who waits for something that overlaps, in order.
    pub waiters: Vec<WaiterView>,
    /// The newest token seen while the lock is remembered.
    pub last_token: Option<u64>,
    /// The `seq` of the lock's last change.
    pub version: Seq,
    /// After which event this holds.
    pub seq: Seq,
}

/// A holder as everybody may see it.
#[derive(Clone, Debug, PartialEq)]
pub struct HolderView {
    /// What it holds.
    pub resource: Resource,
    /// Who it is.
    pub owner: Owner,
    /// In which mode.
    pub mode: Mode,
    /// Its fencing token.
    pub token: u64,
    /// Wall time of the grant, for people.
    pub acquired_wall_ms: u64,
    /// Wall time of the deadline, for people.
    pub expires_wall_ms: u64,
    /// What is left to the deadline.
    pub expires_in_ms: u64,
    /// What it said of itself.
    pub metadata: Metadata,
    /// Broken, and standing until its deadline.
    pub broken: bool,
}

/// A waiter as everybody may see it.
#[derive(Clone, Debug, PartialEq)]
pub struct WaiterView {
    /// What it waits for.
    pub resource: Resource,
    /// Who it is.
    pub owner: Owner,
    /// In which mode.
    pub mode: Mode,
    /// Its place among those listed with it, from 1.
    pub position: u64,
    /// How long it has stood in line, or since the last recovery.
    pub waiting_ms: u64,
    /// Whether somebody is there to be answered.
    pub attached: bool,
}

/// A session as its owner sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionView {
    /// The secret id.
    pub session: SessionId,
    /// Whose it is.
    pub owner: Owner,
    /// The TTL.
    pub ttl: Ttl,
    /// What is left to the deadline.
    pub expires_in_ms: u64,
    /// When to send the next heartbeat, counted from the sending of the attempt that is answered.
    pub renew_after_ms: u64,
    /// When to stop believing, counted from the sending of the attempt that is answered.
    pub stop_after_ms: u64,
    /// Leases that ended otherwise than by their own release, until they are confirmed as seen.
    pub ended: Vec<EndedView>,
    /// After which event this holds.
    pub seq: Seq,
    /// What its owner said of it.
    pub metadata: Metadata,
}

/// A lease of a session that ended otherwise than by its own release.
#[derive(Clone, Debug, PartialEq)]
pub struct EndedView {
    /// What it held.
    pub resource: Resource,
    /// Its fencing token.
    pub token: u64,
    /// Why it ended.
    pub reason: &'static str,
    /// The event that ended it.
    pub seq: Seq,
}

/// A session as everybody may see it.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionRow {
    /// Whose it is.
    pub owner: Owner,
    /// The TTL.
    pub ttl: Ttl,
    /// What is left to the deadline.
    pub expires_in_ms: u64,
    /// How many leases live by it.
    pub leases: u64,
    /// How many requests stand in line for it.
    pub waiters: u64,
    /// What its owner said of it.
    pub metadata: Metadata,
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Where its first byte is.
    pub offset: u64,
    /// How many bytes it had.
    pub length: u64,
    /// The size of the file after it.
    pub size: u64,
}

/// A file as everybody may see it.
#[derive(Clone, Debug, PartialEq)]
pub struct FileView {
    /// Its name.
    pub name: FileName,
    /// Its inode number, under which its bytes are found; never another file's.
    pub number: u64,
    /// Its bytes.
    pub size: u64,
    /// The highest token that wrote it.
    pub token: u64,
    /// Wall time of its first write, for people.
    pub created_wall_ms: u64,
    /// Wall time of its last write, for people.
    pub written_wall_ms: u64,
    /// The event that last wrote it.
    pub version: Seq,
}
