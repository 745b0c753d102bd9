//! Reads a directory from its newest snapshot to its last record, and verifies every byte on the way. Changes
//! nothing: whoever scans decides afterwards what to do about a torn tail and about leftovers.

use std::io::Read;

use leasehold_planted::{Bug, planted};

use crate::direct::Aligned;
use crate::disk::{Disk, DiskFile};
use crate::error::{Damage, DamageKind, OpenError, StorageError};
use crate::image::{Image, Window};
use crate::inventory::Inventory;
use crate::limits::{SECTOR_BYTES, SEGMENT_BYTES_MAX};
use crate::segment::{FORMAT_VERSION, HeaderError, SegmentHeader, segment_name};
use crate::snapshot::{SnapshotError, SnapshotReader};
use crate::walk::{Step, Stopped, Walker};

/// Who hears what a scan reads, in order.
pub(crate) trait Visit {
    /// The newest snapshot.
    fn snapshot(&mut self, path: &str, index: u64, content: &mut dyn Read) -> Result<(), String>;
    /// One record after it.
    fn record(&mut self, path: &str, offset: u64, index: u64, payload: &[u8]) -> Result<(), String>;
}

/// A record that a crash left incomplete at the end of the last segment. It was never acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Torn {
    /// The segment.
    pub path: String,
    /// Where the record begins in it.
    pub offset: u64,
    /// From there to the last byte that may have been written.
    pub bytes: u64,
}

/// A segment that was read.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    pub name: String,
    pub header: SegmentHeader,
    pub records: u64,
    /// Where the next record would begin.
    pub end: u64,
    /// The last record's place, as (offset, bytes).
    pub last_record: Option<(u64, u64)>,
    pub torn: Option<Torn>,
}

/// The place a reader has come to. Each file read must continue exactly there.
pub(crate) struct Cursor {
    pub journal_id: Option<[u8; 16]>,
    /// Number of the segment that comes next.
    pub next_segment: u64,
    pub next_index: u64,
    pub chain: u32,
    /// The bytes of the segment read last, kept to be used again.
    image: Vec<u8>,
    /// Through which closed segments are read, kept as well.
    window: Aligned,
    payload: Vec<u8>,
    /// The segment read last: its path and where its records end.
    before: Option<(String, u64)>,
}

/// What a scan found.
pub(crate) struct Scanned {
    pub cursor: Cursor,
    /// The snapshot it began with, as (name, index, bytes).
    pub snapshot: Option<(String, u64, u64)>,
    /// The segments after it, at least one.
    pub segments: Vec<Segment>,
}

/// Reads everything from the newest snapshot on. There must be something: see [`Inventory::is_fresh`].
pub(crate) fn scan<D: Disk>(
    disk: &D,
    inventory: &Inventory,
    visit: &mut dyn Visit,
) -> Result<Scanned, OpenError> {
    let mut cursor = Cursor::start();
    let mut snapshot = None;
    if let Some((index, name)) = inventory.newest_snapshot() {
        let bytes = cursor.snapshot(disk, name, visit)?;
        snapshot = Some((name.clone(), *index, bytes));
    }
    let live = inventory.live_segments();
    if live.is_empty() {
        return Err(cursor.missing(disk));
    }
    let mut segments = Vec::with_capacity(live.len());
    for (place, (_, name)) in live.iter().enumerate() {
        segments.push(cursor.segment(disk, name, place + 1 == live.len(), visit)?);
    }
    Ok(Scanned { cursor, snapshot, segments })
}

impl Cursor {
    /// The very beginning of a journal.
    pub fn start() -> Self {
        Self {
            journal_id: None,
            next_segment: 1,
            next_index: 1,
            chain: 0,
            image: Vec::new(),
            window: Aligned::default(),
            payload: Vec::new(),
            before: None,
        }
    }

