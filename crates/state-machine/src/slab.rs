//! A table of numbered slots. A slot that becomes free is used again, the lowest first, so the table stays dense and a
//! replay puts everything where it was.
//!
//! It grows in pieces, which stay where they are: a large table is never copied, has no half that nobody uses, and
//! gives the pieces at its end back when they are empty.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// Slots of one piece.
const PIECE: usize = 1024;

/// Things by slot.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    /// Each is full but for the last.
    pieces: Vec<Piece<T>>,
    free: BTreeSet<u32>,
    end: usize,
    len: usize,
}

#[derive(Debug)]
struct Piece<T> {
    slots: Vec<Option<T>>,
    len: usize,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Self {
        Slab { pieces: Vec::new(), free: BTreeSet::new(), end: 0, len: 0 }
    }

    /// The slot that the next thing should be put into.
    pub(crate) fn vacant(&self) -> u32 {
        self.free.first().copied().unwrap_or(self.end as u32)
    }

    /// Puts a thing into a free slot.
    pub(crate) fn insert(&mut self, slot: u32, thing: T) {
        while self.end < slot as usize {
            self.free.insert(self.end as u32);
            self.push(None);
        }
        if self.end == slot as usize {
            self.push(Some(thing));
        } else {
            assert!(self.free.remove(&slot), "a slot is taken by one thing at a time");
            let piece = &mut self.pieces[slot as usize / PIECE];
            piece.slots[slot as usize % PIECE] = Some(thing);
            piece.len += 1;
        }
        self.len += 1;
    }

    fn push(&mut self, thing: Option<T>) {
        if self.end.is_multiple_of(PIECE) {
            // The first grows as it is needed: most tables stay small.
            let slots = if self.end == 0 { Vec::new() } else { Vec::with_capacity(PIECE) };
            self.pieces.push(Piece { slots, len: 0 });
        }
        let last = self.pieces.len() - 1;
        let piece = &mut self.pieces[last];
        piece.len += usize::from(thing.is_some());
        piece.slots.push(thing);
        self.end += 1;
    }

    /// Takes a thing out; its slot is free again.
    pub(crate) fn remove(&mut self, slot: u32) -> Option<T> {
        let piece = self.pieces.get_mut(slot as usize / PIECE)?;
        let thing = piece.slots.get_mut(slot as usize % PIECE)?.take()?;
        piece.len -= 1;
        self.free.insert(slot);
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
            self.end = self.pieces.len() * PIECE;
            self.free.split_off(&(self.end as u32));
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

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(slab.free.len() + slab.len(), slab.end() as usize);
    }
}
