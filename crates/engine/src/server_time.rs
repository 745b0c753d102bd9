//! The server's `now`: the boot clock, standing still while renewals could not be answered, so that the server ends no
//! lease because *it* was stopped, suspended or stuck on its disk. Pure; reads no clock.
//!
//! Between two readings time passes up to whichever comes first of the two limits, and not during a rest:
//!
//! ```text
//! last reading        + 200 ms: a longer gap between turns is no turn at all
//! the durable horizon (or 200 ms after the first session, whose horizon is on its way)
//! ```
//!
//! With no session alive there is nobody to be wronged, and time just passes.

use leasehold_planted::{Bug, planted};

use crate::limits::{REST_EVERY_US, REST_US, TURN_GAP_US_MAX};

/// Turns readings of the boot clock into the server's time.
#[derive(Debug)]
pub struct ServerTime {
    /// The newest reading.
    raw_us: u64,
    /// The server's time then.
    now_us: u64,
    /// Since which raw time sessions have been alive, if any is.
    live_since_us: Option<u64>,
    /// The durable horizon as it was known at the newest reading.
    horizon_us: u64,
    /// The length so far of a stall that is going on or has just ended.
    stall_us: u64,
    /// Until which raw time the server rests after a stall.
    rest_until_us: u64,
    /// When the next rest may begin.
    next_rest_us: u64,
    left_out_us: u64,
}

impl ServerTime {
    /// Begins with the server's time equal to the boot clock.
    pub fn starting_at(raw_us: u64) -> ServerTime {
        ServerTime {
            raw_us,
            now_us: raw_us,
            live_since_us: None,
            horizon_us: 0,
            stall_us: 0,
            rest_until_us: 0,
            next_rest_us: 0,
            left_out_us: 0,
        }
    }

    /// Takes a reading at the beginning of a turn and gives the server's time.
    pub fn advance(&mut self, raw_us: u64) -> u64 {
        // A boot clock that went back would be a broken one; then nothing has passed.
        let raw_us = raw_us.max(self.raw_us);
        let last_us = self.raw_us;
        let mut passed_us = raw_us - last_us;
        if let Some(limit_us) = self.standstill_us() {
            let stop_us = raw_us.min(last_us + TURN_GAP_US_MAX).min(limit_us.max(last_us));
            let start_us = last_us.max(self.rest_until_us);
            self.stall_us += raw_us - stop_us;
            let counted_us = stop_us.saturating_sub(start_us);
            self.left_out_us += passed_us - counted_us;
            passed_us = counted_us;
        }
        self.raw_us = raw_us;
        self.now_us += passed_us;
        assert!(self.now_us <= self.raw_us, "the server's time never runs ahead of the boot clock");
        self.now_us
    }

    /// Learns at the end of a turn whether sessions are alive and how far the durable horizon reaches. Gives the length
    /// of a stall that is over with this turn.
    pub fn settle(&mut self, live: bool, horizon_us: u64) -> Option<u64> {
        self.live_since_us = if live { self.live_since_us.or(Some(self.raw_us)) } else { None };
        self.horizon_us = horizon_us;
        if self.stall_us == 0 || self.is_standing() {
            return None;
        }
        if self.raw_us >= self.next_rest_us {
            self.rest_until_us = self.raw_us + REST_US;
            self.next_rest_us = self.raw_us + REST_EVERY_US;
        }
        Some(std::mem::take(&mut self.stall_us))
    }

    /// Whether time is standing still for want of a horizon.
    pub fn is_standing(&self) -> bool {
        self.standstill_us().is_some_and(|limit_us| self.raw_us >= limit_us)
    }

    /// The raw time at which the server's time will be `due_us` if nothing stalls; none while it stands still.
    pub fn raw_at(&self, due_us: u64) -> Option<u64> {
        if self.is_standing() {
            return None;
        }
        let ahead_us = due_us.saturating_sub(self.now_us);
        let rest = self.live_since_us.is_some() && ahead_us > 0;
        let from_us = if rest { self.raw_us.max(self.rest_until_us) } else { self.raw_us };
        Some(from_us.saturating_add(ahead_us))
    }

    /// The newest reading.
    pub fn raw_us(&self) -> u64 {
        self.raw_us
    }

    /// All the time that was left out so far.
    pub fn left_out_us(&self) -> u64 {
        self.left_out_us
    }

