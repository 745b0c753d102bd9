//! A table of numbered slots. A slot that becomes free is used again, the lowest first, so the table stays dense and a
//! replay puts everything where it was.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// Things by slot.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<Option<T>>,
    free: BTreeSet<u32>,
    len: usize,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Self {
        Slab { slots: Vec::new(), free: BTreeSet::new(), len: 0 }
    }

    /// The slot that the next thing should be put into.
    pub(crate) fn vacant(&self) -> u32 {
        self.free.first().copied().unwrap_or(self.slots.len() as u32)
    }

    /// Puts a thing into a free slot.
    pub(crate) fn insert(&mut self, slot: u32, thing: T) {
        let index = slot as usize;
        while self.slots.len() <= index {
            self.free.insert(self.slots.len() as u32);
            self.slots.push(None);
        }
        assert!(self.free.remove(&slot), "a slot is taken by one thing at a time");
        self.slots[index] = Some(thing);
        self.len += 1;
    }

    /// Takes a thing out; its slot is free again.
    pub(crate) fn remove(&mut self, slot: u32) -> Option<T> {
        let thing = self.slots.get_mut(slot as usize)?.take()?;
        self.free.insert(slot);
        self.len -= 1;
        Some(thing)
    }

    pub(crate) fn get(&self, slot: u32) -> Option<&T> {
        self.slots.get(slot as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.slots.get_mut(slot as usize)?.as_mut()
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Everything in order of the slots.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.slots.iter().enumerate().filter_map(|(slot, thing)| Some((slot as u32, thing.as_ref()?)))
    }

    /// One past the highest slot ever used.
    pub(crate) fn end(&self) -> u32 {
        self.slots.len() as u32
    }
}
