//! The contract's sections 2 to 6 once more, as naively as they can be written: plain lists, every question a scan, no
//! index, no slices, no journal. Too simple to be wrong, and far too slow to serve.
//!
//! What the contract leaves open (the number of a token, who of two strangers is granted first within one step) is left
//! open here too.

pub mod drive;
pub mod files;
pub mod ground;
pub mod judge;
pub mod look;
pub mod recovery;
pub mod resolve;
pub mod seed;
pub mod session;
pub mod steps;
pub mod told;

use std::collections::BTreeSet;

use leasehold_state_machine::command::Attachment;
use leasehold_state_machine::event::CancelFound;
use leasehold_state_machine::ids::Secret;
use leasehold_state_machine::limits::Limits;
use leasehold_state_machine::time::Now;
use leasehold_state_machine::words::Mode;

use told::Told;

/// How long a detached waiter keeps its place.
pub const GRACE_US: u64 = 5_000_000;
/// How long an answered request id, or an ended lease, is remembered.
pub const REMEMBER_US: u64 = 600_000_000;

#[derive(Default)]
pub struct Model {
    pub limits: Limits,
    pub now: Now,
    /// Every lease that ever was; the ended stay until they are forgotten.
    pub leases: Vec<Lease>,
    /// The line, in order of arrival.
    pub waiters: Vec<Waiter>,
    pub sessions: Vec<Session>,
    pub requests: Vec<Request>,
    /// Every file that ever was, in the order of their making.
    pub files: Vec<files::File>,
    pub horizon_until_raw_us: u64,
    pub horizon_length_us: u64,
    pub grants_held: bool,
    /// What is to be told in this step.
    pub telling: Vec<(Attachment, Told)>,
}

/// What an acquire asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    pub lock: String,
    pub owner: String,
    pub mode: Mode,
    pub under: Under,
    pub metadata: u64,
}

/// By whose life a lease lives.
#[derive(Clone, Debug, PartialEq)]
pub enum Under {
    Own { ttl_ms: u64 },
    Session(Secret),
}

pub struct Lease {
    pub secret: Secret,
    pub ask: Ask,
    /// The owner's id of the request that it came from.
    pub id: Option<String>,
    /// 0 until the machine has said it.
    pub token: u64,
    pub life: Life,
    /// Of its own session: the contract's deadline, and the longest TTL it ever had.
    pub deadline_us: u64,
    pub longest_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Life {
    Live,
    /// Useless to its holder, in everybody's way until then.
    Broken {
        until_us: u64,
    },
    Ended {
        how: How,
        at_us: u64,
    },
}

/// How a lease or session ended, as it is told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum How {
    Expired,
    Released,
}

pub struct Waiter {
    pub secret: Secret,
    pub ask: Ask,
    pub id: Option<String>,
    pub presence: Presence,
    /// The wait of its first attempt, which is what a restart knows.
    pub wait_ms: u64,
    pub wait_until_us: u64,
    pub since_us: u64,
    /// When the attempt that will be answered arrived.
    pub arrived_raw_us: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Presence {
    Attached(Attachment),
    /// Skipped until it comes back.
    Detached {
        until_us: u64,
    },
    /// Not seen since the restart: not granted, but not overtaken either.
    Absent {
        until_us: u64,
    },
}

pub struct Session {
    pub secret: Secret,
    pub owner: String,
    pub ttl_ms: u64,
    pub deadline_us: u64,
    pub ended: Option<(How, u64)>,
    /// Lock, token, reason of leases that ended otherwise than by their own release, until they were seen.
    pub unseen: BTreeSet<(String, u64, String)>,
}

/// A request id that had an effect.
pub struct Request {
    /// Empty for a request that has no owner.
    pub owner: String,
    pub id: String,
    pub payload: Payload,
    pub effect: Effect,
    /// When it stopped standing for something alive.
    pub retired_us: Option<u64>,
}

/// Everything that was asked but the wait.
#[derive(Clone, Debug, PartialEq)]
pub enum Payload {
    Acquire(Ask),
    Open {
        owner: String,
        ttl_ms: u64,
    },
    Break {
        lock: String,
        force: bool,
        token: Option<u64>,
    },
    Write {
        name: String,
        at: Option<u64>,
        bytes: Vec<u8>,
    },
    Delete {
        name: String,
    },
    /// Cancelled before it came: whatever it would have been.
    Nothing,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    Waits,
    Lease(Secret),
    Session(Secret),
    Cancelled(CancelFound),
    Broke(Told),
    /// A change of a file, and what was told of it.
    Answered(Told),
}

impl Model {
    pub fn lease(&self, secret: Secret) -> Option<&Lease> {
        self.leases.iter().find(|lease| lease.secret == secret)
    }

    pub fn session(&self, secret: Secret) -> Option<&Session> {
        self.sessions.iter().find(|session| session.secret == secret)
    }

    pub fn session_mut(&mut self, secret: Secret) -> &mut Session {
        self.sessions.iter_mut().find(|session| session.secret == secret).expect("a known session")
    }

    pub fn request(&self, owner: &str, id: &str) -> Option<&Request> {
        self.requests.iter().find(|request| request.owner == owner && request.id == id)
    }

    pub fn request_mut(&mut self, owner: &str, id: &str) -> &mut Request {
        let found = self.requests.iter_mut().find(|request| request.owner == owner && request.id == id);
        found.expect("a known request")
    }

    /// When a lease is over, whoever's life it lives by.
    pub fn deadline_us(&self, lease: &Lease) -> u64 {
        match (lease.life, &lease.ask.under) {
            (Life::Broken { until_us }, _) => until_us,
            (_, Under::Own { .. }) => lease.deadline_us,
            (_, Under::Session(secret)) => self.session(*secret).expect("its session").deadline_us,
        }
    }

    pub fn ttl_ms(&self, ask: &Ask) -> u64 {
        match &ask.under {
            Under::Own { ttl_ms } => *ttl_ms,
            Under::Session(secret) => self.session(*secret).expect("its session").ttl_ms,
        }
    }

    pub fn tell(&mut self, to: Attachment, told: Told) {
        self.telling.push((to, told));
    }

    /// The machine has given a new lease its number.
    pub fn learn_token(&mut self, secret: Secret, token: u64) {
        let lease = self.leases.iter_mut().find(|lease| lease.secret == secret).expect("a granted lease");
        if lease.token == 0 {
            lease.token = token;
        }
        assert_eq!(lease.token, token, "a lease keeps its token");
    }
}

impl Lease {
    pub fn stands(&self) -> bool {
        !matches!(self.life, Life::Ended { .. })
    }
}
