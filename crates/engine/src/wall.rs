//! Which wall readings may enter tokens. No wall clock decides who holds a lock; a wrong one could only use up the
//! numbers, and is kept out. Pure; reads no clock.

use leasehold_state_machine::codec::BootId;
use leasehold_state_machine::token::{self, Doubt};

use crate::clock::Reading;

/// The reading from which later ones are predicted: the one that lets expect most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// The boot in which it was read.
    pub boot_id: BootId,
    /// Both clocks.
    pub reading: Reading,
}

impl Anchor {
    /// What the wall clock should read at this raw time, at the least.
    pub fn predict_ms(&self, boot_id: BootId, raw_us: u64) -> u64 {
        // In another boot the time between is not known; but this boot has lasted for `raw_us`.
        let elapsed_us =
            if boot_id == self.boot_id { raw_us.saturating_sub(self.reading.raw_us) } else { raw_us };
        self.reading.wall_ms.saturating_add(elapsed_us / 1000)
    }

    /// The anchor after one more trusted reading. A clock that was set back does not take the prediction with it: when
    /// it is set right again, that is no leap.
    pub fn after(old: Option<Anchor>, boot_id: BootId, reading: Reading) -> Anchor {
        match old {
            Some(anchor) if anchor.predict_ms(boot_id, reading.raw_us) > reading.wall_ms => anchor,
            _ => Anchor { boot_id, reading },
        }
    }
}

/// Judges wall readings.
#[derive(Debug)]
pub struct Wall {
    boot_id: BootId,
    anchor: Option<Anchor>,
    /// The operator vouches for the clock.
    accept: bool,
    doubted: bool,
}

/// What became of a wall reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether it may enter tokens.
    pub trusted: bool,
    /// Why not; only when the reading before it was still trusted.
    pub news: Option<Doubt>,
}

impl Wall {
    /// Judges from now on, in this boot, by what the journal knows.
    pub fn new(boot_id: BootId, anchor: Option<Anchor>, accept: bool) -> Wall {
        Wall { boot_id, anchor, accept, doubted: false }
    }

    /// An old copy of the journal knows nothing of the time since it was made: what is predicted begins with this reading,
    /// however far ahead it is. Else tokens would go on from the copy's last one, and be given a second time.
    pub fn begin_anew(&mut self, reading: Reading) {
        if token::doubt(reading.wall_ms, None).is_none() {
            self.anchor = Some(Anchor::after(self.anchor, self.boot_id, reading));
        }
    }

    /// Judges one reading.
    pub fn judge(&mut self, reading: Reading) -> Verdict {
        let predicted = self.anchor.map(|anchor| anchor.predict_ms(self.boot_id, reading.raw_us));
        let doubt = match token::doubt(reading.wall_ms, predicted) {
            // Nobody's word makes room below 2^53.
            Some(Doubt::TooLate) => Some(Doubt::TooLate),
            Some(_) if self.accept => None,
            doubt => doubt,
        };
        let news = doubt.filter(|_| !self.doubted);
        self.doubted = doubt.is_some();
        if doubt.is_none() {
            self.anchor = Some(Anchor::after(self.anchor, self.boot_id, reading));
        }
        Verdict { trusted: doubt.is_none(), news }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: u64 = 3_600_000;
    const NOW_MS: u64 = 1_790_000_000_000;
    const BOOT: BootId = [1; 16];

    fn at(hours: u64, wall_ms: u64) -> Reading {
        Reading { raw_us: hours * HOUR_MS * 1000, wall_ms }
    }

    #[test]
    fn a_leap_is_reported_once_and_never_used() {
        let mut wall = Wall::new(BOOT, None, false);
        assert_eq!(wall.judge(at(0, NOW_MS)), Verdict { trusted: true, news: None });
        let ahead = NOW_MS + 26 * HOUR_MS;
        let doubt = Doubt::Ahead { by_ms: 25 * HOUR_MS };
        assert_eq!(wall.judge(at(1, ahead)), Verdict { trusted: false, news: Some(doubt) });
        assert_eq!(wall.judge(at(1, ahead)), Verdict { trusted: false, news: None });
        assert_eq!(wall.judge(at(2, NOW_MS + 2 * HOUR_MS)), Verdict { trusted: true, news: None });
        assert!(wall.judge(at(2, ahead + 2 * HOUR_MS)).news.is_some(), "a new doubt is news again");
    }

    #[test]
    fn elapsed_time_is_no_leap() {
        let mut wall = Wall::new(BOOT, None, false);
        wall.judge(at(0, NOW_MS));
        assert!(wall.judge(at(1000, NOW_MS + 1000 * HOUR_MS)).trusted);
    }

    #[test]
    fn another_boot_has_lasted_at_least_its_uptime() {
        let anchor = Anchor { boot_id: [9; 16], reading: at(5000, NOW_MS) };
        let mut wall = Wall::new(BOOT, Some(anchor), false);
        assert!(wall.judge(at(40, NOW_MS + 60 * HOUR_MS)).trusted);
        let mut wall = Wall::new(BOOT, Some(anchor), false);
        assert!(!wall.judge(at(1, NOW_MS + 60 * HOUR_MS)).trusted);
    }

    #[test]
    fn a_clock_set_back_and_right_again_stays_trusted() {
        let mut wall = Wall::new(BOOT, None, false);
        wall.judge(at(0, NOW_MS));
        assert!(wall.judge(at(1, NOW_MS - 100 * HOUR_MS)).trusted);
        assert!(wall.judge(at(2, NOW_MS + 2 * HOUR_MS)).trusted);
    }

    #[test]
    fn the_operators_word_outweighs_all_but_the_end_of_the_numbers() {
        let mut wall = Wall::new(BOOT, Some(Anchor { boot_id: BOOT, reading: at(0, NOW_MS) }), true);
        assert!(wall.judge(at(0, NOW_MS + 1000 * HOUR_MS)).trusted);
        assert!(wall.judge(at(0, 0)).trusted);
        assert!(!wall.judge(at(0, u64::MAX)).trusted);
    }
}
