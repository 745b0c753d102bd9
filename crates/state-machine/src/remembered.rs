//! A queue of things remembered for a while: each gets a number when it is set aside, and the oldest are forgotten
//! first, by number, so that a journal can say how far. Ages count from a recovery at the earliest. However many there are,
//! they are never copied to make room for one more: that would be millions at once, and everybody would wait for it. Nor are
//! they for a picture of them, which shares what does not change any more.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::limits::SLICE;

/// Things in the order in which they were set aside.
#[derive(Debug)]
pub(crate) struct Remembered<T> {
    /// Full pieces: nothing changes in them any more.
    full: VecDeque<Arc<Vec<T>>>,
    /// The piece that is being filled.
    last: Vec<T>,
    /// So many of the first piece are forgotten; fewer than it has.
    forgotten: usize,
    /// The number of the oldest.
    first: u64,
    /// When they were set aside. Many come at one time, so a time is kept once, with the number at which it ends.
    times: VecDeque<Time>,
    /// Everything numbered below this was set aside before the last recovery, at this time.
    recovered: (u64, u64),
}

#[derive(Debug)]
struct Time {
    end: u64,
    at_us: u64,
}

/// As many things make a piece.
const PIECE: usize = 4096;

impl<T: Copy> Remembered<T> {
    pub(crate) fn new() -> Self {
        Remembered {
            full: VecDeque::new(),
            last: Vec::new(),
            forgotten: 0,
            first: 0,
            times: VecDeque::new(),
            recovered: (0, 0),
        }
    }

    pub(crate) fn push(&mut self, thing: T, now_us: u64) {
        if self.last.len() == PIECE {
            // Where one is full, the next will be.
            let full = core::mem::replace(&mut self.last, Vec::with_capacity(PIECE));
            self.full.push_back(Arc::new(full));
        }
        self.last.push(thing);
        let end = self.end();
        match self.times.back_mut() {
            Some(time) if time.at_us == now_us => time.end = end,
            _ => self.times.push_back(Time { end, at_us: now_us }),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.full.len() * PIECE + self.last.len() - self.forgotten
    }

    /// The number that the next one gets.
    pub(crate) fn end(&self) -> u64 {
        self.first + self.len() as u64
    }

    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// Begins to count at this number; only when nothing is remembered.
    pub(crate) fn start_at(&mut self, first: u64) {
        assert!(self.len() == 0, "numbers are set before anything is remembered");
        self.first = first;
    }

    /// All ages begin anew.
    pub(crate) fn recover(&mut self, now_us: u64) {
        self.recovered = (self.end(), now_us);
    }

    /// When the oldest was set aside.
    pub(crate) fn oldest_us(&self) -> Option<u64> {
        self.times.front().map(|time| self.aged(self.first, time.at_us))
    }

    fn aged(&self, number: u64, at_us: u64) -> u64 {
        if number < self.recovered.0 { self.recovered.1 } else { at_us }
    }

    /// The number up to which everything was set aside at `until_us` or before, at most a slice further than now.
    pub(crate) fn older_than(&self, until_us: u64) -> u64 {
        let last = self.end().min(self.first + SLICE as u64);
        let mut number = self.first;
        for time in &self.times {
            if number == last || self.aged(number, time.at_us) > until_us {
                break;
            }
            number = time.end.min(last);
        }
        number
    }

    /// Takes out the oldest if its number is below `before`.
    pub(crate) fn pop_before(&mut self, before: u64) -> Option<T> {
        if self.first >= before {
            return None;
        }
        let piece = self.full.front().map_or(&self.last, |piece| piece);
        let thing = *piece.get(self.forgotten)?;
        self.forgotten += 1;
        if self.forgotten == piece.len() {
            if self.full.pop_front().is_none() {
                self.last.clear();
            }
            self.forgotten = 0;
        }
        self.first += 1;
        self.times.pop_front_if(|time| time.end == self.first);
        Some(thing)
    }

    /// The one with this number, if it is not forgotten.
    pub(crate) fn get(&self, number: u64) -> Option<&T> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()? + self.forgotten;
        self.full.get(at / PIECE).map_or(&self.last, |piece| piece).get(at % PIECE)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        iter(self.full.iter(), &self.last, self.forgotten)
    }

    /// All of them as they are now, without waiting for how many there are.
    pub(crate) fn picture(&self) -> RememberedPicture<T> {
        RememberedPicture {
            full: self.full.iter().cloned().collect(),
            last: self.last.clone(),
            forgotten: self.forgotten,
            first: self.first,
        }
    }
}

/// Things remembered, as they were at one moment.
#[derive(Debug)]
pub(crate) struct RememberedPicture<T> {
    full: Vec<Arc<Vec<T>>>,
    last: Vec<T>,
    forgotten: usize,
    pub(crate) first: u64,
}

