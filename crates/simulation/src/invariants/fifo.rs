//! fifo: grants follow arrival among live, attached, conflicting waiters, across restarts, where everybody keeps the
//! place for a grace; a waiter whose time has passed is never granted, and one with nothing in its way does not wait.
//!
//! Catches: overtaking, an order lost in a crash, an old connection that closes and takes the new attempt's place with
//! it, a lost wake-up, a grant to somebody who has long been told that the wait is over. Who is attached it knows from the connections,
//! not from the server; where that leaves room for doubt it keeps quiet.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_state_machine::command::Command;
use leasehold_state_machine::event::{Ask, Event, Ticket};
use leasehold_state_machine::ids::RequestName;
use leasehold_state_machine::resource::Resource;
use leasehold_state_machine::words::{Mode, Wait};

use super::file_model::FileModel;
use super::{Committed, Verdict, Violation};
use crate::ledger::Ledger;

/// How long everybody keeps the place after a restart.
const GRACE_US: u64 = 5_000_000;

/// How long a server takes at most to come to rest after it stood still.
const SETTLE_US: u64 = 3_000_000;

/// See above.
#[derive(Clone, Debug, Default)]
pub struct Fifo {
    line: BTreeMap<Ticket, (Ask, Wait)>,
    /// Those whose client has said that it has the answer: attempts that came later are refused, so that nobody knows who is
    /// attached.
    let_go: BTreeSet<Ticket>,
    last_ticket: Ticket,
    /// Live leases by token.
    held: BTreeMap<u64, (Resource, Mode)>,
    /// Who stands in line with nothing in the way, and since when that has been seen.
    free_since_us: BTreeMap<Ticket, u64>,
}

