//! How ended leases and sessions ended, for those who still come with their ids. A retried release is told the truth,
//! and a mismatch is told apart from an end, as long as the stone stands.
//!
//! A journal that is only added up to be written out again looks for no stone. So stones are found by an index that is
//! built when somebody is first served; until then they stand in a row, and nothing else is kept of them. Stones are set by the
//! hundred thousand a second and hardly ever looked for: entering one must not wait for memory, and forgetting one must cost
//! nothing. So the index is in blocks, each of which has the stones of some numbers in a row, stays in a processor's cache while it
//! is filled, and goes as a whole when all of them are forgotten. The newest stones stand outside until there are enough of them to go in
//! together, so that none waits by itself for its place in a block. Whoever looks for a stone looks among those and into all blocks.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use crate::event::Ending;
use crate::ids::{Payload, Secret};
use crate::remembered::Remembered;

/// One ended lease or session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tombstone {
    /// Of what lies under it.
    pub(crate) secret: Secret,
    /// A fingerprint of lock, owner and token, which a caller must still get right.
    pub(crate) check: Payload,
    pub(crate) how: Ending,
}

/// The stones in the order in which they were set.
#[derive(Debug)]
pub(crate) struct Tombstones {
    pub(crate) set: Remembered<Tombstone>,
    /// Not journaled, and not there before it is needed. The newest block is the last; what was set after its stones is in none.
    index: Option<VecDeque<Block>>,
}

/// Finds the stones of some numbers in a row by their secrets.
#[derive(Debug)]
struct Block {
    /// The number of its first stone.
    first: u64,
    /// How many stones are in it.
    len: usize,
    /// Twice as many places as it takes stones, a power of two. A stone has the first free place from that of its hash on: how
    /// far it is from the first stone, and above that some other bits of its hash.
    places: Vec<u32>,
}

/// So many stones go into a block together: a processor fetches the places of several at once.
const TOGETHER: u64 = 64;
/// A block takes as many stones as there were when it was begun, within these bounds: one that is small is enough where little
/// ends, and one that is large makes for few of them.
const BLOCK_MIN: usize = 1 << 10;
const BLOCK_MAX: usize = 1 << DISTANCE_BITS;
/// Bits for how far a stone is from the first of its block.
const DISTANCE_BITS: u32 = 16;
/// Bits of a hash that are kept beside that.
const SIGN_BITS: u32 = 15;
/// No place of a stone: those leave one bit unused.
const FREE: u32 = u32::MAX;

impl Tombstones {
    pub(crate) fn new() -> Self {
        Tombstones { set: Remembered::new(), index: None }
    }

    /// From now on stones are looked for.
    pub(crate) fn index(&mut self) {
        if self.index.is_none() {
            self.index = Some(VecDeque::new());
            self.enter_outside();
        }
    }

    pub(crate) fn set(&mut self, stone: Tombstone, now_us: u64) {
        self.set.push(stone, now_us);
        if self.index.is_some() && self.set.end() - self.outside() >= TOGETHER {
            self.enter_outside();
        }
    }

    /// The number of the first stone that is in no block.
    fn outside(&self) -> u64 {
        self.index.iter().flatten().next_back().map_or(self.set.first(), Block::end)
    }

    fn enter_outside(&mut self) {
        let outside = self.outside()..self.set.end();
        let Some(blocks) = &mut self.index else { return };
        for (number, stone) in outside.filter_map(|number| Some((number, self.set.get(number)?))) {
            enter(blocks, number, &stone.secret, self.set.len());
        }
    }

    /// The newest stone of a secret.
    pub(crate) fn get(&self, secret: &Secret) -> Option<Tombstone> {
        assert!(self.index.is_some(), "stones are looked for only where somebody is served");
        let mut outside = (self.outside()..self.set.end()).rev().filter_map(|number| self.set.get(number));
        let mut blocks = self.index.iter().flatten().rev();
        let newest = outside.find(|stone| stone.secret == *secret);
        newest.or_else(|| blocks.find_map(|block| block.find(secret, &self.set))).copied()
    }

    pub(crate) fn forget_before(&mut self, number: u64) {
        while self.set.pop_before(number).is_some() {}
        let first = self.set.first();
        while let Some(blocks) = &mut self.index
            && blocks.pop_front_if(|block| block.end() <= first).is_some()
        {}
    }

    pub(crate) fn len(&self) -> usize {
        self.set.len()
    }
}

/// Takes a stone in, the newest of so many.
fn enter(blocks: &mut VecDeque<Block>, number: u64, secret: &Secret, stones: usize) {
    let full = blocks.back().is_none_or(|last| last.len == last.places.len() / 2);
    if full {
        let takes = stones.next_power_of_two().clamp(BLOCK_MIN, BLOCK_MAX);
        blocks.push_back(Block { first: number, len: 0, places: vec![FREE; 2 * takes] });
    }
    if let Some(last) = blocks.back_mut() {
        last.enter(number, secret);
    }
}

impl Block {
    /// The number after its last stone.
    fn end(&self) -> u64 {
        self.first + self.len as u64
    }

    fn enter(&mut self, number: u64, secret: &Secret) {
        assert!(number == self.end(), "stones are entered one after the other");
        let hash = hash(secret);
        let mut at = self.first_place(hash);
        // Half of the places stay free.
        while self.places[at] != FREE {
            at = self.next_place(at);
        }
        self.places[at] = sign(hash) << DISTANCE_BITS | self.len as u32;
        self.len += 1;
    }

