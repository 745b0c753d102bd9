//! The table of fenced files: names, numbers, sizes and the highest token that wrote each. Holds no bytes, and knows
//! nothing of leases.

use alloc::collections::BTreeMap;
use alloc::format;
use core::ops::Bound;

use crate::event::Seq;
use crate::file::FileName;
use crate::limits::FILE_INODE_FIRST;

/// One file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct File {
    /// Its inode number, its own for ever.
    pub(crate) number: u64,
    pub(crate) size: u64,
    /// The highest token that wrote it.
    pub(crate) token: u64,
    pub(crate) created_wall_ms: u64,
    pub(crate) written_wall_ms: u64,
    /// The event that last wrote it.
    pub(crate) changed: Seq,
}

/// What stands in the way of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Misplaced {
    /// What should be a folder above it is a file.
    BelowAFile,
    /// Files lie below it, as if it were a folder.
    AboveFiles,
}

/// All files.
#[derive(Debug)]
pub(crate) struct Files {
    by_name: BTreeMap<FileName, File>,
    /// The number that the next file gets. Only ever grows.
    pub(crate) next_number: u64,
    /// Bytes of all files together.
    bytes: u64,
}

impl Files {
    pub(crate) fn new() -> Files {
        Files { by_name: BTreeMap::new(), next_number: FILE_INODE_FIRST, bytes: 0 }
    }

    pub(crate) fn get(&self, name: &FileName) -> Option<&File> {
        self.by_name.get(name)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Why no file of this name can be made, if none can.
    pub(crate) fn misplaced(&self, name: &FileName) -> Option<Misplaced> {
        if name.above().any(|above| self.by_name.contains_key(above)) {
            return Some(Misplaced::BelowAFile);
        }
        let below = format!("{name}/");
        let first = self.by_name.range::<str, _>((Bound::Included(below.as_str()), Bound::Unbounded)).next();
        first.filter(|(other, _)| other.text().starts_with(&below)).map(|_| Misplaced::AboveFiles)
    }

    /// Takes a write in, and makes the file if it is new; whether it was, and what it is now.
    pub(crate) fn write(&mut self, name: &FileName, write: Write) -> (bool, File) {
        let Write { number, end, token, wall_ms, seq } = write;
        let new = !self.by_name.contains_key(name);
        if new {
            assert!(number >= self.next_number, "a file's number is never used again");
            self.next_number = number + 1;
        }
        let file = self.by_name.entry(name.clone()).or_insert(File {
            number,
            size: 0,
            token,
            created_wall_ms: wall_ms,
            written_wall_ms: wall_ms,
            changed: seq,
        });
        assert!(file.number == number, "a file keeps its number");
        self.bytes += end.saturating_sub(file.size);
        file.size = file.size.max(end);
        file.token = file.token.max(token);
        file.written_wall_ms = wall_ms;
        file.changed = seq;
        (new, *file)
    }

    /// Puts back a file that a snapshot kept; false when its name or number is taken, or makes no sense.
    pub(crate) fn restore(&mut self, name: FileName, file: File) -> bool {
        let Some(bytes) = self.bytes.checked_add(file.size) else { return false };
        let numbered = (FILE_INODE_FIRST..self.next_number).contains(&file.number);
        if !numbered || self.misplaced(&name).is_some() || self.by_name.contains_key(&name) {
            return false;
        }
        self.bytes = bytes;
        self.by_name.insert(name, file);
        true
    }

    pub(crate) fn delete(&mut self, name: &FileName) -> Option<File> {
        let file = self.by_name.remove(name)?;
        self.bytes -= file.size;
        Some(file)
    }

    /// Files in the order of their names, from the first that is not before `from`.
    pub(crate) fn from<'a>(&'a self, from: &str) -> impl Iterator<Item = (&'a FileName, &'a File)> {
        self.by_name.range::<str, _>((Bound::Included(from), Bound::Unbounded))
    }
}

/// A write as the table takes it in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write {
    pub(crate) number: u64,
    /// One past the last byte written.
    pub(crate) end: u64,
    pub(crate) token: u64,
    pub(crate) wall_ms: u64,
    pub(crate) seq: Seq,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> FileName {
        FileName::parse(text).unwrap()
    }

    fn write(number: u64, end: u64, token: u64) -> Write {
        Write { number, end, token, wall_ms: token, seq: token }
    }

    #[test]
    fn files_grow_and_show_the_highest_token() {
        let mut files = Files::new();
        let (new, _) = files.write(&name("a"), write(FILE_INODE_FIRST, 10, 5));
        assert!(new);
        let (new, file) = files.write(&name("a"), write(FILE_INODE_FIRST, 4, 3));
        assert!(!new);
        assert_eq!((file.size, file.token, file.created_wall_ms, file.written_wall_ms), (10, 5, 5, 3));
        files.write(&name("b"), write(FILE_INODE_FIRST + 1, 7, 6));
        assert_eq!((files.len(), files.bytes()), (2, 17));
        assert_eq!(files.delete(&name("a")).map(|file| file.size), Some(10));
        assert_eq!((files.len(), files.bytes(), files.next_number), (1, 7, FILE_INODE_FIRST + 2));
        assert_eq!(files.delete(&name("a")), None);
    }

    #[test]
    fn a_file_is_no_folder() {
        let mut files = Files::new();
        files.write(&name("a/b"), write(FILE_INODE_FIRST, 0, 1));
        files.write(&name("a!"), write(FILE_INODE_FIRST + 1, 0, 1));
        for (text, expected) in [
            ("a/b", None),
            ("a", Some(Misplaced::AboveFiles)),
            ("a/b/c", Some(Misplaced::BelowAFile)),
            ("a/b/c/d", Some(Misplaced::BelowAFile)),
            ("a/bc", None),
            ("a/a", None),
            ("b", None),
        ] {
            assert_eq!(files.misplaced(&name(text)), expected, "{text}");
        }
    }
}