impl Fifo {
    /// Takes in an event.
    pub fn committed(&mut self, committed: &Committed, ledger: &Ledger, files: &FileModel) -> Verdict {
        match &committed.event {
            Event::Queued { ticket, wait, ask } => {
                self.new_place(*ticket)?;
                self.line.insert(*ticket, (ask.clone(), *wait));
            }
            Event::Dequeued { ticket, .. } => {
                self.line.remove(ticket);
            }
            Event::Marked { client, answered_through, open } => {
                let confirmed = |ask: &Ask| match ask.request.map(|request| request.name) {
                    Some(RequestName::Numbered(of, number)) => {
                        of == *client && number <= *answered_through && !open.contains(&number)
                    }
                    _ => false,
                };
                let let_go = self.line.iter().filter(|(_, (ask, _))| confirmed(ask));
                self.let_go.extend(let_go.map(|(ticket, _)| *ticket));
            }
            Event::Released { lease, .. }
            | Event::Expired { lease }
            | Event::Broken { lease, force: true, .. } => {
                self.held.remove(&lease.token);
            }
            Event::Granted { ticket, ask, token, .. } => {
                self.held.insert(*token, (ask.resource.clone(), ask.mode));
                let waited = self.line.remove(ticket);
                match &waited {
                    Some(_) => in_time(committed, ask, ledger)?,
                    None => self.new_place(*ticket)?,
                }
                for (earlier, (other, wait)) in self.line.range(..*ticket) {
                    if files.overlap(&other.resource, &ask.resource)
                        && other.mode.conflicts(ask.mode)
                        && !self.let_go.contains(earlier)
                        && stands((committed.life, committed.at_us), other, *wait, ledger)
                    {
                        return Err(violation(format!(
                            "place {ticket} ({} of {}) was granted token {token} over place {earlier} ({} of {})",
                            ask.resource, ask.owner, other.resource, other.owner
                        )));
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Looks at who stands in line: whoever has nothing in the way is granted at once, so that a later look does not find
    /// it there any more.
    pub fn looked_at(
        &mut self,
        now_us: u64,
        life: u64,
        granting: bool,
        ledger: &Ledger,
        files: &FileModel,
    ) -> Verdict {
        let conflict = |ask: &Ask, resource: &Resource, mode: Mode| {
            ask.mode.conflicts(mode) && files.overlap(&ask.resource, resource)
        };
        let mut free = BTreeMap::new();
        for (ticket, (ask, wait)) in self.line.iter().filter(|_| granting) {
            let blocked = self.held.values().any(|(resource, mode)| conflict(ask, resource, *mode))
                || self
                    .line
                    .range(..*ticket)
                    .any(|(_, (other, _))| conflict(ask, &other.resource, other.mode));
            let let_go = self.let_go.contains(ticket);
            if blocked || let_go || ledger.newest(ask.secret, &ask.resource, life, now_us).is_none() {
                continue;
            }
            let since_us = self.free_since_us.get(ticket).copied().unwrap_or(now_us);
            if since_us < now_us
                && !ledger.stood_still(since_us.saturating_sub(SETTLE_US), now_us)
                && stands((life, now_us), ask, *wait, ledger)
            {
                return Err(violation(format!(
                    "{} of {} has nothing in the way at place {ticket}, and is not granted",
                    ask.resource, ask.owner
                )));
            }
            free.insert(*ticket, since_us);
        }
        self.free_since_us = free;
        Ok(())
    }

    fn new_place(&mut self, ticket: Ticket) -> Verdict {
        if ticket <= self.last_ticket {
            let last = self.last_ticket;
            return Err(violation(format!("place {ticket} was given out after place {last}")));
        }
        self.last_ticket = ticket;
        Ok(())
    }
}

/// Whether a waiter certainly stood in the way at the time of a grant.
fn stands((life, at_us): (u64, u64), ask: &Ask, wait: Wait, ledger: &Ledger) -> bool {
    match ledger.newest(ask.secret, &ask.resource, life, at_us) {
        Some(attempt) => {
            let (turned_us, wait_us) = (attempt.turned_us.unwrap_or(at_us), wait_us(&attempt.command));
            attempt.certain
                && turned_us < at_us
                && attempt.closed_us.is_none_or(|closed_us| closed_us > at_us)
                && turned_us + wait_us > at_us
        }
        None => {
            let began_us = ledger.began_us(life);
            ask.request.is_some() && at_us < began_us + GRACE_US.min(wait.us())
        }
    }
}

/// Whether a waiter's time had not yet passed when it was granted.
fn in_time(committed: &Committed, ask: &Ask, ledger: &Ledger) -> Verdict {
    let Committed { at_us, life, .. } = *committed;
    let Some(attempt) = ledger.newest(ask.secret, &ask.resource, life, at_us) else {
        return Err(violation(format!(
            "{} was granted to {}, who has not come back",
            ask.resource, ask.owner
        )));
    };
    let turned_us = attempt.turned_us.unwrap_or(at_us);
    let waited_us = ledger.server_time_us(life, turned_us, at_us);
    if !attempt.certain || turned_us == at_us || waited_us < wait_us(&attempt.command) {
        return Ok(());
    }
    Err(violation(format!("{} was granted to {} after its wait was over", ask.resource, ask.owner)))
}

fn wait_us(command: &Command) -> u64 {
    match command {
        Command::Acquire(ask) => ask.wait.us(),
        _ => 0,
    }
}

fn violation(sentence: String) -> Violation {
    Violation::new("fifo", sentence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariants::samples::{dequeued, granted, queued, released};
    use crate::ledger::tests::{with_acquires, with_waits};

    #[test]
    fn sees_somebody_overtaken() {
        let ledger = with_acquires(None, 2);
        let mut fifo = Fifo::default();
        fifo.committed(&queued(1, 1, "a", 1000), &ledger, &FileModel::default()).unwrap();
        fifo.committed(&queued(2, 2, "a", 1000), &ledger, &FileModel::default()).unwrap();
        assert!(
            fifo.committed(&granted(3, 2, "a", Mode::Exclusive), &ledger, &FileModel::default()).is_err()
        );
        let mut fifo = Fifo::default();
        fifo.committed(&queued(1, 1, "a", 1000), &ledger, &FileModel::default()).unwrap();
        fifo.committed(&queued(2, 2, "a", 1000), &ledger, &FileModel::default()).unwrap();
        fifo.committed(&dequeued(3, 1, "a"), &ledger, &FileModel::default()).unwrap();
        fifo.committed(&granted(4, 2, "a", Mode::Exclusive), &ledger, &FileModel::default()).unwrap();
    }

    #[test]
    fn a_closed_connection_may_be_passed_over() {
        let mut ledger = with_acquires(None, 2);
        ledger.closed((1, 1), 5);
        let mut fifo = Fifo::default();
        fifo.committed(&queued(1, 1, "a", 1000), &ledger, &FileModel::default()).unwrap();
        fifo.committed(&queued(2, 2, "a", 1000), &ledger, &FileModel::default()).unwrap();
        fifo.committed(&granted(3, 2, "a", Mode::Exclusive), &ledger, &FileModel::default()).unwrap();
    }

    #[test]
    fn sees_a_grant_after_the_wait_was_over() {
        let ledger = with_acquires(None, 1);
        let mut fifo = Fifo::default();
        fifo.committed(&queued(1, 1, "a", 1000), &ledger, &FileModel::default()).unwrap();
        let mut late = granted(2, 1, "a", Mode::Exclusive);
        late.at_us = 1_000_001;
        assert!(fifo.committed(&late, &ledger, &FileModel::default()).is_err());
    }

    #[test]
    fn sees_a_wake_up_that_is_lost() {
        let ledger = with_waits(None, 2, 60_000);
        let files = FileModel::default();
        let mut fifo = Fifo::default();
        fifo.committed(&granted(1, 1, "a", Mode::Exclusive), &ledger, &files).unwrap();
        fifo.committed(&queued(2, 2, "a", 60_000), &ledger, &files).unwrap();
        for now_us in [10_000_000, 12_000_000] {
            fifo.looked_at(now_us, 1, true, &ledger, &files).unwrap();
        }
        fifo.committed(&released(3, 1, "a"), &ledger, &files).unwrap();
        fifo.looked_at(14_000_000, 1, true, &ledger, &files).unwrap();
        fifo.clone().looked_at(16_000_000, 1, false, &ledger, &files).unwrap();
        assert!(fifo.looked_at(16_000_000, 1, true, &ledger, &files).is_err());
    }

    #[test]
    fn sees_a_place_given_out_twice() {
        let ledger = with_acquires(None, 2);
        let mut fifo = Fifo::default();
        fifo.committed(&queued(1, 1, "a", 1000), &ledger, &FileModel::default()).unwrap();
        fifo.committed(&dequeued(2, 1, "a"), &ledger, &FileModel::default()).unwrap();
        assert!(fifo.committed(&queued(3, 1, "a", 1000), &ledger, &FileModel::default()).is_err());
    }
}
