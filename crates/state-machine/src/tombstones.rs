//! How ended leases and sessions ended, for those who still come with their ids. A retried release is told the truth,
//! and a mismatch is told apart from an end, as long as the stone stands.
//!
//! A journal that is only added up to be written out again looks for no stone. So stones are found by tables that are
//! built when somebody is first served; until then they stand in a row, and nothing else is kept of them. The tables are far
//! larger than a processor's cache, and hardly anybody looks for a stone. So the newest stay out of them, and go in many
//! at a time: then the processor fetches the places of several at once, where one alone would wait for its own.

use alloc::vec::Vec;
use core::ops::Range;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

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
    /// Not journaled, and not there before it is needed.
    by_secret: Option<Tables>,
}

/// The newest stone of each secret: the low half of its number. Many tables, so that one which grows holds nobody up.
#[derive(Debug)]
struct Tables {
    tables: Vec<HashTable<u32>>,
    /// Stones from this number on are in none.
    entered: u64,
}

/// As many stones stay out of the tables at most.
const OUTSIDE_MAX: usize = 128;
/// The tables are two to the power of this.
const TABLES_BITS: u32 = 6;

impl Tombstones {
    pub(crate) fn new() -> Self {
        Tombstones { set: Remembered::new(), by_secret: None }
    }

    /// From now on stones are looked for.
    pub(crate) fn index(&mut self) {
        if self.by_secret.is_none() {
            let room = self.set.len() >> TABLES_BITS;
            let tables = (0..1 << TABLES_BITS).map(|_| HashTable::with_capacity(room)).collect();
            let mut tables = Tables { tables, entered: self.set.first() };
            tables.enter_all(&self.set);
            self.by_secret = Some(tables);
        }
    }

    pub(crate) fn set(&mut self, stone: Tombstone, now_us: u64) {
        self.set.push(stone, now_us);
        if let Some(tables) = &mut self.by_secret
            && tables.outside(&self.set).count() > OUTSIDE_MAX
        {
            tables.enter_all(&self.set);
        }
    }

    pub(crate) fn get(&self, secret: &Secret) -> Option<Tombstone> {
        assert!(self.by_secret.is_some(), "stones are looked for only where somebody is served");
        let tables = self.by_secret.as_ref()?;
        let mut outside = tables.outside(&self.set).rev().filter_map(|number| self.set.get(number));
        let newest = outside.find(|stone| stone.secret == *secret);
        newest.or_else(|| tables.find(&self.set, secret)).copied()
    }

    pub(crate) fn forget_before(&mut self, number: u64) {
        loop {
            let first = self.set.first();
            let Some(stone) = self.set.pop_before(number) else { return };
            if let Some(tables) = &mut self.by_secret {
                tables.forget(first, &stone.secret);
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.set.len()
    }
}

impl Tables {
    /// The numbers of the stones that are in no table.
    fn outside(&self, set: &Remembered<Tombstone>) -> Range<u64> {
        self.entered.max(set.first())..set.end()
    }

    /// Takes in all stones that are outside.
    fn enter_all(&mut self, set: &Remembered<Tombstone>) {
        for number in self.outside(set) {
            let secret = &stone(set, number as u32).secret;
            let hash = hash(secret);
            let same = |low: &u32| stone(set, *low).secret == *secret;
            let rehash = |low: &u32| self::hash(&stone(set, *low).secret);
            match self.tables[place(hash)].entry(hash, same, rehash) {
                Entry::Occupied(mut entry) => *entry.get_mut() = number as u32,
                Entry::Vacant(place) => {
                    place.insert(number as u32);
                }
            }
        }
        self.entered = set.end();
    }

    fn find<'a>(&self, set: &'a Remembered<Tombstone>, secret: &Secret) -> Option<&'a Tombstone> {
        let hash = hash(secret);
        let low = self.tables[place(hash)].find(hash, |low| stone(set, *low).secret == *secret)?;
        Some(stone(set, *low))
    }

    /// The stone with this number is gone. A newer one of the same secret stays.
    fn forget(&mut self, number: u64, secret: &Secret) {
        let hash = hash(secret);
        if let Ok(entry) = self.tables[place(hash)].find_entry(hash, |low| *low == number as u32) {
            entry.remove();
        }
    }
}

/// Which table a hash belongs to: by bits that the tables themselves do not go by.
fn place(hash: u64) -> usize {
    (hash >> (57 - TABLES_BITS)) as usize & ((1 << TABLES_BITS) - 1)
}

/// The stone whose number has this low half: there are never so many that two have the same.
fn stone(set: &Remembered<Tombstone>, low: u32) -> &Tombstone {
    let beyond_first = low.wrapping_sub(set.first() as u32);
    let stone = set.get(set.first() + u64::from(beyond_first));
    assert!(stone.is_some(), "what the table names still stands");
    stone.unwrap_or_else(|| unreachable!("asserted above"))
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
    fn a_table_that_comes_late_tells_the_same() {
        // Numbers whose low half runs over on the way.
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
}
