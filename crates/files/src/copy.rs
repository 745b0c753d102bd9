//! Copies all files of a store that may be written to meanwhile. A file is copied as it is read, with whatever comes in on
//! the way: the journal that is copied afterwards has every write since, and puts it right. Never changes the source.

use std::io;

use leasehold_journal::{Disk, DiskFile, StorageError};

use crate::disk_store::number;
use crate::limits::{COPY_BYTES, COPY_SYNC_BYTES};

/// Copies all files to a directory, replacing those of an earlier try, and makes them durable. Calls `pulse` again and
/// again. How many bytes were copied.
pub fn copy<S: Disk, T: Disk>(
    source: &S,
    target: &T,
    pulse: &mut dyn FnMut() -> Result<(), StorageError>,
) -> Result<u64, StorageError> {
    for name in files(target)? {
        target.remove(&name).map_err(StorageError::io("remove", target.path(&name)))?;
    }
    let mut bytes = 0;
    for name in files(source)? {
        pulse()?;
        bytes += copy_one(source, &name, target, pulse)?;
    }
    target.sync_folder().map_err(StorageError::io("sync the directory", target.path("")))?;
    Ok(bytes)
}

/// The names of all files in a directory.
fn files<D: Disk>(disk: &D) -> Result<Vec<String>, StorageError> {
    let mut names = disk.list().map_err(StorageError::io("list", disk.path("")))?;
    names.retain(|name| number(name).is_some());
    Ok(names)
}

fn copy_one<S: Disk, T: Disk>(
    source: &S,
    name: &str,
    target: &T,
    pulse: &mut dyn FnMut() -> Result<(), StorageError>,
) -> Result<u64, StorageError> {
    let reading = |doing| StorageError::io(doing, source.path(name));
    let writing = |doing| StorageError::io(doing, target.path(name));
    let from = match source.open(name) {
        Ok(from) => from,
        // Deleted since it was listed.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(reading("open")(error)),
    };
    let length = from.len().map_err(reading("measure"))?;
    let mut to = target.create(name).map_err(writing("create"))?;
    let mut buffer = vec![0; COPY_BYTES];
    let mut at = 0;
    while at < length {
        let piece = usize::try_from(length - at).unwrap_or(usize::MAX).min(buffer.len());
        from.read_at(at, &mut buffer[..piece]).map_err(reading("read"))?;
        to.write_at(at, &buffer[..piece]).map_err(writing("write to"))?;
        at += piece as u64;
        if at.is_multiple_of(COPY_SYNC_BYTES) {
            to.sync().map_err(writing("sync"))?;
        }
        pulse()?;
    }
    to.sync().map_err(writing("sync"))?;
    Ok(length)
}
