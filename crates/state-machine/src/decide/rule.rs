//! The one rule of granting:
//!
//! > A request is granted when it conflicts with no live lease and with no earlier waiter.

use leasehold_planted::{Bug, planted};

use crate::event::{Departure, Ticket, Under};
use crate::machine::{Machine, Output};
use crate::resource::Resource;
use crate::words::Mode;

/// What the rule says of a request.
pub(crate) enum Ruling {
    /// Nothing is in its way.
    Grantable,
    /// This is in its way: the ticket of a live lease, or of an earlier waiter.
    InTheWay(Ticket),
    /// More overdue leases and waiters are in its way than one slice ends.
    NotYet,
}

impl Machine {
    /// Looks at the rule for a request with this place in the order of arrival. Whatever is found in its way and is
    /// over, though not yet swept, is ended first.
    pub(crate) fn rule(
        &mut self,
        resource: &Resource,
        mode: Mode,
        ticket: Ticket,
        out: &mut Output,
    ) -> Ruling {
        loop {
            if self.slice == 0 {
                return Ruling::NotYet;
            }
            let overtakes = planted(Bug::SharedOvertakes) && mode == Mode::Shared;
            let before = if overtakes { 0 } else { ticket };
            // Mostly nobody waits for anything, and then nobody is looked for.
            let earlier = match self.waiters.is_empty() {
                true => None,
                false => self.space.waiter_in_the_way(resource, mode, before, &self.leases),
            };
            if let Some(earlier) = earlier {
                if !self.dequeue_if_due(earlier, out) {
                    return Ruling::InTheWay(earlier);
                }
            } else if let Some(slot) = self.space.lease_in_the_way(resource, mode, &self.leases) {
                if self.end_if_over(slot, out).is_none() {
                    let lease = self.leases.get(slot);
                    assert!(lease.is_some(), "a lease in the way is there");
                    return Ruling::InTheWay(lease.map_or(0, |lease| lease.ticket));
                }
            } else {
                return Ruling::Grantable;
            }
            self.slice -= 1;
        }
    }

    /// Takes a waiter whose time or whose session's time has passed out of the line: it is never granted, and in
    /// nobody's way.
    pub(crate) fn dequeue_if_due(&mut self, ticket: Ticket, out: &mut Output) -> bool {
        let Some(waiter) = self.waiters.get(&ticket) else { return false };
        let why = if waiter.due_us() <= self.now.us {
            let nobody = waiter.attached().is_none() && waiter.ask.request.is_none();
            if nobody { Departure::Gone } else { Departure::Timeout }
        } else if let Under::Session(session) = waiter.ask.under
            && self.end_session_if_due(session, out).is_some()
        {
            Departure::Session
        } else {
            return false;
        };
        self.dequeue(ticket, why, out);
        true
    }
}
