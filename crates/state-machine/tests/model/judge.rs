//! Each thing that can be asked, judged as sections 3 to 7 say, in their order: request id, unknown 404, mismatch 412,
//! ended 410, then the rest.

use std::collections::BTreeSet;

use leasehold_state_machine::command::Attachment;
use leasehold_state_machine::event::CancelFound;
use leasehold_state_machine::ids::Secret;
use leasehold_state_machine::words::Mode;

use super::told::Told;
use super::{Ask, Effect, How, Lease, Life, Model, Payload, Presence, Request, Session, Under, Waiter};

/// What is asked, with nothing left to resolve.
#[derive(Clone, Debug)]
pub enum Asked {
    Acquire {
        ask: Ask,
        ttl_and_session: bool,
        wait_ms: u64,
        id: Option<String>,
    },
    Renew {
        proof: Proof,
        ttl_ms: Option<u64>,
        metadata: Option<u64>,
    },
    Release(Proof),
    Cancel {
        lock: String,
        owner: String,
        id: String,
    },
    Verify {
        lock: String,
        token: u64,
    },
    Get {
        lock: String,
    },
    List,
    Break {
        lock: String,
        force: bool,
        token: Option<u64>,
        id: Option<String>,
    },
    Open {
        owner: String,
        ttl_ms: u64,
        id: Option<String>,
    },
    /// With the tokens of the ended leases that are confirmed as seen.
    KeepAlive {
        session: Secret,
        seen: BTreeSet<u64>,
    },
    Close {
        session: Secret,
    },
    /// The own session of a single lease.
    KeepAliveOwn {
        lease: Secret,
    },
    CloseOwn {
        lease: Secret,
    },
    ListSessions,
    Detach {
        gone: Attachment,
    },
    Abandon {
        lease: Secret,
    },
    Write {
        name: String,
        at: Option<u64>,
        bytes: Vec<u8>,
        proof: Proof,
        id: Option<String>,
    },
    Delete {
        name: String,
        proof: Proof,
        id: Option<String>,
    },
    Stat {
        name: String,
    },
    ListFiles,
}

#[derive(Clone, Debug)]
pub struct Proof {
    pub lock: String,
    pub owner: String,
    pub lease: Secret,
    pub token: u64,
}

pub fn ended(how: How) -> Told {
    match how {
        How::Expired => Told::LeaseExpired,
        How::Released => Told::Released,
    }
}

impl Model {
    /// Judges one request; `secret` is what was drawn for it.
    pub fn judge(&mut self, to: Attachment, arrived_raw_us: u64, secret: Secret, asked: Asked) {
        let told = match asked {
            Asked::Acquire { ask, ttl_and_session, wait_ms, id } => {
                return self.acquire(to, arrived_raw_us, secret, ask, ttl_and_session, wait_ms, id);
            }
            Asked::Renew { proof, ttl_ms, metadata } => self.renew(arrived_raw_us, &proof, ttl_ms, metadata),
            Asked::Release(proof) => self.release(&proof),
            Asked::Cancel { lock, owner, id } => self.cancel(&lock, &owner, &id),
            Asked::Verify { lock, token } => self.verify(&lock, token),
            Asked::Get { lock } if !self.exists(&lock) && self.path_of(&lock).is_none() => Told::NotFound,
            Asked::Get { lock } => {
                Told::Snapshot { crowd: self.crowd(&lock), last_token: None, version: 0, seq: 0 }
            }
            Asked::List => self.list(),
            Asked::Break { lock, force, token, id } => self.break_(lock, force, token, id),
            Asked::Open { owner, ttl_ms, id } => self.open(arrived_raw_us, secret, owner, ttl_ms, id),
            Asked::KeepAlive { session, seen } => self.keep_alive(arrived_raw_us, session, &seen),
            Asked::Close { session } => self.close(session),
            Asked::KeepAliveOwn { lease } => self.keep_alive_own(arrived_raw_us, lease),
            Asked::CloseOwn { lease } => self.close_own(lease),
            Asked::ListSessions => self.list_sessions(),
            Asked::Detach { gone } => return self.detach(gone),
            Asked::Abandon { lease } => return self.abandon(lease),
            Asked::Write { name, at, bytes, proof, id } => self.write(name, at, bytes, &proof, id),
            Asked::Delete { name, proof, id } => self.delete(name, &proof, id),
            Asked::Stat { name } => self.stat(&name),
            Asked::ListFiles => self.list_files(),
        };
        self.tell(to, told);
        self.look();
    }

