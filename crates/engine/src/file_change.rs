//! What a durable event does to the files: bytes to put, a file to take away. Says in which order by its number; decides
//! nothing, and knows no names.

use std::sync::Arc;

use leasehold_files::FileStore;
use leasehold_journal::StorageError;
use leasehold_state_machine::event::Event;

/// A change of one file.
#[derive(Clone, Debug)]
pub struct FileChange {
    /// Which file. Changes of one file are made in the order of their events.
    pub number: u64,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    Write { offset: u64, bytes: Arc<[u8]> },
    Remove,
}

impl FileChange {
    /// What an event does to a file, if it does anything.
    pub(crate) fn of(event: &Event) -> Option<FileChange> {
        match event {
            Event::FileWritten { number, offset, bytes, .. } => {
                let what = What::Write { offset: *offset, bytes: bytes.whole() };
                Some(FileChange { number: *number, what })
            }
            Event::FileDeleted { number, .. } => Some(FileChange { number: *number, what: What::Remove }),
            _ => None,
        }
    }

    /// Makes the change. May be made again, in order: the files end as if it had been made once.
    pub fn apply(&self, files: &dyn FileStore) -> Result<(), StorageError> {
        match &self.what {
            What::Write { offset, bytes } => files.write(self.number, *offset, bytes),
            What::Remove => files.remove(self.number),
        }
    }

    /// How many bytes it brings.
    pub fn len(&self) -> usize {
        match &self.what {
            What::Write { bytes, .. } => bytes.len(),
            What::Remove => 0,
        }
    }

    /// Whether it brings none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