    /// Reads a snapshot, moves to the place behind it and returns its length.
    pub fn snapshot<D: Disk>(
        &mut self,
        disk: &D,
        name: &str,
        visit: &mut dyn Visit,
    ) -> Result<u64, OpenError> {
        let path = disk.path(name);
        let refuse = |error| match error {
            SnapshotError::Io(source) => {
                OpenError::Storage(StorageError::Io { doing: "read", path: path.clone(), source })
            }
            SnapshotError::Damaged(offset, kind) => damaged(&path, offset, kind),
            SnapshotError::Newer(version) => newer(&path, version),
        };
        let file = disk.open(name).map_err(StorageError::io("open", path.clone()))?;
        let (header, mut reader) = SnapshotReader::open(file).map_err(refuse)?;
        if name != crate::snapshot::snapshot_name(header.index) {
            return Err(damaged(&path, 32, DamageKind::Misnamed));
        }
        let heard = visit.snapshot(&path, header.index, &mut reader);
        // What is wrong with the bytes is the better explanation for whatever the listener made of them.
        let bytes = reader.finish().map_err(refuse)?;
        heard.map_err(|reason| OpenError::Refused { path, offset: 0, index: header.index, reason })?;
        self.journal_id = Some(header.journal_id);
        self.next_segment = header.next_segment;
        self.next_index = header.index + 1;
        self.chain = header.chain;
        Ok(bytes)
    }

    /// Reads a segment that must continue here, and moves behind it. Only in the last one may the tail be torn.
    pub fn segment<D: Disk>(
        &mut self,
        disk: &D,
        name: &str,
        last: bool,
        visit: &mut dyn Visit,
    ) -> Result<Segment, OpenError> {
        let header = self.read_image(disk, name)?;
        let image = std::mem::take(&mut self.image);
        let walked = self.walk(disk, name, header, &image[..], last, visit);
        self.image = image;
        walked
    }

    /// The same of a segment that no longer changes, with no more of it in memory than what is being read.
    pub fn closed_segment<D: Disk>(
        &mut self,
        disk: &D,
        name: &str,
        visit: &mut dyn Visit,
    ) -> Result<Segment, OpenError> {
        let path = disk.path(name);
        let file = disk.open_direct(name).map_err(StorageError::io("open", path.clone()))?;
        let found = file.len().map_err(StorageError::io("measure", path.clone()))?;
        let sectors = found_sectors(&path, found)?;
        let mut memory = std::mem::take(&mut self.window);
        let mut window = Window::new(&file, sectors * SECTOR_BYTES, &mut memory);
        let sector = window.look(0, SECTOR_BYTES).map_err(StorageError::io("read", path.clone()))?;
        let header = header(&path, sector, found)?;
        let walked = self.walk(disk, name, header, window, false, visit);
        self.window = memory;
        walked
    }

    fn walk<D: Disk>(
        &mut self,
        disk: &D,
        name: &str,
        header: SegmentHeader,
        image: impl Image,
        last: bool,
        visit: &mut dyn Visit,
    ) -> Result<Segment, OpenError> {
        let path = disk.path(name);
        self.check_order(disk, name, &header)?;

        let (mut records, mut last_record) = (0, None);
        let mut walker = Walker::new(image, &header);
        let torn = loop {
            let step = match walker.step(&mut self.payload) {
                Err(Stopped::Damaged(offset, _)) if last && planted(Bug::DamageCutOff) => {
                    Ok(Step::Torn { offset, bytes: 0 })
                }
                step => step,
            };
            let step = step.map_err(|stopped| match stopped {
                Stopped::Damaged(offset, kind) => damaged(&path, offset as u64, kind),
                Stopped::Unread(error) => StorageError::io("read", path.clone())(error).into(),
            })?;
            match step {
                Step::Record { offset, bytes, index } => {
                    let offset = offset as u64;
                    visit
                        .record(&path, offset, index, &self.payload)
                        .map_err(|reason| OpenError::Refused { path: path.clone(), offset, index, reason })?;
                    records += 1;
                    last_record = Some((offset, bytes as u64));
                }
                Step::End => break None,
                Step::Torn { offset, bytes } if last => {
                    break Some(Torn { path: path.clone(), offset: offset as u64, bytes: bytes as u64 });
                }
                Step::Torn { offset, .. } => {
                    let kind = DamageKind::Missing { index: walker.next_index };
                    return Err(damaged(&path, offset as u64, kind));
                }
            }
        };
        let end = walker.end as u64;
        self.next_index = walker.next_index;
        self.chain = walker.chain;
        self.next_segment += 1;
        self.before = Some((path, end));
        Ok(Segment { name: name.to_owned(), header, records, end, last_record, torn })
    }

