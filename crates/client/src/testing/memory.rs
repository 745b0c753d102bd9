//! A journal and files in memory that outlive the server: what a restart recovers from. Keeps every batch for as long as the
//! test runs, and never fails.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasehold_engine::Replay;
use leasehold_files::{DiskStore, FileStore, MemoryDisk};
use leasehold_journal::limits::BATCH_BYTES_MAX;
use leasehold_journal::{Chore, ChoreDone, Extent, Fold, Journal, StorageError};
use leasehold_state_machine::limits::Limits;

/// Clones are the same journal, and the same files.
#[derive(Clone)]
pub(super) struct Memory {
    batches: Arc<Mutex<Vec<Vec<u8>>>>,
    files: Arc<dyn FileStore>,
}

impl Default for Memory {
    fn default() -> Memory {
        Memory { batches: Arc::default(), files: Arc::new(DiskStore::new(MemoryDisk::new())) }
    }
}

impl Memory {
    /// Everything that was made durable so far, added up.
    pub fn replay(&self) -> Replay {
        let mut replay = Replay::new(Limits::default());
        for batch in self.lock().iter() {
            let read = replay.replay(batch);
            assert!(read.is_ok(), "a batch of ours cannot be read back: {read:?}");
        }
        replay
    }

    /// Where the bytes of files are. What is durable is in them before the server can be killed, so that nothing is left
    /// to recover.
    pub fn files(&self) -> Arc<dyn FileStore> {
        Arc::clone(&self.files)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Journal for Memory {
    fn append(&mut self, payload: &[u8]) -> Result<u64, StorageError> {
        let mut batches = self.lock();
        batches.push(payload.to_vec());
        Ok(batches.len() as u64)
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
        done.error().map_or(Ok(()), |_| Err(StorageError::Stopped))
    }

    fn extent(&self) -> Extent {
        Extent { last_index: self.lock().len() as u64, ..Extent::default() }
    }
}
