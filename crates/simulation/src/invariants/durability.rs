//! durability: everything anyone was told is still true after a crash. A reply leaves only when the journal holds what it
//! speaks of; events are told as the journal has them, once each, in order; a number is never used for two events; a
//! restart finds all that was acknowledged and nothing that was never handed over.
//!
//! Catches: a reply that leaves before its batch is durable, a lost or reordered batch, a lease that a holder can no
//! longer show, a release that is undone, a snapshot that forgets.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use leasehold_engine::{Told, Unasked};
use leasehold_state_machine::answer::{Answer, Refusal};
use leasehold_state_machine::command::{Command, Proof, Renew};
use leasehold_state_machine::event::{CancelFound, Event, Seq};
use leasehold_state_machine::ids::{HashKey, LeaseId, RequestName, Secret, SessionId};

use leasehold_state_machine::resource::Resource;
use leasehold_state_machine::words::Owner;

use super::{Committed, Reply, Verdict, Violation};
use crate::ledger::Ledger;

/// See above.
#[derive(Clone, Debug, Default)]
pub struct Durability {
    last: Seq,
    /// Events that are durable and not yet told.
    untold: VecDeque<(Seq, u64, Event)>,
    leases: BTreeMap<u64, Lease>,
    /// Sessions by their secret, and when they ended.
    sessions: BTreeMap<Secret, Option<Seq>>,
    session_slots: BTreeMap<u32, Secret>,
    broken: BTreeSet<u64>,
    /// How many leases and sessions have ended: their number in the order of what is remembered of them.
    ends: u64,
    /// The ends before this number were forgotten.
    forgotten_before: u64,
    key: HashKey,
    /// Request ids that were taken back, as the journal names them.
    cancelled: BTreeSet<RequestName>,
}

#[derive(Clone, Debug)]
struct Lease {
    id: LeaseId,
    resource: Resource,
    owner: Owner,
    granted: Seq,
    ended: Option<Seq>,
    /// The number of its end among all ends.
    end: u64,
}

impl Lease {
    /// Whether this is all that its holder was given.
    fn is(&self, proof: &Proof) -> bool {
        self.id == proof.lease && self.resource == proof.resource && self.owner == proof.owner
    }
}

impl Durability {
    /// Takes in an event.
    pub fn committed(&mut self, committed: &Committed) -> Verdict {
        let Committed { seq, wall_ms, event, .. } = committed;
        if *seq != self.last + 1 {
            return Err(violation(format!("event {seq} became durable after event {}", self.last)));
        }
        self.last = *seq;
        self.untold.push_back((*seq, *wall_ms, event.clone()));
        match event {
            Event::Granted { token, slot, ask, .. } => {
                let id = LeaseId { slot: *slot, secret: ask.secret };
                let (resource, owner) = (ask.resource.clone(), ask.owner.clone());
                self.leases.insert(*token, Lease { id, resource, owner, granted: *seq, ended: None, end: 0 });
            }
            Event::Released { lease, .. } | Event::Expired { lease } => self.ended(lease.token, *seq),
            Event::Broken { lease, force, .. } => {
                self.broken.insert(lease.token);
                if *force {
                    self.ended(lease.token, *seq);
                }
            }
            Event::SessionOpened { slot, secret, .. } => {
                self.sessions.insert(*secret, None);
                self.session_slots.insert(*slot, *secret);
            }
            Event::SessionEnded { slot, .. } => {
                if let Some(secret) = self.session_slots.get(slot) {
                    self.sessions.insert(*secret, Some(*seq));
                    self.ends += 1;
                }
            }
            Event::Cancelled { request, .. } => {
                self.cancelled.insert(*request);
            }
            Event::Founded { key } => self.key = *key,
            Event::Forgotten { tombstones_before, .. } => self.forgotten_before = *tombstones_before,
            _ => {}
        }
        Ok(())
    }

    fn ended(&mut self, token: u64, seq: Seq) {
        if let Some(lease) = self.leases.get_mut(&token).filter(|lease| lease.ended.is_none()) {
            (lease.ended, lease.end) = (Some(seq), self.ends);
            self.ends += 1;
        }
    }

    /// A start has read the journal.
    pub fn recovered(&mut self, last: Seq, possible: &[Seq]) -> Verdict {
        // Who watched hears from a new process only what comes after.
        self.untold.clear();
        if possible.contains(&last) {
            return Ok(());
        }
        Err(violation(format!("a start found events up to {last}; it should end with one of {possible:?}")))
    }

