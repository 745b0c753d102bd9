//! The tables together. What is journaled changes only in `apply`; what is not (deadlines, attachments, parking) is kept
//! beside it and starts anew at a recovery.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use hashbrown::HashMap;

use crate::answer::{EndedView, Outcome, Reply};
use crate::command::Attachment;
use crate::event::{Ending, Event, Seq, Ticket, Under};
use crate::files::Files;
use crate::ids::{ClientKey, HashKey, SessionId};
use crate::keyed::Keyed;
use crate::lease::Lease;
use crate::limits::Limits;
use crate::owners::Owners;
use crate::records::{Session, Waiter};
use crate::requests::Requests;
use crate::slab::Slab;
use crate::space::Space;
use crate::time::Now;
use crate::timers::{Due, Timers};
use crate::tombstones::Tombstones;
use crate::words::{ClientId, Ttl};

/// The state machine.
#[derive(Debug)]
pub struct Machine {
    pub(crate) limits: Limits,

    // What the journal knows.
    pub(crate) key: Option<HashKey>,
    pub(crate) seq: Seq,
    pub(crate) next_ticket: Ticket,
    pub(crate) last_token: u64,
    pub(crate) largest_ttl_ms: u64,
    pub(crate) horizon: Option<Horizon>,
    pub(crate) grants_held_ms: Option<u64>,
    pub(crate) leases: Slab<Lease>,
    pub(crate) sessions: Slab<Session>,
    pub(crate) waiters: BTreeMap<Ticket, Waiter>,
    pub(crate) requests: Requests,
    pub(crate) tombstones: Tombstones,
    pub(crate) files: Files,

    // What follows from that.
    pub(crate) space: Space,
    pub(crate) owners: Owners,
    /// Leases with a session of their own.
    pub(crate) own_sessions: usize,

    // What the journal does not know.
    pub(crate) now: Now,
    pub(crate) timers: Timers,
    /// Which waiter an attempt stands for.
    pub(crate) attachments: HashMap<Attachment, Ticket, Keyed>,
    /// Waiters by whose going they wait for: (the ticket in the way, the waiter).
    pub(crate) parked: BTreeSet<(Ticket, Ticket)>,
    /// Waiters for whom the rule is to be looked at again.
    pub(crate) looks: BTreeSet<Ticket>,
    /// Sessions that are over and still have leases or waiters to clear away.
    pub(crate) closing: VecDeque<u32>,
    /// How much work may still be done before others get their turn.
    pub(crate) slice: usize,
    /// When the oldest answers were last forgotten.
    pub(crate) forgot_us: u64,
    /// When clients of streams were last looked over for those not heard of any more, and how far that has come.
    pub(crate) looked_over_us: u64,
    pub(crate) looked_over: Option<ClientKey>,
    /// Which client of a stream was named last, and its key: what comes together mostly comes from one.
    client_named: Option<(ClientId, ClientKey)>,
}

/// The journaled time up to which the server may answer grants and renewals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Horizon {
    /// A raw boot time of the boot in which it was decided.
    pub until_raw_us: u64,
    /// How far ahead of its decision that was.
    pub length_us: u64,
}

/// What a turn produced.
#[derive(Debug, Default)]
pub struct Output {
    /// What happened, in order.
    pub events: Vec<(Seq, Event)>,
    /// Who is to be told what, once it is durable.
    pub replies: Vec<Reply>,
    /// Who stands in line from now on.
    pub queued: Vec<QueuedNotice>,
    /// Attempts that will never be answered, because their connections closed while they stood in line.
    pub gone: Vec<Attachment>,
    /// Which sessions' owners should hear of an ended lease before they ask.
    pub ended: Vec<EndedNotice>,
    /// How late each expiry was noticed.
    pub expiry_lag_us: Vec<u64>,
}

/// An attempt stands in line; its answer comes later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuedNotice {
    /// Which attempt.
    pub to: Attachment,
    /// Its place among those who wait for exactly the same, from 1.
    pub position: u64,
    /// The newest event that this depends on.
    pub after: Seq,
}

