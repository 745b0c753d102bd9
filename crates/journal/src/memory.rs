//! The journal of a server that is told to keep nothing. Never touches a disk, and forgets every batch at once.

use crate::error::StorageError;
use crate::journal::{Chore, ChoreDone, Extent, Journal};
use crate::limits::BATCH_BYTES_MAX;

/// Counts batches and keeps none of them.
#[derive(Debug, Default)]
pub struct MemoryJournal {
    last_index: u64,
}

impl MemoryJournal {
    /// An empty journal.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Journal for MemoryJournal {
    fn append(&mut self, payload: &[u8]) -> Result<u64, StorageError> {
        if payload.len() > BATCH_BYTES_MAX {
            return Err(StorageError::BatchTooLarge { bytes: payload.len(), bytes_max: BATCH_BYTES_MAX });
        }
        self.last_index += 1;
        Ok(self.last_index)
    }

    fn batch_bytes_max(&self) -> usize {
        BATCH_BYTES_MAX
    }

    fn room(&self) -> Result<u64, StorageError> {
        Ok(u64::MAX)
    }

    fn chores(&mut self) -> Vec<Chore> {
        Vec::new()
    }

    fn chore_done(&mut self, done: ChoreDone) -> Result<(), StorageError> {
        done.outcome.map(|_| ())
    }

    fn extent(&self) -> Extent {
        Extent { last_index: self.last_index, ..Extent::default() }
    }
}
