//! How ended leases and sessions ended, for those who still come with their ids. A retried release is told the truth,
//! and a mismatch is told apart from an end, as long as the stone stands.

use core::hash::{BuildHasherDefault, Hasher};

use hashbrown::HashMap;

use crate::event::Ending;
use crate::ids::{Payload, Secret};
use crate::remembered::Remembered;

/// One ended lease or session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tombstone {
    /// A fingerprint of lock, owner and token, which a caller must still get right.
    pub(crate) check: Payload,
    pub(crate) how: Ending,
}

/// The stones by the secret of what lies under them.
#[derive(Debug)]
pub(crate) struct Tombstones {
    stones: HashMap<Secret, Tombstone, BuildHasherDefault<SecretHasher>>,
    pub(crate) set: Remembered<Secret>,
}

impl Tombstones {
    pub(crate) fn new() -> Self {
        Tombstones { stones: HashMap::default(), set: Remembered::new() }
    }

    pub(crate) fn set(&mut self, secret: Secret, stone: Tombstone, now_us: u64) {
        if self.stones.insert(secret, stone).is_none() {
            self.set.push(secret, now_us);
        }
    }

    pub(crate) fn get(&self, secret: &Secret) -> Option<Tombstone> {
        self.stones.get(secret).copied()
    }

    pub(crate) fn forget_before(&mut self, number: u64) {
        while let Some(secret) = self.set.pop_before(number) {
            self.stones.remove(&secret);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.stones.len()
    }
}

/// Secrets are drawn at random by the server, and only those are kept: nobody outside can choose them to be alike.
#[derive(Default)]
struct SecretHasher(u64);

impl Hasher for SecretHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, half: u64) {
        // Spreads the bits of a secret that is not random, as in tests.
        self.0 = (self.0.rotate_left(32) ^ half).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
