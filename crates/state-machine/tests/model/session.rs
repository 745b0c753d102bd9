//! Sessions: opened ones and the own ones of single leases; their heartbeats and their ends.

use std::collections::BTreeSet;

use leasehold_state_machine::ids::Secret;

use super::judge::{Asked, ended};
use super::told::{SessionSeen, SessionTold, Told};
use super::{Effect, How, Life, Model, Payload, Request, Session, Under};

impl Model {
    pub fn open(
        &mut self,
        arrived_raw_us: u64,
        secret: Secret,
        owner: String,
        ttl_ms: u64,
        id: Option<String>,
    ) -> Told {
        let payload = Payload::Open { owner: owner.clone(), ttl_ms };
        if let Some(request) = id.as_ref().and_then(|id| self.request(&owner, id)) {
            return match &request.effect {
                Effect::Cancelled(_) => Told::Cancelled,
                Effect::Session(secret) if request.payload == payload => {
                    match self.session(*secret).expect("its session").ended {
                        None => self.session_told(*secret, arrived_raw_us),
                        Some((how, _)) => ended(how),
                    }
                }
                _ => Told::Invalid("request_id".into()),
            };
        }
        if self.sessions.iter().filter(|session| session.ended.is_none()).count() >= self.limits.sessions_max
        {
            return Told::Busy;
        }
        if let Some(id) = id {
            let effect = Effect::Session(secret);
            self.requests.push(Request { owner: owner.clone(), id, payload, effect, retired_us: None });
        }
        let deadline_us = self.now.us + ttl_ms * 1000;
        self.sessions.push(Session {
            secret,
            owner,
            ttl_ms,
            deadline_us,
            ended: None,
            unseen: BTreeSet::new(),
        });
        self.session_told(secret, arrived_raw_us)
    }

    pub fn renew_session(&mut self, secret: Secret) {
        let now_us = self.now.us;
        let session = self.session_mut(secret);
        session.deadline_us = session.deadline_us.max(now_us + session.ttl_ms * 1000);
    }

    fn session_told(&self, secret: Secret, arrived_raw_us: u64) -> Told {
        let session = self.session(secret).expect("a session");
        let left_us = session.deadline_us - self.now.us;
        let (renew_after_ms, stop_after_ms) = self.pace(arrived_raw_us, left_us, session.ttl_ms);
        Told::Session(SessionTold {
            secret,
            owner: session.owner.clone(),
            ttl_ms: session.ttl_ms,
            expires_in_ms: left_us / 1000,
            renew_after_ms,
            stop_after_ms,
            ended: session.unseen.clone(),
        })
    }

    pub fn keep_alive(&mut self, arrived_raw_us: u64, secret: Secret, seen: &BTreeSet<u64>) -> Told {
        match self.session(secret) {
            None => return Told::NotFound,
            Some(Session { ended: Some((how, _)), .. }) => return ended(*how),
            Some(_) => {}
        }
        self.renew_session(secret);
        self.session_mut(secret).unseen.retain(|(_, token, _)| !seen.contains(token));
        self.session_told(secret, arrived_raw_us)
    }

    pub fn close(&mut self, secret: Secret) -> Told {
        match self.session(secret) {
            None => Told::NotFound,
            Some(Session { ended: Some((How::Expired, _)), .. }) => Told::LeaseExpired,
            Some(Session { ended: Some((How::Released, _)), .. }) => Told::Closed,
            Some(_) => {
                self.end_session(secret, How::Released);
                Told::Closed
            }
        }
    }

    pub fn keep_alive_own(&mut self, arrived_raw_us: u64, secret: Secret) -> Told {
        let now_us = self.now.us;
        let Some(lease) = self.leases.iter_mut().find(|lease| lease.secret == secret) else {
            return Told::NotFound;
        };
        match (lease.life, &lease.ask.under) {
            (Life::Ended { how, .. }, _) => ended(how),
            (_, Under::Session(_)) => unreachable!("it has a session of its own"),
            (Life::Broken { .. }, _) => Told::Released,
            (Life::Live, Under::Own { ttl_ms }) => {
                let ttl_ms = *ttl_ms;
                lease.deadline_us = lease.deadline_us.max(now_us + ttl_ms * 1000);
                let (owner, left_us) = (lease.ask.owner.clone(), lease.deadline_us - now_us);
                let (renew_after_ms, stop_after_ms) = self.pace(arrived_raw_us, left_us, ttl_ms);
                let (expires_in_ms, ended) = (left_us / 1000, BTreeSet::new());
                Told::Session(SessionTold {
                    secret,
                    owner,
                    ttl_ms,
                    expires_in_ms,
                    renew_after_ms,
                    stop_after_ms,
                    ended,
                })
            }
        }
    }

    pub fn close_own(&mut self, secret: Secret) -> Told {
        let Some(index) = self.leases.iter().position(|lease| lease.secret == secret) else {
            return Told::NotFound;
        };
        let lease = &self.leases[index];
        match (lease.life, &lease.ask.under) {
            (Life::Ended { how: How::Expired, .. }, _) => Told::LeaseExpired,
            (Life::Ended { how: How::Released, .. }, _) => Told::Closed,
            (_, Under::Session(_)) => unreachable!("it has a session of its own"),
            // A broken lease is its holder's no more, but whoever closes has stopped: it frees the resource at once.
            (Life::Live | Life::Broken { .. }, Under::Own { .. }) => {
                self.end_lease(index, How::Released);
                Told::Closed
            }
        }
    }

    /// Those that were opened, and the own ones of single leases.
    pub fn list_sessions(&self) -> Told {
        let opened = self.sessions.iter().filter(|session| session.ended.is_none()).map(|session| {
            let under = Under::Session(session.secret);
            let leases = self.leases.iter().filter(|lease| lease.stands() && lease.ask.under == under);
            let waiters = self.waiters.iter().filter(|waiter| waiter.ask.under == under);
            SessionSeen {
                owner: session.owner.clone(),
                ttl_ms: session.ttl_ms,
                expires_in_ms: (session.deadline_us - self.now.us) / 1000,
                leases: leases.count() as u64,
                waiters: waiters.count() as u64,
            }
        });
        let own =
            self.leases.iter().filter(|lease| lease.stands()).filter_map(|lease| match lease.ask.under {
                Under::Session(_) => None,
                Under::Own { ttl_ms } => Some(SessionSeen {
                    owner: lease.ask.owner.clone(),
                    ttl_ms,
                    expires_in_ms: (self.deadline_us(lease) - self.now.us) / 1000,
                    leases: 1,
                    waiters: 0,
                }),
            });
        let mut rows: Vec<SessionSeen> = opened.chain(own).collect();
        rows.sort();
        Told::Sessions(rows)
    }

    /// The session that a request keeps alive.
    pub fn heartbeat_of(&self, asked: &Asked) -> Option<Secret> {
        let under = match asked {
            Asked::Acquire { ask, .. } => &ask.under,
            Asked::Renew { proof, .. } => &self.lease(proof.lease)?.ask.under,
            Asked::KeepAlive { session, .. } => return Some(*session),
            _ => return None,
        };
        match under {
            Under::Session(secret) => Some(*secret),
            Under::Own { .. } => None,
        }
    }

    pub fn waits_under(&self, session: Secret) -> bool {
        self.waiters.iter().any(|waiter| waiter.ask.under == Under::Session(session))
    }
}
