//! What is asked and told in plain calls, as Rust data: leases, locks, lines and events. Turned from and into the messages of
//! the protocol here and nowhere else; decides nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, SystemTime};

use leasehold_protocol::v1;

use crate::calls;
use crate::error::Error;
use crate::group::{Acquire, Release, Usual};

/// What everybody may read about a holder.
pub type Metadata = BTreeMap<String, String>;

/// Whom a lease keeps out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub enum Mode {
    /// Everybody else.
    #[default]
    Exclusive,
    /// Those who want it exclusively.
    Shared,
}

impl Mode {
    pub(crate) fn wire(self) -> i32 {
        match self {
            Mode::Exclusive => v1::Mode::Exclusive as i32,
            Mode::Shared => v1::Mode::Shared as i32,
        }
    }

    pub(crate) fn told(number: i32) -> Result<Mode, Error> {
        match v1::Mode::try_from(number) {
            Ok(v1::Mode::Exclusive | v1::Mode::Unspecified) => Ok(Mode::Exclusive),
            Ok(v1::Mode::Shared) => Ok(Mode::Shared),
            Err(_) => Err(unexpected(format!("a mode numbered {number}"))),
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Exclusive => "exclusive",
            Mode::Shared => "shared",
        })
    }
}

/// What is asked for with an acquire. Begin with [`Ask::new`] and change what should be otherwise.
#[derive(Clone, PartialEq, Eq)]
pub struct Ask {
    /// The lock: a name, `path:/a/b`, `inode:42` or `range:42:0-4096`.
    pub lock: String,
    /// Who asks; the client's owner when left out.
    pub owner: Option<String>,
    /// How long the lease lives without a renewal; 30 s when left out. Not together with a session.
    pub ttl: Option<Duration>,
    /// Whom it keeps out.
    pub mode: Mode,
    /// How long to stand in line: zero is one attempt, [`Duration::MAX`] for as long as it takes.
    pub wait: Duration,
    /// The session to live by. A secret.
    pub session_id: Option<String>,
    /// Makes it safe to ask again in another process: the same id gets the same outcome. Within one call that is so anyway.
    pub request_id: Option<String>,
    /// What everybody may read about the holder.
    pub metadata: Metadata,
}

impl Ask {
    /// One attempt at an exclusive lease.
    pub fn new(lock: impl Into<String>) -> Ask {
        Ask {
            lock: lock.into(),
            owner: None,
            ttl: None,
            mode: Mode::Exclusive,
            wait: Duration::ZERO,
            session_id: None,
            request_id: None,
            metadata: Metadata::new(),
        }
    }
}

impl Ask {
    /// What asks for this without a wait and without an id of its own.
    pub(crate) fn usual<'a>(&'a self, owner: &'a str) -> Usual<'a> {
        Usual::acquire(Acquire {
            lock: &self.lock,
            owner_id: owner,
            ttl_ms: self.ttl.map(ms),
            mode: self.mode.wire(),
            session_id: self.session_id.as_deref(),
            metadata: &self.metadata,
        })
    }
}

impl fmt::Debug for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ask")
            .field("lock", &self.lock)
            .field("owner", &self.owner)
            .field("ttl", &self.ttl)
            .field("mode", &self.mode)
            .field("wait", &self.wait)
            .field("has_session", &self.session_id.is_some())
            .field("request_id", &self.request_id)
            .field("metadata", &self.metadata)
            .finish()
    }
}

/// What shows that a lease is one's own.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Claim {
    /// The lock.
    pub lock: String,
    /// The owner that acquired it.
    pub owner_id: String,
    /// The lease. A secret.
    pub lease_id: String,
    /// Its fencing token.
    pub fencing_token: u64,
}

impl Claim {
    /// What gives this back.
    pub(crate) fn usual(&self) -> Usual<'_> {
        Usual::release(Release {
            lock: &self.lock,
            owner_id: &self.owner_id,
            lease_id: &self.lease_id,
            fencing_token: calls::token(self.fencing_token),
        })
    }
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claim")
            .field("lock", &self.lock)
            .field("owner_id", &self.owner_id)
            .field("fencing_token", &self.fencing_token)
            .finish_non_exhaustive()
    }
}