    /// The newest stone of a secret that is in here, unless it is forgotten.
    fn find<'a>(&self, secret: &Secret, set: &'a Remembered<Tombstone>) -> Option<&'a Tombstone> {
        let hash = hash(secret);
        let mut at = self.first_place(hash);
        let mut found = None;
        while self.places[at] != FREE {
            let place = self.places[at];
            if place >> DISTANCE_BITS == sign(hash) {
                let number = self.first + u64::from(place & ((1 << DISTANCE_BITS) - 1));
                let stone = set.get(number).filter(|stone| stone.secret == *secret);
                // What was set later has a later place.
                found = stone.or(found);
            }
            at = self.next_place(at);
        }
        found
    }

    fn first_place(&self, hash: u64) -> usize {
        (hash >> 32) as usize & (self.places.len() - 1)
    }

    fn next_place(&self, at: usize) -> usize {
        (at + 1) & (self.places.len() - 1)
    }
}

/// Bits of a hash that do not say which place is its first.
fn sign(hash: u64) -> u32 {
    hash as u32 >> (u32::BITS - SIGN_BITS)
}

/// Secrets are drawn at random by the server, and only those are kept: nobody outside can choose them to be alike.
fn hash(secret: &Secret) -> u64 {
    // Spreads the bits of a secret that is not random, as in tests.
    secret
        .0
        .iter()
        .fold(0, |hash: u64, half| (hash.rotate_left(32) ^ half).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stone(secret: u64, check: u64) -> Tombstone {
        Tombstone { secret: Secret([secret, 0]), check: Payload(check), how: Ending::Released }
    }

    fn check(stones: &Tombstones, secret: u64) -> Option<u64> {
        stones.get(&Secret([secret, 0])).map(|stone| stone.check.0)
    }

    #[test]
    fn an_index_that_comes_late_tells_the_same() {
        let first = u64::from(u32::MAX) - 500;
        let (mut early, mut late) = (Tombstones::new(), Tombstones::new());
        early.index();
        for stones in [&mut early, &mut late] {
            stones.set.start_at(first);
            (0..2000).for_each(|n| stones.set(stone(n % 1500, n), n));
            stones.forget_before(first + 700);
            stones.index();
            assert_eq!(stones.len(), 1300);
            for n in 0..1500 {
                let expected = if n < 500 { Some(1500 + n) } else { Some(n).filter(|n| *n >= 700) };
                assert_eq!(check(stones, n), expected, "{n}");
            }
            stones.set(stone(9000, 1), 2000);
            assert_eq!((check(stones, 9000), check(stones, 9001)), (Some(1), None));
            stones.forget_before(u64::MAX);
            assert_eq!((stones.len(), check(stones, 9000), check(stones, 3)), (0, None, None));
        }
    }

    #[test]
    fn every_stone_that_stands_is_found_through_all_blocks() {
        let mut stones = Tombstones::new();
        stones.index();
        let end = 5 * BLOCK_MAX as u64;
        for n in 0..end {
            stones.set(stone(n, n), n);
            // Grows at first, and then as many go as come.
            if n % 1000 == 0 {
                stones.forget_before(n.saturating_sub(2 * BLOCK_MAX as u64));
            }
            for seen in [n, n - n.min(7), n / 2] {
                assert_eq!(check(&stones, seen), Some(seen).filter(|seen| *seen >= stones.set.first()));
            }
        }
        let blocks = stones.index.iter().flatten();
        assert!(blocks.clone().count() <= 4, "those whose stones are all forgotten are gone");
        assert!(blocks.clone().skip(1).all(|block| block.places.len() == 2 * BLOCK_MAX));
        assert!((stones.set.first()..end).all(|n| check(&stones, n) == Some(n)));
        assert_eq!((check(&stones, stones.set.first() - 1), check(&stones, end)), (None, None));
    }

    #[test]
    fn stones_outside_are_found_and_forgotten_and_go_in_together() {
        let mut stones = Tombstones::new();
        stones.index();
        let blocks = |stones: &Tombstones| stones.index.iter().flatten().count();
        (0..TOGETHER - 1).for_each(|n| stones.set(stone(n, n), n));
        assert_eq!((blocks(&stones), stones.outside()), (0, 0));
        assert!((0..TOGETHER - 1).all(|n| check(&stones, n) == Some(n)));
        // A newer stone of the same secret, the one outside and the other in a block.
        stones.set(stone(3, 100), 0);
        stones.set(stone(4, 101), 0);
        assert_eq!((blocks(&stones), stones.outside()), (1, TOGETHER));
        assert_eq!([3, 4, 5].map(|secret| check(&stones, secret)), [Some(100), Some(101), Some(5)]);
        // The block goes, and some of what was never in one.
        stones.set(stone(5, 102), 0);
        stones.forget_before(TOGETHER + 1);
        assert_eq!((blocks(&stones), stones.outside()), (0, TOGETHER + 1));
        assert_eq!([3, 4, 5].map(|secret| check(&stones, secret)), [None, None, Some(102)]);
        (0..TOGETHER).for_each(|n| stones.set(stone(n, n), n));
        assert!((0..TOGETHER).all(|n| check(&stones, n) == Some(n)));
        assert_eq!((blocks(&stones), stones.outside()), (1, 2 * TOGETHER + 1));
    }
}
