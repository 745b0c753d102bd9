//! What the durable events add up to in files: which number has which name, and every write to it in order. The
//! invariants of files compare with this what is on the disk, what was read and what was told. Judges nothing itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use leasehold_state_machine::event::{Event, Seq};
use leasehold_state_machine::resource::{Kind, Resource};

use super::Committed;

/// All files there are or were.
#[derive(Clone, Debug, Default)]
pub struct FileModel {
    files: BTreeMap<u64, File>,
    /// The last event.
    last: Seq,
}

/// One file.
#[derive(Clone, Debug)]
pub struct File {
    /// The path that it lies at.
    pub path: Resource,
    /// Every write to it, in order.
    pub writes: Vec<Write>,
    /// The event that deleted it.
    pub deleted: Option<Seq>,
}

/// One write.
#[derive(Clone, Debug)]
pub struct Write {
    /// Its event.
    pub seq: Seq,
    /// Where its first byte is.
    pub offset: usize,
    /// The bytes.
    pub bytes: Arc<[u8]>,
    /// The token it was made under.
    pub token: u64,
}

impl FileModel {
    /// Takes in an event.
    pub fn committed(&mut self, committed: &Committed) {
        self.last = committed.seq;
        match &committed.event {
            Event::FileWritten { number, name, lease, offset, bytes, .. } => {
                let new = || File { path: name.path().clone(), writes: Vec::new(), deleted: None };
                let offset = usize::try_from(*offset).unwrap_or(usize::MAX);
                let write = Write { seq: committed.seq, offset, bytes: bytes.whole(), token: lease.token };
                self.files.entry(*number).or_insert_with(new).writes.push(write);
            }
            Event::FileDeleted { number, .. } => {
                if let Some(file) = self.files.get_mut(number) {
                    file.deleted = Some(committed.seq);
                }
            }
            _ => {}
        }
    }

    /// One file, also one that was deleted.
    pub fn file(&self, number: u64) -> Option<&File> {
        self.files.get(&number)
    }

    /// All files, also those that were deleted.
    pub fn all(&self) -> impl Iterator<Item = (u64, &File)> {
        self.files.iter().map(|(number, file)| (*number, file))
    }

    /// The files there are, with their contents.
    pub fn contents(&self) -> BTreeMap<u64, Vec<u8>> {
        let live = self.files.iter().filter(|(_, file)| file.deleted.is_none());
        live.map(|(number, file)| (*number, file.content(self.last))).collect()
    }

    /// Whether two resources overlap, where the bytes of a file are one with its path, and so under all paths above.
    pub fn overlap(&self, a: &Resource, b: &Resource) -> bool {
        a.overlaps(b) || self.meets(a, b) || self.meets(b, a)
    }

    fn meets(&self, bytes: &Resource, path: &Resource) -> bool {
        match (bytes.kind(), path.kind()) {
            (Kind::Bytes(held), Kind::Path(_)) => {
                self.files.get(&held.inode).is_some_and(|file| path.covers(&file.path))
            }
            _ => false,
        }
    }
}

impl File {
    /// What it holds after an event.
    pub fn content(&self, through: Seq) -> Vec<u8> {
        let mut content = Vec::new();
        for write in self.writes.iter().take_while(|write| write.seq <= through) {
            write.put(&mut content);
        }
        content
    }
}

impl Write {
    /// Makes the write.
    pub fn put(&self, content: &mut Vec<u8>) {
        let end = self.offset + self.bytes.len();
        content.resize(content.len().max(end), 0);
        content[self.offset..end].copy_from_slice(&self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariants::samples::{deleted, written};

    #[test]
    fn adds_writes_up_and_joins_numbers_with_paths() {
        let mut model = FileModel::default();
        model.committed(&written(1, 10, "a/b", 0, b"hello"));
        model.committed(&written(2, 11, "a/b", 4, b"ish"));
        let number = crate::invariants::samples::FILE;
        let file = model.file(number).unwrap();
        assert_eq!((file.content(1), file.content(2)), (b"hello".to_vec(), b"hellish".to_vec()));
        assert_eq!(model.contents().len(), 1);
        let parse = |text: &str| Resource::parse(text).unwrap();
        let range = parse(&format!("range:{number}:5-9"));
        assert!(model.overlap(&range, &parse("path:/a")) && model.overlap(&parse("path:/a/b"), &range));
        assert!(!model.overlap(&range, &parse("path:/a/c")) && !model.overlap(&range, &parse("inode:7")));
        assert!(!model.overlap(&range, &parse("path:/a/b/c")), "nothing can lie below a file");
        model.committed(&deleted(3, 11, "a/b"));
        assert!(model.contents().is_empty());
        assert!(model.overlap(&range, &parse("path:/a")), "as long as leases on it live");
    }
}
