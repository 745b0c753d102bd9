//! How long commits take on a disk, as far as that is the disk's doing. One that takes long among others that do not has waited for
//! a processor, or for somebody else's writing, and says nothing of the next.

/// The least that a commit took lately.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// None before the first.
    least_us: Option<u64>,
}

impl Pace {
    /// One more commit took so long. One that is quicker counts at once, one that is slower twice as much as what counted before at
    /// the most: a disk that has become slow is known for it after a few.
    pub fn took(&mut self, commit_us: u64) {
        let most_us = self.least_us.map_or(u64::MAX, |least_us| least_us.max(1).saturating_mul(2));
        self.least_us = Some(commit_us.min(most_us));
    }

    /// How long the next may be expected to take.
    pub fn us(&self) -> u64 {
        self.least_us.unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_takes_long_says_nothing_and_a_few_do() {
        let mut pace = Pace::default();
        assert_eq!(pace.us(), 0);
        let mut after = |took_us| {
            pace.took(took_us);
            pace.us()
        };
        assert_eq!(after(5_000), 5_000, "the first is all that is known");
        assert_eq!([after(100), after(8_000), after(120)], [100, 200, 120]);
        assert_eq!([1_000; 4].map(&mut after), [240, 480, 960, 1_000]);
        assert_eq!([after(0), after(9), after(u64::MAX)], [0, 2, 4], "it finds its way up from nothing");
    }
}
