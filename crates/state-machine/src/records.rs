//! The records of opened sessions and of waiters; those of leases are in `lease.rs`. What is journaled stands first in
//! each; below it what is not: deadlines, attachments, and where a waiter is parked.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use leasehold_planted::{Bug, planted};

use crate::answer::EndedView;
use crate::command::Attachment;
use crate::crowd::{Class, Standing};
use crate::event::{Ask, Ending, RequestMark, Seq, Ticket};
use crate::ids::Secret;
use crate::resource::Resource;
use crate::words::{Metadata, Owner, Ttl, Wait};

/// A session that was opened by name.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) secret: Secret,
    pub(crate) owner: Owner,
    pub(crate) ttl: Ttl,
    pub(crate) metadata: Metadata,
    pub(crate) request: Option<RequestMark>,
    pub(crate) leases: BTreeSet<u32>,
    pub(crate) waiters: BTreeSet<Ticket>,
    /// Leases that ended otherwise than by their own release, until seen.
    pub(crate) ended: Vec<EndedLease>,
    /// The event that last changed what its owner is told.
    pub(crate) changed: Seq,
    /// How it ended, while its leases and waiters are still being cleared away.
    pub(crate) over: Option<Ending>,

    pub(crate) deadline_us: u64,
    pub(crate) armed_us: Option<u64>,
}

/// What a session's owner must hear about one of its leases.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EndedLease {
    pub(crate) resource: Resource,
    pub(crate) token: u64,
    pub(crate) why: EndedWhy,
    pub(crate) seq: Seq,
}

impl EndedLease {
    pub(crate) fn view(&self) -> EndedView {
        let EndedLease { resource, token, why, seq } = self;
        EndedView { resource: resource.clone(), token: *token, reason: why.text(), seq: *seq }
    }
}

/// Why it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndedWhy {
    Broken,
    Cancelled,
    Gone,
}

impl EndedWhy {
    pub(crate) fn text(self) -> &'static str {
        match self {
            EndedWhy::Broken => "broken",
            EndedWhy::Cancelled => "cancelled",
            EndedWhy::Gone => "gone",
        }
    }
}

/// A request standing in line.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) ask: Ask,
    pub(crate) wait: Wait,

    pub(crate) presence: Presence,
    /// When it came, or when the server came back.
    pub(crate) since_us: u64,
    /// When its wait is over.
    pub(crate) wait_until_us: u64,
    pub(crate) armed_us: Option<u64>,
    /// Whose going it waits for: the ticket of a lease, or of a waiter before it.
    pub(crate) parked_on: Option<Ticket>,
}

/// Whether somebody is there to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// Nobody since the server restarted: holds its place against those behind it, but is not granted.
    Absent { until_us: u64 },
    /// The newest attempt, and when that one arrived.
    Attached { attachment: Attachment, arrived_raw_us: u64 },
    /// Its connection closed: keeps its place for a grace, and is passed over meanwhile.
    Detached { until_us: u64 },
}

impl Waiter {
    pub(crate) fn standing(&self, ticket: Ticket) -> Standing {
        let class = match self.presence {
            Presence::Detached { .. } => Class::Skipped,
            Presence::Absent { .. } | Presence::Attached { .. } => Class::Line,
        };
        Standing { class, mode: self.ask.mode, order: ticket, slot: 0 }
    }

    /// When it leaves the line if nothing happens before.
    pub(crate) fn due_us(&self) -> u64 {
        match self.presence {
            Presence::Attached { .. } if planted(Bug::GrantAfterTheWait) => {
                self.wait_until_us.next_multiple_of(1_000_000)
            }
            Presence::Attached { .. } => self.wait_until_us,
            // Who was there before a restart brings a new wait when it comes back.
            Presence::Absent { until_us } => until_us,
            Presence::Detached { until_us } => self.wait_until_us.min(until_us),
        }
    }

    pub(crate) fn attached(&self) -> Option<(Attachment, u64)> {
        match self.presence {
            Presence::Attached { attachment, arrived_raw_us } => Some((attachment, arrived_raw_us)),
            _ => None,
        }
    }
}