impl<T> RememberedPicture<T> {
    pub(crate) fn len(&self) -> usize {
        self.full.len() * PIECE + self.last.len() - self.forgotten
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        iter(self.full.iter(), &self.last, self.forgotten)
    }
}

fn iter<'a, T: 'a>(
    full: impl Iterator<Item = &'a Arc<Vec<T>>>,
    last: &'a [T],
    forgotten: usize,
) -> impl Iterator<Item = &'a T> {
    full.flat_map(|piece| piece.iter()).chain(last).skip(forgotten)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_first_by_number_and_by_age() {
        let mut kept = Remembered::new();
        kept.start_at(7);
        for (thing, now_us) in [('a', 1), ('b', 1), ('c', 3), ('d', 4), ('e', 4)] {
            kept.push(thing, now_us);
        }
        assert_eq!((kept.first(), kept.end(), kept.len(), kept.oldest_us()), (7, 12, 5, Some(1)));
        assert_eq!([0, 1, 2, 3, 4, 9].map(|until_us| kept.older_than(until_us)), [7, 9, 9, 10, 12, 12]);
        assert_eq!(
            (kept.get(6), kept.get(7), kept.get(11), kept.get(12)),
            (None, Some(&'a'), Some(&'e'), None)
        );
        assert_eq!((kept.pop_before(7), kept.pop_before(8), kept.pop_before(8)), (None, Some('a'), None));
        assert_eq!((kept.oldest_us(), kept.older_than(1), kept.get(7)), (Some(1), 9, None));
        assert_eq!((kept.pop_before(10), kept.pop_before(10)), (Some('b'), Some('c')));
        assert_eq!((kept.oldest_us(), kept.first(), kept.older_than(3)), (Some(4), 10, 10));
        assert!(kept.iter().eq(&['d', 'e']));
    }

    #[test]
    fn ages_begin_anew_with_a_recovery_and_numbers_do_not() {
        let mut kept = Remembered::new();
        kept.push('a', 1);
        kept.push('b', 2);
        kept.recover(100);
        kept.push('c', 100);
        kept.push('d', 101);
        assert_eq!((kept.oldest_us(), kept.older_than(99), kept.older_than(100)), (Some(100), 0, 3));
        assert_eq!((kept.pop_before(4), kept.older_than(100), kept.older_than(101)), (Some('a'), 3, 4));
    }

    #[test]
    fn many_are_found_by_their_numbers_wherever_the_pieces_end() {
        let mut kept = Remembered::new();
        kept.start_at(5);
        let (mut next, mut oldest) = (5, 5);
        // Grows by one piece and a half for each piece that goes, and then goes down to nothing.
        for (pushed, popped) in
            [(PIECE + 1, 1), (PIECE / 2, PIECE - 1), (3 * PIECE, 2 * PIECE), (7, usize::MAX)]
        {
            (0..pushed).for_each(|_| {
                kept.push(next, 0);
                next += 1;
            });
            for _ in 0..popped.min(kept.len()) {
                assert_eq!(kept.pop_before(u64::MAX), Some(oldest));
                oldest += 1;
            }
            assert_eq!((kept.first(), kept.end(), kept.len() as u64), (oldest, next, next - oldest));
            assert!(kept.iter().copied().eq(oldest..next));
            let picture = kept.picture();
            assert_eq!((picture.first, picture.len()), (kept.first(), kept.len()));
            assert!(picture.iter().eq(kept.iter()));
            assert!((oldest..next).all(|number| kept.get(number) == Some(&number)));
            assert_eq!((kept.get(oldest - 1), kept.get(next)), (None, None));
        }
        assert_eq!(kept.pop_before(u64::MAX), None);
    }

    #[test]
    fn a_picture_stays_as_it_was() {
        let mut kept = Remembered::new();
        (0..3 * PIECE + 5).for_each(|thing| kept.push(thing, 0));
        while kept.pop_before(7).is_some() {}
        let picture = kept.picture();
        (0..2 * PIECE).for_each(|thing| kept.push(thing, 1));
        while kept.pop_before(u64::MAX).is_some() {}
        assert_eq!((picture.first, picture.len()), (7, 3 * PIECE - 2));
        assert!(picture.iter().copied().eq(7..3 * PIECE + 5));
    }

    #[test]
    fn one_slice_is_named_at_a_time() {
        let mut kept = Remembered::new();
        (0..2 * SLICE + 1).for_each(|thing| kept.push(thing, (thing / SLICE) as u64));
        assert_eq!((kept.older_than(9), kept.older_than(0)), (SLICE as u64, SLICE as u64));
        while kept.pop_before(SLICE as u64 + 1).is_some() {}
        assert_eq!((kept.older_than(9), kept.oldest_us()), (2 * SLICE as u64 + 1, Some(1)));
        while kept.pop_before(u64::MAX).is_some() {}
        assert_eq!((kept.oldest_us(), kept.older_than(9), kept.len()), (None, 2 * SLICE as u64 + 1, 0));
    }
}
