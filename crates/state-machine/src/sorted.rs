//! A sorted list of small things, close together in memory: a tree of maps leaves a third to a half of each node
//! unused, this leaves hardly anything where things come in order. Knows nothing of what they mean: whoever asks says
//! how a thing compares with what is looked for.

use alloc::collections::VecDeque;
use core::cmp::Ordering;

/// Things of one piece: few enough to be moved aside for one more, so many that the list of pieces stays short.
const PIECE: usize = 512;

/// The list, in pieces of which none is empty.
#[derive(Debug)]
pub(crate) struct Sorted<T> {
    pieces: VecDeque<VecDeque<T>>,
    len: usize,
}

impl<T: Copy> Sorted<T> {
    pub(crate) fn new() -> Self {
        Sorted { pieces: VecDeque::new(), len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn first(&self) -> Option<&T> {
        self.pieces.front()?.front()
    }

    /// Puts a thing where it belongs; `than` says how one that is here compares with it. False when an equal one is
    /// here already.
    pub(crate) fn insert(&mut self, thing: T, than: impl Fn(&T) -> Ordering) -> bool {
        let Err((piece, place)) = self.find(than) else { return false };
        self.len += 1;
        if place == 0 {
            self.insert_between(piece, thing);
            return true;
        }
        let list = &mut self.pieces[piece];
        if list.len() < PIECE {
            list.insert(place, thing);
            return true;
        }
        let mut later = list.split_off(PIECE / 2);
        if place <= PIECE / 2 {
            list.insert(place, thing);
        } else {
            later.insert(place - PIECE / 2, thing);
        }
        self.pieces.insert(piece + 1, later);
        true
    }

    /// Before everything in a piece and after everything in the one before it. What comes in order, up or down, fills
    /// whole pieces.
    fn insert_between(&mut self, piece: usize, thing: T) {
        if let Some(before) = piece.checked_sub(1).map(|before| &mut self.pieces[before])
            && before.len() < PIECE
        {
            before.push_back(thing);
        } else if let Some(list) = self.pieces.get_mut(piece)
            && list.len() < PIECE
        {
            list.push_front(thing);
        } else {
            self.pieces.insert(piece, VecDeque::from([thing]));
        }
    }

    /// Takes out the thing that is equal to what is looked for.
    pub(crate) fn remove(&mut self, than: impl Fn(&T) -> Ordering) -> Option<T> {
        let (piece, place) = self.find(than).ok()?;
        let thing = self.pieces[piece].remove(place);
        self.len -= 1;
        self.tidy(piece);
        thing
    }

    /// A piece that has become small goes into its neighbour.
    fn tidy(&mut self, piece: usize) {
        let len = self.pieces[piece].len();
        if len == 0 {
            self.pieces.remove(piece);
        } else if len <= PIECE / 4 {
            let first = if piece + 1 < self.pieces.len() { piece } else { piece.saturating_sub(1) };
            if let Some(second) = self.pieces.get(first + 1)
                && self.pieces[first].len() + second.len() <= PIECE / 2
                && let Some(mut second) = self.pieces.remove(first + 1)
            {
                self.pieces[first].append(&mut second);
                self.pieces[first].shrink_to(PIECE / 2);
            }
        }
    }

    /// Where what is looked for stands, or else would stand, as (piece, place in it).
    fn find(&self, than: impl Fn(&T) -> Ordering) -> Result<(usize, usize), (usize, usize)> {
        let before = |list: &VecDeque<T>| list.back().is_some_and(|last| than(last) == Ordering::Less);
        // Things that come in order are looked for behind the last.
        if self.pieces.back().is_none_or(before) {
            return Err((self.pieces.len(), 0));
        }
        let piece = self.pieces.partition_point(before);
        let place = self.pieces[piece].binary_search_by(&than);
        place.map(|place| (piece, place)).map_err(|place| (piece, place))
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;

    use super::*;
    use crate::scatter::mix;

    fn check(sorted: &Sorted<u64>, set: &BTreeSet<u64>) {
        assert_eq!(sorted.len(), set.len());
        assert!(sorted.pieces.iter().flatten().eq(set));
        assert_eq!(sorted.first(), set.first());
        assert!(sorted.pieces.iter().all(|piece| !piece.is_empty() && piece.len() <= PIECE));
    }

    #[test]
    fn agrees_with_a_set() {
        let mut sorted = Sorted::new();
        let mut set = BTreeSet::new();
        for step in 0..60_000 {
            // Grows, and then shrinks.
            let grows = if step < 30_000 { 3 } else { 1 };
            let thing = mix(step) % 10_000;
            if mix(!step) % 4 < grows {
                assert_eq!(sorted.insert(thing, |other| other.cmp(&thing)), set.insert(thing));
            } else {
                let removed = sorted.remove(|other| other.cmp(&thing));
                assert_eq!(removed.is_some(), set.remove(&thing));
                assert!(removed.is_none_or(|removed| removed == thing));
            }
            if step % 1000 == 0 {
                check(&sorted, &set);
            }
        }
        for thing in set.clone() {
            assert_eq!(sorted.remove(|other| other.cmp(&thing)), Some(thing));
            set.remove(&thing);
            if thing % 100 == 0 {
                check(&sorted, &set);
            }
        }
        assert!(sorted.pieces.is_empty());
    }

    #[test]
    fn what_comes_in_order_leaves_no_room_unused() {
        let ways: [Vec<u64>; 3] = [
            (0..10_000).collect(),
            (0..10_000).rev().collect(),
            // Two runs, one in the midst of the other's past.
            (0..10_000).map(|n| if n % 2 == 0 { n } else { 1_000_000 + n }).collect(),
        ];
        for things in ways {
            let mut sorted = Sorted::new();
            for thing in &things {
                assert!(sorted.insert(*thing, |other| other.cmp(thing)));
            }
            assert!(sorted.pieces.len() <= 10_000 / PIECE + 3, "{} pieces", sorted.pieces.len());
        }
    }
}
