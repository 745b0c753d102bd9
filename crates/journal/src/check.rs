//! Looks at a stopped server's directory: verifies all of it, and shows each record to whoever asks. Changes nothing,
//! not even a torn tail; opening the journal is what cuts that.

use std::io::Read;

use crate::disk::Disk;
use crate::error::OpenError;
use crate::inventory::Inventory;
use crate::scan::{self, Torn, Visit};

/// A sound journal, as it lies on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The id it was begun with.
    pub journal_id: [u8; 16],
    /// The snapshot it begins with.
    pub snapshot: Option<SnapshotReport>,
    /// The segments after the snapshot, oldest first.
    pub segments: Vec<SegmentReport>,
    /// Records after the snapshot.
    pub records: u64,
    /// Index of the last record; 0 when there is none.
    pub last_index: u64,
    /// The incomplete record at the end, which the next start will cut off.
    pub torn: Option<Torn>,
    /// Files that no longer count, which the next start will remove.
    pub leftovers: Vec<String>,
}

/// A snapshot, as it lies on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotReport {
    /// The file.
    pub path: String,
    /// The last record it holds.
    pub index: u64,
    /// Its length.
    pub bytes: u64,
}

/// A segment, as it lies on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentReport {
    /// The file.
    pub path: String,
    /// Its place in the journal's order, from 1.
    pub number: u64,
    /// Index of its first record.
    pub first_index: u64,
    /// How many records it holds.
    pub records: u64,
    /// Where its records end.
    pub used_bytes: u64,
    /// Its length.
    pub bytes: u64,
}

/// What a journal holds, in order.
pub enum Entry<'a> {
    /// The snapshot it begins with.
    Snapshot {
        /// The file.
        path: &'a str,
        /// The last record it holds.
        index: u64,
        /// Its content, verified as it is read; it need not be read to the end.
        content: &'a mut dyn Read,
    },
    /// A record after that.
    Record {
        /// The segment.
        path: &'a str,
        /// Where the record begins in it.
        offset: u64,
        /// Its index.
        index: u64,
        /// The batch.
        payload: &'a [u8],
    },
}

/// Verifies a directory. There may be no journal in it.
pub fn check<D: Disk>(disk: &D) -> Result<Option<Report>, OpenError> {
    dump(disk, &mut |_| Ok(()))
}

/// Verifies a directory and shows what it holds on the way, up to the damage if there is any. An entry that is
/// answered with a reason ends the reading with [`OpenError::Refused`].
pub fn dump<D: Disk>(
    disk: &D,
    show: &mut dyn FnMut(Entry<'_>) -> Result<(), String>,
) -> Result<Option<Report>, OpenError> {
    let inventory = Inventory::take(disk)?;
    if inventory.is_fresh() {
        return Ok(None);
    }
    let scanned = scan::scan(disk, &inventory, &mut Show(show))?;
    let segments: Vec<_> = scanned
        .segments
        .iter()
        .map(|segment| SegmentReport {
            path: disk.path(&segment.name),
            number: segment.header.number,
            first_index: segment.header.first_index,
            records: segment.records,
            used_bytes: segment.end,
            bytes: segment.header.bytes,
        })
        .collect();
    Ok(Some(Report {
        journal_id: scanned.cursor.journal_id.unwrap_or_default(),
        snapshot: scanned.snapshot.map(|(name, index, bytes)| SnapshotReport {
            path: disk.path(&name),
            index,
            bytes,
        }),
        records: segments.iter().map(|segment| segment.records).sum(),
        segments,
        last_index: scanned.cursor.next_index - 1,
        torn: scanned.segments.last().and_then(|segment| segment.torn.clone()),
        leftovers: inventory.leftovers().map(|name| disk.path(name)).collect(),
    }))
}

struct Show<'a>(&'a mut dyn FnMut(Entry<'_>) -> Result<(), String>);

impl Visit for Show<'_> {
    fn snapshot(&mut self, path: &str, index: u64, content: &mut dyn Read) -> Result<(), String> {
        (self.0)(Entry::Snapshot { path, index, content })
    }

    fn record(&mut self, path: &str, offset: u64, index: u64, payload: &[u8]) -> Result<(), String> {
        (self.0)(Entry::Record { path, offset, index, payload })
    }
}