    /// The bytes of the segment read last.
    pub fn image(&self) -> &[u8] {
        &self.image
    }

    /// Reads the whole file into memory, and checks that it is a segment and as long as it says.
    fn read_image<D: Disk>(&mut self, disk: &D, name: &str) -> Result<SegmentHeader, OpenError> {
        let path = disk.path(name);
        let file = disk.open(name).map_err(StorageError::io("open", path.clone()))?;
        let found = file.len().map_err(StorageError::io("measure", path.clone()))?;
        let sectors = found_sectors(&path, found)?;
        let mut sector = [0; SECTOR_BYTES];
        file.read_at(0, &mut sector).map_err(StorageError::io("read", path.clone()))?;
        let header = header(&path, &sector, found)?;
        self.image.resize(sectors * SECTOR_BYTES, 0);
        file.read_at(0, &mut self.image).map_err(StorageError::io("read", path))?;
        Ok(header)
    }

    /// Whether a segment with this name and header continues exactly here.
    pub fn check_order<D: Disk>(
        &mut self,
        disk: &D,
        name: &str,
        header: &SegmentHeader,
    ) -> Result<(), OpenError> {
        let path = disk.path(name);
        let expected = *self.journal_id.get_or_insert(header.journal_id);
        if header.journal_id != expected {
            return Err(OpenError::Foreign { path, found: header.journal_id, expected });
        }
        if name != segment_name(header.first_index) {
            return Err(damaged(&path, 40, DamageKind::Misnamed));
        }
        if header.number > self.next_segment {
            return Err(self.missing(disk));
        }
        if header.number < self.next_segment {
            return Err(damaged(&path, 32, DamageKind::OutOfOrder));
        }
        if header.first_index > self.next_index {
            // This is the next segment, so it is the one before that has lost its end.
            let (path, offset) = self.before.clone().unwrap_or((path, 40));
            return Err(damaged(&path, offset, DamageKind::Missing { index: self.next_index }));
        }
        if header.first_index < self.next_index {
            return Err(damaged(&path, 40, DamageKind::OutOfOrder));
        }
        if header.chain != self.chain {
            return Err(damaged(&path, 56, DamageKind::OutOfOrder));
        }
        Ok(())
    }

    /// The segment that should continue here is not there.
    fn missing<D: Disk>(&self, disk: &D) -> OpenError {
        let index = self.next_index;
        damaged(&disk.path(&segment_name(index)), 0, DamageKind::Missing { index })
    }
}

/// How many whole sectors a file of this length has: at least one, for its header.
fn found_sectors(path: &str, found: u64) -> Result<usize, OpenError> {
    match usize::try_from(found).unwrap_or(usize::MAX) / SECTOR_BYTES {
        0 => {
            let expected = SECTOR_BYTES as u64;
            Err(damaged(path, found, DamageKind::Length { expected, found }))
        }
        sectors => Ok(sectors),
    }
}

/// What the first sector of a file of this length says, if it is a segment's and the file is as long as it says.
fn header(path: &str, sector: &[u8], found: u64) -> Result<SegmentHeader, OpenError> {
    let header = SegmentHeader::decode(sector).map_err(|error| match error {
        HeaderError::Damaged(kind) => damaged(path, 0, kind),
        HeaderError::Newer(version) => newer(path, version),
    })?;
    let expected = header.bytes;
    if found != expected {
        return Err(damaged(path, found.min(expected), DamageKind::Length { expected, found }));
    }
    if found > SEGMENT_BYTES_MAX || !found.is_multiple_of(SECTOR_BYTES as u64) {
        return Err(damaged(path, 48, DamageKind::Length { expected: SEGMENT_BYTES_MAX, found }));
    }
    Ok(header)
}

