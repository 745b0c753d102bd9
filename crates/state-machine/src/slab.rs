//! A table of numbered slots. A slot that becomes free is used again, the lowest first, so the table stays dense and a
//! replay puts everything where it was.
//!
//! It grows in pieces, which stay where they are: a large table is never copied, has no half that nobody uses, and
//! gives the pieces at its end back when they are empty.

use alloc::vec::Vec;

/// Slots of one piece.
const PIECE: usize = 1024;
/// Bits of a word.
const WORD: usize = u64::BITS as usize;

/// Things by slot.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    /// Each is full but for the last.
    pieces: Vec<Piece<T>>,
    /// A bit for each piece that has a free slot.
    roomy: Vec<u64>,
    end: usize,
    len: usize,
}

#[derive(Debug)]
struct Piece<T> {
    slots: Vec<Option<T>>,
    len: usize,
    /// A bit for each free slot.
    free: [u64; PIECE / WORD],
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Self {
        Slab { pieces: Vec::new(), roomy: Vec::new(), end: 0, len: 0 }
    }

    /// The slot that the next thing should be put into.
    pub(crate) fn vacant(&self) -> u32 {
        self.lowest_free().unwrap_or(self.end) as u32
    }

    fn lowest_free(&self) -> Option<usize> {
        let piece = lowest(&self.roomy)?;
        let slot = lowest(&self.pieces[piece].free);
        assert!(slot.is_some(), "a piece that is said to have room has it");
        Some(piece * PIECE + slot?)
    }

    /// Puts a thing into a free slot.
    pub(crate) fn insert(&mut self, slot: u32, thing: T) {
        let slot = slot as usize;
        while self.end < slot {
            self.push(None);
        }
        if self.end == slot {
            self.push(Some(thing));
        } else {
            let (number, slot) = (slot / PIECE, slot % PIECE);
            let piece = &mut self.pieces[number];
            assert!(piece.free[slot / WORD] & bit(slot) != 0, "a slot is taken by one thing at a time");
            piece.slots[slot] = Some(thing);
            piece.len += 1;
            piece.free[slot / WORD] &= !bit(slot);
            if piece.len == piece.slots.len() {
                self.roomy[number / WORD] &= !bit(number);
            }
        }
        self.len += 1;
    }

    fn push(&mut self, thing: Option<T>) {
        if self.end.is_multiple_of(PIECE) {
            // The first grows as it is needed: most tables stay small.
            let slots = if self.end == 0 { Vec::new() } else { Vec::with_capacity(PIECE) };
            self.pieces.push(Piece { slots, len: 0, free: [0; PIECE / WORD] });
            self.roomy.resize(self.pieces.len().div_ceil(WORD), 0);
        }
        let slot = self.end;
        let vacant = thing.is_none();
        let piece = &mut self.pieces[slot / PIECE];
        piece.len += usize::from(!vacant);
        piece.slots.push(thing);
        self.end += 1;
        if vacant {
            self.set_free(slot);
        }
    }

    fn set_free(&mut self, slot: usize) {
        let (number, slot) = (slot / PIECE, slot % PIECE);
        self.pieces[number].free[slot / WORD] |= bit(slot);
        self.roomy[number / WORD] |= bit(number);
    }

    /// Takes a thing out; its slot is free again.
    pub(crate) fn remove(&mut self, slot: u32) -> Option<T> {
        let piece = self.pieces.get_mut(slot as usize / PIECE)?;
        let thing = piece.slots.get_mut(slot as usize % PIECE)?.take()?;
        piece.len -= 1;
        self.set_free(slot as usize);
        self.len -= 1;
        self.shed();
        Some(thing)
    }

    /// Gives empty pieces at the end back, but for one, so that a thing that comes and goes there costs nothing.
    fn shed(&mut self) {
        while let [.., before, last] = self.pieces.as_slice()
            && before.len == 0
            && last.len == 0
        {
            self.pieces.pop();
            let number = self.pieces.len();
            self.roomy[number / WORD] &= !bit(number);
            self.end = number * PIECE;
        }
    }

