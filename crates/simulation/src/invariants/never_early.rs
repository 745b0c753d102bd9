//! never_early: no lease ends before its TTL has passed, in real time, since the last acknowledged grant or renewal,
//! across restarts; and a renewal that reached the server in time is not refused because the server stood still.
//!
//! Catches: a horizon that is too short or not durable, recovery that compares the wrong clocks, deadlines kept in time
//! that ran while nobody could be answered.

use std::collections::BTreeMap;

use leasehold_state_machine::answer::{Answer, Refusal};
use leasehold_state_machine::command::Command;
use leasehold_state_machine::event::{Ending, Event, Release, Under};
use leasehold_state_machine::ids::{LeaseId, Secret, SessionId};

use super::{Committed, Reply, Verdict, Violation};
use crate::ledger::Ledger;

/// A renewal this long before the deadline is never too late: no turn moves time on by more than 200 ms.
const SLACK_US: u64 = 210_000;
/// Rests after a standstill are at least this far apart.
const REST_EVERY_US: u64 = 2_500_000;

/// See above.
#[derive(Clone, Debug, Default)]
pub struct NeverEarly {
    leases: BTreeMap<u64, Lease>,
    by_secret: BTreeMap<Secret, u64>,
    /// Sessions by slot.
    sessions: BTreeMap<u32, Session>,
}

#[derive(Clone, Debug)]
struct Lease {
    /// Its grant and a TTL, and the life of the process that decided it: promised once that process has told somebody.
    granted: (u64, u64),
    promised_us: u64,
    session: Option<u32>,
    /// What was promised when it was broken or ended: later heartbeats of its session no longer count for it.
    settled_us: Option<u64>,
}

#[derive(Clone, Debug)]
struct Session {
    secret: Secret,
    /// Its opening and a TTL, likewise.
    opened: (u64, u64),
    promised_us: u64,
}