    #[allow(clippy::too_many_arguments)]
    fn acquire(
        &mut self,
        to: Attachment,
        arrived_raw_us: u64,
        secret: Secret,
        ask: Ask,
        ttl_and_session: bool,
        wait_ms: u64,
        id: Option<String>,
    ) {
        if let Some(id) = &id
            && let Some(request) = self.request(&ask.owner, id)
        {
            let told = match (&request.payload, &request.effect) {
                (_, Effect::Cancelled(_)) => Told::Cancelled,
                (payload, _) if ttl_and_session || *payload != Payload::Acquire(ask.clone()) => {
                    Told::Invalid("request_id".into())
                }
                (_, Effect::Waits) => return self.attach_again(to, arrived_raw_us, &ask.owner, id, wait_ms),
                (_, Effect::Lease(secret)) => match self.lease(*secret).expect("its lease").life {
                    Life::Live => self.lease_told(*secret, arrived_raw_us),
                    Life::Broken { .. } => Told::Released,
                    Life::Ended { how, .. } => ended(how),
                },
                other => unreachable!("{other:?} under an acquire's payload"),
            };
            return self.tell(to, told);
        }
        if !self.exists(&ask.lock) {
            return self.tell(to, Told::NotFound);
        }
        if let Under::Session(secret) = ask.under {
            let refusal = match self.session(secret) {
                _ if ttl_and_session => Some(Told::Invalid("ttl_ms".into())),
                None => Some(Told::NotFound),
                Some(session) if session.owner != ask.owner => Some(Told::StaleToken { highest_token: None }),
                Some(Session { ended: Some((how, _)), .. }) => Some(ended(*how)),
                Some(_) => None,
            };
            if let Some(told) = refusal {
                return self.tell(to, told);
            }
            self.renew_session(secret);
        }
        if self.leases.iter().filter(|lease| lease.stands()).count() >= self.limits.leases_max {
            return self.tell(to, Told::Busy);
        }
        let free = self.is_free(&ask, &self.waiters);
        let granted = free && !self.grants_held;
        if !granted && wait_ms == 0 {
            let told = if free { Told::Unavailable } else { Told::Held(Some(self.crowd(&ask.lock))) };
            return self.tell(to, told);
        }
        let on_it = self.waiters.iter().filter(|waiter| waiter.ask.lock == ask.lock).count();
        let full = self.waiters.len() >= self.limits.waiters_max || on_it >= self.limits.waiters_per_lock_max;
        if !granted && full {
            return self.tell(to, Told::Busy);
        }
        if let Some(id) = &id {
            self.requests.push(Request {
                owner: ask.owner.clone(),
                id: id.clone(),
                payload: Payload::Acquire(ask.clone()),
                effect: Effect::Waits,
                retired_us: None,
            });
        }
        if granted {
            self.grant(secret, ask, id);
            let told = self.lease_told(secret, arrived_raw_us);
            self.tell(to, told);
        } else {
            self.waiters.push(Waiter {
                secret,
                ask,
                id,
                presence: Presence::Attached(to),
                wait_ms,
                wait_until_us: self.now.us + wait_ms * 1000,
                since_us: self.now.us,
                arrived_raw_us,
            });
        }
    }

    fn attach_again(&mut self, to: Attachment, arrived_raw_us: u64, owner: &str, id: &str, wait_ms: u64) {
        let theirs = |waiter: &&mut Waiter| waiter.ask.owner == owner && waiter.id.as_deref() == Some(id);
        let now_us = self.now.us;
        let waiter = self.waiters.iter_mut().find(theirs).expect("its place");
        let before = waiter.presence;
        waiter.presence = Presence::Attached(to);
        waiter.wait_until_us = now_us + wait_ms * 1000;
        waiter.arrived_raw_us = arrived_raw_us;
        if let Presence::Attached(older) = before {
            self.tell(older, Told::Cancelled);
        }
        self.look();
        // A new wait of nothing: granted in this look, or gone.
        let left = |waiter: &Waiter| waiter.presence == Presence::Attached(to) && wait_ms == 0;
        if let Some(place) = self.waiters.iter().position(left) {
            self.leave(place, Told::Held(None));
            self.look();
        }
    }

