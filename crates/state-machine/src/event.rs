//! What happened. An event says the outcome, never the reasoning, so that a newer version can replay an older journal
//! without the old logic. Every event names all that a reader of the journal or the audit trail wants to know.

use alloc::vec::Vec;

use crate::file::{FileBytes, FileName};
use crate::ids::{ClientKey, HashKey, Payload, RequestName, Secret};
use crate::resource::Resource;
use crate::words::{Metadata, Mode, Owner, Reason, Ttl, Wait};

/// The number of an event: 1 for the first, one more each, across restarts.
pub type Seq = u64;
/// The place of a request in the order of arrival. A lease keeps the ticket of the request it came from.
pub type Ticket = u64;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The first of all: the journal's own hash key.
    Founded {
        /// Drawn once, for the life of the data directory.
        key: HashKey,
    },
    /// A request became a lease, at once or from the line.
    Granted {
        /// Its place in the order of arrival; a waiter with this ticket leaves the line with it.
        ticket: Ticket,
        /// Where the lease stands from now on.
        slot: u32,
        /// Its fencing token.
        token: u64,
        /// What was asked for.
        ask: Ask,
    },
    /// A request stands in line.
    Queued {
        /// Its place in the order of arrival.
        ticket: Ticket,
        /// How long it may stay, from its arrival or from a recovery.
        wait: Wait,
        /// What it asks for.
        ask: Ask,
    },
    /// A waiter left the line without a lease.
    Dequeued {
        /// Its place in the order of arrival.
        ticket: Ticket,
        /// What it waited for.
        resource: Resource,
        /// Who waited.
        owner: Owner,
        /// In which mode.
        mode: Mode,
        /// Why it left.
        why: Departure,
    },
    /// A renewal changed a lease's TTL or metadata.
    Updated {
        /// Which lease.
        lease: LeaseName,
        /// The TTL from now on, if it changed.
        ttl: Option<Ttl>,
        /// The metadata from now on, if it changed.
        metadata: Option<Metadata>,
    },
    /// A lease ended before its time.
    Released {
        /// Which lease.
        lease: LeaseName,
        /// Who or what ended it.
        why: Release,
    },
    /// A lease's time ran out.
    Expired {
        /// Which lease.
        lease: LeaseName,
    },
    /// An operator broke a lease.
    Broken {
        /// Which lease.
        lease: LeaseName,
        /// The operator's words.
        reason: Reason,
        /// Whether it ended at once; otherwise it stands, useless, until its deadline.
        force: bool,
    },
    /// A session was opened by name.
    SessionOpened {
        /// Where it stands.
        slot: u32,
        /// The secret half of its id.
        secret: Secret,
        /// Whose it is.
        owner: Owner,
        /// How long it lives without a heartbeat.
        ttl: Ttl,
        /// What its owner says of it.
        metadata: Metadata,
        /// The request that opened it.
        request: Option<RequestMark>,
    },
    /// A session ended; its leases are over from here on and follow in slices.
    SessionEnded {
        /// Where it stood.
        slot: u32,
        /// Whose it was.
        owner: Owner,
        /// How it ended.
        how: Ending,
    },
    /// A session's owner has heard of its ended leases up to here.
    Seen {
        /// The session's slot.
        slot: u32,
        /// The highest `seq` it confirmed.
        through: Seq,
    },
    /// A request id was taken back, perhaps before the request itself arrived.
    Cancelled {
        /// The id.
        request: RequestName,
        /// What the cancel found.
        found: CancelFound,
    },
    /// A break that carried a request id was answered.
    BreakAnswered {
        /// The id and what was asked.
        request: RequestMark,
        /// The tokens that were broken.
        tokens: Vec<u64>,
        /// When the resource would be free, as it was told.
        free_in_ms: u64,
    },
    /// Old answers are forgotten: everything retired before these numbers.
    Forgotten {
        /// Request ids retired before this number.
        requests_before: u64,
        /// Tombstones set before this number.
        tombstones_before: u64,
    },
    /// A stream's client has the answers of all its numbers up to one, but for some: they are forgotten, and refused
    /// from now on.
    Marked {
        /// The client.
        client: ClientKey,
        /// The highest number answered.
        answered_through: u64,
        /// Numbers up to there that are still open, in order.
        open: Vec<u64>,
    },
    /// A stream's client has not been heard of for long: its mark is forgotten.
    ClientForgotten {
        /// The client.
        client: ClientKey,
    },
    /// Up to when grants and renewals may be answered.
    Horizon {
        /// A raw boot time of the boot that the batch is stamped with.
        until_raw_us: u64,
        /// How far ahead of its decision that is.
        length_us: u64,
    },
    /// An old copy of the data was put back: nothing is granted until this much time has passed.
    GrantsHeld {
        /// How long, from now or from a recovery.
        for_ms: u64,
    },
    /// That time has passed.
    GrantsResumed,
    /// An old copy of the data was put back: what was granted since it was made is not known, but has no greater token.
    TokensRaised {
        /// Every token from now on is greater.
        to: u64,
    },
    /// Bytes were written to a file; the first write makes it.
    FileWritten {
        /// The file's number.
        number: u64,
        /// Its name.
        name: FileName,
        /// The lease under which it was written.
        lease: LeaseName,
        /// Where the first byte is.
        offset: u64,
        /// The bytes.
        bytes: FileBytes,
        /// The request that wrote it.
        request: Option<RequestMark>,
    },
    /// A file was deleted.
    FileDeleted {
        /// The file's number.
        number: u64,
        /// Its name.
        name: FileName,
        /// The lease under which it was deleted.
        lease: LeaseName,
        /// The request that deleted it.
        request: Option<RequestMark>,
    },
}

