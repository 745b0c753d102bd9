//! Taking an event in: total and trivial, with no clock and no judgement, so that a newer version replays an older
//! journal. An event that does not fit the state is our bug, and stops the program rather than spoil the tables.

use hashbrown::HashMap;
use leasehold_planted::{Bug, planted};

use crate::answer::Written;
use crate::event::{Ask, Ending, Event, LeaseName, Release, Ticket, Under};
use crate::files::Write;
use crate::ids::{HashKey, Payload};
use crate::keyed::Keyed;
use crate::lease::Lease;
use crate::machine::{Horizon, Machine};
use crate::owners::Owners;
use crate::records::{EndedLease, EndedWhy, Presence, Session, Waiter};
use crate::requests::{Fate, Requests};
use crate::space::Space;
use crate::timers::Due;
use crate::tombstones::Tombstone;
use crate::words::{Owner, Ttl};

impl Machine {
    /// Takes one event in; `wall_ms` is the wall time of its turn.
    pub fn apply(&mut self, wall_ms: u64, event: &Event) {
        self.seq += 1;
        match event {
            Event::Founded { key } => {
                assert!(self.key.is_none() && self.seq == 1, "a journal is founded once, first of all");
                self.found(*key);
            }
            Event::Granted { ticket, slot, token, ask } => self.granted(*ticket, *slot, *token, ask, wall_ms),
            Event::Queued { ticket, wait, ask } => {
                let waiter = Waiter {
                    ask: self.interned(ask),
                    wait: *wait,
                    presence: Presence::Absent { until_us: u64::MAX },
                    since_us: self.now.us,
                    wait_until_us: u64::MAX,
                    armed_us: None,
                    parked_on: None,
                };
                self.enqueue(*ticket, waiter);
            }
            Event::Dequeued { ticket, .. } => {
                let waiter = self.take_waiter(*ticket);
                if let Some(mark) = waiter.ask.request {
                    self.requests.drop_live(&mark.name);
                }
                self.owners.release(&waiter.ask.owner);
                if !planted(Bug::LostWakeUp) {
                    self.wake_parked(*ticket);
                }
            }
            Event::Updated { lease, ttl, metadata } => {
                let seq = self.seq;
                let longest = self.leases.get(lease.slot).map(|lease| self.ttl_longest(lease));
                let record = self.lease_mut(lease);
                record.changed = seq;
                if let Some(ttl) = ttl {
                    record.set_under(Under::Own(*ttl));
                    record.set_ttl_longest(longest.filter(|longest| longest > ttl));
                }
                if let Some(metadata) = metadata {
                    record.set_metadata(metadata.clone());
                }
                self.space.touch(&lease.resource, seq, &self.leases);
                self.note_ttl(*ttl);
            }
            Event::Released { lease, why } => {
                let noted = match why {
                    Release::Holder | Release::Closed | Release::Broken => None,
                    Release::Cancelled => Some(EndedWhy::Cancelled),
                    Release::Gone => Some(EndedWhy::Gone),
                };
                self.end_lease(lease, Ending::Released, noted);
            }
            Event::Expired { lease } => self.end_lease(lease, Ending::Expired, None),
            Event::Broken { lease, force, .. } => {
                let seq = self.seq;
                let record = self.lease_mut(lease);
                let first = !record.broken();
                record.set_broken();
                record.changed = seq;
                let noted = first.then_some(EndedWhy::Broken);
                self.space.touch(&lease.resource, seq, &self.leases);
                if *force {
                    self.end_lease(lease, Ending::Released, noted);
                } else {
                    self.note_ended(lease, noted);
                }
            }
            Event::SessionOpened { slot, secret, owner, ttl, metadata, request } => {
                let session = Session {
                    secret: *secret,
                    owner: self.intern(owner),
                    ttl: *ttl,
                    metadata: metadata.clone(),
                    request: *request,
                    leases: Default::default(),
                    waiters: Default::default(),
                    ended: Default::default(),
                    changed: self.seq,
                    over: None,
                    deadline_us: 0,
                    armed_us: None,
                };
                if let Some(mark) = request {
                    self.requests.live(mark, Fate::Session(*slot), self.now.us);
                }
                self.sessions.insert(*slot, session);
                self.note_ttl(Some(*ttl));
            }
            Event::SessionEnded { slot, how, .. } => self.end_session(*slot, *how),
            Event::Seen { slot, through } => {
                if let Some(session) = self.sessions.get_mut(*slot) {
                    session.ended.retain(|ended| ended.seq > *through);
                    session.changed = self.seq;
                }
            }
            Event::Cancelled { request, found } => {
                let payload = self.requests.get(request).and_then(|known| known.payload);
                self.requests.retire(*request, payload, Fate::Cancelled(*found), self.now.us);
            }
            Event::BreakAnswered { request, tokens, free_in_ms } => {
                let fate = Fate::Broke((tokens.clone(), *free_in_ms).into());
                self.requests.retire(request.name, Some(request.payload), fate, self.now.us);
            }
            Event::Forgotten { requests_before, tombstones_before } => {
                self.requests.forget_before(*requests_before);
                self.tombstones.forget_before(*tombstones_before);
            }
            Event::Marked { client, answered_through, open } => {
                for fate in self.requests.mark(*client, *answered_through, open, self.now.us) {
                    self.let_go(&fate);
                }
            }
            Event::ClientForgotten { client } => self.requests.forget_client(client),
            Event::Horizon { until_raw_us, length_us } => {
                self.horizon = Some(Horizon { until_raw_us: *until_raw_us, length_us: *length_us });
            }
            Event::GrantsHeld { for_ms } => self.grants_held_ms = Some(*for_ms),
            Event::TokensRaised { to } => self.last_token = self.last_token.max(*to),
            Event::GrantsResumed => {
                self.grants_held_ms = None;
                self.looks.extend(self.waiters.keys());
            }
            Event::FileWritten { number, name, lease, offset, bytes, request } => {
                let (end, seq) = (offset + bytes.len(), self.seq);
                let write = Write { number: *number, end, token: lease.token, wall_ms, seq };
                let (new, file) = self.files.write(name, write);
                if new {
                    self.space.join_file(*number, name.path().clone());
                }
                if let Some(mark) = request {
                    let written = Written { offset: *offset, length: bytes.len(), size: file.size };
                    let fate = Fate::Wrote(written.into());
                    self.requests.retire(mark.name, Some(mark.payload), fate, self.now.us);
                }
            }
            Event::FileDeleted { number, name, request, .. } => {
                let file = self.files.delete(name);
                assert!(file.is_some_and(|file| file.number == *number), "a file that is deleted is there");
                self.space.part_file(*number);
                if let Some(mark) = request {
                    self.requests.retire(mark.name, Some(mark.payload), Fate::Deleted, self.now.us);
                }
            }
        }
    }

