//! The line: who stands in it, who is there to be answered, and looking at the rule again for those it may concern.
//!
//! A waiter that cannot be granted is parked on one thing that is in its way. When that goes, the rule is looked at
//! again for those parked on it and for nobody else; they are granted or parked on the next thing. Because a waiter is
//! parked on the latest that came before it, a line is a chain, and a release wakes one.

use leasehold_planted::{Bug, planted};

use crate::answer::{Answer, Outcome, Refusal, Reply};
use crate::command::Attachment;
use crate::event::{Ask, Departure, Event, Ticket, Under};
use crate::ids::LeaseId;
use crate::lease::Lease;
use crate::limits::GRACE_US;
use crate::machine::{Machine, Output, QueuedNotice};
use crate::records::Presence;
use crate::timers::Due;
use crate::token;
use crate::words::Wait;

use super::rule::Ruling;

impl Machine {
    /// Makes a request a lease. The rule has been looked at.
    pub(crate) fn grant(&mut self, ticket: Ticket, ask: Ask, out: &mut Output) -> u32 {
        let trusted = self.now.wall_trusted.then_some(self.now.wall_ms);
        let token = token::next(self.last_token, trusted);
        let slot = self.leases.vacant();
        self.emit(Event::Granted { ticket, slot, token, ask }, out);
        if let Some(Under::Own(ttl)) = self.leases.get(slot).map(Lease::under) {
            self.arm_lease(slot, self.now.us + ttl.us());
        }
        slot
    }

    /// Tells an attempt of the lease it got.
    pub(crate) fn tell_lease(&mut self, to: Attachment, slot: u32, arrived_raw_us: u64, out: &mut Output) {
        if let Some(lease) = self.lease_view(slot, arrived_raw_us, self.seq) {
            let outcome = Ok(Answer::Lease(lease.into()));
            let after = self.seq;
            out.replies.push(Reply { to, outcome, after, promises_time: true, applied: None });
        }
    }

    /// Stands an attempt in the place of a waiter; an older attempt is told that it is no longer the one.
    pub(crate) fn attach(
        &mut self,
        ticket: Ticket,
        to: Attachment,
        arrived_raw_us: u64,
        wait: Wait,
        out: &mut Output,
    ) {
        let now_us = self.now.us;
        let Some(waiter) = self.waiters.get_mut(&ticket) else { return };
        let before = waiter.standing(ticket);
        let older = waiter.attached();
        waiter.presence = Presence::Attached { attachment: to, arrived_raw_us };
        waiter.wait_until_us = now_us + wait.us();
        let after = waiter.standing(ticket);
        if before.class != after.class {
            self.space.reclass(&waiter.ask.resource, before, after, &self.leases);
        }
        let due_us = waiter.due_us();
        self.timers.arm(&mut waiter.armed_us, Due::Waiter(ticket), due_us);
        if let Some((older, _)) = older {
            if !planted(Bug::OldConnectionDetachesNew) {
                self.attachments.remove(&older);
            }
            self.tell(older, Err(Refusal::Cancelled), out);
        }
        let taken = self.attachments.insert(to, ticket);
        assert!(taken.is_none(), "an attachment is used once");
    }

    /// Tells an attempt that has just arrived of its place, if it stands in line.
    pub(crate) fn tell_queued(&mut self, ticket: Ticket, out: &mut Output) {
        let Some(waiter) = self.waiters.get(&ticket) else { return };
        if let Some((to, _)) = waiter.attached() {
            let position = self.space.place_in_line(&waiter.ask.resource, ticket, &self.leases) as u64;
            out.queued.push(QueuedNotice { to, position, after: self.seq });
        }
    }

    /// The connection of an attempt has closed.
    pub(crate) fn detach(&mut self, gone: Attachment, out: &mut Output) {
        // Only the newest attempt is in the table: an old connection that closes late concerns nobody.
        let Some(ticket) = self.attachments.remove(&gone) else { return };
        let until_us = self.now.us + GRACE_US;
        let Some(waiter) = self.waiters.get_mut(&ticket) else { return };
        let before = waiter.standing(ticket);
        waiter.presence = Presence::Detached { until_us };
        let after = waiter.standing(ticket);
        self.space.reclass(&waiter.ask.resource, before, after, &self.leases);
        if let Some(obstacle) = waiter.parked_on.take() {
            self.parked.remove(&(obstacle, ticket));
        }
        let due_us = waiter.due_us();
        self.timers.arm(&mut waiter.armed_us, Due::Waiter(ticket), due_us);
        if waiter.ask.request.is_none() {
            self.dequeue(ticket, Departure::Gone, out);
        } else {
            self.wake_parked(ticket);
        }
        out.gone.push(gone);
    }

