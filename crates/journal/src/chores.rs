//! The background snapshot: a second copy of the state moves on from the last snapshot over the closed segments, or the state
//! itself is there as of their end; it is written out. Reads only what no longer changes, and removes only what the new snapshot
//! replaces, after that snapshot is durable.

use std::io;

use crate::disk::Disk;
use crate::error::{OpenError, StorageError};
use crate::inventory::TEMPORARY;
use crate::journal::{Fold, Outcome};
use crate::leisure::Leisure;
use crate::scan::{Cursor, Visit};
use crate::segment::{SegmentHeader, segment_name};
use crate::snapshot::{SnapshotHeader, SnapshotWriter, snapshot_name};

/// Lets a fold hear what a scan reads, giving way to others between records if there is time.
pub(crate) struct IntoFold<'a> {
    pub fold: &'a mut dyn Fold,
    pub leisure: &'a Leisure,
}

impl Visit for IntoFold<'_> {
    fn snapshot(&mut self, _path: &str, _index: u64, content: &mut dyn io::Read) -> Result<(), String> {
        self.fold.restore(content)
    }

    fn record(&mut self, _path: &str, _offset: u64, _index: u64, payload: &[u8]) -> Result<(), String> {
        self.leisure.give_way();
        self.fold.replay(payload)
    }
}

/// Adds up the previous snapshot and these closed segments, which must lead up to the segment with this header.
pub(crate) fn add_up<D: Disk>(
    disk: &D,
    previous: Option<&str>,
    closed: &[String],
    next: &SegmentHeader,
    fold: &mut dyn Fold,
    leisure: &Leisure,
) -> Result<(), StorageError> {
    replay(disk, previous, closed, next, fold, leisure).map_err(|error| match error {
        OpenError::Storage(error) => error,
        other => StorageError::Background(Box::new(other)),
    })
}

/// Makes a snapshot of the fold, which is the state before the segment with this header, and lets it take the place of the
/// previous one and of these closed segments.
pub(crate) fn publish<D: Disk>(
    disk: &D,
    previous: Option<&str>,
    closed: &[String],
    next: &SegmentHeader,
    fold: &mut dyn Fold,
    leisure: Leisure,
) -> Result<Outcome, StorageError> {
    let header = SnapshotHeader::before(next);
    let name = snapshot_name(header.index);
    let aside = format!("{name}{TEMPORARY}");
    let mut file = disk.create(&aside).map_err(StorageError::io("create", disk.path(&aside)))?;
    let write = || {
        let mut writer = SnapshotWriter::new(&mut file, &header, leisure)?;
        fold.write_snapshot(&mut writer)?;
        writer.finish()
    };
    let bytes = match write() {
        Ok(bytes) => bytes,
        // Nobody rests on what stands aside: without room for it everything stays as it is, and it is tried again later.
        Err(error) if error.kind() == io::ErrorKind::StorageFull => {
            disk.remove(&aside).map_err(StorageError::io("remove", disk.path(&aside)))?;
            return Ok(Outcome::SnapshotPutOff);
        }
        Err(error) => return Err(StorageError::io("write", disk.path(&aside))(error)),
    };
    let sync_folder = || disk.sync_folder().map_err(StorageError::io("sync the directory", disk.path("")));
    disk.rename(&aside, &name).map_err(StorageError::io("name", disk.path(&name)))?;
    sync_folder()?;

    for old in closed.iter().map(String::as_str).chain(previous) {
        disk.remove(old).map_err(StorageError::io("remove", disk.path(old)))?;
    }
    sync_folder()?;
    Ok(Outcome::SnapshotPublished { name, index: header.index, bytes })
}

fn replay<D: Disk>(
    disk: &D,
    previous: Option<&str>,
    closed: &[String],
    next: &SegmentHeader,
    fold: &mut dyn Fold,
    leisure: &Leisure,
) -> Result<(), OpenError> {
    let mut cursor = Cursor::start();
    let mut into = IntoFold { fold, leisure };
    if let Some(name) = previous {
        cursor.snapshot(disk, name, &mut into)?;
    }
    for name in closed {
        cursor.closed_segment(disk, name, &mut into)?;
    }
    // A snapshot of less than there was would be the end of the rest.
    cursor.check_order(disk, &segment_name(next.first_index), next)
}
