//! The horizon: a raw boot time, in the journal, up to which grants and renewals may be answered. Renewals themselves
//! are not written, so horizon + TTL is the latest deadline anybody can have been promised. Pure: says when a horizon is
//! to be recorded and what a promise has to wait for; records nothing itself.

use std::collections::VecDeque;

use leasehold_state_machine::event::{Event, Seq};

use crate::limits::{HORIZON_US_MAX, HORIZON_US_MIN};

/// How far promises may reach.
#[derive(Debug)]
pub struct HorizonPolicy {
    /// The first horizon reaches at least this far: leases re-armed at recovery may already count on it.
    floor_us: u64,
    /// The newest horizon that is durable in this boot.
    durable_us: u64,
    /// Horizons that are decided and not yet durable, in order; each reaches at least as far as the one before.
    pending: VecDeque<(Seq, u64)>,
    last_commit_us: u64,
}

impl HorizonPolicy {
    /// After a restart in the same boot: the journal's horizon still counts, and the next reaches no less far.
    pub fn carried_on(until_raw_us: u64) -> HorizonPolicy {
        HorizonPolicy {
            floor_us: until_raw_us,
            durable_us: until_raw_us,
            pending: VecDeque::new(),
            last_commit_us: 0,
        }
    }

    /// In another boot: no horizon counts yet, and the first reaches at least as far as the re-armed leases assume.
    /// Were it shorter, a second crash would take back time that the first had given.
    pub fn begun_anew(floor_us: u64) -> HorizonPolicy {
        HorizonPolicy { floor_us, durable_us: 0, pending: VecDeque::new(), last_commit_us: 0 }
    }

    /// The horizon to record now, if sessions are alive and the newest one decided comes too near.
    pub fn due(&self, raw_us: u64) -> Option<Event> {
        // Half of the length ahead: one second, or one commit if that is longer.
        (self.decided_us() < raw_us + self.length_us() / 2).then(|| self.next(raw_us))
    }

    /// The horizon to record now because something is promised that no horizon covers yet.
    pub fn wanted(&self, raw_us: u64) -> Option<Event> {
        (self.decided_us() <= raw_us).then(|| self.next(raw_us))
    }

    /// Takes note of a horizon that was recorded.
    pub fn recorded(&mut self, seq: Seq, event: &Event) {
        if let Event::Horizon { until_raw_us, .. } = event {
            assert!(*until_raw_us >= self.decided_us(), "a horizon never goes back in one boot");
            self.pending.push_back((seq, *until_raw_us));
        }
    }

    /// Takes note that everything up to `seq` is durable.
    pub fn durable(&mut self, seq: Seq, commit_us: u64) {
        self.last_commit_us = commit_us;
        while let Some((_, until_us)) = self.pending.pop_front_if(|(at, _)| *at <= seq) {
            self.durable_us = until_us;
        }
    }

    /// The event that must be durable before a promise made at this raw time may leave: 0 when one is already, none
    /// when no horizon reaches so far.
    pub fn cover(&self, raw_us: u64) -> Option<Seq> {
        if self.durable_us > raw_us {
            return Some(0);
        }
        self.pending.iter().find(|(_, until_us)| *until_us > raw_us).map(|(seq, _)| *seq)
    }

    /// The newest durable horizon of this boot; 0 when there is none.
    pub fn durable_us(&self) -> u64 {
        self.durable_us
    }

    fn decided_us(&self) -> u64 {
        self.pending.back().map_or(self.durable_us, |(_, until_us)| *until_us)
    }

    fn length_us(&self) -> u64 {
        self.last_commit_us.saturating_mul(2).clamp(HORIZON_US_MIN, HORIZON_US_MAX)
    }

    fn next(&self, raw_us: u64) -> Event {
        let until_raw_us = (raw_us + self.length_us()).max(self.floor_us).max(self.decided_us());
        Event::Horizon { until_raw_us, length_us: until_raw_us.saturating_sub(raw_us) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000;

    fn record(policy: &mut HorizonPolicy, seq: Seq, event: Option<Event>) -> (u64, u64) {
        let event = event.expect("a horizon");
        policy.recorded(seq, &event);
        match event {
            Event::Horizon { until_raw_us, length_us } => (until_raw_us, length_us),
            _ => unreachable!(),
        }
    }

    #[test]
    fn is_kept_one_to_two_seconds_ahead() {
        let mut policy = HorizonPolicy::begun_anew(0);
        let due = policy.due(10 * S);
        assert_eq!(record(&mut policy, 1, due), (12 * S, 2 * S));
        assert_eq!(policy.due(11 * S), None);
        let due = policy.due(11 * S + 1);
        assert_eq!(record(&mut policy, 2, due), (13 * S + 1, 2 * S));
    }

    #[test]
    fn a_slow_disk_gets_a_longer_one_within_bounds() {
        let mut policy = HorizonPolicy::begun_anew(0);
        policy.durable(1, 4 * S);
        let due = policy.due(10 * S);
        assert_eq!(record(&mut policy, 2, due), (18 * S, 8 * S));
        policy.durable(3, 100 * S);
        let due = policy.due(20 * S);
        assert_eq!(record(&mut policy, 4, due), (50 * S, 30 * S));
        policy.durable(4, 1);
        assert_eq!(policy.due(22 * S), None, "it reaches far enough");
    }

    #[test]
    fn a_promise_waits_for_the_first_horizon_that_covers_it() {
        let mut policy = HorizonPolicy::begun_anew(0);
        assert_eq!(policy.cover(10 * S), None);
        let wanted = policy.wanted(10 * S);
        record(&mut policy, 7, wanted);
        assert_eq!(policy.wanted(10 * S), None);
        assert_eq!(policy.cover(10 * S), Some(7));
        let due = policy.due(11 * S + 1);
        record(&mut policy, 9, due);
        assert_eq!(policy.cover(11 * S), Some(7));
        assert_eq!(policy.cover(12 * S), Some(9), "not above, equal");
        policy.durable(8, 1);
        assert_eq!(policy.cover(11 * S), Some(0));
        assert_eq!(policy.cover(12 * S), Some(9));
        assert_eq!(policy.durable_us(), 12 * S);
    }

    #[test]
    fn after_a_restart_it_reaches_as_far_as_was_promised() {
        let mut policy = HorizonPolicy::begun_anew(40 * S);
        assert_eq!(policy.durable_us(), 0);
        let due = policy.due(20 * S);
        assert_eq!(record(&mut policy, 1, due), (40 * S, 20 * S));

        let mut policy = HorizonPolicy::carried_on(40 * S);
        assert_eq!(policy.cover(20 * S), Some(0));
        assert_eq!(policy.due(39 * S), None);
        let due = policy.due(39 * S + 1);
        assert_eq!(record(&mut policy, 1, due), (41 * S + 1, 2 * S));
    }
}