    fn detach(&mut self, gone: Attachment) {
        let place = self.waiters.iter().position(|waiter| waiter.presence == Presence::Attached(gone));
        let Some(place) = place else { return };
        let until_us = self.grace_until_us();
        self.waiters[place].presence = Presence::Detached { until_us };
        if self.waiters[place].id.is_none() {
            self.leave(place, Told::Cancelled);
        }
        self.look();
    }

    /// The lease that the proof is for, or what is wrong with the proof. Says nothing of its life.
    pub fn proven(&self, proof: &Proof) -> Result<usize, Box<Told>> {
        let index = self
            .leases
            .iter()
            .position(|lease| lease.secret == proof.lease)
            .ok_or(Box::new(Told::NotFound))?;
        let lease = &self.leases[index];
        let fits =
            lease.ask.lock == proof.lock && lease.ask.owner == proof.owner && lease.token == proof.token;
        if fits { Ok(index) } else { Err(Box::new(Told::StaleToken { highest_token: None })) }
    }

    fn renew(
        &mut self,
        arrived_raw_us: u64,
        proof: &Proof,
        ttl_ms: Option<u64>,
        metadata: Option<u64>,
    ) -> Told {
        let index = match self.proven(proof) {
            Ok(index) => index,
            Err(told) => return *told,
        };
        match self.leases[index].life {
            Life::Live => {}
            Life::Broken { .. } => return Told::Released,
            Life::Ended { how, .. } => return ended(how),
        }
        let now_us = self.now.us;
        let lease = &mut self.leases[index];
        match &mut lease.ask.under {
            Under::Session(_) if ttl_ms.is_some() => return Told::Invalid("ttl_ms".into()),
            Under::Own { ttl_ms: old } => {
                *old = ttl_ms.unwrap_or(*old);
                lease.longest_ms = lease.longest_ms.max(*old);
                lease.deadline_us = lease.deadline_us.max(now_us + *old * 1000);
            }
            Under::Session(secret) => {
                let secret = *secret;
                self.renew_session(secret);
            }
        }
        let lease = &mut self.leases[index];
        lease.ask.metadata = metadata.unwrap_or(lease.ask.metadata);
        let secret = lease.secret;
        self.lease_told(secret, arrived_raw_us)
    }

    fn release(&mut self, proof: &Proof) -> Told {
        let index = match self.proven(proof) {
            Ok(index) => index,
            Err(told) => return *told,
        };
        let lease = &self.leases[index];
        match lease.life {
            Life::Ended { how: How::Expired, .. } => Told::LeaseExpired,
            Life::Ended { how: How::Released, .. } => Told::ReleaseDone { remaining_ms: None },
            Life::Live | Life::Broken { .. } => {
                let remaining_ms = Some((self.deadline_us(lease) - self.now.us) / 1000);
                self.end_lease(index, How::Released);
                Told::ReleaseDone { remaining_ms }
            }
        }
    }

    fn cancel(&mut self, lock: &str, owner: &str, id: &str) -> Told {
        let now_us = self.now.us;
        let Some(request) = self.request(owner, id) else {
            self.requests.push(Request {
                owner: owner.into(),
                id: id.into(),
                payload: Payload::Nothing,
                effect: Effect::Cancelled(CancelFound::Unknown),
                retired_us: Some(now_us),
            });
            return Told::CancelDone(CancelFound::Unknown);
        };
        let asked_for = match &request.payload {
            Payload::Acquire(ask) => Some(ask.lock.as_str()),
            Payload::Nothing => Some(lock),
            _ => None,
        };
        let found = match request.effect.clone() {
            Effect::Cancelled(found) => return Told::CancelDone(found),
            Effect::Answered(_) => return Told::Invalid("request_id".into()),
            // Of what has ended only the id is remembered, and how it ended.
            _ if request.retired_us.is_some() => return Told::CancelDone(CancelFound::Released),
            _ if asked_for != Some(lock) => return Told::Invalid("request_id".into()),
            Effect::Waits => {
                let theirs = |waiter: &Waiter| waiter.ask.owner == owner && waiter.id.as_deref() == Some(id);
                let place = self.waiters.iter().position(theirs).expect("its place");
                let waiter = self.waiters.remove(place);
                if let Presence::Attached(to) = waiter.presence {
                    self.tell(to, Told::Cancelled);
                }
                CancelFound::Waiting
            }
            Effect::Lease(secret) => {
                let index = self.leases.iter().position(|lease| lease.secret == secret).expect("its lease");
                self.note_ended(index, "cancelled");
                self.end_lease(index, How::Released);
                CancelFound::Released
            }
            other => unreachable!("{other:?} under an acquire's payload"),
        };
        let request = self.request_mut(owner, id);
        request.effect = Effect::Cancelled(found);
        request.retired_us = Some(now_us);
        Told::CancelDone(found)
    }