    pub(crate) fn get(&self, slot: u32) -> Option<&T> {
        self.pieces.get(slot as usize / PIECE)?.slots.get(slot as usize % PIECE)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.pieces.get_mut(slot as usize / PIECE)?.slots.get_mut(slot as usize % PIECE)?.as_mut()
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Everything in order of the slots.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let slots = self.pieces.iter().flat_map(|piece| &piece.slots);
        slots.enumerate().filter_map(|(slot, thing)| Some((slot as u32, thing.as_ref()?)))
    }

    /// One past the highest slot that may be in use.
    pub(crate) fn end(&self) -> u32 {
        self.end as u32
    }
}

/// The bit of this place in its word.
fn bit(place: usize) -> u64 {
    1 << (place % WORD)
}

/// The place of the lowest bit that is set.
fn lowest(words: &[u64]) -> Option<usize> {
    let word = words.iter().position(|word| *word != 0)?;
    Some(word * WORD + words[word].trailing_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free<T>(slab: &Slab<T>) -> usize {
        slab.pieces.iter().flat_map(|piece| piece.free).map(|word| word.count_ones() as usize).sum()
    }

    /// Against the plainest way to do it.
    #[test]
    fn is_as_a_list_would_be() {
        let (mut slab, mut list) = (Slab::new(), Vec::<Option<u32>>::new());
        let mut number: u64 = 7;
        for step in 0..30_000 {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let drawn = (number >> 33) as usize;
            // Grows to some pieces, shrinks to nothing, and so again.
            let grow = if step / 6_000 % 2 == 0 { 3 } else { 1 };
            if drawn % 4 < grow {
                let first = list.iter().position(Option::is_none).unwrap_or(list.len());
                assert_eq!(slab.vacant() as usize, first);
                slab.insert(first as u32, step);
                list.resize(list.len().max(first + 1), None);
                list[first] = Some(step);
            } else if !list.is_empty() {
                let slot = drawn / 4 % list.len();
                assert_eq!(slab.remove(slot as u32), list[slot].take());
            }
            if drawn.is_multiple_of(64) {
                assert_eq!(slab.len(), list.iter().flatten().count());
                assert_eq!(free(&slab) + slab.len(), slab.end() as usize);
                let there =
                    list.iter().enumerate().filter_map(|(slot, thing)| Some((slot as u32, (*thing)?)));
                assert!(slab.iter().map(|(slot, thing)| (slot, *thing)).eq(there));
            }
        }
    }

    #[test]
    fn the_lowest_free_slot_is_next_and_empty_pieces_go() {
        let mut slab = Slab::new();
        let many = 5 * PIECE as u32 + 7;
        for slot in 0..many {
            assert_eq!(slab.vacant(), slot);
            slab.insert(slot, slot);
        }
        assert_eq!((slab.len(), slab.end()), (many as usize, many));
        assert_eq!((slab.remove(9), slab.remove(3), slab.remove(3)), (Some(9), Some(3), None));
        assert_eq!(slab.vacant(), 3);
        slab.insert(3, 33);
        assert_eq!((slab.get(3), slab.get(9), slab.vacant()), (Some(&33), None, 9));
        for slot in (10..many).rev() {
            slab.remove(slot);
        }
        assert_eq!((slab.len(), slab.vacant(), slab.pieces.len()), (9, 9, 2));
        assert_eq!(slab.end() as usize, 2 * PIECE);
        assert!(slab.iter().map(|(slot, _)| slot).eq(0..9));
        // Where a replay puts something may lie beyond the end.
        slab.insert(many, many);
        assert_eq!((slab.get(many), slab.vacant(), slab.end()), (Some(&many), 9, many + 1));
        assert_eq!(free(&slab) + slab.len(), slab.end() as usize);
    }
}
