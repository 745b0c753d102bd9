//! One operation as its client saw it: what was asked, when, and what was heard. Holds facts alone; what follows from them is
//! the checks' affair.
//!
//! All times of one history are microseconds of one clock that never jumps. On one machine that is the boot-time clock,
//! which all processes share.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Grant me this lock, at once or after a wait. `Done` carries the token; `queued_us` says when a place was confirmed.
    Acquire,
    /// Keep my lease alive. A heartbeat of a session is one of these for each lease that it confirmed.
    Renew,
    /// I am done. The close of a session is one of these for each of its leases.
    Release,
    /// Take the acquire with this request id back.
    Cancel,
    /// Take this lock from its holders.
    Break,
    /// Not asked but noticed: the client learned that its lease had ended. Invoked and answered at that moment.
    Ended,
    /// Add `value`, which no other append has, to the end of the file `lock`, under this token.
    Append,
    /// Set the register `lock` to `value`, under this token if it is fenced.
    Write,
    /// Look at the register `lock` (`value`), or at everything that appends have put into the file `lock` (`list`).
    Read,
}

/// How a lock is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Alone.
    #[default]
    Exclusive,
    /// Beside others who share.
    Shared,
}

impl Mode {
    /// Whether two who ask in these modes for the same are in each other's way.
    pub fn conflicts(self, other: Mode) -> bool {
        self == Mode::Exclusive || other == Mode::Exclusive
    }

    fn is_default(&self) -> bool {
        *self == Mode::default()
    }
}

/// What was heard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It was done.
    Done,
    /// It was not done, and will not be: held, not granted in time, busy, invalid.
    Refused,
    /// It was not done because the lease, or the token, is not the one that counts: expired, released, stale, not found.
    Lost,
    /// Nobody knows: no answer, or one that does not tell (unavailable, internal). It may be done at any time from then on.
    #[default]
    Unknown,
}

/// One operation of a history. What does not belong to its kind is left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operation {
    /// Who asked: the owner, as the server knows it.
    pub client: String,
    /// The operation's number among its client's. Two lines of one client and number are one operation: the later counts.
    pub number: u64,
    /// What was asked.
    pub kind: Kind,
    /// The resource, in its text form; for appends, writes and reads the file or register.
    pub lock: String,
    /// How it was asked for.
    #[serde(default, skip_serializing_if = "Mode::is_default")]
    pub mode: Mode,
    /// The caller's request id. Attempts that share it, of one client, are one request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The token that was granted, or the one that was shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<u64>,
    /// The lease that was granted or shown, by its id or anything that stands for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    /// The time to live that was asked for, or that the answer named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_us: Option<u64>,
    /// How long an acquire was ready to wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_us: Option<u64>,
    /// When it was sent, or a moment before.
    pub invoked_us: u64,
    /// When the client heard that this attempt stands in line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued_us: Option<u64>,
    /// When its answer was heard, or a moment after. None: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_us: Option<u64>,
    /// What was heard.
    #[serde(default)]
    pub outcome: Outcome,
    /// Up to when this answer lets the client believe that it holds the lease. None: until something ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_us: Option<u64>,
    /// What was written, appended or read. None in a read: nothing was there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// What a read found in a file: the value of every append, in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<Vec<String>>,
    /// The server's own word for the outcome, for whoever reads this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

impl Operation {
    /// One that has just been invoked and is not answered yet.
    pub fn new(client: &str, number: u64, kind: Kind, lock: &str, invoked_us: u64) -> Operation {
        Operation {
            client: client.into(),
            number,
            kind,
            lock: lock.into(),
            mode: Mode::Exclusive,
            request_id: None,
            token: None,
            lease: None,
            ttl_us: None,
            wait_us: None,
            invoked_us,
            queued_us: None,
            answered_us: None,
            outcome: Outcome::Unknown,
            until_us: None,
            value: None,
            list: None,
            code: None,
        }
    }

    /// It was answered.
    pub fn answer(&mut self, at_us: u64, outcome: Outcome) {
        self.answered_us = Some(at_us);
        self.outcome = outcome;
    }

    /// Up to when it may have taken effect: what is unknown is open-ended, answered or not.
    pub fn effect_by_us(&self) -> u64 {
        match (self.outcome, self.answered_us) {
            (Outcome::Unknown, _) | (_, None) => u64::MAX,
            (_, Some(at_us)) => at_us,
        }
    }
}

/// Names it in a sentence: `w1#3 acquire deploy [1000–2000 µs] done, token 7`.
impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = format!("{:?}", self.kind).to_lowercase();
        write!(f, "{}#{} {kind} {} [{}–", self.client, self.number, self.lock, self.invoked_us)?;
        match self.answered_us {
            Some(at_us) => write!(f, "{at_us} µs] ")?,
            None => f.write_str("never] ")?,
        }
        write!(f, "{}", format!("{:?}", self.outcome).to_lowercase())?;
        if let Some(token) = self.token {
            write!(f, ", token {token}")?;
        }
        if let Some(id) = &self.request_id {
            write!(f, ", request {id}")?;
        }
        if let Some(value) = &self.value {
            write!(f, ", value {value}")?;
        }
        Ok(())
    }
}
