//! Opened sessions: open, keep alive, close; and what an acquire needs of one.

use crate::answer::{Answer, Outcome, Refusal, Reply};
use crate::apply::session_check;
use crate::command::{Attachment, Request};
use crate::event::{Ending, Event, Release, Under};
use crate::ids::{LeaseId, SessionId};
use crate::invalid::Invalid;
use crate::limits::ENDED_UNSEEN_MAX;
use crate::machine::{Machine, Output};
use crate::requests::Fate;
use crate::timers::Due;
use crate::words::{Metadata, Owner, RequestId, Ttl};

use super::Judged;
use super::acquire::other_payload;

const UNKNOWN: Refusal = Refusal::NotFound("no such session, or long forgotten");

impl Machine {
    pub(crate) fn open_session(
        &mut self,
        request: &Request,
        owner: &Owner,
        ttl: Ttl,
        request_id: Option<&RequestId>,
        metadata: &Metadata,
        out: &mut Output,
    ) -> Judged {
        let mark = request_id.map(|id| {
            self.mark(owner, id, |payload| {
                payload.add(b"session");
                payload.add(owner.text().as_bytes());
                payload.add(&ttl.ms().to_le_bytes());
                payload.add_metadata(metadata);
            })
        });
        if let Some(mark) = mark {
            match self.known(&mark) {
                Some(Err(refusal)) => return refusal.into(),
                Some(Ok(known)) => match known.fate {
                    Fate::Session(slot) => {
                        return match self.end_session_if_due(slot, out) {
                            Some(how) => Refusal::from(how).into(),
                            None => self.tell_session(request, slot, self.seq, out),
                        };
                    }
                    Fate::Ended(how) => return Refusal::from(how).into(),
                    Fate::Cancelled(_) => return Refusal::Cancelled.into(),
                    Fate::Waiting(_) | Fate::Lease(_) | Fate::Broke(_) | Fate::Wrote(_) | Fate::Deleted => {
                        return other_payload().into();
                    }
                },
                None => {
                    if let Some(refusal) = self.no_room_for(&mark.name, request.secret, out) {
                        return refusal.into();
                    }
                }
            }
        }
        if self.sessions.len() >= self.limits.sessions_max {
            return self.busy("the limit of sessions is reached", request).into();
        }
        let slot = self.sessions.vacant();
        self.emit(
            Event::SessionOpened {
                slot,
                secret: request.secret,
                owner: owner.clone(),
                ttl,
                metadata: metadata.clone(),
                request: mark,
            },
            out,
        );
        self.prolong_session(slot);
        self.tell_session(request, slot, self.seq, out)
    }

    pub(crate) fn keep_alive(
        &mut self,
        request: &Request,
        session: &SessionId,
        seen: Option<u64>,
        out: &mut Output,
    ) -> Judged {
        match self.find_session(session, out) {
            Err(refusal) => refusal.into(),
            Ok(Alive::Opened(slot)) => {
                if let Some(through) = seen
                    && self.sessions.get(slot).is_some_and(|session| {
                        session.ended.first().is_some_and(|ended| ended.seq <= through)
                    })
                {
                    self.emit(Event::Seen { slot, through }, out);
                }
                self.prolong_session(slot);
                let changed = self.sessions.get(slot).map_or(self.seq, |session| session.changed);
                self.tell_session(request, slot, changed, out)
            }
            Ok(Alive::Own(slot)) => {
                self.prolong(slot);
                if let Some(view) = self.own_session_view(slot, request.arrived_raw_us) {
                    let after = view.seq;
                    tell(request.attachment, Answer::Session(view.into()), after, out);
                }
                Judged::Done
            }
            Ok(Alive::OwnOfBroken(_)) => Refusal::Released.into(),
        }
    }

    pub(crate) fn close_session(&mut self, session: &SessionId, out: &mut Output) -> Outcome {
        match self.find_session(session, out) {
            Ok(Alive::Opened(slot)) => {
                self.end_session_now(slot, Ending::Released, out);
                Ok(Answer::Closed)
            }
            // The holder of a broken lease has stopped when it closes: the resource is free at once.
            Ok(Alive::Own(slot) | Alive::OwnOfBroken(slot)) => {
                self.give_back(slot, Release::Closed, out);
                Ok(Answer::Closed)
            }
            // A close that is repeated, or that comes after a break, finds done what it asks for.
            Err(Refusal::Released) => Ok(Answer::Closed),
            Err(refusal) => Err(refusal),
        }
    }

