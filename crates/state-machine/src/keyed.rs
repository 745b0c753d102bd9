//! The hasher of every hash map here: keyed, so that nobody outside can make a map slow, and the key is an argument, so
//! that nothing is drawn at random.

use core::hash::BuildHasher;

use siphasher::sip::SipHasher13;

use crate::ids::HashKey;

/// Builds hashers under one key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keyed(pub(crate) HashKey);

impl BuildHasher for Keyed {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.0.0[0], self.0.0[1])
    }
}
