//! A client's clock: it counts what a boot-time clock counts, a little fast or slow. Nobody in a run sees real time itself.

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

#[cfg(test)]
mod tests {
    use super::*;

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
