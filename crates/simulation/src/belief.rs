//! The client's half of the promise: it counts from the moment it *sent* the attempt that is answered, on its own clock,
//! and stops when the answer says so; what is lost once is lost for good. Pure, and never asks the server.

/// A client's clock: runs all the time, a little fast or slow.
#[derive(Clone, Copy, Debug)]
pub struct LocalClock {
    /// What it shows at the beginning of the run.
    pub offset_us: u64,
    /// How much too fast it runs, in millionths; negative: too slow.
    pub drift_ppm: i64,
}

impl LocalClock {
    /// What it shows at a real moment.
    pub fn local_us(&self, real_us: u64) -> u64 {
        let drift = i128::from(real_us) * i128::from(self.drift_ppm) / 1_000_000;
        self.offset_us + u64::try_from(i128::from(real_us) + drift).unwrap_or(0)
    }

    /// The first real moment at which it shows this.
    pub fn real_us(&self, local_us: u64) -> u64 {
        let rate = 1_000_000 + i128::from(self.drift_ppm);
        let shown = i128::from(local_us.saturating_sub(self.offset_us));
        let about = u64::try_from(shown * 1_000_000 / rate).unwrap_or(0);
        (about.saturating_sub(2)..).find(|real_us| self.local_us(*real_us) >= local_us).unwrap_or(about)
    }
}

/// What an answer confirms.
#[derive(Clone, Copy, Debug)]
pub struct Confirmation {
    /// When the attempt that is answered was sent, on the client's clock.
    pub sent_us: u64,
    /// When the answer came, on the same clock.
    pub now_us: u64,
    /// How long after sending to stop.
    pub stop_after_us: u64,
}

/// Whether a lease may still be relied on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Belief {
    until_us: Option<u64>,
    lost: bool,
}

/// What became of a belief when it was confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirmed {
    /// It holds up to this moment of the client's clock.
    Until(u64),
    /// The answer came past its own stop time, and nothing was believed before: ask once more.
    TooLate,
    /// It was lost before, for good.
    Lost,
}

impl Belief {
    /// Takes in an answer.
    pub fn confirm(&mut self, answer: Confirmation) -> Confirmed {
        if self.until_us.is_some_and(|until_us| answer.now_us >= until_us) {
            self.lost = true;
        }
        if self.lost {
            return Confirmed::Lost;
        }
        let until_us = answer.sent_us + answer.stop_after_us;
        if until_us <= answer.now_us {
            return self.until_us.map_or(Confirmed::TooLate, Confirmed::Until);
        }
        let until_us = self.until_us.unwrap_or(0).max(until_us);
        self.until_us = Some(until_us);
        Confirmed::Until(until_us)
    }

    /// Whether anything was ever believed.
    pub fn is_begun(&self) -> bool {
        self.until_us.is_some()
    }

    /// Whether it holds at this moment of the client's clock.
    pub fn holds(&self, now_us: u64) -> bool {
        !self.lost && self.until_us.is_some_and(|until_us| now_us < until_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(sent_us: u64, now_us: u64) -> Confirmation {
        Confirmation { sent_us, now_us, stop_after_us: 50 }
    }

    #[test]
    fn counts_from_sending_and_never_back() {
        let mut belief = Belief::default();
        assert_eq!(belief.confirm(answer(100, 130)), Confirmed::Until(150));
        assert_eq!(belief.confirm(answer(90, 131)), Confirmed::Until(150));
        assert!(belief.holds(149) && !belief.holds(150));
    }

    #[test]
    fn what_is_lost_is_lost_for_good() {
        let mut belief = Belief::default();
        assert_eq!(belief.confirm(answer(100, 160)), Confirmed::TooLate);
        assert_eq!(belief.confirm(answer(160, 161)), Confirmed::Until(210));
        assert_eq!(belief.confirm(answer(205, 210)), Confirmed::Lost);
        assert!(!belief.holds(220));
    }

    #[test]
    fn clocks_run_fast_and_slow_and_back_to_real_time() {
        for drift_ppm in [-10_000, 0, 10_000] {
            let clock = LocalClock { offset_us: 77, drift_ppm };
            for real_us in [0, 1, 999_999, 123_456_789] {
                let local_us = clock.local_us(real_us);
                assert_eq!(clock.local_us(clock.real_us(local_us)), local_us);
                assert!(clock.real_us(local_us) <= real_us);
            }
        }
        let fast = LocalClock { offset_us: 0, drift_ppm: 10_000 };
        assert_eq!(fast.local_us(1_000_000), 1_010_000);
    }
}
