//! The bytes of a segment as its reader looks at them: all of them at once, or a window that moves along with it, so that a
//! segment which is read beside other work takes no more memory than what is looked at. Never changes a byte.

use std::io;

use crate::direct::Aligned;
use crate::disk::DiskFile;
use crate::limits::WINDOW_BYTES;

/// The bytes of a segment.
pub(crate) trait Image {
    /// How many there are.
    fn length(&self) -> usize;
    /// So many from this place on, all of which there must be.
    fn look(&mut self, at: usize, length: usize) -> io::Result<&[u8]>;
}

/// All of them.
impl Image for &[u8] {
    fn length(&self) -> usize {
        self.len()
    }

    fn look(&mut self, at: usize, length: usize) -> io::Result<&[u8]> {
        Ok(&self[at..at + length])
    }
}

/// Those from one place to another, read past the system's cache where the file allows that: nobody looks at them again. Only
/// for files that no longer change, and whole sectors.
pub(crate) struct Window<'a, F> {
    file: &'a F,
    length: usize,
    /// Kept from one segment to the next.
    memory: &'a mut Aligned,
    from: usize,
    to: usize,
}

impl<'a, F: DiskFile> Window<'a, F> {
    /// Of a file of this length.
    pub fn new(file: &'a F, length: usize, memory: &'a mut Aligned) -> Self {
        Window { file, length, memory, from: 0, to: 0 }
    }
}

impl<F: DiskFile> Image for Window<'_, F> {
    fn length(&self) -> usize {
        self.length
    }

    fn look(&mut self, at: usize, length: usize) -> io::Result<&[u8]> {
        assert!(at + length <= self.length, "what is looked at is there");
        if at < self.from || at + length > self.to {
            let to = self.length.min(at + length.max(WINDOW_BYTES));
            // Nothing is there while it is being read.
            (self.from, self.to) = (at, at);
            self.file.read_at(at as u64, self.memory.room(to - at))?;
            self.to = to;
        }
        let begin = at - self.from;
        Ok(&self.memory.room(self.to - self.from)[begin..begin + length])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Disk;
    use crate::faulty::FaultyDisk;
    use crate::limits::SECTOR_BYTES;

    #[test]
    fn a_window_shows_what_the_whole_shows_wherever_it_is_looked_at() {
        let sectors = 5 * WINDOW_BYTES / SECTOR_BYTES / 2;
        let whole: Vec<u8> =
            (0..sectors).flat_map(|sector| [(sector % 251) as u8 + 1; SECTOR_BYTES]).collect();
        let disk = FaultyDisk::new(1);
        disk.create("segment").unwrap().write_at(0, &whole).unwrap();
        let file = disk.open_direct("segment").unwrap();
        let mut memory = Aligned::default();
        let mut window = Window::new(&file, whole.len(), &mut memory);
        assert_eq!(window.length(), whole.len());
        let mut chance: usize = 7;
        for _ in 0..2_000 {
            chance = chance.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let at = (chance >> 33) % sectors;
            let length = (chance >> 20) % (sectors - at).min(1 + (chance >> 60) * 100) + 1;
            let (at, length) = (at * SECTOR_BYTES, length.min(sectors - at) * SECTOR_BYTES);
            assert_eq!(window.look(at, length).unwrap(), &whole[at..at + length]);
        }
    }
}