    /// The session that a new lease or waiter is to live by; its heartbeat, too.
    pub(crate) fn session_to_live_by(
        &mut self,
        session: &SessionId,
        owner: &Owner,
        out: &mut Output,
    ) -> Result<u32, Refusal> {
        if let SessionId::Opened { slot, secret } = session {
            // A mismatch is told before an end, so an ended session's stone is asked too.
            let theirs = match self.sessions.get(*slot).filter(|session| session.secret == *secret) {
                Some(session) => session.owner == *owner,
                None => {
                    let check = session_check(self.hash_key(), owner);
                    self.tombstones.get(secret).is_none_or(|stone| stone.check == check)
                }
            };
            if !theirs {
                return Err(Refusal::StaleToken { highest_token: None });
            }
        }
        match self.find_session(session, out)? {
            Alive::Opened(slot) => {
                self.prolong_session(slot);
                let unseen = self.sessions.get(slot).map_or(0, |session| session.ended.len());
                if unseen >= ENDED_UNSEEN_MAX {
                    let what = "too many ended leases of this session are unseen: keep it alive with `seen`";
                    return Err(Refusal::Busy { what, retry_ms: self.retry_ms(1000, session.secret()) });
                }
                Ok(slot)
            }
            Alive::Own(_) => {
                let problem =
                    "this session belongs to a single lease; open one for many with POST /v1/sessions";
                Err(Refusal::Invalid(Invalid::new("session_id", problem)))
            }
            Alive::OwnOfBroken(_) => Err(Refusal::Released),
        }
    }

    fn find_session(&mut self, session: &SessionId, out: &mut Output) -> Result<Alive, Refusal> {
        match session {
            SessionId::Opened { slot, secret } => {
                let there = self.sessions.get(*slot).is_some_and(|session| session.secret == *secret);
                if there {
                    return match self.end_session_if_due(*slot, out) {
                        Some(how) => Err(how.into()),
                        None => Ok(Alive::Opened(*slot)),
                    };
                }
            }
            SessionId::Own(LeaseId { slot, secret }) => {
                let lease = self.leases.get(*slot).filter(|lease| lease.secret == *secret);
                if let Some(lease) = lease.filter(|lease| matches!(lease.under(), Under::Own(_))) {
                    let broken = lease.broken();
                    return match self.end_if_over(*slot, out) {
                        Some(how) => Err(how.into()),
                        None if broken => Ok(Alive::OwnOfBroken(*slot)),
                        None => Ok(Alive::Own(*slot)),
                    };
                }
            }
        }
        Err(self.tombstones.get(&session.secret()).map_or(UNKNOWN, |stone| stone.how.into()))
    }

    /// Moves a session's deadline to a TTL from now, never back, and arms it if it is new.
    pub(crate) fn prolong_session(&mut self, slot: u32) {
        let now_us = self.now.us;
        let Some(session) = self.sessions.get_mut(slot) else { return };
        session.deadline_us = session.deadline_us.max(now_us + session.ttl.us());
        if session.armed_us.is_none() {
            self.timers.arm(&mut session.armed_us, Due::Session(slot), session.deadline_us);
        }
    }

    /// Ends a session whose deadline has come. How it ended, if it did, now or before.
    pub(crate) fn end_session_if_due(&mut self, slot: u32, out: &mut Output) -> Option<Ending> {
        let session = self.sessions.get(slot)?;
        if let Some(how) = session.over {
            return Some(how);
        }
        if self.now.us < session.deadline_us {
            return None;
        }
        out.expiry_lag_us.push(self.now.us - session.deadline_us);
        self.end_session_now(slot, Ending::Expired, out);
        Some(Ending::Expired)
    }

    fn end_session_now(&mut self, slot: u32, how: Ending, out: &mut Output) {
        let Some(session) = self.sessions.get(slot) else { return };
        let owner = session.owner.clone();
        self.emit(Event::SessionEnded { slot, owner, how }, out);
        if self.sessions.get(slot).is_some() {
            self.closing.push_back(slot);
        }
    }

    fn tell_session(&mut self, request: &Request, slot: u32, after: u64, out: &mut Output) -> Judged {
        if let Some(view) = self.session_view(slot, request.arrived_raw_us, after) {
            tell(request.attachment, Answer::Session(view.into()), after, out);
        }
        Judged::Done
    }
}

/// A session that lives.
enum Alive {
    /// An opened one, by its slot.
    Opened(u32),
    /// A lease's own, by the lease's slot.
    Own(u32),
    /// That of a lease which is broken and stands until its deadline.
    OwnOfBroken(u32),
}

fn tell(to: Attachment, answer: Answer, after: u64, out: &mut Output) {
    out.replies.push(Reply { to, outcome: Ok(answer), after, promises_time: true, applied: None });
}
