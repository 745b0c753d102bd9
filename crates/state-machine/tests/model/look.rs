//! The one rule of granting, and the passing of time.

use leasehold_state_machine::ids::Secret;
use leasehold_state_machine::words::Mode;

use super::ground::{cover, overlap};
use super::told::{Crowd, Holder, LeaseTold, Told, Waiting};
use super::{Ask, Effect, GRACE_US, How, Lease, Life, Model, Presence, REMEMBER_US, Under, Waiter};

impl Model {
    fn conflict(&self, a: &Ask, b: &Ask) -> bool {
        self.overlap(&a.lock, &b.lock) && (a.mode == Mode::Exclusive || b.mode == Mode::Exclusive)
    }

    /// Whether two locks overlap, bytes of files with the paths they are one with too.
    fn overlap(&self, a: &str, b: &str) -> bool {
        let meets = |bytes: &str, path: &str| self.path_of(bytes).is_some_and(|file| cover(path, &file));
        overlap(a, b) || meets(a, b) || meets(b, a)
    }

    /// Whether one lock covers another, bytes of files by the paths they are one with too.
    pub fn covers(&self, upper: &str, lower: &str) -> bool {
        cover(upper, lower) || self.path_of(lower).is_some_and(|file| cover(upper, &file))
    }

    /// "A request is granted when it conflicts with no live lease and with no earlier waiter." The detached are skipped.
    pub fn is_free(&self, ask: &Ask, earlier: &[Waiter]) -> bool {
        let in_line = |waiter: &&Waiter| !matches!(waiter.presence, Presence::Detached { .. });
        !self.leases.iter().any(|lease| lease.stands() && self.conflict(&lease.ask, ask))
            && !earlier.iter().filter(in_line).any(|waiter| self.conflict(&waiter.ask, ask))
    }

    /// Looks at the rule for everybody in line.
    pub fn look(&mut self) {
        if self.grants_held {
            return;
        }
        let mut place = 0;
        while place < self.waiters.len() {
            let waiter = &self.waiters[place];
            match waiter.presence {
                Presence::Attached(to) if self.is_free(&waiter.ask, &self.waiters[..place]) => {
                    let waiter = self.waiters.remove(place);
                    let secret = waiter.secret;
                    self.grant(waiter.secret, waiter.ask, waiter.id);
                    let told = self.lease_told(secret, waiter.arrived_raw_us);
                    self.tell(to, told);
                }
                _ => place += 1,
            }
        }
    }

    pub fn grant(&mut self, secret: Secret, ask: Ask, id: Option<String>) {
        let ttl_ms = self.ttl_ms(&ask);
        if let Some(id) = &id {
            self.request_mut(&ask.owner, id).effect = Effect::Lease(secret);
        }
        let deadline_us = self.now.us + ttl_ms * 1000;
        self.leases.push(Lease {
            secret,
            ask,
            id,
            token: 0,
            life: Life::Live,
            deadline_us,
            longest_ms: ttl_ms,
        });
    }

    /// What the holder is told, counted for an attempt that arrived then.
    pub fn lease_told(&self, secret: Secret, arrived_raw_us: u64) -> Told {
        let lease = self.lease(secret).expect("a lease");
        let ttl_ms = self.ttl_ms(&lease.ask);
        let left_us = self.deadline_us(lease) - self.now.us;
        let (renew_after_ms, stop_after_ms) = self.pace(arrived_raw_us, left_us, ttl_ms);
        Told::Lease(LeaseTold {
            secret,
            token: (lease.token > 0).then_some(lease.token),
            lock: lease.ask.lock.clone(),
            owner: lease.ask.owner.clone(),
            session: match lease.ask.under {
                Under::Own { .. } => None,
                Under::Session(secret) => Some(secret),
            },
            mode: lease.ask.mode,
            ttl_ms,
            expires_in_ms: left_us / 1000,
            renew_after_ms,
            stop_after_ms,
            metadata: lease.ask.metadata,
            repeatable: lease.id.is_some(),
        })
    }

    /// Section 4, the client's side: from arrival to decision, plus what is left, less ⅔ or ½ of the TTL, never below
    /// 0, and the second never further than ½ TTL past the decision; the first never further than ⅓, or who is told to
    /// stop at ½ would be told to renew after that.
    pub fn pace(&self, arrived_raw_us: u64, left_us: u64, ttl_ms: u64) -> (u64, u64) {
        let ttl_us = ttl_ms * 1000;
        let elapsed_us = self.now.raw_us - arrived_raw_us;
        let after_ms = |part_us: u64| {
            let past_us = (elapsed_us + left_us).saturating_sub(part_us);
            past_us.min(elapsed_us + ttl_us - part_us) / 1000
        };
        (after_ms(ttl_us * 2 / 3), after_ms(ttl_us / 2))
    }

    /// Everybody who overlaps.
    pub fn crowd(&self, lock: &str) -> Crowd {
        let holders =
            self.leases.iter().filter(|lease| lease.stands() && self.overlap(&lease.ask.lock, lock));
        let waiters = self.waiters.iter().filter(|waiter| self.overlap(&waiter.ask.lock, lock));
        Crowd {
            holders: holders
                .map(|lease| Holder {
                    token: lease.token,
                    lock: lease.ask.lock.clone(),
                    owner: lease.ask.owner.clone(),
                    mode: lease.ask.mode,
                    expires_in_ms: (self.deadline_us(lease) - self.now.us) / 1000,
                    metadata: lease.ask.metadata,
                    broken: lease.life != Life::Live,
                })
                .collect(),
            waiters: waiters
                .enumerate()
                .map(|(index, waiter)| Waiting {
                    lock: waiter.ask.lock.clone(),
                    owner: waiter.ask.owner.clone(),
                    mode: waiter.ask.mode,
                    position: index as u64 + 1,
                    waiting_ms: (self.now.us - waiter.since_us) / 1000,
                    attached: matches!(waiter.presence, Presence::Attached(_)),
                })
                .collect(),
        }
    }

