//! writer_only: a change of a file commits only under a lease that is live at that point of the journal, exclusive, and
//! covers it, and only for whoever showed lock, owner, lease id and token of that very lease. And who does is not refused
//! as if it did not hold.
//!
//! Catches: a check that was left out, a lease that ended earlier in the same batch, a shared lease, a range that ends
//! before the bytes do, a write that is booked under another's token.

use std::collections::BTreeMap;

use leasehold_state_machine::answer::Refusal;
use leasehold_state_machine::command::{Command, Proof};
use leasehold_state_machine::event::{Event, LeaseName};
use leasehold_state_machine::ids::LeaseId;
use leasehold_state_machine::resource::{Kind, Resource};
use leasehold_state_machine::words::{Mode, Owner};

use super::{Committed, Reply, Verdict, Violation};
use crate::ledger::Ledger;

/// See above.
#[derive(Clone, Debug, Default)]
pub struct WriterOnly {
    leases: BTreeMap<u64, Lease>,
}

#[derive(Clone, Debug)]
struct Lease {
    id: LeaseId,
    resource: Resource,
    owner: Owner,
    mode: Mode,
    live: bool,
}

impl WriterOnly {
    /// Takes in an event.
    pub fn committed(&mut self, committed: &Committed, ledger: &Ledger) -> Verdict {
        match &committed.event {
            Event::Granted { token, slot, ask, .. } => {
                let id = LeaseId { slot: *slot, secret: ask.secret };
                let (resource, owner, mode) = (ask.resource.clone(), ask.owner.clone(), ask.mode);
                self.leases.insert(*token, Lease { id, resource, owner, mode, live: true });
            }
            Event::Released { lease, .. } | Event::Expired { lease } | Event::Broken { lease, .. } => {
                if let Some(lease) = self.leases.get_mut(&lease.token) {
                    lease.live = false;
                }
            }
            Event::FileWritten { number, name, lease, offset, bytes, .. } => {
                let bytes = bytes.whole();
                let end = offset + bytes.len() as u64;
                let known = self.changed_under(lease, name.path(), *number, Some((*offset, end)))?;
                let mut asked = ledger.writers(&bytes).peekable();
                if asked.peek().is_some() && !asked.any(|wanted| known.is(&wanted.proof, lease.token)) {
                    return Err(violation(format!(
                        "event {} writes to {name} under token {}, which nobody showed who asked for it",
                        committed.seq, lease.token
                    )));
                }
            }
            Event::FileDeleted { number, name, lease, .. } => {
                self.changed_under(lease, name.path(), *number, None)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// The lease of a change, if it may be made. Without bytes the whole file is meant.
    fn changed_under(
        &self,
        lease: &LeaseName,
        path: &Resource,
        number: u64,
        bytes: Option<(u64, u64)>,
    ) -> Result<&Lease, Violation> {
        let LeaseName { token, .. } = lease;
        let wrong = |what: &str| violation(format!("{path} is changed under token {token}, {what}"));
        let Some(known) = self.leases.get(token) else { return Err(wrong("which was never granted")) };
        if !known.live {
            return Err(wrong("whose lease is over"));
        }
        if known.mode != Mode::Exclusive {
            return Err(wrong("whose lease is shared"));
        }
        let covers = match (known.resource.kind(), bytes) {
            (Kind::Path(_), _) => known.resource.covers(path),
            (Kind::Bytes(held), Some((start, end))) => {
                held.inode == number && held.start <= start && end <= held.end
            }
            (Kind::Bytes(_), None) => known.resource == Resource::inode(number),
            (Kind::Name(_), _) => false,
        };
        if covers { Ok(known) } else { Err(wrong("whose lease does not cover that")) }
    }

    /// Takes in a reply.
    pub fn replied(&self, reply: &Reply<'_>, ledger: &Ledger) -> Verdict {
        let (Some(attempt), Err(refusal)) = (ledger.attempt(reply.to), reply.outcome) else { return Ok(()) };
        let (proof, name) = match &attempt.command {
            Command::WriteFile(write) => (&write.proof, &write.name),
            Command::DeleteFile { name, proof, .. } => (proof, name),
            _ => return Ok(()),
        };
        let known = self.leases.get(&proof.token).filter(|lease| lease.is(proof, proof.token));
        let Some(known) = known else { return Ok(()) };
        let fits = match refusal {
            Refusal::LeaseExpired | Refusal::Released => !known.live,
            Refusal::StaleToken { .. } => false,
            Refusal::NotFound(_) => !known.live || matches!(attempt.command, Command::DeleteFile { .. }),
            Refusal::ScopeMismatch(_) => {
                let path = matches!(known.resource.kind(), Kind::Path(_));
                known.mode != Mode::Exclusive || !path || !known.resource.covers(name.path())
            }
            _ => true,
        };
        if fits {
            return Ok(());
        }
        Err(violation(format!("a writer that showed what it was given was refused: {refusal:?}")))
    }
}

impl Lease {
    fn is(&self, proof: &Proof, token: u64) -> bool {
        let same = self.id == proof.lease && self.resource == proof.resource;
        same && self.owner == proof.owner && proof.token == token
    }
}

fn violation(sentence: String) -> Violation {
    Violation::new("writer_only", sentence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariants::samples::{
        FILE, broken, committed, deleted, expired, granted, name, proof, released, written, written_under,
    };
    use crate::ledger::tests::with_write;

    fn holding(resource: &str, mode: Mode) -> WriterOnly {
        let mut writer_only = WriterOnly::default();
        writer_only.committed(&granted(1, 10, resource, mode), &Ledger::default()).unwrap();
        writer_only
    }

    #[test]
    fn sees_a_write_by_nobody_after_the_end_or_under_a_shared_lease() {
        let ledger = Ledger::default();
        let write = written(3, 10, "a", 0, b"x");
        assert!(WriterOnly::default().committed(&write, &ledger).is_err());
        assert!(holding("path:/a", Mode::Shared).committed(&write, &ledger).is_err());
        holding("path:/a", Mode::Exclusive).committed(&write, &ledger).unwrap();
        let broken = broken(10, "path:/a", false);
        for end in [released(2, 10, "path:/a"), committed(2, expired(10, "path:/a")), committed(2, broken)] {
            let mut writer_only = holding("path:/a", Mode::Exclusive);
            writer_only.committed(&end, &ledger).unwrap();
            assert!(writer_only.committed(&write, &ledger).is_err());
            assert!(writer_only.committed(&deleted(4, 10, "a"), &ledger).is_err());
        }
    }

    #[test]
    fn sees_what_a_lease_does_not_cover() {
        let ledger = Ledger::default();
        let range = format!("range:{FILE}:4-8");
        for (resource, offset, writes, deletes) in [
            ("path:/", 0, true, true),
            ("path:/ab", 0, false, false),
            ("a", 0, false, false),
            (&range, 4, true, false),
            (&range, 6, false, false),
            (&range, 2, false, false),
            (&format!("inode:{FILE}"), 6, true, true),
            ("inode:7", 6, false, false),
        ] {
            let mut writer_only = holding(resource, Mode::Exclusive);
            let write = written_under(2, name(10, resource), "a", offset, b"four");
            assert_eq!(writer_only.committed(&write, &ledger).is_ok(), writes, "{resource} {offset}");
            let delete = writer_only.committed(&deleted(3, 10, "a"), &ledger);
            assert_eq!(delete.is_ok(), deletes, "{resource}");
        }
    }

    #[test]
    fn sees_a_write_booked_under_another_token_and_a_holder_refused() {
        let write = written(2, 10, "a", 0, b"the bytes");
        let mut writer_only = holding("path:/a", Mode::Exclusive);
        writer_only.committed(&write, &with_write(proof(10, "path:/a"), b"the bytes")).unwrap();
        let stale = with_write(proof(9, "path:/a"), b"the bytes");
        assert!(writer_only.committed(&write, &stale).is_err());

        let ledger = with_write(proof(10, "path:/a"), b"the bytes");
        let outcome = Err(Refusal::LeaseExpired);
        let reply = Reply { at_us: 0, to: (1, 1), outcome: &outcome };
        assert!(writer_only.replied(&reply, &ledger).is_err());
        writer_only.committed(&released(3, 10, "path:/a"), &ledger).unwrap();
        writer_only.replied(&reply, &ledger).unwrap();
    }
}
