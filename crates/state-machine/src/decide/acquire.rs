//! Acquire: an attempt at once, or a place in line.

use leasehold_planted::{Bug, planted};

use crate::answer::Refusal;
use crate::command::{Acquire, Request};
use crate::event::{Ask, Event, RequestMark, Under};
use crate::ids::{IdText, PayloadHasher, RequestName, SessionId};
use crate::invalid::Invalid;
use crate::lease::Lease;
use crate::limits::NUMBER_END;
use crate::machine::{Machine, Output};
use crate::requests::{Fate, Known};
use crate::words::{Owner, RequestId, Wait};

use super::Judged;
use super::rule::Ruling;

impl Machine {
    pub(crate) fn acquire(&mut self, request: &Request, wanted: &Acquire, out: &mut Output) -> Judged {
        let request_id = wanted.request_id.as_ref().filter(|_| !planted(Bug::RequestIdsIgnored));
        let mark = request_id.map(|id| self.mark(&wanted.owner, id, |payload| add_acquire(payload, wanted)));
        if let Some(mark) = mark
            && let Some(judged) = self.repeated_acquire(request, wanted, &mark, out)
        {
            return judged;
        }
        if !self.space.exists(&wanted.resource) {
            return Refusal::NotFound("no file of ours has this inode number").into();
        }
        let under = match (&wanted.session, wanted.ttl) {
            (None, ttl) => Under::Own(ttl.unwrap_or_default()),
            (Some(_), Some(_)) => {
                let problem = "a lease under a session lives by the session's TTL; leave ttl_ms out";
                return Refusal::Invalid(Invalid::new("ttl_ms", problem)).into();
            }
            (Some(session), None) => match self.session_to_live_by(session, &wanted.owner, out) {
                Ok(slot) => Under::Session(slot),
                Err(refusal) => return refusal.into(),
            },
        };
        if let Some(refusal) = mark.and_then(|mark| self.no_room_for(&mark.name, request.secret, out)) {
            return refusal.into();
        }
        if self.leases.len() >= self.limits.leases_max {
            return self.busy("the limit of leases is reached", request).into();
        }
        let ticket = self.next_ticket;
        let ruling = self.rule(&wanted.resource, wanted.mode, ticket, out);
        let ask = Ask {
            secret: request.secret,
            resource: wanted.resource.clone(),
            owner: wanted.owner.clone(),
            mode: wanted.mode,
            under,
            request: mark,
            metadata: wanted.metadata.clone(),
        };
        match ruling {
            Ruling::NotYet => Judged::HeldBack,
            Ruling::Grantable if self.grants_held_ms.is_none() => {
                let slot = self.grant(ticket, ask, out);
                self.tell_lease(request.attachment, slot, request.arrived_raw_us, out);
                Judged::Done
            }
            Ruling::Grantable if wanted.wait == Wait::default() => Refusal::Unavailable {
                why: "an old copy of the data was put back: nothing is granted until its leases must have ended",
                retry_ms: self.retry_ms(1000, request.secret),
            }
            .into(),
            Ruling::InTheWay(_) if wanted.wait == Wait::default() => {
                Refusal::Held(self.held(&wanted.resource, request.secret)).into()
            }
            Ruling::Grantable | Ruling::InTheWay(_) => self.stand_in_line(request, wanted.wait, ask, out),
        }
    }

    fn stand_in_line(&mut self, request: &Request, wait: Wait, ask: Ask, out: &mut Output) -> Judged {
        if self.waiters.len() >= self.limits.waiters_max && !planted(Bug::LimitNotLookedAt) {
            return self.busy("the limit of waiters is reached", request).into();
        }
        if self.space.waiters_on(&ask.resource, &self.leases) >= self.limits.waiters_per_lock_max {
            return self.busy("the limit of waiters on one lock is reached", request).into();
        }
        let ticket = self.next_ticket;
        self.emit(Event::Queued { ticket, wait, ask }, out);
        self.attach(ticket, request.attachment, request.arrived_raw_us, wait, out);
        self.look_on_arrival(ticket, wait, out);
        self.tell_queued(ticket, out);
        Judged::Done
    }