/// A lease of an opened session ended otherwise than by its own release.
#[derive(Clone, Debug, PartialEq)]
pub struct EndedNotice {
    /// Whose.
    pub session: SessionId,
    /// Which, and why.
    pub ended: EndedView,
    /// The newest event that this depends on.
    pub after: Seq,
}

/// How many of everything there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Counts {
    /// Leases.
    pub leases: usize,
    /// Waiters.
    pub waiters: usize,
    /// Sessions in all: opened ones and leases' own.
    pub sessions: usize,
    /// Sessions that were opened by name.
    pub opened_sessions: usize,
    /// Request ids known.
    pub request_ids: usize,
    /// Ended leases and sessions still known.
    pub tombstones: usize,
    /// Fenced files.
    pub files: usize,
    /// Bytes in them.
    pub file_bytes: u64,
}

impl Machine {
    /// An empty state, before anything happened.
    pub fn new(limits: Limits) -> Machine {
        let key = HashKey::default();
        // No more than can be read back from a snapshot.
        let limits = Limits {
            leases_max: limits.leases_max.min(limits.slots_max),
            sessions_max: limits.sessions_max.min(limits.slots_max),
            ..limits
        };
        Machine {
            limits,
            key: None,
            seq: 0,
            next_ticket: 1,
            last_token: 0,
            largest_ttl_ms: 0,
            horizon: None,
            grants_held_ms: None,
            leases: Slab::new(),
            sessions: Slab::new(),
            waiters: BTreeMap::new(),
            requests: Requests::new(key),
            tombstones: Tombstones::new(),
            files: Files::new(),
            space: Space::new(key),
            owners: Owners::new(key),
            own_sessions: 0,
            now: Now::default(),
            timers: Timers::new(),
            attachments: HashMap::with_hasher(Keyed(key)),
            parked: BTreeSet::new(),
            looks: BTreeSet::new(),
            closing: VecDeque::new(),
            slice: 0,
            forgot_us: 0,
            looked_over_us: 0,
            looked_over: None,
            client_named: None,
        }
    }

    /// A new turn begins at `now`, which never goes back.
    pub fn begin(&mut self, now: Now) {
        assert!(now.us >= self.now.us, "the server's time never goes back");
        self.now = now;
        self.slice = crate::limits::SLICE;
        self.tombstones.index();
    }

    /// Takes in an event of the engine's own.
    pub fn record(&mut self, event: Event, out: &mut Output) {
        assert!(
            matches!(
                event,
                Event::Founded { .. }
                    | Event::Horizon { .. }
                    | Event::GrantsHeld { .. }
                    | Event::GrantsResumed
                    | Event::TokensRaised { .. }
            ),
            "everything else is decided here"
        );
        self.emit(event, out);
    }

    /// The number of the last event.
    pub fn seq(&self) -> Seq {
        self.seq
    }

    /// Whether this is the state of a journal that has begun.
    pub fn is_founded(&self) -> bool {
        self.key.is_some()
    }

    /// The horizon as last decided.
    pub fn horizon(&self) -> Option<Horizon> {
        self.horizon
    }

    /// The newest fencing token.
    pub fn last_token(&self) -> u64 {
        self.last_token
    }

    /// The largest TTL that anybody ever had in this journal.
    pub fn largest_ttl_ms(&self) -> u64 {
        self.largest_ttl_ms
    }

    /// For how long nothing is granted, if an old copy was put back and that time has not passed.
    pub fn grants_held(&self) -> Option<u64> {
        self.grants_held_ms
    }

    /// How many of everything there are.
    pub fn counts(&self) -> Counts {
        Counts {
            leases: self.leases.len(),
            waiters: self.waiters.len(),
            sessions: self.sessions.len() + self.own_sessions,
            opened_sessions: self.sessions.len(),
            request_ids: self.requests.len(),
            tombstones: self.tombstones.len(),
            files: self.files.len(),
            file_bytes: self.files.bytes(),
        }
    }

