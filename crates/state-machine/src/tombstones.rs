//! How ended leases and sessions ended, for those who still come with their ids. A retried release is told the truth,
//! and a mismatch is told apart from an end, as long as the stone stands.

use hashbrown::HashMap;

use crate::event::Ending;
use crate::ids::{HashKey, Payload, Secret};
use crate::keyed::Keyed;
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
    stones: HashMap<Secret, Tombstone, Keyed>,
    pub(crate) set: Remembered<Secret>,
}

impl Tombstones {
    pub(crate) fn new(key: HashKey) -> Self {
        Tombstones { stones: HashMap::with_hasher(Keyed(key)), set: Remembered::new() }
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
