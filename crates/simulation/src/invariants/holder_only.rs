//! holder_only: only the holder can renew or release, and only a live lease verifies. The fencing number is public, the
//! lease id is the secret: whoever shows less than all of lock, owner, lease id and token gets nothing.
//!
//! Catches: a check that was left out, a slot that was given to another lease, a token that verifies after its end.

use std::collections::BTreeMap;

use leasehold_state_machine::answer::Answer;
use leasehold_state_machine::command::{Command, Proof, Renew};
use leasehold_state_machine::event::Event;
use leasehold_state_machine::ids::LeaseId;
use leasehold_state_machine::resource::Resource;
use leasehold_state_machine::words::Owner;

use super::{Committed, Reply, Verdict, Violation};
use crate::ledger::Ledger;

/// See above.
#[derive(Clone, Debug, Default)]
pub struct HolderOnly {
    leases: BTreeMap<u64, Lease>,
}

#[derive(Clone, Debug)]
struct Lease {
    id: LeaseId,
    resource: Resource,
    owner: Owner,
    /// When it ended or was broken.
    ended_us: Option<u64>,
}

impl HolderOnly {
    /// Takes in an event.
    pub fn committed(&mut self, committed: &Committed) -> Verdict {
        match &committed.event {
            Event::Granted { token, slot, ask, .. } => {
                let id = LeaseId { slot: *slot, secret: ask.secret };
                let (resource, owner) = (ask.resource.clone(), ask.owner.clone());
                self.leases.insert(*token, Lease { id, resource, owner, ended_us: None });
            }
            Event::Released { lease, .. } | Event::Expired { lease } | Event::Broken { lease, .. } => {
                if let Some(lease) = self.leases.get_mut(&lease.token) {
                    lease.ended_us = lease.ended_us.or(Some(committed.at_us));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes in a reply.
    pub fn replied(&self, reply: &Reply<'_>, ledger: &Ledger) -> Verdict {
        let (Some(attempt), Ok(answer)) = (ledger.attempt(reply.to), reply.outcome) else { return Ok(()) };
        match (&attempt.command, answer) {
            (Command::Renew(Renew { proof, .. }), Answer::Lease(_))
            | (Command::Release(proof), Answer::Released { .. })
                if !self.leases.get(&proof.token).is_some_and(|lease| lease.is(proof)) =>
            {
                return Err(violation(format!("a false proof of token {} was accepted", proof.token)));
            }
            (Command::Verify { resource, token }, Answer::Valid { .. }) => {
                let Some(lease) = self.leases.get(token).filter(|lease| lease.resource.covers(resource))
                else {
                    return Err(violation(format!("token {token} verifies and does not cover {resource}")));
                };
                if lease.ended_us.is_some_and(|ended_us| Some(ended_us) < attempt.turned_us) {
                    return Err(violation(format!("token {token} verifies after its end")));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

impl Lease {
    fn is(&self, proof: &Proof) -> bool {
        self.id == proof.lease && self.resource == proof.resource && self.owner == proof.owner
    }
}

fn violation(sentence: String) -> Violation {
    Violation::new("holder_only", sentence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariants::samples::granted;
    use crate::ledger::tests::with_release;
    use leasehold_state_machine::words::Mode;

    #[test]
    fn sees_a_false_proof_accepted() {
        let outcome = Ok(Answer::Released { remaining_ms: None });
        let reply = Reply { at_us: 0, to: (1, 1), outcome: &outcome };
        let mut holder_only = HolderOnly::default();
        assert!(holder_only.replied(&reply, &with_release(10)).is_err(), "nobody has this token");
        holder_only.committed(&granted(1, 10, "a", Mode::Exclusive)).unwrap();
        holder_only.replied(&reply, &with_release(10)).unwrap();
        let mut holder_only = HolderOnly::default();
        holder_only.committed(&granted(1, 10, "b", Mode::Exclusive)).unwrap();
        assert!(holder_only.replied(&reply, &with_release(10)).is_err(), "another lock");
    }
}
