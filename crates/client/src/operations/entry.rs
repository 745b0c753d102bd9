//! One operation that is not over: what it asks, how long it is tried, and where it stands. Plain data and arithmetic; time
//! and chance are arguments.

use std::time::Duration;

use leasehold_protocol::v1;
use leasehold_protocol::v1::operation::What;
use tokio::sync::watch;

use super::answers::Seat;
use super::asked::{Asked, Kind, Lane};
use crate::error::{Error, Unavailable};
use crate::retry::RetryPolicy;
use crate::view::us;
use crate::wire::Trouble;

/// The longest wait that a server takes.
const WAIT_MAX_US: u64 = 3_600_000_000;
/// Who waits longer says so again some time before that is over.
const WAIT_AGAIN_US: u64 = 3_000_000_000;
/// An operation's number, its own head in a group, and the wait that is left.
pub(super) const HEAD_BYTES: usize = 24;
/// No attempt is given less time.
const TIMEOUT_MIN_US: u64 = 1_000;
/// Who stands in line and has no connection tries again after a time between these.
const RETURN_MIN_US: u64 = 250_000;
const RETURN_MAX_US: u64 = 1_000_000;

/// How long an operation is tried.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stance {
    /// It is sent once.
    Once,
    /// By the client's policy: until it is answered or has been tried so often.
    Policy { attempts: u32 },
    /// Until it is answered or this time has come.
    InLine { until_us: Option<u64> },
    /// Nobody wants its answer any more; it only waits to be over.
    Given,
}

/// Where an operation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Waits for its turn to be sent.
    Queued,
    /// Was sent on this stream.
    Sent {
        /// The last time.
        at_us: u64,
        /// When to wonder about it.
        due_us: u64,
    },
    /// The server will hear of it again, not before this.
    Refused { until_us: u64 },
    /// Has no stream, and wants one from this time on.
    Cut { until_us: u64 },
    /// Will not be sent again; another operation takes it back.
    Recalled,
}

/// An operation that is not over.
#[derive(Debug)]
pub(super) struct Entry {
    asked: Asked,
    /// What one in line asks: each time it goes out it says what is left of its wait.
    in_line: Option<Box<What>>,
    pub stance: Stance,
    pub place: Place,
    /// Attempts that are over.
    pub attempts: u32,
    /// When it was first sent on this stream.
    pub first_us: Option<u64>,
    /// Whether it counts among what the server has in flight on this stream.
    pub in_flight: bool,
    /// Whether an attempt ended without word of what came of it.
    pub uncertain: bool,
    /// Where its answer is waited for.
    pub answer: Option<Seat>,
    pub position: Option<watch::Sender<Option<u64>>>,
}

/// What follows from a failed attempt.
pub(super) enum Next {
    /// It goes on.
    On,
    /// It is over.
    Over,
}

impl Entry {
    pub fn new(asked: Asked, stance: Stance) -> Entry {
        Entry {
            asked,
            in_line: None,
            stance,
            place: Place::Queued,
            attempts: 0,
            first_us: None,
            in_flight: false,
            uncertain: false,
            answer: None,
            position: None,
        }
    }

    /// One that stands in line until this time, or for as long as it takes.
    pub fn in_line(acquire: v1::AcquireRequest, until_us: Option<u64>) -> Entry {
        let what = What::Acquire(acquire);
        let mut entry = Entry::new(Asked::from(&what), Stance::InLine { until_us });
        entry.in_line = Some(Box::new(what));
        entry
    }

    /// One that nobody waits for: it is tried for far longer than somebody would wait.
    pub fn in_background(asked: impl Into<Asked>, policy: &RetryPolicy) -> Entry {
        Entry::new(asked.into(), background(policy))
    }

    /// Another that asks the same, for nobody.
    pub fn again_in_background(&self, policy: &RetryPolicy) -> Entry {
        Entry::in_background(self.asked.clone(), policy)
    }

    pub fn kind(&self) -> Kind {
        self.asked.kind
    }

    pub fn lane(&self) -> Lane {
        self.kind().lane()
    }

    /// What it takes of a group.
    pub fn bytes(&self) -> usize {
        self.asked.bytes.len() + HEAD_BYTES
    }

    /// What goes out at this sending, with the wait that is left.
    pub fn message(&mut self, now_us: u64) -> &[u8] {
        if let (Some(what), Stance::InLine { until_us }) = (self.in_line.as_deref_mut(), self.stance) {
            let left_us = until_us.map_or(WAIT_MAX_US, |until_us| until_us.saturating_sub(now_us));
            if let What::Acquire(acquire) = what {
                acquire.wait_ms = left_us.min(WAIT_MAX_US) / 1_000;
            }
            self.asked = Asked::from(&*what);
        }
        &self.asked.bytes
    }

