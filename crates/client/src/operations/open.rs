//! What is open, by number. Numbers count up and most are soon over, so those of late lie in a row, in which each is found at
//! once; what stays open for long moves to a map, so that no row grows much longer than what is in it. Both say only where it
//! is: places are used again, the last one first, so that few are touched by turns.

use std::collections::{BTreeMap, VecDeque};

/// A row of so many numbers is never too long.
const ROW_MIN: usize = 64;
/// The place of what is not open any more.
const NOWHERE: u32 = u32::MAX;

/// What is open, in the order of its numbers.
#[derive(Debug)]
pub(super) struct Open<T> {
    /// Where that is which has been open for long: every number of it is below those of the row.
    old: BTreeMap<u64, u32>,
    /// The row's first number.
    first: u64,
    /// Where its numbers are.
    row: VecDeque<u32>,
    /// How many numbers of the row are open.
    taken: usize,
    places: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Open<T> {
    fn default() -> Open<T> {
        let (row, places, free) = (VecDeque::new(), Vec::new(), Vec::new());
        Open { old: BTreeMap::new(), first: 1, row, taken: 0, places, free }
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
        let place = match self.free.pop() {
            Some(place) => {
                self.places[place as usize] = Some(what);
                place
            }
            None => {
                self.places.push(Some(what));
                self.places.len() as u32 - 1
            }
        };
        self.row.push_back(place);
        self.taken += 1;
        while self.row.len() > 2 * self.taken + ROW_MIN {
            if let Some(place) = self.row.pop_front().filter(|place| *place != NOWHERE) {
                self.old.insert(self.first, place);
                self.taken -= 1;
            }
            self.first += 1;
        }
        number
    }

    /// Where it stands in the row, if it is not an old one.
    fn in_row(&self, number: u64) -> Option<usize> {
        number.checked_sub(self.first).and_then(|place| usize::try_from(place).ok())
    }

    /// Where it is, or was to be.
    fn place(&self, number: u64) -> Option<usize> {
        let place = match self.in_row(number) {
            Some(at) => self.row.get(at),
            None => self.old.get(&number),
        };
        place.map(|place| *place as usize)
    }

    pub fn get(&self, number: u64) -> Option<&T> {
        self.places.get(self.place(number)?)?.as_ref()
    }

    pub fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        let place = self.place(number)?;
        self.places.get_mut(place)?.as_mut()
    }

    /// One is over. This is done with it where it is, if it is there.
    #[inline]
    pub fn end(&mut self, number: u64, last: impl FnOnce(&mut T)) {
        let Some(place) = self.place(number) else { return };
        let Some(left) = self.places.get_mut(place) else { return };
        let Some(what) = left else { return };
        last(what);
        *left = None;
        self.free.push(place as u32);
        let Some(at) = self.in_row(number) else {
            self.old.remove(&number);
            return;
        };
        self.row[at] = NOWHERE;
        self.taken -= 1;
        while self.row.front() == Some(&NOWHERE) {
            self.row.pop_front();
            self.first += 1;
        }
    }

    pub fn len(&self) -> usize {
        self.old.len() + self.taken
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All numbers, in order, and where they are.
    fn numbers(&self) -> impl Iterator<Item = (u64, u32)> {
        let row = (self.first..).zip(&self.row).filter(|(_, place)| **place != NOWHERE);
        self.old
            .iter()
            .map(|(number, place)| (*number, *place))
            .chain(row.map(|(number, place)| (number, *place)))
    }

    /// All of it, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.numbers()
            .filter_map(|(number, place)| Some((number, self.places.get(place as usize)?.as_ref()?)))
    }

    /// Does this with all of it, in order.
    pub fn for_each_mut(&mut self, mut change: impl FnMut(u64, &mut T)) {
        let old = self.old.iter().map(|(number, place)| (*number, *place));
        let row = (self.first..).zip(self.row.iter().copied());
        for (number, place) in old.chain(row) {
            if let Some(Some(what)) = self.places.get_mut(place as usize) {
                change(number, what);
            }
        }
    }

    /// Takes all of it out, in order.
    pub fn take(&mut self) -> impl Iterator<Item = (u64, T)> + use<T> {
        let numbers: Vec<(u64, u32)> = self.numbers().collect();
        let next = self.next();
        let mut places = std::mem::take(self).places;
        self.first = next;
        numbers
            .into_iter()
            .filter_map(move |(number, place)| Some((number, places.get_mut(place as usize)?.take()?)))
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
            let mut changed = Vec::new();
            self.open.for_each_mut(|number, what| changed.push((number, *what)));
            assert_eq!(changed, all);
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
        assert!(open.row.len() <= ROW_MIN + 2 && open.places.len() == 2);
        assert_eq!((open.get(stays), open.len()), (Some(&"stays"), 1));
    }
}
