//! What a holder is promised: how long its lease lives, when to renew it and when to stop believing, counted from the
//! sending of the attempt that is answered.

use leasehold_planted::{Bug, planted};

use crate::answer::{LeaseView, SessionView};
use crate::event::{Seq, Under};
use crate::ids::{LeaseId, SessionId};
use crate::machine::Machine;
use crate::records::{EndedLease, EndedWhy};
use crate::words::{Metadata, Owner, Ttl};

/// The three durations of a promise.
pub(crate) struct Promise {
    pub(crate) expires_in_ms: u64,
    pub(crate) renew_after_ms: u64,
    pub(crate) stop_after_ms: u64,
}

impl Machine {
    /// What this answer promises. The time from the attempt's arrival to this decision is raw time; a client counts
    /// from before the arrival, so it stops earlier than these say, never later.
    pub(crate) fn promise(&self, ttl: Ttl, deadline_us: u64, arrived_raw_us: u64) -> Promise {
        let elapsed_us = self.now.raw_us.saturating_sub(arrived_raw_us);
        let left_us = deadline_us.saturating_sub(self.now.us);
        // Counted from the arrival: what is left when `part` of the TTL must remain, and never further past the
        // decision than a fresh lease would have it (a shortened TTL leaves an old, later deadline standing).
        let after_ms = |part_us: u64| {
            let fresh_us =
                if planted(Bug::OldDeadlinePromised) { u64::MAX } else { elapsed_us + ttl.us() - part_us };
            (elapsed_us + left_us).saturating_sub(part_us).min(fresh_us) / 1000
        };
        Promise {
            expires_in_ms: left_us / 1000,
            renew_after_ms: after_ms(ttl.us() * 2 / 3),
            stop_after_ms: after_ms(ttl.us() / 2),
        }
    }

    /// A lease as its holder sees it. `seq` is the newest event that the answer speaks of.
    pub(crate) fn lease_view(&self, slot: u32, arrived_raw_us: u64, seq: Seq) -> Option<LeaseView> {
        let lease = self.leases.get(slot)?;
        let id = LeaseId { slot, secret: lease.secret };
        let (session, ttl) = match lease.under() {
            Under::Own(ttl) => (SessionId::Own(id), ttl),
            Under::Session(slot) => {
                let session = self.sessions.get(slot)?;
                (SessionId::Opened { slot, secret: session.secret }, session.ttl)
            }
        };
        let promise = self.promise(ttl, self.deadline_us(lease), arrived_raw_us);
        // Whatever changes a lease changes its place: if that was the newest event of all, the place is not looked for.
        let version = match lease.changed == self.seq {
            true => seq,
            false => self.space.version(&lease.resource, &self.leases).unwrap_or(seq),
        };
        Some(LeaseView {
            resource: lease.resource.clone(),
            owner: self.owners.name(lease.owner).clone(),
            session,
            lease: id,
            token: lease.token,
            mode: lease.mode(),
            ttl,
            expires_in_ms: promise.expires_in_ms,
            renew_after_ms: promise.renew_after_ms,
            stop_after_ms: promise.stop_after_ms,
            acquired_wall_ms: lease.acquired_wall_ms,
            expires_wall_ms: self.now.wall_ms + promise.expires_in_ms,
            version: version.min(seq),
            seq,
            metadata: lease.metadata().clone(),
            repeatable: lease.request().is_some(),
        })
    }

    /// An opened session as its owner sees it.
    pub(crate) fn session_view(&self, slot: u32, arrived_raw_us: u64, seq: Seq) -> Option<SessionView> {
        let session = self.sessions.get(slot)?;
        let promise = self.promise(session.ttl, session.deadline_us, arrived_raw_us);
        let id = SessionId::Opened { slot, secret: session.secret };
        Some(view(id, &session.owner, session.ttl, promise, &session.ended, seq, &session.metadata))
    }

    /// The session of a single lease, seen as a session.
    pub(crate) fn own_session_view(&self, slot: u32, arrived_raw_us: u64) -> Option<SessionView> {
        let lease = self.leases.get(slot)?;
        let Under::Own(ttl) = lease.under() else { return None };
        let promise = self.promise(ttl, lease.deadline_us, arrived_raw_us);
        let id = SessionId::Own(LeaseId { slot, secret: lease.secret });
        Some(view(id, self.owners.name(lease.owner), ttl, promise, &[], lease.changed, lease.metadata()))
    }
}

fn view(
    session: SessionId,
    owner: &Owner,
    ttl: Ttl,
    promise: Promise,
    ended: &[EndedLease],
    seq: Seq,
    metadata: &Metadata,
) -> SessionView {
    let hidden =
        |ended: &EndedLease| planted(Bug::KeepAliveHidesBrokenLease) && ended.why == EndedWhy::Broken;
    let ended = ended.iter().filter(|ended| !hidden(ended)).map(EndedLease::view).collect();
    SessionView {
        session,
        owner: owner.clone(),
        ttl,
        expires_in_ms: promise.expires_in_ms,
        renew_after_ms: promise.renew_after_ms,
        stop_after_ms: promise.stop_after_ms,
        ended,
        seq,
        metadata: metadata.clone(),
    }
}
