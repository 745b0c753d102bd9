//! A fold whose snapshot is not written before the files are on the disk: what a snapshot replaces in the journal is then
//! not needed any more to put them right.

use std::io;

use leasehold_journal::{Fold, StorageError};
use leasehold_planted::{Bug, planted};

/// Syncs the files before it writes its snapshot.
pub struct SyncedFold<F, S> {
    fold: F,
    sync: S,
}

impl<F, S> SyncedFold<F, S>
where
    F: Fold,
    S: FnMut() -> Result<(), StorageError>,
{
    /// A fold, and what puts every change of a durable event into its file and makes the files durable.
    pub fn new(fold: F, sync: S) -> SyncedFold<F, S> {
        SyncedFold { fold, sync }
    }
}

impl<F, S> Fold for SyncedFold<F, S>
where
    F: Fold,
    S: FnMut() -> Result<(), StorageError>,
{
    fn restore(&mut self, snapshot: &mut dyn io::Read) -> Result<(), String> {
        self.fold.restore(snapshot)
    }

    fn replay(&mut self, payload: &[u8]) -> Result<(), String> {
        self.fold.replay(payload)
    }

    fn write_snapshot(&mut self, out: &mut dyn io::Write) -> io::Result<()> {
        // Whatever the reason: a snapshot that has no room is put off, but files that were not synced are the end.
        if !planted(Bug::SnapshotBeforeFiles) {
            (self.sync)().map_err(io::Error::other)?;
        }
        self.fold.write_snapshot(out)
    }
}