    /// What a request id that is known already leads to; none if the request is to be judged as a new one.
    fn repeated_acquire(
        &mut self,
        request: &Request,
        wanted: &Acquire,
        mark: &RequestMark,
        out: &mut Output,
    ) -> Option<Judged> {
        let fate = match self.known(mark)? {
            Ok(known) => known.fate,
            Err(refusal) => return Some(refusal.into()),
        };
        match fate {
            Fate::Waiting(ticket) => {
                if self.dequeue_if_due(ticket, out) {
                    return None;
                }
                self.attach(ticket, request.attachment, request.arrived_raw_us, wanted.wait, out);
                self.look_on_arrival(ticket, wanted.wait, out);
                self.tell_queued(ticket, out);
                Some(Judged::Done)
            }
            Fate::Lease(slot) => {
                if let Some(how) = self.end_if_over(slot, out) {
                    return Some(Refusal::from(how).into());
                }
                if self.leases.get(slot).is_some_and(Lease::broken) {
                    return Some(Refusal::Released.into());
                }
                self.tell_lease(request.attachment, slot, request.arrived_raw_us, out);
                Some(Judged::Done)
            }
            Fate::Ended(how) => Some(Refusal::from(how).into()),
            Fate::Cancelled(_) => Some(Refusal::Cancelled.into()),
            Fate::Session(_) | Fate::Broke(_) | Fate::Wrote(_) | Fate::Deleted => {
                Some(other_payload().into())
            }
        }
    }

    /// What is known of a request id, or that it was used for something else.
    pub(crate) fn known(&mut self, mark: &RequestMark) -> Option<Result<Known, Refusal>> {
        if let RequestName::Numbered(client, number) = &mark.name {
            self.requests.hear_of(client, self.now.us);
            if let Some(refusal) = not_a_number(*number) {
                return Some(Err(refusal));
            }
        }
        if self.requests.has_forgotten(&mark.name) {
            return Some(Err(Refusal::NotFound(
                "this number was answered, and is forgotten as its client asked",
            )));
        }
        let known = self.requests.get(&mark.name)?;
        if matches!(known.fate, Fate::Cancelled(_)) {
            return Some(Ok(known.clone()));
        }
        let same = known.payload.is_none_or(|payload| payload == mark.payload);
        Some(if same { Ok(known.clone()) } else { Err(other_payload()) })
    }

    /// A request id with what is asked under it.
    pub(crate) fn mark(
        &mut self,
        owner: &Owner,
        id: &RequestId,
        add: impl FnOnce(&mut PayloadHasher),
    ) -> RequestMark {
        let mut payload = self.hash_key().begin_payload();
        add(&mut payload);
        let name = match id {
            RequestId::Numbered(client, number) => RequestName::Numbered(self.client_key(client), *number),
            RequestId::Chosen(_) => self.hash_key().request(owner, id),
        };
        RequestMark { name, payload: payload.finish() }
    }
}

/// Why a number cannot be an operation's.
pub(crate) fn not_a_number(number: u64) -> Option<Refusal> {
    let problem = "operations are numbered from 1, below 2^63";
    (number == 0 || number >= NUMBER_END).then(|| Refusal::Invalid(Invalid::new("number", problem)))
}

pub(crate) fn other_payload() -> Refusal {
    let problem = "this id was used for another request; a retry repeats everything but wait_ms";
    Refusal::Invalid(Invalid::new("request_id", problem))
}

/// Everything but the wait.
fn add_acquire(payload: &mut PayloadHasher, wanted: &Acquire) {
    let session = wanted.session.as_ref().map(SessionId::id_text);
    payload.add(b"acquire");
    payload.add(wanted.owner.text().as_bytes());
    payload.add(wanted.resource.text().as_bytes());
    payload.add(wanted.mode.text().as_bytes());
    payload.add(&wanted.ttl.map_or(0, |ttl| ttl.ms()).to_le_bytes());
    payload.add(session.as_ref().map_or("", IdText::as_str).as_bytes());
    payload.add_metadata(&wanted.metadata);
}