/// A lease as its holder sees it. Durations count from `sent_us` on the client's clock.
#[derive(Clone, PartialEq, Eq)]
pub struct Grant {
    /// The lock, in its canonical text.
    pub lock: String,
    /// Who holds it.
    pub owner_id: String,
    /// The session that it lives by. A secret.
    pub session_id: String,
    /// The lease. A secret.
    pub lease_id: String,
    /// Higher than that of every earlier grant: the protected resource refuses whoever comes with a lower one.
    pub fencing_token: u64,
    /// Whom it keeps out.
    pub mode: Mode,
    /// How long it lives without a renewal.
    pub ttl: Duration,
    /// How long it had to live when the server decided.
    pub expires_in: Duration,
    /// When to renew.
    pub renew_after: Duration,
    /// When to stop believing that it is held.
    pub stop_after: Duration,
    /// Since when it is held, for people to read.
    pub acquired_at: SystemTime,
    /// When it ends without a renewal, for people to read.
    pub expires_at: SystemTime,
    /// The event that last changed the lock.
    pub version: u64,
    /// After which event this holds.
    pub seq: u64,
    /// What everybody may read about the holder.
    pub metadata: Metadata,
    /// When the attempt that this answers was sent, on the client's clock.
    pub sent_us: u64,
}

impl Grant {
    pub(crate) fn told(lease: v1::Lease, sent_us: u64) -> Result<Grant, Error> {
        Ok(Grant {
            fencing_token: token(lease.fencing_token)?,
            mode: Mode::told(lease.mode)?,
            ttl: Duration::from_millis(lease.ttl_ms),
            expires_in: Duration::from_millis(lease.expires_in_ms),
            renew_after: Duration::from_millis(lease.renew_after_ms),
            stop_after: Duration::from_millis(lease.stop_after_ms),
            acquired_at: time(lease.acquired_at),
            expires_at: time(lease.expires_at),
            lock: lease.lock,
            owner_id: lease.owner_id,
            session_id: lease.session_id,
            lease_id: lease.lease_id,
            version: lease.version,
            seq: lease.seq,
            metadata: lease.metadata,
            sent_us,
        })
    }

    /// What shows that this lease is one's own.
    pub fn claim(&self) -> Claim {
        Claim {
            lock: self.lock.clone(),
            owner_id: self.owner_id.clone(),
            lease_id: self.lease_id.clone(),
            fencing_token: self.fencing_token,
        }
    }
}

impl From<Grant> for Claim {
    fn from(grant: Grant) -> Claim {
        let Grant { lock, owner_id, lease_id, fencing_token, .. } = grant;
        Claim { lock, owner_id, lease_id, fencing_token }
    }
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grant")
            .field("lock", &self.lock)
            .field("owner_id", &self.owner_id)
            .field("fencing_token", &self.fencing_token)
            .field("mode", &self.mode)
            .field("ttl", &self.ttl)
            .field("expires_in", &self.expires_in)
            .field("version", &self.version)
            .field("seq", &self.seq)
            .finish_non_exhaustive()
    }
}

/// What a cancelled request had come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// It stood in line and was taken out.
    Waiting,
    /// It had been granted, and was given back.
    Released,
    /// It had not arrived; if it does, it is refused.
    Unknown,
}

impl Cancelled {
    pub(crate) fn told(told: v1::CancelResponse) -> Result<Cancelled, Error> {
        match told.cancelled.as_str() {
            "waiting" => Ok(Cancelled::Waiting),
            "released" => Ok(Cancelled::Released),
            "unknown" => Ok(Cancelled::Unknown),
            other => Err(unexpected(format!("a cancel that came to {other:?}"))),
        }
    }
}

/// A lock as everybody may see it. Both lists name everything that overlaps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The lock, in its canonical text.
    pub lock: String,
    /// Who holds it, or something that overlaps it.
    pub holders: Vec<Holder>,
    /// Who waits, in order.
    pub waiters: Vec<Waiter>,
    /// The token of the last grant, while it is remembered.
    pub last_token: Option<u64>,
    /// The event that last changed the lock.
    pub version: u64,
    /// After which event this holds: watch from here, and nothing is missed.
    pub seq: u64,
}