    /// The owner of a lease's session is to hear that it ended otherwise than by its own release; a broken one has.
    fn note_ended(&mut self, index: usize, reason: &str) {
        let lease = &self.leases[index];
        if let (Life::Live, Under::Session(secret)) = (lease.life, &lease.ask.under) {
            let (secret, entry) = (*secret, (lease.ask.lock.clone(), lease.token, reason.to_string()));
            self.session_mut(secret).unseen.insert(entry);
        }
    }

    fn verify(&self, lock: &str, token: u64) -> Told {
        let good = |lease: &&Lease| {
            lease.life == Life::Live && lease.token == token && self.covers(&lease.ask.lock, lock)
        };
        match self.leases.iter().find(good) {
            Some(lease) => Told::Valid { expires_in_ms: (self.deadline_us(lease) - self.now.us) / 1000 },
            None => Told::StaleToken { highest_token: None },
        }
    }

    fn list(&self) -> Told {
        let held = self.leases.iter().filter(|lease| lease.stands()).map(|lease| lease.ask.lock.clone());
        let waited = self.waiters.iter().map(|waiter| waiter.ask.lock.clone());
        let locks: BTreeSet<String> = held.chain(waited).collect();
        Told::Locks(locks.into_iter().map(|lock| (lock.clone(), self.crowd(&lock))).collect())
    }

    fn break_(&mut self, lock: String, force: bool, token: Option<u64>, id: Option<String>) -> Told {
        let payload = Payload::Break { lock: lock.clone(), force, token };
        if let Some(request) = id.as_ref().and_then(|id| self.request("", id)) {
            return match &request.effect {
                Effect::Broke(told) if request.payload == payload => told.clone(),
                _ => Told::Invalid("request_id".into()),
            };
        }
        let mut tokens = BTreeSet::new();
        let mut free_in_ms = 0;
        for index in 0..self.leases.len() {
            let lease = &self.leases[index];
            if !lease.stands() || lease.ask.lock != lock || token.is_some_and(|token| token != lease.token) {
                continue;
            }
            tokens.insert(lease.token);
            let until_us = self.deadline_us(lease);
            self.note_ended(index, "broken");
            if force {
                self.end_lease(index, How::Released);
            } else {
                // Rounded up: then it is free, not almost.
                free_in_ms = free_in_ms.max((until_us - self.now.us).div_ceil(1000));
                self.leases[index].life = Life::Broken { until_us };
            }
        }
        if tokens.is_empty() {
            return Told::NotFound;
        }
        let told = Told::Broke { tokens, free_in_ms };
        if let Some(id) = id {
            let effect = Effect::Broke(told.clone());
            let retired_us = Some(self.now.us);
            self.requests.push(Request { owner: String::new(), id, payload, effect, retired_us });
        }
        told
    }

    fn abandon(&mut self, secret: Secret) {
        let theirs = |lease: &Lease| lease.secret == secret && lease.stands() && lease.id.is_none();
        if let Some(index) = self.leases.iter().position(theirs) {
            self.note_ended(index, "gone");
            self.end_lease(index, How::Released);
            self.look();
        }
    }
}

/// How the model writes a mode in its commands.
pub fn mode(shared: bool) -> Mode {
    if shared { Mode::Shared } else { Mode::Exclusive }
}
