//! What must be done without being asked: ending what is due, clearing away what ended sessions leave, looking at the
//! rule again, forgetting. In slices, so that a million things due at one instant keep nobody waiting.

use alloc::vec::Vec;
use core::ops::Bound;

use leasehold_planted::{Bug, planted};

use crate::answer::Refusal;
use crate::command::Request;
use crate::event::{Departure, Event};
use crate::ids::{RequestName, Secret};
use crate::limits::{
    CLIENT_NUMBERS_MAX, CLIENTS_MAX, REMEMBER_US, REMEMBER_US_MIN, SLICE, SLICE_UNASKED, TOMBSTONES_MAX,
};
use crate::machine::{Machine, Output};
use crate::timers::Due;

/// How often clients of streams are looked over.
const LOOK_OVER_EVERY_US: u64 = 60_000_000;
/// Old answers are forgotten in strides of this length, not one by one.
const FORGET_EVERY_US: u64 = 1_000_000;

impl Machine {
    /// Does a slice of what is due. True when there is more to do at once.
    pub fn housekeep(&mut self, out: &mut Output) -> bool {
        self.slice = SLICE_UNASKED;
        self.end_due(out);
        self.clear_away(out);
        self.look_again(out);
        self.forget_old(out);
        self.forget_clients(out);
        let more = self.next_due_us().is_some_and(|due_us| due_us <= self.now.us);
        // What was not used here is not added to what requests may use.
        self.slice = SLICE;
        more
    }

    /// The server time at which there is something to do.
    pub fn next_due_us(&self) -> Option<u64> {
        if !self.looks.is_empty() || !self.closing.is_empty() {
            return Some(self.now.us);
        }
        let first = self.timers.first().map(|(due_us, _)| due_us);
        let clients = (!self.requests.clients.is_empty()).then_some(self.looked_over_us + LOOK_OVER_EVERY_US);
        first.into_iter().chain(self.forget_due_us()).chain(clients).min()
    }

    fn end_due(&mut self, out: &mut Output) {
        while self.slice > 0
            && let Some((due_us, due)) = self.timers.first()
            && due_us <= self.now.us
        {
            self.slice -= 1;
            match due {
                Due::Session(slot) => {
                    if self.end_session_if_due(slot, out).is_none()
                        && let Some(session) = self.sessions.get_mut(slot)
                    {
                        self.timers.arm(&mut session.armed_us, due, session.deadline_us);
                    }
                }
                Due::Lease(slot) => {
                    if self.end_if_over(slot, out).is_none()
                        && let Some(deadline_us) = self.leases.get(slot).map(|lease| lease.deadline_us)
                    {
                        self.arm_lease(slot, deadline_us);
                    }
                }
                Due::Waiter(ticket) => {
                    let left = self.dequeue_if_due(ticket, out);
                    assert!(left, "a waiter's timer stands at its due time");
                }
            }
        }
    }

    /// Ends the leases of sessions that are over, and takes their waiters out of the line.
    fn clear_away(&mut self, out: &mut Output) {
        while self.slice > 0
            && let Some(&slot) = self.closing.front()
        {
            let session = self.sessions.get(slot).filter(|session| session.over.is_some());
            let Some(session) = session else {
                self.closing.pop_front();
                continue;
            };
            self.slice -= 1;
            if let Some(&ticket) = session.waiters.first() {
                self.dequeue(ticket, Departure::Session, out);
            } else if let Some(&lease) = session.leases.first() {
                let ended = self.end_if_over(lease, out);
                assert!(ended.is_some(), "a lease ends with its session");
            }
        }
    }

    fn forget_due_us(&self) -> Option<u64> {
        let oldest = [self.requests.retired.oldest_us(), self.tombstones.set.oldest_us()];
        let by_age = oldest.into_iter().flatten().min()? + REMEMBER_US;
        let due_us = if self.tombstones.set.len() > TOMBSTONES_MAX + SLICE { self.now.us } else { by_age };
        Some(due_us.max(self.forgot_us + FORGET_EVERY_US))
    }