impl Snapshot {
    pub(crate) fn told(told: v1::Snapshot) -> Result<Snapshot, Error> {
        Ok(Snapshot {
            lock: told.lock,
            holders: told.holders.into_iter().map(Holder::told).collect::<Result<_, _>>()?,
            waiters: told.waiters.into_iter().map(Waiter::told).collect::<Result<_, _>>()?,
            last_token: told.last_token.map(token).transpose()?,
            version: told.version,
            seq: told.seq,
        })
    }

    /// Whether anybody holds it, or something that overlaps it.
    pub fn is_held(&self) -> bool {
        !self.holders.is_empty()
    }
}

/// Who holds a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// What exactly is held.
    pub lock: String,
    /// By whom.
    pub owner_id: String,
    /// Whom it keeps out.
    pub mode: Mode,
    /// With which token.
    pub fencing_token: u64,
    /// Since when, for people to read.
    pub acquired_at: SystemTime,
    /// Until when without a renewal, for people to read.
    pub expires_at: SystemTime,
    /// What is left until then.
    pub expires_in: Duration,
    /// What the holder wants to be read.
    pub metadata: Metadata,
    /// Whether it was broken, and only stands until its deadline.
    pub broken: bool,
}

impl Holder {
    pub(crate) fn told(told: v1::Holder) -> Result<Holder, Error> {
        Ok(Holder {
            lock: told.lock,
            owner_id: told.owner_id,
            mode: Mode::told(told.mode)?,
            fencing_token: token(told.fencing_token)?,
            acquired_at: time(told.acquired_at),
            expires_at: time(told.expires_at),
            expires_in: Duration::from_millis(told.expires_in_ms),
            metadata: told.metadata,
            broken: told.broken,
        })
    }
}

/// Who stands in line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// What exactly is waited for.
    pub lock: String,
    /// By whom.
    pub owner_id: String,
    /// Whom it would keep out.
    pub mode: Mode,
    /// Its place, from 1.
    pub position: u64,
    /// For how long.
    pub waiting: Duration,
    /// Whether somebody is there to be answered.
    pub attached: bool,
}

impl Waiter {
    pub(crate) fn told(told: v1::Waiter) -> Result<Waiter, Error> {
        Ok(Waiter {
            lock: told.lock,
            owner_id: told.owner_id,
            mode: Mode::told(told.mode)?,
            position: told.position,
            waiting: Duration::from_millis(told.waiting_ms),
            attached: told.attached,
        })
    }
}

/// A part of a list, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// The rows.
    pub rows: Vec<T>,
    /// Where the next page begins; none on the last.
    pub next_cursor: Option<String>,
}

/// Which locks to list.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ListFilter {
    /// Only locks whose text begins with this.
    pub prefix: String,
    /// Only locks that this owner holds or waits for.
    pub owner: Option<String>,
    /// Rows at most; none leaves it to the server.
    pub limit: Option<u32>,
    /// Where to go on: the `next_cursor` of the page before.
    pub cursor: Option<String>,
}

/// What is asked for with a break. Begin with [`BreakAsk::new`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BreakAsk {
    /// The lock, exactly.
    pub lock: String,
    /// Why. Required, and recorded.
    pub reason: String,
    /// Grant on at once instead of at the holders' deadline: then only the token protects.
    pub force: bool,
    /// Only the lease with this token.
    pub token: Option<u64>,
    /// Makes it safe to ask again in another process.
    pub request_id: Option<String>,
}

impl BreakAsk {
    /// Breaks all leases on exactly this lock, which is granted on at their deadline.
    pub fn new(lock: impl Into<String>, reason: impl Into<String>) -> BreakAsk {
        BreakAsk { lock: lock.into(), reason: reason.into(), force: false, token: None, request_id: None }
    }
}

/// What was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broke {
    /// The tokens of the broken leases.
    pub tokens: Vec<u64>,
    /// When the lock is granted on.
    pub free_in: Duration,
}

impl Broke {
    pub(crate) fn told(told: v1::BreakResponse) -> Result<Broke, Error> {
        let tokens = told.tokens.into_iter().map(token).collect::<Result<_, _>>()?;
        Ok(Broke { tokens, free_in: Duration::from_millis(told.free_in_ms) })
    }
}