    /// Number and size of every fenced file.
    pub fn file_sizes(&self) -> impl Iterator<Item = (u64, u64)> {
        self.files.from("").map(|(_, file)| (file.number, file.size))
    }

    /// Takes no write of more bytes than this from now on: the journal has no room for them in one batch.
    pub fn limit_writes(&mut self, bytes_max: u64) {
        self.limits.write_bytes_max = self.limits.write_bytes_max.min(bytes_max);
    }

    /// The key of all hashes; before the journal is founded, one that nobody relies on.
    pub(crate) fn hash_key(&self) -> HashKey {
        self.key.unwrap_or_default()
    }

    /// The key of a stream's client. Nobody is named before the journal is founded, so that it stays the same.
    pub(crate) fn client_key(&mut self, client: &ClientId) -> ClientKey {
        match &self.client_named {
            Some((named, key)) if named == client => *key,
            _ => {
                let key = self.hash_key().client(client);
                self.client_named = Some((client.clone(), key));
                key
            }
        }
    }

    /// Takes an event in and puts it out: the only way in which a decision changes what is journaled.
    pub(crate) fn emit(&mut self, event: Event, out: &mut Output) {
        let session = match &event {
            Event::Broken { lease, .. } | Event::Released { lease, .. } => {
                self.leases.get(lease.slot).map(Lease::under)
            }
            _ => None,
        };
        self.apply(self.now.wall_ms, &event);
        out.events.push((self.seq, event));
        if let Some(Under::Session(slot)) = session
            && let Some(session) = self.sessions.get(slot)
            && let Some(ended) = session.ended.last().filter(|ended| ended.seq == self.seq)
        {
            let session = SessionId::Opened { slot, secret: session.secret };
            out.ended.push(EndedNotice { session, ended: ended.view(), after: self.seq });
        }
    }

    /// Tells somebody something that depends on everything decided so far.
    pub(crate) fn tell(&self, to: Attachment, outcome: Outcome, out: &mut Output) {
        out.replies.push(Reply { to, outcome, after: self.seq, promises_time: false, applied: None });
    }

    /// Until when a lease lives.
    pub(crate) fn deadline_us(&self, lease: &Lease) -> u64 {
        match lease.under() {
            Under::Session(slot) if !lease.broken() => {
                self.sessions.get(slot).map_or(0, |session| session.deadline_us)
            }
            _ => lease.deadline_us,
        }
    }

    /// Gives a lease a deadline of its own, and stands it among the timers there.
    pub(crate) fn arm_lease(&mut self, slot: u32, deadline_us: u64) {
        let Some(lease) = self.leases.get_mut(slot) else { return };
        lease.deadline_us = deadline_us;
        let mut armed_us = lease.armed_us();
        self.timers.arm(&mut armed_us, Due::Lease(slot), deadline_us);
        lease.set_armed_us(armed_us);
    }

    /// The longest TTL that a lease's session has had. An opened session keeps the one it was opened with.
    pub(crate) fn ttl_longest(&self, lease: &Lease) -> Ttl {
        lease.ttl_longest().unwrap_or_else(|| self.usual_ttl_longest(lease.under()))
    }

    /// The same for a lease that is as most are.
    pub(crate) fn usual_ttl_longest(&self, under: Under) -> Ttl {
        match under {
            Under::Own(ttl) => ttl,
            Under::Session(slot) => self.sessions.get(slot).map_or_else(Ttl::default, |session| session.ttl),
        }
    }

    /// How a lease ended, if its time has come, swept or not.
    pub(crate) fn lease_over(&self, lease: &Lease) -> Option<Ending> {
        let closed = match lease.under() {
            Under::Session(slot) => self.sessions.get(slot).and_then(|session| session.over),
            Under::Own(_) => None,
        };
        if closed.is_none() && self.now.us < self.deadline_us(lease) {
            return None;
        }
        Some(if lease.broken() { Ending::Released } else { closed.unwrap_or(Ending::Expired) })
    }
}