    /// Takes in what watchers are told.
    pub fn told(&mut self, events: &[Told]) -> Verdict {
        for told in events {
            match self.untold.pop_front() {
                Some(known) if known == *told => {}
                Some(known) => {
                    return Err(violation(format!("event {} was told as event {}", known.0, told.0)));
                }
                None => return Err(violation(format!("event {} was told before it was durable", told.0))),
            }
        }
        Ok(())
    }

    /// Takes in notices that nobody asked for.
    pub fn unasked(&self, notices: &[Unasked]) -> Verdict {
        for notice in notices {
            let (what, seq) = match notice {
                Unasked::Queued(notice) => ("a place in line", notice.after),
                Unasked::Ended(notice) => ("the end of a lease", notice.ended.seq),
            };
            if seq > self.last {
                return Err(violation(format!("{what} was told before event {seq} was durable")));
            }
        }
        Ok(())
    }

    /// Takes in a reply.
    pub fn replied(&mut self, reply: &Reply<'_>, ledger: &Ledger) -> Verdict {
        match reply.outcome {
            Ok(Answer::Lease(view)) => {
                let Some(lease) = self.leases.get(&view.token).filter(|lease| lease.granted <= view.seq)
                else {
                    return Err(violation(format!(
                        "token {} was told before its grant was durable",
                        view.token
                    )));
                };
                if lease.id != view.lease {
                    return Err(violation(format!("token {} was told with another lease's id", view.token)));
                }
                if lease.ended.is_some_and(|ended| ended <= view.seq) {
                    return Err(violation(format!(
                        "the lease of token {} lives on after its end",
                        view.token
                    )));
                }
            }
            Ok(Answer::Session(view)) => {
                if let SessionId::Opened { secret, .. } = view.session {
                    match self.sessions.get(&secret) {
                        None => return Err(violation("a session was told before it was durable".into())),
                        Some(Some(ended)) if *ended <= view.seq => {
                            return Err(violation("a session lives on after its end".into()));
                        }
                        Some(_) => {}
                    }
                }
                if let Some(ended) = view.ended.iter().find(|ended| ended.seq > self.last) {
                    return Err(violation(format!("the end of lease {} was told too early", ended.token)));
                }
            }
            Ok(Answer::Released { .. }) => {
                if let Some(Command::Release(proof)) =
                    ledger.attempt(reply.to).map(|attempt| &attempt.command)
                    && self.leases.get(&proof.token).is_none_or(|lease| lease.ended.is_none())
                {
                    return Err(violation(format!("token {} was told released and is not", proof.token)));
                }
            }
            Ok(Answer::Closed) => {
                if let Some(Command::CloseSession { session: SessionId::Opened { secret, .. } }) =
                    ledger.attempt(reply.to).map(|attempt| &attempt.command)
                    && self.sessions.get(secret).is_none_or(Option::is_none)
                {
                    return Err(violation("a session was told closed and is not".into()));
                }
            }
            Ok(Answer::Broke { tokens, .. }) => {
                if let Some(token) = tokens.iter().find(|token| !self.broken.contains(token)) {
                    return Err(violation(format!("token {token} was told broken and is not")));
                }
            }
            Ok(Answer::Cancelled(CancelFound::Unknown | CancelFound::Waiting)) => {
                let name = match ledger.attempt(reply.to).map(|attempt| &attempt.command) {
                    Some(Command::Cancel { owner, request_id, .. }) => {
                        Some(self.key.request(owner, request_id))
                    }
                    Some(Command::CancelNumber { client, number }) => {
                        Some(RequestName::Numbered(self.key.client(client), *number))
                    }
                    _ => None,
                };
                if name.is_some_and(|name| !self.cancelled.contains(&name)) {
                    return Err(violation("a cancel was told before it was durable".into()));
                }
            }
            Ok(Answer::Snapshot(view)) => {
                for holder in &view.holders {
                    let stood = |lease: &Lease| {
                        lease.granted <= view.seq && lease.ended.is_none_or(|ended| ended > view.seq)
                    };
                    if !self.leases.get(&holder.token).is_some_and(stood) {
                        return Err(violation(format!("token {} was shown and did not hold", holder.token)));
                    }
                }
            }
            Err(refusal) => return self.refused(reply, refusal, ledger),
            Ok(_) => {}
        }
        Ok(())
    }