fn damaged(path: &str, offset: u64, kind: DamageKind) -> OpenError {
    OpenError::Damaged(Damage { path: path.to_owned(), offset, kind })
}

fn newer(path: &str, version: u32) -> OpenError {
    OpenError::NewerFormat { path: path.to_owned(), version, supported: FORMAT_VERSION }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faulty::FaultyDisk;
    use crate::limits::WINDOW_BYTES;
    use crate::record::{self, Place};

    /// Remembers what it has heard.
    #[derive(Default)]
    struct Notes(Vec<(u64, u64, usize)>);

    impl Visit for Notes {
        fn snapshot(&mut self, _: &str, _: u64, _: &mut dyn Read) -> Result<(), String> {
            Ok(())
        }

        fn record(&mut self, _: &str, offset: u64, index: u64, payload: &[u8]) -> Result<(), String> {
            self.0.push((offset, index, payload.len()));
            Ok(())
        }
    }

    /// A segment of several windows, some records of which are longer than one, with room left at its end.
    fn segment() -> (SegmentHeader, Vec<u8>) {
        let mut image = vec![0; 8 * WINDOW_BYTES];
        let bytes = image.len() as u64;
        let header = SegmentHeader { journal_id: [7; 16], number: 1, first_index: 1, bytes, chain: 0 };
        image[..SECTOR_BYTES].copy_from_slice(&header.encode());
        let (mut at, mut chain) = (SECTOR_BYTES, 0);
        for index in 1.. {
            let batch = vec![index as u8; if index % 40 == 7 { WINDOW_BYTES + 99 } else { 9_000 }];
            let to = at + record::record_bytes(batch.len());
            if to > 6 * WINDOW_BYTES {
                break;
            }
            chain = record::encode(&mut image[at..to], Place { seed: header.seed(), index, chain }, &batch);
            at = to;
        }
        (header, image)
    }

    /// What both ways of reading make of these bytes, which must be the same.
    fn read(header: &SegmentHeader, image: &[u8]) -> String {
        let (disk, name) = (FaultyDisk::new(1), segment_name(header.first_index));
        disk.create(&name).unwrap().write_at(0, image).unwrap();
        let (mut whole, mut windowed) = (Notes::default(), Notes::default());
        let at_once = Cursor::start().segment(&disk, &name, false, &mut whole);
        let by_and_by = Cursor::start().closed_segment(&disk, &name, &mut windowed);
        let (at_once, by_and_by) = (format!("{at_once:?}"), format!("{by_and_by:?}"));
        assert_eq!(by_and_by, at_once);
        assert_eq!(windowed.0, whole.0);
        at_once
    }

    #[test]
    fn a_closed_segment_is_read_piece_by_piece_as_it_is_at_once() {
        let (header, image) = segment();
        assert!(read(&header, &image).starts_with("Ok"));
        let mut chance: u64 = 3;
        let mut refused = 0;
        for _ in 0..150 {
            chance = chance.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let sector = (chance >> 33) as usize % (image.len() / SECTOR_BYTES) * SECTOR_BYTES;
            let mut damaged = image.clone();
            match chance >> 61 {
                0 | 1 => damaged[sector..sector + SECTOR_BYTES].fill(0),
                // From here on nothing was written.
                2 | 3 => damaged[sector.max(SECTOR_BYTES)..].fill(0),
                _ => damaged[sector + (chance >> 20) as usize % SECTOR_BYTES] ^= 1,
            }
            refused += usize::from(read(&header, &damaged).starts_with("Err"));
        }
        assert!((50..150).contains(&refused), "{refused}");
        for cut in [1, SECTOR_BYTES, image.len() - SECTOR_BYTES / 2, image.len()] {
            assert!(read(&header, &image[..image.len() - cut]).starts_with("Err"), "{cut}");
        }
    }
}