    fn forget_old(&mut self, out: &mut Output) {
        let overfull = self.tombstones.set.len() > TOMBSTONES_MAX + SLICE;
        let due = self.forget_due_us().is_some_and(|due_us| due_us <= self.now.us);
        if !due && !overfull {
            return;
        }
        let until_us = self.now.us.saturating_sub(REMEMBER_US);
        let requests_before = self.requests.retired.older_than(until_us);
        let mut tombstones_before = self.tombstones.set.older_than(until_us);
        if overfull {
            tombstones_before = tombstones_before.max(self.tombstones.set.first() + SLICE as u64);
        }
        let any = requests_before > self.requests.retired.first()
            || tombstones_before > self.tombstones.set.first();
        if any {
            self.emit(Event::Forgotten { requests_before, tombstones_before }, out);
        }
        let full_slice = self.requests.retired.oldest_us().is_some_and(|at_us| at_us <= until_us)
            || self.tombstones.set.oldest_us().is_some_and(|at_us| at_us <= until_us);
        if !full_slice {
            self.forgot_us = self.now.us;
        }
    }

    /// Looks over a slice of the clients of streams and forgets those not heard of for long. Whoever has something
    /// that lives is kept.
    fn forget_clients(&mut self, out: &mut Output) {
        if self.now.us < self.looked_over_us + LOOK_OVER_EVERY_US || self.requests.clients.is_empty() {
            return;
        }
        let from = self.looked_over.map_or(Bound::Unbounded, Bound::Excluded);
        let range = self.requests.clients.range((from, Bound::Unbounded)).take(SLICE);
        let mut looks = 0;
        let mut gone = Vec::new();
        for (key, client) in range {
            looks += 1;
            self.looked_over = Some(*key);
            let silent = client.heard_us + REMEMBER_US <= self.now.us;
            if silent && !client.known.iter().any(|(_, known)| known.fate.is_live()) {
                gone.push(*key);
            }
        }
        for client in gone {
            self.emit(Event::ClientForgotten { client }, out);
        }
        if looks < SLICE {
            self.looked_over = None;
            self.looked_over_us = self.now.us;
        }
    }

    /// Why one more request id cannot be remembered, if it cannot.
    pub(crate) fn no_room_for(
        &mut self,
        name: &RequestName,
        drawn: Secret,
        out: &mut Output,
    ) -> Option<Refusal> {
        let what = match name {
            RequestName::Chosen(_) if self.room_for_a_chosen_id(out) => return None,
            RequestName::Chosen(_) => "all request ids kept are too young to forget",
            RequestName::Numbered(..) if self.requests.numbered_len() >= self.limits.request_ids_max => {
                "too many numbers of streams are open: name the answered ones"
            }
            RequestName::Numbered(client, _) => match self.requests.clients.get(client) {
                Some(client) if client.known.len() < CLIENT_NUMBERS_MAX => return None,
                Some(_) => "too many numbers of this client are open: name the answered ones",
                None if self.requests.clients.len() < CLIENTS_MAX => return None,
                None => "the limit of streams' clients is reached",
            },
        };
        Some(Refusal::Busy { what, retry_ms: self.retry_ms(1000, drawn) })
    }

    /// Makes room for one more chosen id if that is allowed.
    fn room_for_a_chosen_id(&mut self, out: &mut Output) -> bool {
        let retired = &self.requests.retired;
        if retired.len() < self.limits.request_ids_max {
            return true;
        }
        let age_us = if planted(Bug::IdEvictedYoung) { 0 } else { REMEMBER_US_MIN };
        let requests_before = retired.older_than(self.now.us.saturating_sub(age_us));
        if requests_before == retired.first() {
            return false;
        }
        let tombstones_before = self.tombstones.set.first();
        self.emit(Event::Forgotten { requests_before, tombstones_before }, out);
        true
    }

    /// A refusal for a limit.
    pub(crate) fn busy(&self, what: &'static str, request: &Request) -> Refusal {
        Refusal::Busy { what, retry_ms: self.retry_ms(1000, request.secret) }
    }

    /// A time to try again of about `about_ms`, spread by bits that were drawn for the request. Never 0.
    pub(crate) fn retry_ms(&self, about_ms: u64, drawn: Secret) -> u64 {
        let about_ms = about_ms.max(2);
        about_ms / 2 + drawn.0[1] % about_ms + 1
    }
}