/// A session as everybody may see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRow {
    /// Whose.
    pub owner_id: String,
    /// How long it lives without a heartbeat.
    pub ttl: Duration,
    /// What is left of that.
    pub expires_in: Duration,
    /// How many leases live by it.
    pub leases: u64,
    /// How many requests wait under it.
    pub waiters: u64,
    /// What its owner wants to be read.
    pub metadata: Metadata,
}

impl SessionRow {
    pub(crate) fn told(told: v1::SessionRow) -> SessionRow {
        SessionRow {
            owner_id: told.owner_id,
            ttl: Duration::from_millis(told.ttl_ms),
            expires_in: Duration::from_millis(told.expires_in_ms),
            leases: told.leases,
            waiters: told.waiters,
            metadata: told.metadata,
        }
    }
}

/// What to watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watched {
    /// One lock, and what overlaps it.
    Lock(String),
    /// All locks whose text begins with this; all of them when it is empty.
    Prefix(String),
}

/// Something that happened to a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its place in the order of everything that happened.
    pub seq: u64,
    /// When, for people to read.
    pub time: SystemTime,
    /// To which lock.
    pub lock: String,
    /// What.
    pub kind: EventKind,
    /// Whose lease or request it was.
    pub owner_id: String,
    /// The token, once there is one.
    pub fencing_token: Option<u64>,
    /// Whom it keeps out, or would.
    pub mode: Mode,
    /// Why, where that is not plain.
    pub reason: Option<String>,
}

impl Event {
    pub(crate) fn told(told: v1::Event) -> Result<Event, Error> {
        Ok(Event {
            seq: told.seq,
            time: time(told.time),
            lock: told.lock,
            kind: EventKind::told(told.r#type),
            owner_id: told.owner_id,
            fencing_token: told.fencing_token.map(token).transpose()?,
            mode: Mode::told(told.mode)?,
            reason: told.reason,
        })
    }
}

/// What can happen to a lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventKind {
    /// Somebody holds it now.
    Granted,
    /// Somebody stands in line.
    Queued,
    /// Somebody left the line without it.
    Dequeued,
    /// A lease's TTL or metadata changed.
    Updated,
    /// It was given back.
    Released,
    /// Its holder's time ran out.
    Expired,
    /// It was taken from its holder.
    Broken,
    /// Something that this version does not know.
    Other(String),
}

impl EventKind {
    fn told(word: String) -> EventKind {
        match word.as_str() {
            "granted" => EventKind::Granted,
            "queued" => EventKind::Queued,
            "dequeued" => EventKind::Dequeued,
            "updated" => EventKind::Updated,
            "released" => EventKind::Released,
            "expired" => EventKind::Expired,
            "broken" => EventKind::Broken,
            _ => EventKind::Other(word),
        }
    }

    /// The word for it.
    pub fn text(&self) -> &str {
        match self {
            EventKind::Granted => "granted",
            EventKind::Queued => "queued",
            EventKind::Dequeued => "dequeued",
            EventKind::Updated => "updated",
            EventKind::Released => "released",
            EventKind::Expired => "expired",
            EventKind::Broken => "broken",
            EventKind::Other(word) => word,
        }
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

pub(crate) fn token(told: i64) -> Result<u64, Error> {
    u64::try_from(told).map_err(|_| unexpected(format!("a token below zero ({told})")))
}

pub(crate) fn time(told: Option<prost_types::Timestamp>) -> SystemTime {
    told.and_then(|time| SystemTime::try_from(time).ok()).unwrap_or(SystemTime::UNIX_EPOCH)
}

fn unexpected(detail: String) -> Error {
    Error::Unexpected { detail }
}

/// Whole milliseconds, as far as the wire can say.
pub(crate) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Whole microseconds, as far as they can be counted.
pub(crate) fn us(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_can_be_printed_shows_a_secret() {
        let ask = Ask { session_id: Some("hush".into()), ..Ask::new("a") };
        let lease = v1::Lease { session_id: "hush".into(), lease_id: "hush".into(), ..Default::default() };
        let grant = Grant::told(lease, 0).unwrap();
        for shown in [format!("{ask:?}"), format!("{grant:?}"), format!("{:?}", grant.claim())] {
            assert!(!shown.contains("hush"), "{shown}");
        }
    }
}
