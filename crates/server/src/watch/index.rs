//! Who is concerned by what happens to a lock. Asks one question for the lock itself and one for each length of prefix
//! that is being watched, so that watchers whom an event does not concern cost it nothing.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::concern::Concern;
use super::seat::Seat;

/// Tells watchers apart.
pub type WatcherId = u64;

type Seats = BTreeMap<WatcherId, Arc<Seat>>;

/// All watchers' seats by what they want to hear of.
#[derive(Debug, Default)]
pub struct Index {
    locks: HashMap<Box<str>, Seats>,
    prefixes: HashMap<Box<str>, Seats>,
    /// How many different prefixes have this length in bytes.
    lengths: BTreeMap<usize, usize>,
}

impl Index {
    /// Takes in a watcher.
    pub fn add(&mut self, id: WatcherId, concern: &Concern, seat: Arc<Seat>) {
        let seats = match concern {
            Concern::Lock(text) => self.locks.entry(text.clone()).or_default(),
            Concern::Prefix(prefix) => self.prefixes.entry(prefix.clone()).or_insert_with(|| {
                *self.lengths.entry(prefix.len()).or_default() += 1;
                Seats::new()
            }),
        };
        seats.insert(id, seat);
    }

    /// Lets a watcher go.
    pub fn remove(&mut self, id: WatcherId, concern: &Concern) {
        let (map, text) = match concern {
            Concern::Lock(text) => (&mut self.locks, text),
            Concern::Prefix(prefix) => (&mut self.prefixes, prefix),
        };
        let Some(seats) = map.get_mut(text) else { return };
        seats.remove(&id);
        if !seats.is_empty() {
            return;
        }
        map.remove(text);
        if let Concern::Prefix(prefix) = concern
            && let Some(count) = self.lengths.get_mut(&prefix.len())
        {
            *count -= 1;
            if *count == 0 {
                self.lengths.remove(&prefix.len());
            }
        }
    }

    /// Whether nobody watches.
    pub fn is_empty(&self) -> bool {
        self.locks.is_empty() && self.prefixes.is_empty()
    }

    /// The seats of all who want to hear of this lock, each once.
    pub fn concerned<'i>(&'i self, lock: &'i str) -> impl Iterator<Item = &'i Arc<Seat>> {
        let prefixes = self.lengths.keys().map_while(|length| (*length <= lock.len()).then_some(*length));
        let by_prefix =
            prefixes.filter_map(|length| lock.get(..length)).filter_map(|prefix| self.prefixes.get(prefix));
        self.locks.get(lock).into_iter().chain(by_prefix).flat_map(BTreeMap::values)
    }

    /// All seats.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Seat>> {
        self.locks.values().chain(self.prefixes.values()).flat_map(BTreeMap::values)
    }
}

#[cfg(test)]
mod tests {
    use super::super::seat::Standing;
    use super::*;

    #[test]
    fn finds_exactly_those_concerned() {
        let concerns = [
            Concern::Lock("a".into()),
            Concern::Lock("a".into()),
            Concern::Lock("ab".into()),
            Concern::Prefix("".into()),
            Concern::Prefix("a".into()),
            Concern::Prefix("ä".into()),
            Concern::Prefix("ab".into()),
            Concern::Prefix("zz".into()),
        ];
        let mut index = Index::default();
        let seats: Vec<_> = concerns.iter().map(|_| Arc::new(Seat::new(Standing::Live))).collect();
        for (id, concern) in concerns.iter().enumerate() {
            index.add(id as WatcherId, concern, Arc::clone(&seats[id]));
        }
        let check = |index: &Index, there: &[bool]| {
            for lock in ["a", "ab", "abc", "b", "ä", "äb", "path:/a", "zz"] {
                let found: Vec<_> = index.concerned(lock).map(Arc::as_ptr).collect();
                for (id, concern) in concerns.iter().enumerate() {
                    let times = found.iter().filter(|seat| **seat == Arc::as_ptr(&seats[id])).count();
                    assert_eq!(times, usize::from(there[id] && concern.fits(lock)), "{concern:?} {lock}");
                }
            }
        };
        let mut there = [true; 8];
        check(&index, &there);
        for (id, concern) in concerns.iter().enumerate() {
            index.remove(id as WatcherId, concern);
            there[id] = false;
            check(&index, &there);
        }
        assert!(index.locks.is_empty() && index.prefixes.is_empty() && index.lengths.is_empty());
    }
}
