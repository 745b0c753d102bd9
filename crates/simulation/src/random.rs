//! The one source of chance in a run: splitmix64 from the seed. Never asks the system for anything.

/// The streams of one seed. What was added to the simulation later draws from a stream of its own, so that what was there
/// before is drawn as it was.
#[derive(Clone, Debug)]
pub struct Sources {
    /// For most things.
    pub random: Random,
    /// For all that has to do with files.
    pub files: Random,
    /// For partitions, suspends, limits, streams, the register and the quiet.
    pub more: Random,
}

impl Sources {
    /// The streams of this seed.
    pub fn new(seed: u64) -> Sources {
        Sources {
            random: Random::new(seed),
            files: Random::new(!seed),
            more: Random::new(seed.rotate_left(32) ^ 0x6d6f_7265),
        }
    }
}

/// A stream of numbers that follows from its seed alone.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of this seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`; 0 when that is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.number() % end }
    }

    /// A number from `low` up to, not including, `high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low))
    }

    /// A number from `low` to about `high`, where each power of two between them is as likely as the next.
    pub fn between_as_powers(&mut self, low: u64, high: u64) -> u64 {
        let (from, to) = (low.max(1).ilog2(), high.max(1).ilog2());
        let power = self.between(u64::from(from), u64::from(to) + 1);
        let base = 1 << power;
        self.between(base, 2 * base).clamp(low, high)
    }

    /// True so many times in a thousand.
    pub fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let at = usize::try_from(self.below(from.len() as u64)).unwrap_or(0);
        &from[at]
    }

    /// Sixteen bytes.
    pub fn bytes(&mut self) -> [u8; 16] {
        (u128::from(self.number()) << 64 | u128::from(self.number())).to_be_bytes()
    }
}
