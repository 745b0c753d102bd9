//! How ended leases and sessions ended, for those who still come with their ids. A retried release is told the truth,
//! and a mismatch is told apart from an end, as long as the stone stands.
//!
//! A journal that is only added up to be written out again looks for no stone. So stones are found by a table that is
//! built when somebody is first served; until then they stand in a row, and nothing else is kept of them.

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
    /// The newest stone of each secret: the low half of its number. Not journaled, and not there before it is needed.
    by_secret: Option<HashTable<u32>>,
}

impl Tombstones {
    pub(crate) fn new() -> Self {
        Tombstones { set: Remembered::new(), by_secret: None }
    }

    /// From now on stones are looked for.
    pub(crate) fn index(&mut self) {
        if self.by_secret.is_none() {
            let mut table = HashTable::with_capacity(self.set.len());
            for (number, stone) in (self.set.first()..).zip(self.set.iter()) {
                enter(&mut table, &self.set, number, &stone.secret);
            }
            self.by_secret = Some(table);
        }
    }

    pub(crate) fn set(&mut self, stone: Tombstone, now_us: u64) {
        let number = self.set.end();
        self.set.push(stone, now_us);
        if let Some(table) = &mut self.by_secret {
            enter(table, &self.set, number, &stone.secret);
        }
    }

    pub(crate) fn get(&self, secret: &Secret) -> Option<Tombstone> {
        assert!(self.by_secret.is_some(), "stones are looked for only where somebody is served");
        let table = self.by_secret.as_ref()?;
        let low = table.find(hash(secret), |low| stone(&self.set, *low).secret == *secret)?;
        Some(*stone(&self.set, *low))
    }

    pub(crate) fn forget_before(&mut self, number: u64) {
        loop {
            let low = self.set.first() as u32;
            let Some(stone) = self.set.pop_before(number) else { return };
            // A newer stone of the same secret stays.
            if let Some(table) = &mut self.by_secret
                && let Ok(entry) = table.find_entry(hash(&stone.secret), |at| *at == low)
            {
                entry.remove();
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.set.len()
    }
}

fn enter(table: &mut HashTable<u32>, set: &Remembered<Tombstone>, number: u64, secret: &Secret) {
    let same = |low: &u32| stone(set, *low).secret == *secret;
    match table.entry(hash(secret), same, |low| hash(&stone(set, *low).secret)) {
        Entry::Occupied(mut entry) => *entry.get_mut() = number as u32,
        Entry::Vacant(place) => {
            place.insert(number as u32);
        }
    }
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