    /// Takes the journal's hash key into everything that hashes; nothing is kept by hash yet.
    pub(crate) fn found(&mut self, key: HashKey) {
        self.key = Some(key);
        self.requests = Requests::new(key);
        self.owners = Owners::new(key);
        self.space = Space::new(key);
        self.attachments = HashMap::with_hasher(Keyed(key));
    }

    fn granted(&mut self, ticket: Ticket, slot: u32, token: u64, ask: &Ask, wall_ms: u64) {
        assert!(token > self.last_token, "tokens only ever grow");
        let waiter = self.waiters.get(&ticket);
        let in_line = waiter.is_some();
        let ask = waiter.map_or(ask, |waiter| &waiter.ask).clone();
        let (under, request) = (ask.under, ask.request);
        let owner = self.owners.intern(&ask.owner);
        let lease = Lease::new(ask, owner, ticket, token, wall_ms, self.seq);
        let (resource, standing) = (lease.resource.clone(), lease.standing(slot));
        // The lease stands before its place in line is given up: a deleted file's number is one with its path for as
        // long as anybody stands on it.
        self.leases.insert(slot, lease);
        self.space.insert(&resource, standing, self.seq, &self.leases);
        if in_line {
            // Whoever is parked on this ticket stays so, for the lease keeps it.
            let waiter = self.take_waiter(ticket);
            self.owners.release(&waiter.ask.owner);
        }
        match under {
            Under::Own(ttl) => {
                self.own_sessions += 1;
                self.note_ttl(Some(ttl));
            }
            Under::Session(session) => {
                let session = self.sessions.get_mut(session);
                assert!(session.is_some(), "a lease lives by a session that is there");
                if let Some(session) = session {
                    session.leases.insert(slot);
                }
            }
        }
        if let Some(mark) = &request {
            self.requests.live(mark, Fate::Lease(slot), self.now.us);
        }
        self.last_token = token;
        self.next_ticket = self.next_ticket.max(ticket + 1);
    }

