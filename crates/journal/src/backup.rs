//! Copies the directory of a running server, without its lock and without slowing it. Takes whole records only, never
//! changes the source, and never leaves a half-made copy that would pass for an older journal.

use std::fmt;
use std::io;

use crate::check::{self, Report};
use crate::disk::{Disk, DiskFile};
use crate::error::{Damage, OpenError, StorageError};
use crate::held::Held;
use crate::inventory::{Inventory, TEMPORARY};
use crate::limits::{BACKUP_TRIES, COPY_PIECE_BYTES};
use crate::scan::{Cursor, Segment, Visit};
use crate::segment;

/// What was copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupReport {
    /// The copy, verified.
    pub copy: Report,
    /// Bytes in its files.
    pub bytes: u64,
    /// How often it took to get there; more than 1 when files were trimmed away meanwhile.
    pub tries: u32,
}

/// Why there is no backup.
#[derive(Debug)]
pub enum BackupError {
    /// There is no journal in the source directory.
    Nothing(String),
    /// The directory for the copy has a journal's files in it.
    Occupied(String),
    /// The source could not be read.
    Source(OpenError),
    /// The copy could not be written.
    Target(StorageError),
    /// What belongs with the journal could not be copied.
    Beside(StorageError),
    /// The copy was written, and does not verify.
    Copy(OpenError),
    /// Files were trimmed away faster than they could be copied.
    Restless(u32),
}

impl fmt::Display for BackupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing(path) => write!(f, "there is no journal in {path}"),
            Self::Occupied(path) => write!(f, "there is a journal in {path} already; choose a new directory"),
            Self::Source(error) => error.fmt(f),
            Self::Target(error) | Self::Beside(error) => error.fmt(f),
            Self::Copy(error) => write!(f, "the copy is not sound: {error}"),
            Self::Restless(tries) => {
                write!(f, "the journal's files changed during each of {tries} tries; try again")
            }
        }
    }
}

impl std::error::Error for BackupError {}

impl From<OpenError> for BackupError {
    fn from(error: OpenError) -> Self {
        Self::Source(error)
    }
}

/// Copies what belongs with a journal, and is told how to keep hold of the journal meanwhile.
pub type Beside<'a> =
    dyn FnMut(&mut dyn FnMut() -> Result<(), StorageError>) -> Result<(), StorageError> + 'a;

/// Copies the journal in `source`, which a server may be writing to, to `target`, which must hold none. Everything
/// acknowledged before the call is in the copy.
pub fn backup<S: Disk, T: Disk>(source: &S, target: &T) -> Result<BackupReport, BackupError> {
    backup_beside(source, target, &mut |_| Ok(()))
}

/// The same for a journal that has something beside it: what `beside` copies is at least as new as the snapshot in the
/// journal's copy, and at most as new as its end. `beside` must call what it is given again and again while it copies:
/// with that the journal's files are held, however far the server trims them meanwhile. It may be called more than once,
/// and begins anew each time. Until it has finished, nobody takes the copy for a journal.
pub fn backup_beside<S: Disk, T: Disk>(
    source: &S,
    target: &T,
    beside: &mut Beside<'_>,
) -> Result<BackupReport, BackupError> {
    if Inventory::take(target).map_err(BackupError::Copy)? != Inventory::default() {
        return Err(BackupError::Occupied(target.path("")));
    }
    for tries in 1..=BACKUP_TRIES {
        let inventory = Inventory::take(source)?;
        if inventory.is_fresh() {
            return Err(BackupError::Nothing(source.path("")));
        }
        match copy_all(source, target, beside) {
            Ok(bytes) => {
                let report = check::check(target).map_err(BackupError::Copy)?;
                let copy = report.ok_or_else(|| BackupError::Nothing(target.path("")))?;
                return Ok(BackupReport { copy, bytes, tries });
            }
            Err(error) => {
                clear(target).map_err(BackupError::Target)?;
                // A listing made in the middle of a trim may lack files or name some that are gone.
                let of_source = matches!(
                    error,
                    BackupError::Source(_) | BackupError::Beside(StorageError::Background(_))
                );
                if !(vanished(&error) || of_source && Inventory::take(source)? != inventory) {
                    return Err(error);
                }
            }
        }
    }
    Err(BackupError::Restless(BACKUP_TRIES))
}

fn copy_all<S: Disk, T: Disk>(source: &S, target: &T, beside: &mut Beside<'_>) -> Result<u64, BackupError> {
    let held = Held::begin(source)?;
    let mut follow = || {
        held.follow().map_err(|error| match error {
            OpenError::Storage(error) => error,
            other => StorageError::Background(Box::new(other)),
        })
    };
    beside(&mut follow).map_err(BackupError::Beside)?;
    follow().map_err(OpenError::from)?;
    copy(&held, &Inventory::take(&held)?, target)
}

