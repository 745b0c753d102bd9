//! Maps whose keys are numbers that count up. Their hash is one multiplication: nobody gains by choosing such numbers badly
//! but against himself, because what he may have open is bounded.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map by a number.
pub(crate) type ByNumber<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;

/// Spreads numbers that lie close together over all bits.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        // An odd number near 2^64 divided by the golden ratio; the high bits of the product depend on all of the number's.
        let product = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_spread_over_low_and_high_bits() {
        let hash = |number: u64| {
            let mut hasher = NumberHasher::default();
            hasher.write_u64(number);
            hasher.finish()
        };
        for step in [1, 2, 64, 4096, 1 << 32] {
            let hashes: Vec<u64> = (1..=1024).map(|n| hash(n * step)).collect();
            let buckets = |of: fn(u64) -> u64| {
                let mut seen: Vec<u64> = hashes.iter().map(|hash| of(*hash)).collect();
                seen.sort_unstable();
                seen.dedup();
                seen.len()
            };
            assert!(buckets(|hash| hash & 1023) > 400, "low bits of multiples of {step}");
            assert!(buckets(|hash| hash >> 57) > 60, "high bits of multiples of {step}");
        }
    }
}
