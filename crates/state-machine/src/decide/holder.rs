//! What a holder does with its lease: renew, release; and what anybody may ask of a token: verify.

use leasehold_planted::{Bug, planted};

use crate::answer::{Answer, Outcome, Refusal, Reply};
use crate::command::{Proof, Renew, Request};
use crate::event::{Ending, Event, LeaseName, Release, Under};
use crate::ids::LeaseId;
use crate::invalid::Invalid;
use crate::machine::{Machine, Output};
use crate::resource::Resource;

use super::Judged;

/// What a lease id leads to.
enum Found {
    /// A lease that stands, in this slot, and whether it is broken.
    Standing { slot: u32, broken: bool },
    /// One that has ended.
    Ended(Ending),
}

impl Machine {
    pub(crate) fn renew(&mut self, request: &Request, wanted: &Renew, out: &mut Output) -> Judged {
        let slot = match self.prove_live(&wanted.proof, out) {
            Ok(slot) => slot,
            Err(refusal) => return refusal.into(),
        };
        let Some(lease) = self.leases.get(slot) else { return Refusal::NotFound("no such lease").into() };
        let ttl = match lease.under() {
            Under::Session(_) if wanted.ttl.is_some() => {
                let problem = "a lease under a session lives by the session's TTL; leave ttl_ms out";
                return Refusal::Invalid(Invalid::new("ttl_ms", problem)).into();
            }
            Under::Session(_) => None,
            Under::Own(ttl) => wanted.ttl.filter(|wanted| *wanted != ttl),
        };
        let metadata = wanted.metadata.clone().filter(|metadata| metadata != lease.metadata());
        if ttl.is_some() || metadata.is_some() {
            let lease = lease.name(slot, &self.owners);
            self.emit(Event::Updated { lease, ttl, metadata }, out);
        }
        self.prolong(slot);
        // The answer speaks of this lease only, so it waits for what last changed it and not for others' changes.
        let after = self.spoken_of(slot);
        if let Some(lease) = self.lease_view(slot, request.arrived_raw_us, after) {
            let outcome = Ok(Answer::Lease(lease.into()));
            let to = request.attachment;
            out.replies.push(Reply { to, outcome, after, promises_time: true, applied: None });
        }
        Judged::Done
    }

    pub(crate) fn release(&mut self, proof: &Proof, out: &mut Output) -> Outcome {
        if planted(Bug::ReleaseByNameOnly)
            && let Some(slot) = self.space.leases_on(&proof.resource, &self.leases).first()
        {
            return Ok(self.give_back(*slot, Release::Holder, out));
        }
        match self.prove(proof, out)? {
            Found::Ended(Ending::Expired) => Err(Refusal::LeaseExpired),
            Found::Ended(Ending::Released) => Ok(Answer::Released { remaining_ms: None }),
            Found::Standing { slot, .. } => Ok(self.give_back(slot, Release::Holder, out)),
        }
    }

    /// Ends a standing lease before its time.
    pub(crate) fn give_back(&mut self, slot: u32, why: Release, out: &mut Output) -> Answer {
        let remaining_ms = self.leases.get(slot).map(|lease| self.now.ms_until(self.deadline_us(lease)));
        if let Some(lease) = self.leases.get(slot) {
            let lease = lease.name(slot, &self.owners);
            self.emit(Event::Released { lease, why }, out);
        }
        Answer::Released { remaining_ms }
    }

    pub(crate) fn verify(&self, resource: &Resource, token: u64) -> Outcome {
        let lease = self
            .space
            .covering_lease(resource, token, &self.leases)
            .and_then(|slot| self.leases.get(slot))
            .filter(|lease| !lease.broken() && self.lease_over(lease).is_none());
        match lease {
            Some(lease) => Ok(Answer::Valid { expires_in_ms: self.now.ms_until(self.deadline_us(lease)) }),
            None => Err(self.stale(resource, token)),
        }
    }

    /// The slot of the lease that a proof speaks of, if it is live and of use to its holder.
    pub(crate) fn prove_live(&mut self, proof: &Proof, out: &mut Output) -> Result<u32, Refusal> {
        match self.prove(proof, out)? {
            Found::Ended(how) => Err(how.into()),
            Found::Standing { broken: true, .. } => Err(Refusal::Released),
            Found::Standing { slot, broken: false } => Ok(slot),
        }
    }

    /// Finds the lease that a proof speaks of, in the order of the contract: unknown, mismatch, ended.
    fn prove(&mut self, proof: &Proof, out: &mut Output) -> Result<Found, Refusal> {
        let LeaseId { slot, secret } = proof.lease;
        if let Some(lease) = self.leases.get(slot).filter(|lease| lease.secret == secret) {
            let all_match = lease.resource == proof.resource
                && *self.owners.name(lease.owner) == proof.owner
                && lease.token == proof.token;
            if !all_match {
                return Err(self.stale(&proof.resource, proof.token));
            }
            let broken = lease.broken();
            return Ok(match self.end_if_over(slot, out) {
                Some(how) => Found::Ended(how),
                None => Found::Standing { slot, broken },
            });
        }
        let stone =
            self.tombstones.get(&secret).ok_or(Refusal::NotFound("no such lease, or long forgotten"))?;
        let claimed = LeaseName {
            slot,
            token: proof.token,
            resource: proof.resource.clone(),
            owner: proof.owner.clone(),
            mode: Default::default(),
        };
        if stone.check != self.lease_check(&claimed) {
            return Err(self.stale(&proof.resource, proof.token));
        }
        Ok(Found::Ended(stone.how))
    }

    fn stale(&self, resource: &Resource, token: u64) -> Refusal {
        Refusal::StaleToken { highest_token: self.space.newer_token(resource, token, &self.leases) }
    }

    /// Moves the deadline of a lease's session to a TTL from now, never back. The timers follow when they come due.
    pub(crate) fn prolong(&mut self, slot: u32) {
        let now_us = self.now.us;
        let Some(lease) = self.leases.get_mut(slot) else { return };
        match lease.under() {
            Under::Own(ttl) => lease.deadline_us = lease.deadline_us.max(now_us + ttl.us()),
            Under::Session(session) => self.prolong_session(session),
        }
    }

    /// The newest event that an answer about this lease alone speaks of.
    fn spoken_of(&self, slot: u32) -> u64 {
        let Some(lease) = self.leases.get(slot) else { return self.seq };
        let session = match lease.under() {
            Under::Own(_) => 0,
            Under::Session(session) => self.sessions.get(session).map_or(0, |session| session.changed),
        };
        lease.changed.max(session)
    }
}