    /// Puts a waiter in line; also used by snapshots.
    pub(crate) fn enqueue(&mut self, ticket: Ticket, waiter: Waiter) {
        if let Under::Session(session) = waiter.ask.under
            && let Some(session) = self.sessions.get_mut(session)
        {
            session.waiters.insert(ticket);
        }
        if let Under::Own(ttl) = waiter.ask.under {
            self.note_ttl(Some(ttl));
        }
        if let Some(mark) = &waiter.ask.request {
            self.requests.live(mark, Fate::Waiting(ticket), self.now.us);
        }
        self.next_ticket = self.next_ticket.max(ticket + 1);
        self.space.insert(&waiter.ask.resource, waiter.standing(ticket), self.seq, &self.leases);
        let before = self.waiters.insert(ticket, waiter);
        assert!(before.is_none(), "a ticket is given once");
    }

    /// Takes a waiter out of the line, out of its place and out of everything that is not journaled.
    fn take_waiter(&mut self, ticket: Ticket) -> Waiter {
        let waiter = self.waiters.remove(&ticket);
        assert!(waiter.is_some(), "who leaves the line stood in it");
        let mut waiter = waiter.unwrap_or_else(|| unreachable!("asserted above"));
        self.space.remove(&waiter.ask.resource, waiter.standing(ticket), self.seq, &self.leases);
        if let Under::Session(slot) = waiter.ask.under {
            if let Some(session) = self.sessions.get_mut(slot) {
                session.waiters.remove(&ticket);
            }
            self.drop_drained_session(slot);
        }
        if let Some((attachment, _)) = waiter.attached() {
            self.attachments.remove(&attachment);
        }
        if let Some(obstacle) = waiter.parked_on.take() {
            self.parked.remove(&(obstacle, ticket));
        }
        self.looks.remove(&ticket);
        self.timers.disarm(&mut waiter.armed_us, Due::Waiter(ticket));
        waiter
    }

    /// The rule is looked at again for everybody who waited for this ticket's going.
    pub(crate) fn wake_parked(&mut self, obstacle: Ticket) {
        while let Some((_, waiter)) =
            self.parked.range((obstacle, 0)..=(obstacle, Ticket::MAX)).next().copied()
        {
            self.parked.remove(&(obstacle, waiter));
            if let Some(waiter) = self.waiters.get_mut(&waiter) {
                waiter.parked_on = None;
            }
            self.looks.insert(waiter);
        }
    }

    fn lease_mut(&mut self, name: &LeaseName) -> &mut Lease {
        let lease = self.leases.get_mut(name.slot).filter(|lease| lease.token == name.token);
        assert!(lease.is_some(), "an event names a lease that is there");
        lease.unwrap_or_else(|| unreachable!("asserted above"))
    }

    fn end_lease(&mut self, name: &LeaseName, how: Ending, noted: Option<EndedWhy>) {
        self.note_ended(name, noted);
        let lease = self.leases.get(name.slot).filter(|lease| lease.token == name.token);
        assert!(lease.is_some(), "a lease that ends is there");
        let Some(lease) = lease else { return };
        self.timers.disarm(&mut lease.armed_us(), Due::Lease(name.slot));
        self.space.remove(&lease.resource, lease.standing(name.slot), self.seq, &self.leases);
        let Some(lease) = self.leases.remove(name.slot) else { return };
        match lease.under() {
            Under::Own(_) => self.own_sessions -= 1,
            Under::Session(slot) => {
                if let Some(session) = self.sessions.get_mut(slot) {
                    session.leases.remove(&name.slot);
                }
                self.drop_drained_session(slot);
            }
        }
        if let Some(mark) = lease.request() {
            self.requests.retire(mark.name, Some(mark.payload), Fate::Ended(how), self.now.us);
        }
        let check = self.lease_check(name);
        self.tombstones.set(Tombstone { secret: lease.secret, check, how }, self.now.us);
        self.owners.release_number(lease.owner);
        self.wake_parked(lease.ticket);
    }

