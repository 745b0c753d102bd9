//! Chance, for jitter and for ids that nobody else has. Each client has its own, so that a test can give it a seed and see
//! the same thing twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where a client's random numbers come from. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Random {
    /// None: the system's.
    seeded: Option<Arc<AtomicU64>>,
}

impl Random {
    /// The system's randomness.
    pub fn from_system() -> Random {
        Random::default()
    }

    /// The same numbers for the same seed.
    #[cfg(any(test, feature = "testing"))]
    pub fn from_seed(seed: u64) -> Random {
        Random { seeded: Some(Arc::new(AtomicU64::new(seed))) }
    }

    /// A random number.
    pub fn number(&self) -> u64 {
        if let Some(state) = &self.seeded {
            return scatter(state.fetch_add(STRIDE, Ordering::Relaxed));
        }
        // A system without randomness would make ids that collide: better to have none.
        #[expect(clippy::expect_used, reason = "there is no lock service without randomness")]
        getrandom::u64().expect("the system gives random numbers")
    }

    /// A random number up to and including this.
    pub fn up_to(&self, most: u64) -> u64 {
        match most.checked_add(1) {
            Some(count) => self.number() % count,
            None => self.number(),
        }
    }

    /// An id that nobody else has: 128 random bits in hexadecimal digits.
    pub fn id(&self) -> String {
        format!("{:016x}{:016x}", self.number(), self.number())
    }
}

/// An odd number whose multiples visit every state once.
const STRIDE: u64 = 0x9e37_79b9_7f4a_7c15;

/// Makes neighbours look unrelated, and no two alike.
fn scatter(state: u64) -> u64 {
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_and_the_system_never_does() {
        let ids = |random: Random| [random.id(), random.clone().id(), random.id()];
        assert_eq!(ids(Random::from_seed(7)), ids(Random::from_seed(7)));
        assert_ne!(ids(Random::from_seed(7)), ids(Random::from_seed(8)));
        assert_ne!(ids(Random::from_system()), ids(Random::from_system()));
        assert!((0..1000).all(|_| Random::from_seed(1).up_to(3) <= 3));
    }
}
