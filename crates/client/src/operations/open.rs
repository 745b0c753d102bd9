//! What is open, by number. Numbers count up and most are soon over, so those of late lie in a row, in which each is found at
//! once; what stays open for long moves to a map, so that no row grows much longer than what is in it.

use std::collections::{BTreeMap, VecDeque};

/// A row of so many places is never too long.
const ROW_MIN: usize = 64;

/// What is open, in the order of its numbers.
#[derive(Debug)]
pub(super) struct Open<T> {
    /// What has been open for long: every number of it is below those of the row.
    old: BTreeMap<u64, T>,
    /// The number of the row's first place.
    first: u64,
    row: VecDeque<Option<T>>,
    /// How many places of the row are taken.
    taken: usize,
    /// How many of its first places are not: they are given up together, because each takes moving what was in it.
    gone: usize,
}

impl<T> Default for Open<T> {
    fn default() -> Open<T> {
        Open { old: BTreeMap::new(), first: 1, row: VecDeque::new(), taken: 0, gone: 0 }
    }
}

impl<T> Open<T> {
    /// The number of whatever is taken in next.
    pub fn next(&self) -> u64 {
        self.first + self.row.len() as u64
    }

    /// Takes in one more. Gives its number: they are counted from 1.
    #[inline]
    pub fn push(&mut self, what: T) -> u64 {
        let number = self.next();
        self.row.push_back(Some(what));
        self.taken += 1;
        while self.row.len() > 2 * self.taken + ROW_MIN {
            if let Some(Some(what)) = self.row.pop_front() {
                self.old.insert(self.first, what);
                self.taken -= 1;
            }
            self.first += 1;
            self.gone = self.gone.saturating_sub(1);
        }
        number
    }

    fn place(&self, number: u64) -> Option<usize> {
        number.checked_sub(self.first).and_then(|place| usize::try_from(place).ok())
    }

    pub fn get(&self, number: u64) -> Option<&T> {
        match self.place(number) {
            Some(place) => self.row.get(place)?.as_ref(),
            None => self.old.get(&number),
        }
    }

    pub fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        match self.place(number) {
            Some(place) => self.row.get_mut(place)?.as_mut(),
            None => self.old.get_mut(&number),
        }
    }

    /// One is over. This is done with it where it is, if it is there.
    #[inline]
    pub fn end(&mut self, number: u64, last: impl FnOnce(&mut T)) {
        let Some(place) = self.place(number) else {
            if let Some(mut what) = self.old.remove(&number) {
                last(&mut what);
            }
            return;
        };
        let Some(place) = self.row.get_mut(place) else { return };
        let Some(what) = place else { return };
        last(what);
        *place = None;
        self.taken -= 1;
        while let Some(None) = self.row.get(self.gone) {
            self.gone += 1;
        }
        if self.gone >= ROW_MIN {
            self.row.drain(..self.gone);
            self.first += self.gone as u64;
            self.gone = 0;
        }
    }

    pub fn len(&self) -> usize {
        self.old.len() + self.taken
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of it, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        let row = (self.first..).zip(&self.row).filter_map(|(number, what)| Some((number, what.as_ref()?)));
        self.old.iter().map(|(number, what)| (*number, what)).chain(row)
    }

    /// All of it, in order.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut T)> {
        let row =
            (self.first..).zip(&mut self.row).filter_map(|(number, what)| Some((number, what.as_mut()?)));
        self.old.iter_mut().map(|(number, what)| (*number, what)).chain(row)
    }

    /// Takes all of it out, in order.
    pub fn take(&mut self) -> impl Iterator<Item = (u64, T)> + use<T> {
        let next = self.next();
        let Open { old, first, row, .. } = std::mem::take(self);
        self.first = next;
        old.into_iter().chain((first..).zip(row).filter_map(|(number, what)| Some((number, what?))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with a plain map after every step.
    struct Pair {
        open: Open<u64>,
        map: BTreeMap<u64, u64>,
        last: u64,
    }

    impl Pair {
        fn push(&mut self) -> u64 {
            let next = self.open.next();
            let number = self.open.push(7 * (self.last + 1));
            self.last += 1;
            assert_eq!(number, next);
            assert_eq!(number, self.last);
            self.map.insert(number, 7 * number);
            self.agree();
            assert!(self.open.row.len() <= 2 * self.map.len() + ROW_MIN, "{} places", self.open.row.len());
            number
        }

        fn remove(&mut self, number: u64) {
            let mut ended = None;
            self.open.end(number, |what| ended = Some(*what));
            assert_eq!(ended, self.map.remove(&number));
            self.agree();
        }

        fn agree(&mut self) {
            let all: Vec<(u64, u64)> = self.map.iter().map(|(number, what)| (*number, *what)).collect();
            assert_eq!(self.open.iter().map(|(number, what)| (number, *what)).collect::<Vec<_>>(), all);
            assert_eq!(self.open.iter_mut().map(|(number, what)| (number, *what)).collect::<Vec<_>>(), all);
            assert_eq!((self.open.len(), self.open.is_empty()), (all.len(), all.is_empty()));
            for number in [0, 1, self.last / 2, self.last, self.last + 1, u64::MAX] {
                assert_eq!(self.open.get(number), self.map.get(&number));
                assert_eq!(self.open.get_mut(number), self.map.get_mut(&number));
            }
        }
    }

    #[test]
    fn is_a_map_in_order_whatever_stays_open() {
        let mut pair = Pair { open: Open::default(), map: BTreeMap::new(), last: 0 };
        let mut chance: u64 = 1;
        for step in 0..2_000 {
            let number = pair.push();
            chance = chance.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(step);
            match chance >> 61 {
                // Stays open for long.
                0 => {}
                1..=5 => pair.remove(number),
                _ => pair.remove(chance % (number + 2)),
            }
        }
        assert!(!pair.open.old.is_empty() && pair.open.taken > 0);
        assert!(pair.open.take().eq(std::mem::take(&mut pair.map)));
        pair.agree();
        assert_eq!(pair.push(), 2_001, "numbers are never used again");
    }

    #[test]
    fn one_that_stays_does_not_keep_the_places_of_all_that_follow() {
        let mut open = Open::default();
        let stays = open.push("stays");
        for _ in 0..100_000 {
            let number = open.push("goes");
            open.end(number, |what| assert_eq!(*what, "goes"));
        }
        assert!(open.row.len() <= ROW_MIN + 2);
        assert_eq!((open.get(stays), open.len()), (Some(&"stays"), 1));
    }
}
