//! A restart, as sections 3 and 4 have it: leases re-armed from the horizon, everybody in line away, whoever cannot
//! come back gone, and every wait, grace and age begun anew.

use leasehold_state_machine::time::Now;

use super::{GRACE_US, Life, Model, Presence, Under};

impl Model {
    pub fn restart(&mut self, now: Now, same_boot: bool) {
        let from_us = if same_boot { self.horizon_until_raw_us } else { now.us + self.horizon_length_us };
        self.now = now;
        for session in self.sessions.iter_mut() {
            session.deadline_us = from_us + session.ttl_ms * 1000;
            session.ended = session.ended.map(|(how, _)| (how, now.us));
        }
        let sessions = &self.sessions;
        for lease in self.leases.iter_mut() {
            lease.deadline_us = from_us + lease.longest_ms * 1000;
            lease.life = match lease.life {
                Life::Live => Life::Live,
                Life::Broken { .. } => Life::Broken {
                    until_us: match lease.ask.under {
                        Under::Own { .. } => lease.deadline_us,
                        Under::Session(secret) => {
                            sessions.iter().find(|session| session.secret == secret).unwrap().deadline_us
                        }
                    },
                },
                Life::Ended { how, .. } => Life::Ended { how, at_us: now.us },
            };
        }
        for request in self.requests.iter_mut() {
            request.retired_us = request.retired_us.map(|_| now.us);
        }
        self.waiters.retain(|waiter| waiter.id.is_some());
        for waiter in self.waiters.iter_mut() {
            waiter.presence = Presence::Absent { until_us: now.us + GRACE_US };
            waiter.wait_until_us = now.us + waiter.wait_ms * 1000;
            waiter.since_us = now.us;
        }
    }
}