/// What an acquire asks for, from its arrival to the end of its lease.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// The secret half of the lease's id, drawn on arrival.
    pub secret: Secret,
    /// What is wanted.
    pub resource: Resource,
    /// Who wants it.
    pub owner: Owner,
    /// In which mode.
    pub mode: Mode,
    /// By whose life the lease lives.
    pub under: Under,
    /// The caller's request id.
    pub request: Option<RequestMark>,
    /// What the caller says of itself.
    pub metadata: Metadata,
}

/// By whose life a lease lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Under {
    /// Its own session, with this TTL.
    Own(Ttl),
    /// The opened session in this slot.
    Session(u32),
}

/// A request id with what was asked under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestMark {
    /// The id.
    pub name: RequestName,
    /// What was asked, wait apart.
    pub payload: Payload,
}

/// A lease as events name it.
#[derive(Clone, Debug, PartialEq)]
pub struct LeaseName {
    /// Where it stands.
    pub slot: u32,
    /// Its fencing token.
    pub token: u64,
    /// What it holds.
    pub resource: Resource,
    /// Who holds it.
    pub owner: Owner,
    /// In which mode.
    pub mode: Mode,
}

/// Why a waiter left without a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// Its wait ran out, or its grace while detached.
    Timeout,
    /// Its caller took it back.
    Cancelled,
    /// Its session ended.
    Session,
    /// Its connection closed, or the server restarted, and it has no request id to come back with.
    Gone,
}

/// Who or what ended a lease before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// Its holder.
    Holder,
    /// Its holder, by taking the request back.
    Cancelled,
    /// The close of its session.
    Closed,
    /// Nobody was there to hear of the grant, and there is no request id to ask again with.
    Gone,
    /// It had been broken, and its deadline came.
    Broken,
}

/// How a lease or a session ended, as its owner is told afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Its time ran out: `lease_expired`.
    Expired,
    /// It was released, closed or broken: `released`.
    Released,
}

/// What a cancel found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelFound {
    /// The request stood in line and was taken out.
    Waiting,
    /// The request had been granted and was released, or had ended already.
    Released,
    /// The request had not arrived; if it does, it is refused.
    Unknown,
}

impl Departure {
    /// The word on the wire.
    pub fn text(self) -> &'static str {
        match self {
            Departure::Timeout => "timeout",
            Departure::Cancelled => "cancelled",
            Departure::Session => "session",
            Departure::Gone => "gone",
        }
    }
}

impl Release {
    /// The word on the wire.
    pub fn text(self) -> &'static str {
        match self {
            Release::Holder => "released",
            Release::Cancelled => "cancelled",
            Release::Closed => "closed",
            Release::Gone => "gone",
            Release::Broken => "broken",
        }
    }
}

impl CancelFound {
    /// The word on the wire.
    pub fn text(self) -> &'static str {
        match self {
            CancelFound::Waiting => "waiting",
            CancelFound::Released => "released",
            CancelFound::Unknown => "unknown",
        }
    }
}

impl Event {
    /// The word under which watchers and the audit trail know this event.
    pub fn type_text(&self) -> &'static str {
        match self {
            Event::Founded { .. } => "founded",
            Event::Granted { .. } => "granted",
            Event::Queued { .. } => "queued",
            Event::Dequeued { .. } => "dequeued",
            Event::Updated { .. } => "updated",
            Event::Released { .. } => "released",
            Event::Expired { .. } => "expired",
            Event::Broken { .. } => "broken",
            Event::SessionOpened { .. } => "session_opened",
            Event::SessionEnded { .. } => "session_ended",
            Event::Seen { .. } => "seen",
            Event::Cancelled { .. } => "cancelled",
            Event::BreakAnswered { .. } => "break_answered",
            Event::Forgotten { .. } => "forgotten",
            Event::Marked { .. } => "marked",
            Event::ClientForgotten { .. } => "client_forgotten",
            Event::Horizon { .. } => "horizon",
            Event::GrantsHeld { .. } => "grants_held",
            Event::GrantsResumed => "grants_resumed",
            Event::TokensRaised { .. } => "tokens_raised",
            Event::FileWritten { .. } => "file_written",
            Event::FileDeleted { .. } => "file_deleted",
        }
    }

    /// The same without the bytes of a write: what is told once they are where they belong.
    pub fn without_bytes(self) -> Event {
        match self {
            Event::FileWritten { number, name, lease, offset, bytes, request } => {
                Event::FileWritten { number, name, lease, offset, bytes: bytes.let_go(), request }
            }
            other => other,
        }
    }
}