    /// Time has come to `self.now`: what is over ends, and the rule is looked at again.
    pub fn pass(&mut self) {
        self.leave_when_time_is_up();
        self.end_sessions_that_are_due();
        self.end_leases_that_are_due();
        self.look();
    }

    fn leave_when_time_is_up(&mut self) {
        for place in (0..self.waiters.len()).rev() {
            let waiter = &self.waiters[place];
            let until_us = match waiter.presence {
                Presence::Attached(_) => waiter.wait_until_us,
                Presence::Detached { until_us } => until_us.min(waiter.wait_until_us),
                Presence::Absent { until_us } => until_us,
            };
            if until_us <= self.now.us {
                self.leave(place, Told::Held(None));
            }
        }
    }

    /// A waiter leaves the line without a lease; whoever waits is told why, and its id is forgotten.
    pub fn leave(&mut self, place: usize, told: Told) {
        let waiter = self.waiters.remove(place);
        if let Presence::Attached(to) = waiter.presence {
            self.tell(to, told);
        }
        if let Some(id) = waiter.id {
            self.requests.retain(|request| request.owner != waiter.ask.owner || request.id != id);
        }
    }

    fn end_sessions_that_are_due(&mut self) {
        let due = |session: &&super::Session| session.ended.is_none() && session.deadline_us <= self.now.us;
        for secret in self.sessions.iter().filter(due).map(|session| session.secret).collect::<Vec<_>>() {
            self.end_session(secret, How::Expired);
        }
    }

    /// A session ends, its leases with it; its waiters leave.
    pub fn end_session(&mut self, secret: Secret, how: How) {
        let at_us = self.now.us;
        self.session_mut(secret).ended = Some((how, at_us));
        for request in self.requests.iter_mut().filter(|request| request.effect == Effect::Session(secret)) {
            request.retired_us = Some(at_us);
        }
        for index in 0..self.leases.len() {
            let lease = &self.leases[index];
            if lease.stands() && lease.ask.under == Under::Session(secret) {
                // One that was broken before is told so, however the session ended.
                let how = if lease.life == Life::Live { how } else { How::Released };
                self.end_lease(index, how);
            }
        }
        let told = match how {
            How::Expired => Told::LeaseExpired,
            How::Released => Told::Released,
        };
        for place in (0..self.waiters.len()).rev() {
            if self.waiters[place].ask.under == Under::Session(secret) {
                self.leave(place, told.clone());
            }
        }
    }

    fn end_leases_that_are_due(&mut self) {
        for index in 0..self.leases.len() {
            let lease = &self.leases[index];
            if lease.stands() && self.deadline_us(lease) <= self.now.us {
                let how = if lease.life == Life::Live { How::Expired } else { How::Released };
                self.end_lease(index, how);
            }
        }
    }

    pub fn end_lease(&mut self, index: usize, how: How) {
        let at_us = self.now.us;
        let lease = &mut self.leases[index];
        lease.life = Life::Ended { how, at_us };
        let secret = lease.secret;
        for request in self.requests.iter_mut().filter(|request| request.effect == Effect::Lease(secret)) {
            request.retired_us = Some(at_us);
        }
    }

    /// Forgets what is older than ten minutes.
    pub fn forget(&mut self) {
        let old = |at_us: u64| at_us + REMEMBER_US <= self.now.us;
        self.requests.retain(|request| !request.retired_us.is_some_and(old));
        self.sessions.retain(|session| !session.ended.is_some_and(|(_, at_us)| old(at_us)));
        self.leases.retain(|lease| !matches!(lease.life, Life::Ended { at_us, .. } if old(at_us)));
    }

    /// Since when the oldest of all that is remembered has only been remembered.
    pub fn oldest_us(&self) -> Option<u64> {
        let requests = self.requests.iter().filter_map(|request| request.retired_us);
        let sessions = self.sessions.iter().filter_map(|session| session.ended.map(|(_, at_us)| at_us));
        let leases = self.leases.iter().filter_map(|lease| match lease.life {
            Life::Ended { at_us, .. } => Some(at_us),
            _ => None,
        });
        requests.chain(sessions).chain(leases).min()
    }

    /// When something is due next, forgetting apart.
    pub fn next_due_us(&self) -> Option<u64> {
        let waits = self.waiters.iter().map(|waiter| match waiter.presence {
            Presence::Attached(_) => waiter.wait_until_us,
            Presence::Detached { until_us } => until_us.min(waiter.wait_until_us),
            Presence::Absent { until_us } => until_us,
        });
        let leases = self.leases.iter().filter(|lease| lease.stands()).map(|lease| self.deadline_us(lease));
        let sessions = self.sessions.iter().filter(|s| s.ended.is_none()).map(|s| s.deadline_us);
        waits.chain(leases).chain(sessions).min()
    }

    /// The grace of somebody who went away now.
    pub fn grace_until_us(&self) -> u64 {
        self.now.us + GRACE_US
    }
}