    /// When to wonder about an attempt that is sent now.
    pub fn due_us(&self, now_us: u64, policy: &RetryPolicy) -> u64 {
        match self.stance {
            Stance::Policy { .. } => now_us.saturating_add(us(policy.attempt_timeout).max(TIMEOUT_MIN_US)),
            Stance::InLine { until_us } => {
                // The server ends the wait; only if its word is lost does this end it.
                let late_us = until_us.map(|until_us| until_us.saturating_add(GRACE_US));
                late_us.unwrap_or(u64::MAX).min(now_us.saturating_add(WAIT_AGAIN_US))
            }
            Stance::Once | Stance::Given => u64::MAX,
        }
    }

    /// An attempt found no server, or lost it. Those in line come back at `return_us`.
    pub fn cut(&mut self, now_us: u64, return_us: u64, chance: u64, policy: &RetryPolicy) -> Next {
        self.attempts += 1;
        self.settle_sent();
        let until_us = match self.stance {
            Stance::Once | Stance::Given => return Next::Over,
            Stance::Policy { attempts } if self.attempts >= attempts => return Next::Over,
            Stance::Policy { .. } => later(now_us, policy.pause(self.attempts, None, chance)),
            Stance::InLine { until_us: Some(until_us) } if until_us <= now_us => return Next::Over,
            Stance::InLine { .. } => return_us,
        };
        self.place = Place::Cut { until_us };
        Next::On
    }

    /// The server wants to hear of it later.
    pub fn refused(&mut self, now_us: u64, after: Duration, chance: u64, policy: &RetryPolicy) -> Next {
        self.attempts += 1;
        let until_us = match self.stance {
            Stance::Once | Stance::Given => return Next::Over,
            Stance::Policy { attempts } if self.attempts >= attempts => return Next::Over,
            Stance::Policy { .. } => later(now_us, policy.pause(self.attempts, Some(after), chance)),
            Stance::InLine { until_us: Some(until_us) } if until_us <= now_us => return Next::Over,
            Stance::InLine { .. } => now_us + us(after).clamp(return_us(chance), RETURN_MAX_US),
        };
        self.first_us = None;
        self.place = Place::Refused { until_us };
        Next::On
    }

    /// Whether it wants to stand in line and has no place.
    pub fn has_no_line(&self) -> bool {
        let placed = self.position.as_ref().is_some_and(|position| position.borrow().is_some());
        matches!(self.stance, Stance::InLine { .. }) && !placed
    }

    /// Whether it was told that its wait is over though much of it is left.
    pub fn is_cut_short(&self, refusal: &v1::Error, now_us: u64) -> bool {
        match self.stance {
            Stance::InLine { until_us } if refusal.code == "held" => {
                until_us.is_none_or(|until_us| now_us + RETURN_MAX_US < until_us)
            }
            _ => false,
        }
    }

    /// Whether it was told that another attempt of it stands in line now. Nobody but us takes it back.
    pub fn is_displaced(&self, refusal: &v1::Error) -> bool {
        matches!(self.stance, Stance::InLine { .. }) && refusal.code == "cancelled"
    }

    /// Whether it had been granted, and was broken before we heard of it: it stands until its deadline unless we take it back.
    pub fn was_unheard_of(&self, refusal: &v1::Error) -> bool {
        self.kind() == Kind::Acquire && refusal.code == "released"
    }

    /// Its stream is over.
    pub fn settle_sent(&mut self) {
        self.uncertain |= self.in_flight;
        self.in_flight = false;
        self.first_us = None;
    }

    /// The error of one that was tried often enough.
    pub fn unavailable(&self, server: &str, trouble: Trouble) -> Error {
        Error::ServerUnavailable(Box::new(Unavailable {
            server: server.to_owned(),
            attempts: self.attempts.max(1),
            trouble,
            may_have_happened: self.uncertain && self.kind().changes(),
        }))
    }

    /// The number of the operation that it takes back, if it takes one back.
    pub fn recalled(&self) -> Option<u64> {
        self.asked.recalled()
    }

    /// The memory in which it was encoded: nothing is sent any more.
    pub fn take_memory(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.asked.bytes)
    }

    /// The lock that it is about, if it is about one.
    pub fn lock(&self) -> String {
        self.asked.lock()
    }
}

/// How often it is tried to end something that nobody waits for: with the usual pauses, for about ten minutes.
const BACKGROUND_ATTEMPTS: u32 = 40;
/// How long something is tried that nobody waits for.
pub(super) fn background(policy: &RetryPolicy) -> Stance {
    Stance::Policy { attempts: policy.attempts.max(BACKGROUND_ATTEMPTS) }
}

/// How long after its end a wait is still expected to be answered.
const GRACE_US: u64 = 2_000_000;

fn later(now_us: u64, pause: Duration) -> u64 {
    now_us.saturating_add(us(pause))
}

/// How long after an attempt in vain those in line come back.
pub(super) fn return_us(chance: u64) -> u64 {
    RETURN_MIN_US + chance % (RETURN_MAX_US - RETURN_MIN_US + 1)
}