    /// Nobody was there to hear of a grant. Without a request id nobody can come back for it either.
    pub(crate) fn abandon(&mut self, id: &LeaseId, out: &mut Output) {
        let lease = self.leases.get(id.slot).filter(|lease| lease.secret == id.secret);
        let Some(lease) = lease.filter(|lease| lease.request().is_none()) else { return };
        let name = lease.name(id.slot, &self.owners);
        if self.end_if_over(id.slot, out).is_none() {
            self.emit(Event::Released { lease: name, why: crate::event::Release::Gone }, out);
        }
    }

    /// Takes a waiter out of the line and tells whoever is attached.
    pub(crate) fn dequeue(&mut self, ticket: Ticket, why: Departure, out: &mut Output) {
        let Some(waiter) = self.waiters.get(&ticket) else { return };
        let attached = waiter.attached();
        let ask = waiter.ask.clone();
        let refusal = match why {
            Departure::Timeout | Departure::Gone => None,
            Departure::Cancelled => Some(Refusal::Cancelled),
            Departure::Session => {
                let over = match ask.under {
                    Under::Session(slot) => self.sessions.get(slot).and_then(|session| session.over),
                    Under::Own(_) => None,
                };
                Some(over.map_or(Refusal::Released, Refusal::from))
            }
        };
        self.emit(
            Event::Dequeued {
                ticket,
                resource: ask.resource.clone(),
                owner: ask.owner.clone(),
                mode: ask.mode,
                why,
            },
            out,
        );
        if let Some((attachment, _)) = attached {
            let refusal = refusal.unwrap_or_else(|| Refusal::Held(self.held(&ask.resource, ask.secret)));
            self.tell(attachment, Outcome::Err(refusal), out);
        }
    }

    /// Looks at the rule for everybody it may concern, a slice at most.
    pub(crate) fn look_again(&mut self, out: &mut Output) {
        while self.slice > 0
            && let Some(ticket) = self.looks.pop_first()
        {
            self.slice -= 1;
            if !self.dequeue_if_due(ticket, out) {
                self.look(ticket, out);
            }
        }
    }

    /// Looks at the rule for an attempt that has just arrived. One that does not wait has this look and no other.
    pub(crate) fn look_on_arrival(&mut self, ticket: Ticket, wait: Wait, out: &mut Output) {
        self.look(ticket, out);
        if wait == Wait::default() && !self.looks.contains(&ticket) {
            self.dequeue(ticket, Departure::Timeout, out);
        }
    }

    /// Looks at the rule for one waiter: it is granted, parked, or found to have left.
    fn look(&mut self, ticket: Ticket, out: &mut Output) {
        let Some(waiter) = self.waiters.get(&ticket) else { return };
        let Some((attachment, arrived_raw_us)) = waiter.attached() else { return };
        let Some(waiter) = self.waiters.get_mut(&ticket) else { return };
        if let Some(obstacle) = waiter.parked_on.take() {
            self.parked.remove(&(obstacle, ticket));
        }
        let ask = waiter.ask.clone();
        if let Under::Session(session) = ask.under {
            self.end_session_if_due(session, out);
            let over = self.sessions.get(session).is_none_or(|session| session.over.is_some());
            if over {
                self.dequeue(ticket, Departure::Session, out);
                return;
            }
        }
        match self.rule(&ask.resource, ask.mode, ticket, out) {
            // While grants are held everybody stays; their resuming looks at all.
            Ruling::Grantable if self.grants_held_ms.is_some() => {}
            Ruling::Grantable => {
                let slot = self.grant(ticket, ask, out);
                self.tell_lease(attachment, slot, arrived_raw_us, out);
            }
            Ruling::InTheWay(obstacle) => self.park(ticket, obstacle),
            Ruling::NotYet => {
                self.looks.insert(ticket);
            }
        }
    }

    fn park(&mut self, ticket: Ticket, obstacle: Ticket) {
        let Some(waiter) = self.waiters.get_mut(&ticket) else { return };
        assert!(waiter.parked_on.is_none(), "a waiter is parked in one place");
        waiter.parked_on = Some(obstacle);
        self.parked.insert((obstacle, ticket));
    }
}