    /// Past which raw time the server stands still; none while no session is alive.
    fn standstill_us(&self) -> Option<u64> {
        let live_since_us = self.live_since_us.filter(|_| !planted(Bug::StopsCounted));
        live_since_us.map(|since_us| self.horizon_us.max(since_us + TURN_GAP_US_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1000;
    const FAR: u64 = u64::MAX / 2;

    /// A server with sessions and a horizon that never ends.
    fn live() -> ServerTime {
        let mut time = ServerTime::starting_at(0);
        time.settle(true, FAR);
        time
    }

    /// Turns every 50 ms up to `raw_us`; gives the server's time then.
    fn run(time: &mut ServerTime, live: bool, horizon_us: u64, to_us: u64) -> u64 {
        let mut now_us = time.now_us;
        while time.raw_us() < to_us {
            now_us = time.advance((time.raw_us() + 50 * MS).min(to_us));
            time.settle(live, horizon_us);
        }
        now_us
    }

    #[test]
    fn follows_the_boot_clock_and_never_goes_back() {
        let mut time = live();
        assert_eq!(time.advance(100 * MS), 100 * MS);
        assert_eq!(time.advance(90 * MS), 100 * MS);
        assert_eq!(time.advance(150 * MS), 150 * MS);
        assert_eq!(time.left_out_us(), 0);
    }

    #[test]
    fn leaves_out_what_a_gap_has_beyond_200_ms_and_rests_250_ms_more() {
        let mut time = live();
        assert_eq!(time.advance(10_000 * MS), 200 * MS);
        assert_eq!(time.settle(true, FAR), Some(9_800 * MS));
        assert_eq!(time.advance(10_100 * MS), 200 * MS);
        assert_eq!(time.advance(10_250 * MS), 200 * MS);
        assert_eq!(time.advance(10_300 * MS), 250 * MS);
        assert_eq!(time.left_out_us(), 10_050 * MS);
    }

    #[test]
    fn rests_at_most_once_in_2_s() {
        let mut time = live();
        time.advance(1_000 * MS);
        time.settle(true, FAR);
        assert_eq!(run(&mut time, true, FAR, 1_250 * MS), 200 * MS);
        assert_eq!(time.advance(1_750 * MS), 400 * MS, "a second stall");
        assert_eq!(time.settle(true, FAR), Some(300 * MS));
        assert_eq!(time.advance(1_800 * MS), 450 * MS, "is left out, without a rest");
        assert_eq!(run(&mut time, true, FAR, 3_000 * MS), 1_650 * MS);
        time.advance(4_000 * MS);
        time.settle(true, FAR);
        assert_eq!(time.advance(4_250 * MS), 1_850 * MS, "a rest again");
    }

    #[test]
    fn with_no_session_time_just_passes() {
        let mut time = ServerTime::starting_at(5);
        assert_eq!(time.advance(3_600_000 * MS), 3_600_000 * MS);
        time.settle(false, 0);
        assert_eq!(time.advance(7_200_000 * MS), 7_200_000 * MS);
        assert_eq!(time.left_out_us(), 0);
    }

    #[test]
    fn the_first_grant_of_an_idle_server_is_no_stall() {
        let mut time = ServerTime::starting_at(0);
        time.advance(60_000 * MS);
        time.settle(true, 0);
        assert_eq!(
            time.advance(60_001 * MS),
            60_001 * MS,
            "its horizon took a millisecond to become durable"
        );
        time.settle(true, 62_000 * MS);
        assert_eq!(run(&mut time, true, 62_000 * MS, 61_900 * MS), 61_900 * MS);
        assert_eq!(time.left_out_us(), 0);
    }

    #[test]
    fn stands_still_past_the_durable_horizon_until_there_is_another() {
        let mut time = ServerTime::starting_at(0);
        time.settle(true, 2_000 * MS);
        assert_eq!(run(&mut time, true, 2_000 * MS, 5_000 * MS), 2_000 * MS);
        assert!(time.is_standing());
        assert_eq!(time.raw_at(2_001 * MS), None);
        assert_eq!(time.settle(true, 7_000 * MS), Some(3_000 * MS));
        assert_eq!(run(&mut time, true, 7_000 * MS, 5_250 * MS), 2_000 * MS, "the rest");
        assert_eq!(run(&mut time, true, 7_000 * MS, 6_000 * MS), 2_750 * MS);
    }

    #[test]
    fn a_first_commit_that_hangs_is_a_stall_after_200_ms() {
        let mut time = ServerTime::starting_at(0);
        time.settle(true, 0);
        assert_eq!(run(&mut time, true, 0, 3_000 * MS), 200 * MS);
    }

    #[test]
    fn a_slow_commit_within_the_horizon_stops_nothing() {
        let mut time = live();
        time.settle(true, 2_000 * MS);
        assert_eq!(run(&mut time, true, 2_000 * MS, 1_900 * MS), 1_900 * MS);
        assert_eq!(time.left_out_us(), 0);
    }

    #[test]
    fn the_end_of_the_last_session_ends_the_standstill() {
        let mut time = ServerTime::starting_at(0);
        time.settle(true, 1_000 * MS);
        run(&mut time, true, 1_000 * MS, 4_000 * MS);
        time.settle(false, 1_000 * MS);
        assert_eq!(time.advance(5_000 * MS), 2_000 * MS);
    }

    #[test]
    fn foretells_when_something_is_due() {
        let mut time = live();
        time.advance(1_000 * MS);
        time.settle(true, FAR);
        assert_eq!(time.raw_at(300 * MS), Some(1_350 * MS), "after the rest");
        assert_eq!(time.raw_at(200 * MS), Some(1_000 * MS));
    }
}
