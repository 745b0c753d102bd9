//! Opens a file journal: read and verify everything first, and only when all of it is sound put the directory in
//! order. Never changes anything in a damaged directory, and never drops more than one torn record.
//!
//! Two things are made durable before the first batch. The last record and the folder's entries may be known to the
//! operating system only: a process that was killed, or whose sync failed, leaves them there, readable and not on
//! the disk. So the last record is written once more as it stands (a sector that is cut short in that has the same
//! bytes before and after), and the folder is synced.

use crate::chores::IntoFold;
use crate::direct::Aligned;
use crate::disk::{Disk, DiskFile};
use crate::error::{OpenError, StorageError};
use crate::file::{Active, Closed, FileJournal, Options, Prepared, Snapshot};
use crate::inventory::{Inventory, TEMPORARY};
use crate::journal::Fold;
use crate::leisure::Leisure;
use crate::limits::SECTOR_BYTES;
use crate::scan::{self, Segment, Torn};
use crate::segment::{self, SegmentHeader};

/// What an open journal was recovered from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Records replayed after the snapshot.
    pub records: u64,
    /// Bytes they take on disk.
    pub bytes: u64,
    /// Segments they were read from.
    pub segments: u64,
    /// Index through which the snapshot held; 0 when there was none.
    pub snapshot_index: u64,
    /// Bytes of the snapshot.
    pub snapshot_bytes: u64,
    /// Index of the last record; 0 when there was none.
    pub last_index: u64,
    /// The incomplete record at the end that was cut off.
    pub torn: Option<Torn>,
}

impl<D: Disk> FileJournal<D> {
    /// Replays what the directory holds into the fold, which must be fresh, and gets ready to append. An empty
    /// directory becomes a new journal.
    pub fn open(disk: D, options: Options, fold: &mut dyn Fold) -> Result<(Self, Recovery), OpenError> {
        options.check()?;
        let inventory = Inventory::take(&disk)?;
        if inventory.is_fresh() {
            remove(&disk, &inventory.temporary)?;
            return Ok((Self::begin(disk, options)?, Recovery::default()));
        }
        let mut into = IntoFold { fold, leisure: &Leisure::none() };
        let scanned = scan::scan(&disk, &inventory, &mut into)?;
        // From here on all is known to be sound.
        remove(&disk, &inventory.temporary)?;
        let mut segments = scanned.segments;
        let recovery = Recovery {
            records: segments.iter().map(|segment| segment.records).sum(),
            bytes: segments.iter().map(|segment| segment.end - SECTOR_BYTES as u64).sum(),
            segments: segments.len() as u64,
            snapshot_index: scanned.snapshot.as_ref().map_or(0, |(_, index, _)| *index),
            snapshot_bytes: scanned.snapshot.as_ref().map_or(0, |(_, _, bytes)| *bytes),
            last_index: scanned.cursor.next_index - 1,
            torn: segments.last().and_then(|segment| segment.torn.clone()),
        };
        let last = segments.pop();
        assert!(last.is_some(), "a scan finds at least one segment");
        let Some(last) = last else {
            return Err(OpenError::Options("no segment"));
        };
        let file = settle(&disk, &last, scanned.cursor.image())?;
        sync_folder(&disk)?;
        let superfluous: Vec<_> =
            inventory.leftovers().filter(|name| !name.ends_with(TEMPORARY)).cloned().collect();
        remove(&disk, &superfluous)?;

        let closed = segments
            .iter()
            .map(|segment| Closed { first_index: segment.header.first_index, bytes: segment.header.bytes })
            .collect();
        let journal = Self {
            disk,
            options,
            active: Active { file, header: last.header, end: last.end },
            closed,
            snapshot: scanned.snapshot.map(|(name, index, bytes)| Snapshot { name, index, bytes }),
            next_index: scanned.cursor.next_index,
            chain: scanned.cursor.chain,
            prepared: Prepared::Nothing,
            temporary: 0,
            snapshot_underway: None,
            put_off_at: 0,
            stopped: false,
            record: Aligned::default(),
        };
        Ok((journal, recovery))
    }

    /// Makes the first segment of a new journal.
    fn begin(disk: D, options: Options) -> Result<Self, StorageError> {
        let prepared = format!("prepared-0{TEMPORARY}");
        let header = SegmentHeader {
            journal_id: options.journal_id,
            number: 1,
            first_index: 1,
            bytes: options.segment_bytes,
            chain: 0,
        };
        segment::prepare(&disk, &prepared, header.bytes, Leisure::none())?;
        let file = segment::adopt(&disk, &prepared, &header)?;
        Ok(Self {
            disk,
            options,
            active: Active { file, header, end: SECTOR_BYTES as u64 },
            closed: Vec::new(),
            snapshot: None,
            next_index: 1,
            chain: 0,
            prepared: Prepared::Nothing,
            temporary: 0,
            snapshot_underway: None,
            put_off_at: 0,
            stopped: false,
            record: Aligned::default(),
        })
    }
}

/// Makes the last segment durable as it was read, without its torn tail, and opens it for appending.
fn settle<D: Disk>(disk: &D, last: &Segment, image: &[u8]) -> Result<D::File, StorageError> {
    if last.torn.is_some() {
        return cut(disk, last, image);
    }
    let path = || disk.path(&last.name);
    let mut file = disk.open(&last.name).map_err(StorageError::io("open", path()))?;
    if let Some((offset, bytes)) = last.last_record {
        let record = &image[to_usize(offset)..to_usize(offset + bytes)];
        file.write_at(offset, record).map_err(StorageError::io("write to", path()))?;
        file.sync().map_err(StorageError::io("sync", path()))?;
    }
    drop(file);
    segment::open(disk, &last.name)
}

/// Replaces the segment by a copy without the torn tail. The file itself stays as it is until its copy is durable,
/// so that a failure on the way leaves the same torn tail and nothing new.
fn cut<D: Disk>(disk: &D, last: &Segment, image: &[u8]) -> Result<D::File, StorageError> {
    let aside = format!("cut{TEMPORARY}");
    let path = || disk.path(&aside);
    let mut file = disk.create(&aside).map_err(StorageError::io("create", path()))?;
    segment::write_copy(&mut file, last.end, image).map_err(StorageError::io("write", path()))?;
    drop(file);
    disk.rename(&aside, &last.name).map_err(StorageError::io("replace", disk.path(&last.name)))?;
    segment::open(disk, &last.name)
}

fn remove<D: Disk>(disk: &D, names: &[String]) -> Result<(), StorageError> {
    for name in names {
        disk.remove(name).map_err(StorageError::io("remove", disk.path(name)))?;
    }
    if names.is_empty() { Ok(()) } else { sync_folder(disk) }
}

fn sync_folder<D: Disk>(disk: &D) -> Result<(), StorageError> {
    disk.sync_folder().map_err(StorageError::io("sync the directory", disk.path("")))
}

fn to_usize(offset: u64) -> usize {
    let fits = usize::try_from(offset);
    assert!(fits.is_ok(), "a segment fits into memory");
    fits.unwrap_or(0)
}