fn vanished(error: &BackupError) -> bool {
    matches!(
        error,
        BackupError::Source(OpenError::Storage(StorageError::Io { source, .. }))
            | BackupError::Beside(StorageError::Io { source, .. })
            if source.kind() == io::ErrorKind::NotFound
    )
}

/// Copies everything under temporary names, then names it from the newest file to the oldest: until the last of
/// these names is given, the beginning is missing and nobody takes the copy for a journal.
fn copy<S: Disk, T: Disk>(source: &S, inventory: &Inventory, target: &T) -> Result<u64, BackupError> {
    let mut cursor = Cursor::start();
    let mut copied = Vec::new();
    let mut bytes = 0;
    if let Some((_, name)) = inventory.newest_snapshot() {
        cursor.snapshot(source, name, &mut Nobody)?;
        bytes += copy_file(source, name, target)?;
        copied.push(name);
    }
    let live = inventory.live_segments();
    for (place, (_, name)) in live.iter().enumerate() {
        let segment = read_segment(&mut cursor, source, name, place + 1 == live.len())?;
        write_segment(target, &segment, cursor.image()).map_err(BackupError::Target)?;
        bytes += segment.header.bytes;
        copied.push(name);
    }
    let finish = || {
        for name in copied.iter().rev() {
            let aside = format!("{name}{TEMPORARY}");
            target.rename(&aside, name).map_err(StorageError::io("name", target.path(name)))?;
            target.sync_folder().map_err(StorageError::io("sync the directory", target.path("")))?;
        }
        Ok(())
    };
    finish().map_err(BackupError::Target)?;
    Ok(bytes)
}

/// Reads a segment that may be growing. A record that is written while the file is being read may be seen as a hole
/// before later records; read again, it is whole. Damage is what stays where it is.
fn read_segment<D: Disk>(
    cursor: &mut Cursor,
    disk: &D,
    name: &str,
    last: bool,
) -> Result<Segment, OpenError> {
    let mut before: Option<Damage> = None;
    loop {
        match cursor.segment(disk, name, last, &mut Nobody) {
            Err(OpenError::Damaged(damage)) if last && before.as_ref() != Some(&damage) => {
                before = Some(damage);
            }
            result => return result,
        }
    }
}

/// Writes the whole records of a segment, and zeros behind them as if nothing more had been begun.
fn write_segment<D: Disk>(disk: &D, segment: &Segment, image: &[u8]) -> Result<(), StorageError> {
    let aside = format!("{}{TEMPORARY}", segment.name);
    let mut file = disk.create(&aside).map_err(StorageError::io("create", disk.path(&aside)))?;
    segment::write_copy(&mut file, segment.end, image).map_err(StorageError::io("write", disk.path(&aside)))
}

/// Copies a file that no longer changes, and syncs it.
fn copy_file<S: Disk, T: Disk>(source: &S, name: &str, target: &T) -> Result<u64, BackupError> {
    let reading = |doing| StorageError::io(doing, source.path(name));
    let aside = format!("{name}{TEMPORARY}");
    let writing = |doing| StorageError::io(doing, target.path(&aside));
    let from = source.open(name).map_err(reading("open")).map_err(OpenError::from)?;
    let length = from.len().map_err(reading("measure")).map_err(OpenError::from)?;
    let mut to = target.create(&aside).map_err(writing("create")).map_err(BackupError::Target)?;
    let mut buffer = vec![0; COPY_PIECE_BYTES];
    let mut at = 0;
    while at < length {
        let piece = usize::try_from(length - at).unwrap_or(usize::MAX).min(buffer.len());
        from.read_at(at, &mut buffer[..piece]).map_err(reading("read")).map_err(OpenError::from)?;
        to.write_at(at, &buffer[..piece]).map_err(writing("write")).map_err(BackupError::Target)?;
        at += piece as u64;
    }
    to.sync().map_err(writing("sync")).map_err(BackupError::Target)?;
    Ok(length)
}

/// Removes what an unsuccessful try has left in the target.
fn clear<D: Disk>(disk: &D) -> Result<(), StorageError> {
    let names = disk.list().map_err(StorageError::io("list", disk.path("")))?;
    for name in names.iter().filter(|name| name.starts_with("segment-") || name.starts_with("snapshot-")) {
        disk.remove(name).map_err(StorageError::io("remove", disk.path(name)))?;
    }
    Ok(())
}

struct Nobody;

impl Visit for Nobody {
    fn snapshot(&mut self, _path: &str, _index: u64, _content: &mut dyn io::Read) -> Result<(), String> {
        Ok(())
    }

    fn record(&mut self, _path: &str, _offset: u64, _index: u64, _payload: &[u8]) -> Result<(), String> {
        Ok(())
    }
}