impl NeverEarly {
    /// Takes in an event.
    pub fn committed(&mut self, committed: &Committed) -> Verdict {
        let at_us = committed.at_us;
        match &committed.event {
            Event::Granted { token, ask, .. } => {
                let (granted_us, session) = match ask.under {
                    Under::Own(ttl) => (at_us + ttl.us(), None),
                    Under::Session(slot) => (0, Some(slot)),
                };
                self.leases.insert(
                    *token,
                    Lease {
                        granted: (committed.life, granted_us),
                        promised_us: 0,
                        session,
                        settled_us: None,
                    },
                );
                self.by_secret.insert(ask.secret, *token);
            }
            Event::SessionOpened { slot, secret, ttl, .. } => {
                let opened = (committed.life, at_us + ttl.us());
                self.sessions.insert(*slot, Session { secret: *secret, opened, promised_us: 0 });
            }
            Event::Broken { lease, .. } => {
                let promised_us = self.promised_us(lease.token);
                if let Some(lease) = self.leases.get_mut(&lease.token) {
                    lease.settled_us = lease.settled_us.or(Some(promised_us));
                }
            }
            Event::Expired { lease } | Event::Released { lease, why: Release::Broken } => {
                let promised_us = self.promised_us(lease.token);
                // Its session's slot may be another's from now on.
                if let Some(lease) = self.leases.get_mut(&lease.token) {
                    lease.settled_us = Some(promised_us);
                }
                if at_us < promised_us {
                    return Err(early(
                        format!("lease {} on {}", lease.token, lease.resource),
                        promised_us - at_us,
                    ));
                }
            }
            Event::SessionEnded { slot, how: Ending::Expired, owner } => {
                let promised_us = self.sessions.get(slot).map_or(0, |session| session.promised_us);
                if at_us < promised_us {
                    return Err(early(format!("a session of {owner}"), promised_us - at_us));
                }
            }
            // Whoever closes a session has stopped, also with what was broken.
            Event::SessionEnded { slot, how: Ending::Released, .. } => {
                for lease in self.leases.values_mut().filter(|lease| lease.session == Some(*slot)) {
                    lease.settled_us = Some(0);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes in a reply.
    pub fn replied(&mut self, reply: &Reply<'_>, ledger: &Ledger) -> Verdict {
        let Some(attempt) = ledger.attempt(reply.to) else { return Ok(()) };
        // It was decided then or later, and counts from its decision. What a restart gives beyond the TTL is a gift:
        // another restart may take it back.
        let Some(decided_us) = attempt.turned_us else { return Ok(()) };
        let (life, _) = reply.to;
        match reply.outcome {
            Ok(Answer::Lease(view)) => {
                let left_us = (view.expires_in_ms * 1000).min(view.ttl.us());
                match view.session {
                    SessionId::Opened { slot, secret } => {
                        self.promise_session(slot, secret, life, decided_us + left_us);
                    }
                    SessionId::Own(_) => self.promise_lease(view.token, life, decided_us + left_us),
                }
            }
            Ok(Answer::Session(view)) => {
                let until_us = decided_us + (view.expires_in_ms * 1000).min(view.ttl.us());
                match view.session {
                    SessionId::Opened { slot, secret } => self.promise_session(slot, secret, life, until_us),
                    SessionId::Own(LeaseId { secret, .. }) => {
                        if let Some(token) = self.by_secret.get(&secret) {
                            self.promise_lease(*token, life, until_us);
                        }
                    }
                }
            }
            Err(Refusal::LeaseExpired) => {
                let promised_us = self.promised_to_us(&attempt.command);
                if attempt.socket_us + SLACK_US < promised_us
                    && !ledger.was_rough(attempt.socket_us.saturating_sub(REST_EVERY_US), reply.at_us)
                {
                    let sentence = format!(
                        "{} reached the server {} us before its lease could end and was told that it had",
                        what_renews(&attempt.command),
                        promised_us - attempt.socket_us
                    );
                    return Err(Violation::new("never_early", sentence));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Up to when whoever sends this renewal has been promised what it renews; 0 if it is no renewal.
    pub fn promised_to_us(&self, command: &Command) -> u64 {
        match command {
            Command::Renew(renew) => self.promised_us(renew.proof.token),
            Command::KeepAlive { session: SessionId::Opened { slot, secret }, .. } => self
                .sessions
                .get(slot)
                .filter(|session| session.secret == *secret)
                .map_or(0, |session| session.promised_us),
            _ => 0,
        }
    }

    fn promise_lease(&mut self, token: u64, life: u64, until_us: u64) {
        if let Some(lease) = self.leases.get_mut(&token) {
            lease.promised_us = lease.promised_us.max(until_us).max(of_this(life, lease.granted));
        }
    }

    fn promise_session(&mut self, slot: u32, secret: Secret, life: u64, until_us: u64) {
        if let Some(session) = self.sessions.get_mut(&slot).filter(|session| session.secret == secret) {
            session.promised_us = session.promised_us.max(until_us).max(of_this(life, session.opened));
        }
    }

    fn promised_us(&self, token: u64) -> u64 {
        let Some(lease) = self.leases.get(&token) else { return 0 };
        let session = lease.session.and_then(|slot| self.sessions.get(&slot));
        lease.settled_us.unwrap_or_else(|| session.map_or(lease.promised_us, |session| session.promised_us))
    }
}

/// What a process decided counts when that process tells of it. A later one, which found the decision in the journal with
/// no horizon that covers it, tells what is left.
fn of_this(life: u64, (decided_in, until_us): (u64, u64)) -> u64 {
    if decided_in == life { until_us } else { 0 }
}

fn what_renews(command: &Command) -> &'static str {
    match command {
        Command::Renew(renew) if renew.ttl.is_some() || renew.metadata.is_some() => {
            "a renewal that changes the lease"
        }
        Command::Renew(_) => "a renewal",
        _ => "a heartbeat",
    }
}

fn early(what: String, by_us: u64) -> Violation {
    Violation::new("never_early", format!("{what} ended {by_us} us before its time"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariants::samples::{committed, expired, granted_at};

    #[test]
    fn sees_a_lease_that_ends_before_its_ttl() {
        let mut never_early = NeverEarly::default();
        never_early.committed(&granted_at(1_000, 1, 10, "a", 100)).unwrap();
        never_early.promise_lease(10, 1, 0);
        let mut end = committed(2, expired(10, "a"));
        end.at_us = 100_999;
        assert!(never_early.committed(&end).is_err());
        let mut never_early = NeverEarly::default();
        never_early.committed(&granted_at(1_000, 1, 10, "a", 100)).unwrap();
        never_early.promise_lease(10, 1, 0);
        end.at_us = 101_000;
        never_early.committed(&end).unwrap();
    }

    #[test]
    fn sees_a_lease_that_ends_before_its_renewal_allows() {
        let mut never_early = NeverEarly::default();
        never_early.committed(&granted_at(1_000, 1, 10, "a", 100)).unwrap();
        never_early.promise_lease(10, 1, 150_000);
        let mut end = committed(2, expired(10, "a"));
        end.at_us = 149_999;
        assert!(never_early.committed(&end).is_err());
    }
}
