//! After a replay: nothing that was read from a clock before the restart is compared with one after it.

use leasehold_planted::{Bug, planted};

use crate::event::Under;
use crate::limits::GRACE_US;
use crate::machine::{Machine, Output};
use crate::records::Presence;
use crate::time::Now;
use crate::timers::Due;
use crate::words::Ttl;

/// How leases get their deadlines back. Neither ends one earlier than anybody can have been promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rearm {
    /// The same boot, and the clocks agree: to the journaled horizon and a TTL, on the same boot clock.
    SameBoot,
    /// Another boot or machine, or clocks that disagree: to now, the horizon's length and a TTL.
    Elsewhere,
}

impl Machine {
    /// Once after a replay. Leases are re-armed; everybody in line is absent and has a grace to come back; whoever
    /// cannot come back is due at once. The caller then housekeeps until nothing is due before it answers anybody.
    pub fn recover(&mut self, now: Now, rearm: Rearm, _out: &mut Output) {
        self.now = now;
        self.requests.retired.recover(now.us);
        self.tombstones.set.recover(now.us);
        self.tombstones.index();
        self.forgot_us = now.us;
        self.looked_over_us = now.us;
        for client in self.requests.clients.values_mut() {
            client.heard_us = now.us;
        }
        if planted(Bug::DedupeLostOnRestart) {
            self.requests.forget_before(u64::MAX);
        }
        if planted(Bug::TokenResetAfterRestart) {
            self.last_token = self.leases.iter().map(|(_, lease)| lease.token).max().unwrap_or(0);
        }
        let base_us = match (rearm, self.horizon) {
            (_, None) => now.us,
            (Rearm::SameBoot, Some(horizon)) if planted(Bug::ExpiresEarlyAfterRestart) => {
                horizon.until_raw_us - horizon.length_us
            }
            (Rearm::SameBoot, Some(horizon)) => horizon.until_raw_us,
            (Rearm::Elsewhere, Some(horizon)) => now.us + horizon.length_us,
        };
        self.rearm_leases(base_us);
        self.rearm_sessions(base_us);
        self.rearm_waiters();
    }

    fn rearm_leases(&mut self, base_us: u64) {
        for slot in 0..self.leases.end() {
            let Some(lease) = self.leases.get(slot) else { continue };
            let ttl: Ttl = match lease.under() {
                Under::Own(_) => self.ttl_longest(lease),
                Under::Session(_) if !lease.broken() => continue,
                Under::Session(session) => {
                    self.sessions.get(session).map_or_else(|| self.ttl_longest(lease), |s| s.ttl)
                }
            };
            self.arm_lease(slot, base_us + ttl.us());
        }
    }

    fn rearm_sessions(&mut self, base_us: u64) {
        for slot in 0..self.sessions.end() {
            let Some(session) = self.sessions.get_mut(slot) else { continue };
            if session.over.is_some() {
                self.closing.push_back(slot);
                continue;
            }
            session.deadline_us = base_us + session.ttl.us();
            self.timers.arm(&mut session.armed_us, Due::Session(slot), session.deadline_us);
        }
    }

    fn rearm_waiters(&mut self) {
        let now_us = self.now.us;
        for (ticket, waiter) in &mut self.waiters {
            let grace_us = if waiter.ask.request.is_some() { GRACE_US } else { 0 };
            waiter.presence = Presence::Absent { until_us: now_us + grace_us };
            waiter.since_us = now_us;
            waiter.wait_until_us = now_us + waiter.wait.us();
            let due_us = waiter.due_us();
            self.timers.arm(&mut waiter.armed_us, Due::Waiter(*ticket), due_us);
        }
    }
}
