//! What can go wrong, in the caller's words: what happened, whether the outcome is known, and what to do about it.

use std::fmt;
use std::time::Duration;

use crate::view::{Holder, Waiter};
use crate::wire::Trouble;

/// Why something did not happen, or is over.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// Somebody holds it or stands before you, or the wait ran out.
    Held(Box<Held>),
    /// The server has too much to do, or a limit is reached.
    Busy {
        /// In the server's words.
        detail: String,
        /// When to try again.
        retry_after: Duration,
    },
    /// The lease is over, or was never there. The same lease always gives the same answer.
    Ended(Ended),
    /// The request makes no sense.
    Invalid {
        /// Which part of it.
        field: String,
        /// What is wrong, and what is right.
        detail: String,
    },
    /// The lease lives, but not for this: it does not cover what was to be written, or it is shared.
    ScopeMismatch {
        /// In the server's words.
        detail: String,
    },
    /// It is more than the server takes at once, or has room for.
    TooLarge {
        /// In the server's words.
        detail: String,
    },
    /// The server does not know the caller, or does not let it.
    NotAllowed {
        /// In the server's words.
        detail: String,
    },
    /// There is no such thing.
    NotFound {
        /// In the server's words.
        detail: String,
    },
    /// The caller took the request back.
    Cancelled,
    /// A watch asked for events that are no longer kept.
    Gone,
    /// No server gave an answer, however often it was asked.
    ServerUnavailable(Box<Unavailable>),
    /// The server said something that it should not have: a bug of ours, or not a Leasehold server.
    Unexpected {
        /// What.
        detail: String,
    },
}

/// Who is in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The lock that was asked for.
    pub lock: String,
    /// Who holds what overlaps; the first of them when there are many.
    pub holders: Vec<Holder>,
    /// Who stands in line; the first of them when there are many.
    pub waiters: Vec<Waiter>,
    /// When it may be worth trying again.
    pub retry_after: Duration,
}

/// How a lease ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ended {
    /// It was never acquired.
    NeverHeld,
    /// Its holder gave it back.
    Released,
    /// No renewal was confirmed in time: the safety window is over.
    Lost,
    /// The server ended it, because its time had run out there.
    Expired,
    /// Somebody broke it, with this reason; empty where the server did not pass it on.
    Broken(String),
    /// The session that it lived by is over.
    SessionClosed,
    /// Owner, lease and token do not belong together.
    Stale,
    /// The server does not know it, or not any more.
    Forgotten,
}

/// A server that could not be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable {
    /// Its address.
    pub server: String,
    /// How often it was tried.
    pub attempts: u32,
    /// What the last attempt met.
    pub trouble: Trouble,
    /// Whether the request may have been carried out all the same. Repeating it under the same request id is safe.
    pub may_have_happened: bool,
}

/// What the caller can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Try again after this time.
    TryAgain(Duration),
    /// Stop what the lease protected; acquire anew if it is still wanted.
    StopWork,
    /// The request must be changed.
    ChangeRequest,
    /// Look whether the server runs, and whether its address, certificates and token are right.
    CheckServer,
    /// Nothing: it is as the caller wanted it.
    Nothing,
}

impl Error {
    /// What the caller can do about it.
    pub fn advice(&self) -> Advice {
        match self {
            Error::Held(held) => Advice::TryAgain(held.retry_after),
            Error::Busy { retry_after, .. } => Advice::TryAgain(*retry_after),
            Error::Ended(_) => Advice::StopWork,
            Error::Invalid { .. }
            | Error::ScopeMismatch { .. }
            | Error::TooLarge { .. }
            | Error::NotFound { .. }
            | Error::Gone => Advice::ChangeRequest,
            Error::NotAllowed { .. } | Error::ServerUnavailable(_) | Error::Unexpected { .. } => {
                Advice::CheckServer
            }
            Error::Cancelled => Advice::Nothing,
        }
    }

    /// Whether it is certain that the request changed nothing. When it is not, repeat it under the same request id, or look.
    pub fn outcome_is_known(&self) -> bool {
        match self {
            Error::ServerUnavailable(unavailable) => !unavailable.may_have_happened,
            Error::Unexpected { .. } => false,
            _ => true,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Held(held) => held.fmt(f),
            Error::Busy { detail, retry_after } => {
                write!(f, "the server is busy: {detail}; try again in {} ms", retry_after.as_millis())
            }
            Error::Ended(ended) => ended.fmt(f),
            Error::Invalid { field, detail } => write!(f, "`{field}` is not valid: {detail}"),
            Error::ScopeMismatch { detail } => write!(f, "the lease is not one for this: {detail}"),
            Error::TooLarge { detail } => write!(f, "too large: {detail}"),
            Error::NotAllowed { detail } => write!(f, "not allowed: {detail}"),
            Error::NotFound { detail } => write!(f, "not found: {detail}"),
            Error::Cancelled => f.write_str("the request was taken back"),
            Error::Gone => f.write_str(
                "the events asked for are no longer kept; look at the lock and watch on from there",
            ),
            Error::ServerUnavailable(unavailable) => unavailable.fmt(f),
            Error::Unexpected { detail } => {
                write!(f, "the server gave an answer that makes no sense: {detail}")
            }
        }
    }
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not to be had", self.lock)?;
        match (self.holders.first(), self.holders.len()) {
            (None, _) => {}
            (Some(first), 1) => write!(f, ": {} holds it", first.owner_id)?,
            (Some(first), count) => write!(f, ": {} and {} more hold it", first.owner_id, count - 1)?,
        }
        match self.waiters.len() {
            0 => Ok(()),
            1 => f.write_str(", 1 waits"),
            count => write!(f, ", {count} wait"),
        }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::NeverHeld => f.write_str("the lease was never acquired"),
            Ended::Released => f.write_str("the lease was released"),
            Ended::Lost => f.write_str("the lease is lost: no renewal was confirmed in time"),
            Ended::Expired => f.write_str("the lease has expired"),
            Ended::Broken(reason) if reason.is_empty() => f.write_str("the lease was broken"),
            Ended::Broken(reason) => write!(f, "the lease was broken: {reason}"),
            Ended::SessionClosed => f.write_str("the session that the lease lived by is over"),
            Ended::Stale => f.write_str("owner, lease and token do not belong together"),
            Ended::Forgotten => f.write_str("the server does not know the lease any more"),
        }
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times = if self.attempts == 1 { "once".to_owned() } else { format!("{} times", self.attempts) };
        write!(f, "no answer from {} (tried {times}): {}", self.server, self.trouble)?;
        if self.may_have_happened {
            f.write_str("; the request may have been carried out all the same")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}