    /// What a caller with an ended lease's id must still get right.
    pub(crate) fn lease_check(&self, name: &LeaseName) -> Payload {
        self.hash_key().payload([
            name.owner.text().as_bytes(),
            name.resource.text().as_bytes(),
            &name.token.to_le_bytes(),
        ])
    }

    /// What lives on without the id that its client has let go.
    fn let_go(&mut self, fate: &Fate) {
        match fate {
            Fate::Waiting(ticket) => {
                if let Some(waiter) = self.waiters.get_mut(ticket) {
                    waiter.ask.request = None;
                }
            }
            Fate::Lease(slot) => {
                if let Some(lease) = self.leases.get_mut(*slot) {
                    lease.set_request(None);
                }
            }
            Fate::Session(slot) => {
                if let Some(session) = self.sessions.get_mut(*slot) {
                    session.request = None;
                }
            }
            Fate::Ended(_) | Fate::Cancelled(_) | Fate::Broke(_) | Fate::Wrote(_) | Fate::Deleted => {}
        }
    }

    /// Keeps for the owner of a lease's session that the lease ended otherwise than by its own release.
    fn note_ended(&mut self, name: &LeaseName, noted: Option<EndedWhy>) {
        let (Some(why), Some(lease)) = (noted, self.leases.get(name.slot)) else { return };
        let Under::Session(slot) = lease.under() else { return };
        // A broken lease was named when it was broken; how it goes after that is no news.
        if lease.broken() && why != EndedWhy::Broken {
            return;
        }
        let seq = self.seq;
        if let Some(session) = self.sessions.get_mut(slot) {
            session.ended.push(EndedLease { resource: name.resource.clone(), token: name.token, why, seq });
            session.changed = seq;
        }
    }

    fn end_session(&mut self, slot: u32, how: Ending) {
        let session = self.sessions.get_mut(slot);
        assert!(session.is_some(), "a session that ends is there");
        let Some(session) = session else { return };
        assert!(session.over.is_none(), "a session ends once");
        session.over = Some(how);
        self.timers.disarm(&mut session.armed_us, Due::Session(slot));
        let check = session_check(self.key.unwrap_or_default(), &session.owner);
        self.tombstones.set(Tombstone { secret: session.secret, check, how }, self.now.us);
        if let Some(mark) = session.request {
            self.requests.retire(mark.name, Some(mark.payload), Fate::Ended(how), self.now.us);
        }
        self.drop_drained_session(slot);
    }

    /// A session that is over goes when its last lease and waiter have gone.
    fn drop_drained_session(&mut self, slot: u32) {
        let drained = self.sessions.get(slot).is_some_and(|session| {
            session.over.is_some() && session.leases.is_empty() && session.waiters.is_empty()
        });
        if drained && let Some(session) = self.sessions.remove(slot) {
            self.owners.release(&session.owner);
        }
    }

    /// A request with the one copy of its owner's name.
    pub(crate) fn interned(&mut self, ask: &Ask) -> Ask {
        Ask { owner: self.intern(&ask.owner), ..ask.clone() }
    }

    /// The one copy of an owner's name, used once more.
    pub(crate) fn intern(&mut self, owner: &Owner) -> Owner {
        let number = self.owners.intern(owner);
        self.owners.name(number).clone()
    }

    fn note_ttl(&mut self, ttl: Option<Ttl>) {
        self.largest_ttl_ms = self.largest_ttl_ms.max(ttl.map_or(0, Ttl::ms));
    }
}

/// What a caller with an ended session's id must still get right.
pub(crate) fn session_check(key: HashKey, owner: &Owner) -> Payload {
    key.payload([owner.text().as_bytes()])
}