    /// A holder shows what it was given; the server must still know it.
    fn refused(&self, reply: &Reply<'_>, refusal: &Refusal, ledger: &Ledger) -> Verdict {
        let Some(attempt) = ledger.attempt(reply.to) else { return Ok(()) };
        let known = match &attempt.command {
            Command::Renew(Renew { proof, .. }) | Command::Release(proof) => {
                self.leases.get(&proof.token).filter(|lease| lease.is(proof))
            }
            Command::KeepAlive { session: SessionId::Opened { secret, .. }, .. } => {
                let ended = self.sessions.get(secret).is_none_or(Option::is_some);
                return if ended || matches!(refusal, Refusal::Busy { .. } | Refusal::Unavailable { .. }) {
                    Ok(())
                } else {
                    Err(violation(format!("a live session was refused: {refusal:?}")))
                };
            }
            _ => return Ok(()),
        };
        // A lease that an old copy of the data does not know is not known any more.
        let Some(known) = known else { return Ok(()) };
        let ended = known.ended.is_some();
        let broken = match &attempt.command {
            Command::Renew(renew) => self.broken.contains(&renew.proof.token),
            _ => false,
        };
        let fits = match refusal {
            Refusal::LeaseExpired => ended,
            Refusal::Released => ended || broken,
            // A request that lay unread in front of a stopped server may come after its lease was forgotten.
            Refusal::NotFound(_) => ended && known.end < self.forgotten_before,
            Refusal::Busy { .. } | Refusal::Unavailable { .. } => true,
            _ => false,
        };
        if fits {
            return Ok(());
        }
        Err(violation(format!("a holder that showed what it was given was refused: {refusal:?}")))
    }
}

fn violation(sentence: String) -> Violation {
    Violation::new("durability", sentence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariants::samples::{committed, granted, released};
    use leasehold_state_machine::words::Mode;

    #[test]
    fn sees_a_hole_and_a_number_used_twice() {
        let mut durability = Durability::default();
        durability.committed(&granted(1, 10, "a", Mode::Exclusive)).unwrap();
        assert!(durability.committed(&released(3, 10, "a")).is_err());
        assert!(durability.committed(&released(1, 10, "a")).is_err());
    }

    #[test]
    fn sees_events_told_too_early_or_otherwise() {
        let mut durability = Durability::default();
        let event = Event::GrantsResumed;
        assert!(durability.told(&[(1, 0, event.clone())]).is_err());
        durability.committed(&committed(1, event.clone())).unwrap();
        assert!(durability.told(&[(1, 0, Event::GrantsHeld { for_ms: 1 })]).is_err());
        let mut durability = Durability::default();
        durability.committed(&committed(1, event.clone())).unwrap();
        durability.told(&[(1, 0, event)]).unwrap();
    }

    #[test]
    fn sees_a_start_that_forgot_or_made_up_something() {
        let mut durability = Durability::default();
        assert!(durability.recovered(4, &[5, 7]).is_err());
        assert!(durability.recovered(6, &[5, 7]).is_err());
        durability.recovered(7, &[5, 7]).unwrap();
    }

    #[test]
    fn sees_a_release_that_is_not_in_the_journal() {
        let mut durability = Durability::default();
        let ledger = crate::ledger::tests::with_release(10);
        let outcome = Ok(Answer::Released { remaining_ms: None });
        let reply = Reply { at_us: 0, to: (1, 1), outcome: &outcome };
        durability.committed(&granted(1, 10, "a", Mode::Exclusive)).unwrap();
        assert!(durability.replied(&reply, &ledger).is_err());
        durability.committed(&released(2, 10, "a")).unwrap();
        durability.replied(&reply, &ledger).unwrap();
        let refused = Err(Refusal::NotFound("no such lease"));
        // The sample's proof and the sample's grant are one another's.
        assert!(durability.replied(&Reply { outcome: &refused, ..reply }, &ledger).is_err());
        let forgotten = |before| Event::Forgotten { requests_before: 1, tombstones_before: before };
        durability.committed(&committed(3, forgotten(0))).unwrap();
        assert!(durability.replied(&Reply { outcome: &refused, ..reply }, &ledger).is_err());
        durability.committed(&committed(4, forgotten(1))).unwrap();
        durability.replied(&Reply { outcome: &refused, ..reply }, &ledger).unwrap();
    }
}
