//! The journal in files: one write and one sync per batch into a segment prepared beforehand. Never tries a failed
//! write again, and never reads while it appends.

use leasehold_planted::{Bug, planted};

use crate::chores;
use crate::direct::Aligned;
use crate::disk::{Disk, DiskFile};
use crate::error::{OpenError, StorageError};
use crate::journal::{Chore, ChoreDone, ChoreKind, Extent, Journal, Outcome};
use crate::leisure::{Hurry, Leisure, leisure};
use crate::limits::{
    BATCH_BYTES_MAX, CUT_AT_BYTES_MIN, CUT_AT_PART, HURRY_AT_PART, PREPARE_AT_PART, RECORD_KEPT_BYTES,
    SECTOR_BYTES, SEGMENT_BYTES, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, SNAPSHOT_AFTER_BYTES,
};
use crate::record::{self, Place};
use crate::segment::{self, SegmentHeader, segment_name};

/// How a file journal is kept.
#[derive(Debug, Clone)]
pub struct Options {
    /// The id a journal gets when it is begun: random, so that files of two journals are never mixed up. A journal
    /// that exists keeps its own.
    pub journal_id: [u8; 16],
    /// Size of new segments.
    pub segment_bytes: u64,
    /// The largest batch; must fit into a segment.
    pub batch_bytes_max: usize,
    /// A snapshot is due when closed segments hold this much, or as much as the last snapshot if that is more.
    pub snapshot_after_bytes: u64,
}

impl Options {
    /// The defaults, for a journal that would be begun with this id.
    pub fn new(journal_id: [u8; 16]) -> Self {
        Self {
            journal_id,
            segment_bytes: SEGMENT_BYTES,
            batch_bytes_max: BATCH_BYTES_MAX,
            snapshot_after_bytes: SNAPSHOT_AFTER_BYTES,
        }
    }

    pub(crate) fn check(&self) -> Result<(), OpenError> {
        if !self.segment_bytes.is_multiple_of(SECTOR_BYTES as u64)
            || !(SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&self.segment_bytes)
        {
            return Err(OpenError::Options("segment_bytes must be whole sectors, from 4 KiB to 1 GiB"));
        }
        if self.batch_bytes_max as u64 > self.segment_bytes
            || (SECTOR_BYTES + record::record_bytes(self.batch_bytes_max)) as u64 > self.segment_bytes
        {
            return Err(OpenError::Options("segment_bytes must hold a batch of batch_bytes_max"));
        }
        Ok(())
    }
}

/// Ordered batches in the files of one directory.
pub struct FileJournal<D: Disk> {
    pub(crate) disk: D,
    pub(crate) options: Options,
    pub(crate) active: Active<D::File>,
    /// Segments that are full and not yet in a snapshot, oldest first.
    pub(crate) closed: Vec<Closed>,
    pub(crate) snapshot: Option<Snapshot>,
    pub(crate) next_index: u64,
    /// Checksum of the last record.
    pub(crate) chain: u32,
    pub(crate) prepared: Prepared,
    /// Counts temporary names, so that none is used twice.
    pub(crate) temporary: u64,
    pub(crate) snapshot_underway: Option<SnapshotUnderway>,
    /// How many closed segments there were when a snapshot found no room, or no state; 0 when it was not put off.
    pub(crate) put_off_at: usize,
    pub(crate) stopped: bool,
    /// Where a record is put together.
    pub(crate) record: Aligned,
}

/// The segment that is being written.
pub(crate) struct Active<F> {
    pub file: F,
    pub header: SegmentHeader,
    /// Where the next record goes.
    pub end: u64,
}

/// A segment that is full.
#[derive(Debug, Clone)]
pub(crate) struct Closed {
    pub first_index: u64,
    pub bytes: u64,
}

/// The newest snapshot.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    pub name: String,
    pub index: u64,
    pub bytes: u64,
}

/// A snapshot that is being made, or is about to be.
#[derive(Debug)]
pub(crate) struct SnapshotUnderway {
    pub hurry: Hurry,
    /// Whether a segment that is to be prepared has its turn after it.
    pub before_segment: bool,
}

/// The segment after the active one.
#[derive(Debug)]
pub(crate) enum Prepared {
    Nothing,
    Underway(Hurry),
    Ready(String),
}

impl<D: Disk> FileJournal<D> {
    /// The id the journal was begun with.
    pub fn journal_id(&self) -> [u8; 16] {
        self.active.header.journal_id
    }

    fn write(&mut self, payload: &[u8]) -> Result<u64, StorageError> {
        let length = record::record_bytes(payload.len());
        let bytes = length as u64;
        if self.active.end + bytes > self.active.header.bytes {
            self.next_segment()?;
        }
        let active = &mut self.active;
        let place = Place { seed: active.header.seed(), index: self.next_index, chain: self.chain };
        let record = self.record.zeros(length);
        let chain = record::encode(record, place, payload);
        assert!(active.end + bytes <= active.header.bytes, "a segment holds the largest batch");

        let path = |disk: &D| disk.path(&segment_name(active.header.first_index));
        if let Err(source) = active.file.write_at(active.end, record) {
            return Err(StorageError::Io { doing: "write to", path: path(&self.disk), source });
        }
        if !planted(Bug::SyncLeftOut)
            && let Err(source) = active.file.sync()
        {
            return Err(StorageError::Io { doing: "sync", path: path(&self.disk), source });
        }
        active.end += bytes;
        self.chain = chain;
        self.next_index += 1;
        self.record.shrink(RECORD_KEPT_BYTES);
        Ok(place.index)
    }

    /// Goes over to the next segment, preparing it here and now if no chore has done so in time.
    fn next_segment(&mut self) -> Result<(), StorageError> {
        let prepared = match std::mem::replace(&mut self.prepared, Prepared::Nothing) {
            Prepared::Ready(name) => name,
            other => {
                // What is still underway will serve the time after.
                self.prepared = other;
                let name = self.temporary_name();
                segment::prepare(&self.disk, &name, self.options.segment_bytes, Leisure::none())?;
                name
            }
        };
        let before = self.active.header;
        let header = SegmentHeader {
            journal_id: before.journal_id,
            number: before.number + 1,
            first_index: self.next_index,
            bytes: self.options.segment_bytes,
            chain: self.chain,
        };
        let file = segment::adopt(&self.disk, &prepared, &header)?;
        self.closed.push(Closed { first_index: before.first_index, bytes: before.bytes });
        self.active = Active { file, header, end: SECTOR_BYTES as u64 };
        Ok(())
    }

    fn temporary_name(&mut self) -> String {
        self.temporary += 1;
        format!("prepared-{}{}", self.temporary, crate::inventory::TEMPORARY)
    }

    fn prepare_chore(&mut self) -> Chore {
        let (hurry, leisure) = leisure();
        self.prepared = Prepared::Underway(hurry);
        let (disk, name, bytes) = (self.disk.clone(), self.temporary_name(), self.options.segment_bytes);
        Chore::new(ChoreKind::PrepareSegment, move |_| {
            segment::prepare(&disk, &name, bytes, leisure)?;
            Ok(Outcome::SegmentReady { name })
        })
    }

    /// A snapshot of everything before the active segment. `cut` says that the fold will be that already.
    fn snapshot_chore(&mut self, cut: bool) -> Chore {
        let (hurry, leisure) = leisure();
        self.snapshot_underway = Some(SnapshotUnderway { hurry, before_segment: false });
        let (disk, next) = (self.disk.clone(), self.active.header);
        let previous = self.snapshot.as_ref().map(|snapshot| snapshot.name.clone());
        let closed: Vec<_> = self.closed.iter().map(|closed| segment_name(closed.first_index)).collect();
        Chore::new(ChoreKind::Snapshot, move |fold| {
            if !cut {
                chores::add_up(&disk, previous.as_deref(), &closed, &next, fold, &leisure)?;
            }
            chores::publish(&disk, previous.as_deref(), &closed, &next, fold, leisure)
        })
    }

    fn closed_bytes(&self) -> u64 {
        self.closed.iter().map(|closed| closed.bytes).sum()
    }

    /// So much in closed segments makes a snapshot due.
    fn snapshot_at_bytes(&self) -> u64 {
        let last = self.snapshot.as_ref().map_or(0, |snapshot| snapshot.bytes);
        self.options.snapshot_after_bytes.max(last)
    }

    /// Whether a snapshot is due and has room. One that has none is looked at again when the next segment is full:
    /// until then the closed segments stay, and whoever watches the free space lets nothing new begin.
    fn snapshot_due(&mut self) -> bool {
        let closed = self.closed_bytes();
        let wanted = !self.closed.is_empty() && closed >= self.snapshot_at_bytes();
        if !wanted || self.put_off_at == self.closed.len() {
            return false;
        }
        // What is new in it is not longer than the records it comes from.
        let last = self.snapshot.as_ref().map_or(0, |snapshot| snapshot.bytes);
        let fits = self.disk.free_bytes().is_ok_and(|free| free >= last.saturating_add(closed));
        self.put_off_at = if fits { 0 } else { self.closed.len() };
        fits
    }
}

impl<D: Disk> Journal for FileJournal<D> {
    fn append(&mut self, payload: &[u8]) -> Result<u64, StorageError> {
        let bytes_max = self.options.batch_bytes_max;
        if self.stopped {
            return Err(StorageError::Stopped);
        }
        if payload.len() > bytes_max {
            return Err(StorageError::BatchTooLarge { bytes: payload.len(), bytes_max });
        }
        let written = self.write(payload);
        self.stopped = written.is_err();
        written
    }

    fn batch_bytes_max(&self) -> usize {
        self.options.batch_bytes_max
    }

    fn room(&self) -> Result<u64, StorageError> {
        self.disk.free_bytes().map_err(StorageError::io("measure the free space of", self.disk.path("")))
    }

    fn chores(&mut self) -> Vec<Chore> {
        let mut due = Vec::new();
        if self.stopped {
            return due;
        }
        let filled_to = |part: u64| self.active.end > self.active.header.bytes / part;
        let (prepares, hurries) = (filled_to(PREPARE_AT_PART), filled_to(HURRY_AT_PART));
        let snapshot_due = self.snapshot_underway.is_none() && self.snapshot_due();
        match &self.prepared {
            // Before a snapshot: that takes its time, and the next segment may be needed sooner.
            Prepared::Nothing if prepares || snapshot_due => {
                if let Some(snapshot) = &mut self.snapshot_underway {
                    snapshot.before_segment = true;
                }
                due.push(self.prepare_chore());
            }
            Prepared::Underway(hurry) if hurries => hurry.up(),
            _ => {}
        }
        if let Some(snapshot) = &self.snapshot_underway {
            // The next segment waits for it and is needed; or as much again is waiting for the next one.
            let waited_for = snapshot.before_segment && hurries;
            if waited_for || self.closed_bytes() / 2 >= self.snapshot_at_bytes() {
                snapshot.hurry.up();
            }
        } else if snapshot_due {
            due.push(self.snapshot_chore(false));
        }
        due
    }

    fn chore_done(&mut self, done: ChoreDone) -> Result<(), StorageError> {
        if self.stopped {
            return Err(StorageError::Stopped);
        }
        match done.outcome {
            Ok(Outcome::SegmentReady { name }) => {
                assert!(matches!(self.prepared, Prepared::Underway(_)), "one segment is prepared at a time");
                self.prepared = Prepared::Ready(name);
                Ok(())
            }
            Ok(Outcome::SnapshotPublished { name, index, bytes }) => {
                assert!(self.snapshot_underway.take().is_some(), "one snapshot is made at a time");
                self.closed.retain(|closed| closed.first_index > index);
                self.snapshot = Some(Snapshot { name, index, bytes });
                Ok(())
            }
            Ok(Outcome::SnapshotPutOff) => {
                assert!(self.snapshot_underway.take().is_some(), "one snapshot is made at a time");
                self.put_off_at = self.closed.len();
                Ok(())
            }
            Err(error) => {
                self.stopped = true;
                Err(error)
            }
        }
    }

    fn wants_cut(&self) -> bool {
        let Active { header, end, .. } = &self.active;
        // A segment that is not ready would have to be prepared while everybody waits.
        let goes_over_soon = matches!(self.prepared, Prepared::Ready(_))
            && header.bytes - end < (header.bytes / CUT_AT_PART).max(CUT_AT_BYTES_MIN);
        // What had to be put off once is added up.
        let snapshot_soon = self.snapshot_underway.is_none()
            && self.put_off_at == 0
            && self.closed_bytes() + header.bytes >= self.snapshot_at_bytes();
        !self.stopped && goes_over_soon && snapshot_soon
    }

    fn cut(&mut self) -> Result<Option<Chore>, StorageError> {
        if self.stopped {
            return Err(StorageError::Stopped);
        }
        assert!(self.snapshot_underway.is_none(), "one snapshot is made at a time");
        let gone_over = self.next_segment();
        self.stopped = gone_over.is_err();
        gone_over?;
        Ok(self.snapshot_due().then(|| self.snapshot_chore(true)))
    }

    fn extent(&self) -> Extent {
        let snapshot = self.snapshot.as_ref();
        Extent {
            last_index: self.next_index - 1,
            snapshot_index: snapshot.map_or(0, |snapshot| snapshot.index),
            segments: self.closed.len() as u64 + 1,
            bytes: self.closed.iter().map(|closed| closed.bytes).sum::<u64>()
                + self.active.header.bytes
                + snapshot.map_or(0, |snapshot| snapshot.bytes),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io;

    use super::*;
    use crate::faulty::FaultyDisk;

    struct Nothing;

    impl crate::Fold for Nothing {
        fn restore(&mut self, _: &mut dyn io::Read) -> Result<(), String> {
            Ok(())
        }

        fn replay(&mut self, _: &[u8]) -> Result<(), String> {
            Ok(())
        }

        fn write_snapshot(&mut self, _: &mut dyn io::Write) -> io::Result<()> {
            Ok(())
        }
    }

    /// A journal with segments of this size, a snapshot of which is due after two.
    fn begun(bytes: u64) -> FileJournal<FaultyDisk> {
        let options = Options {
            segment_bytes: bytes,
            batch_bytes_max: 1024,
            snapshot_after_bytes: 2 * bytes,
            ..Options::new([1; 16])
        };
        FileJournal::open(FaultyDisk::new(1), options, &mut Nothing).unwrap().0
    }

    /// Appends records of one sector until chores are due, or until so much of the active segment is filled.
    fn fill(journal: &mut FileJournal<FaultyDisk>, to_bytes: u64) -> Vec<Chore> {
        loop {
            journal.append(b"a batch").unwrap();
            let due = journal.chores();
            if !due.is_empty() || journal.active.end > to_bytes {
                return due;
            }
        }
    }

    /// Does what is due, and gives whether a snapshot was.
    fn do_all(journal: &mut FileJournal<FaultyDisk>, due: Vec<Chore>) -> bool {
        due.into_iter().fold(false, |snapshot, chore| {
            let kind = chore.kind();
            let done = chore.run(&mut Nothing);
            journal.chore_done(done).unwrap();
            snapshot || kind == ChoreKind::Snapshot
        })
    }

    #[test]
    fn a_cut_comes_before_the_snapshot_that_would_be_due_and_takes_its_place() {
        let bytes = 64 << 10;
        let mut journal = begun(bytes);
        let mut cuts = Vec::new();
        while cuts.len() < 3 {
            journal.append(b"a batch").unwrap();
            if journal.wants_cut() {
                assert_eq!(journal.closed.len(), 1, "with the second segment a snapshot would be due");
                let left = bytes - journal.active.end;
                assert!(left < bytes / CUT_AT_PART + CUT_AT_BYTES_MIN, "{left} bytes would stay unused");
                let last = journal.extent().last_index;
                let chore = journal.cut().unwrap().unwrap();
                assert!(!journal.wants_cut(), "one is under way");
                journal.append(b"a batch after it").unwrap();
                assert!(do_all(&mut journal, vec![chore]));
                assert_eq!(journal.extent().snapshot_index, last, "what came after it is not in it");
                cuts.push(last);
            }
            let due = journal.chores();
            assert!(!do_all(&mut journal, due), "nothing is added up");
        }
        // Nobody who could give a state: as if nothing had been asked.
        loop {
            journal.append(b"a batch").unwrap();
            let due = journal.chores();
            if do_all(&mut journal, due) {
                break;
            }
        }
        assert!(journal.extent().snapshot_index > cuts[2]);
    }

    #[test]
    fn a_cut_whose_state_cannot_be_had_loses_nothing_and_is_made_up_for() {
        let bytes = 16 << 10;
        let mut journal = begun(bytes);
        while !journal.wants_cut() {
            journal.append(b"a batch").unwrap();
            let due = journal.chores();
            do_all(&mut journal, due);
        }
        let chore = journal.cut().unwrap().unwrap();
        journal.chore_done(chore.put_off()).unwrap();
        assert_eq!((journal.closed.len(), journal.extent().snapshot_index), (2, 0));
        loop {
            journal.append(b"a batch").unwrap();
            assert!(!journal.wants_cut());
            let due = journal.chores();
            if do_all(&mut journal, due) {
                break;
            }
        }
        assert_eq!(journal.closed.len(), 0, "with the next segment everything was added up");
    }

    #[test]
    fn the_next_segment_comes_before_a_snapshot_and_one_that_waits_for_a_snapshot_hurries_it() {
        let (bytes, kind) = (8192, |chores: &[Chore]| chores.iter().map(Chore::kind).collect::<Vec<_>>());
        let mut journal = begun(bytes);
        let hurried = |journal: &FileJournal<FaultyDisk>| {
            journal.snapshot_underway.as_ref().map(|snapshot| snapshot.hurry.is_up())
        };
        // Two segments fill up, the next of each being prepared in time.
        let mut due = fill(&mut journal, u64::MAX);
        while kind(&due) == [ChoreKind::PrepareSegment] {
            let done = due.remove(0).run(&mut Nothing);
            journal.chore_done(done).unwrap();
            due = fill(&mut journal, u64::MAX);
        }
        assert_eq!(kind(&due), [ChoreKind::PrepareSegment, ChoreKind::Snapshot]);
        assert!(journal.active.end <= bytes / PREPARE_AT_PART, "long before it would be prepared otherwise");
        assert!(fill(&mut journal, bytes / HURRY_AT_PART).is_empty());
        assert!(matches!(&journal.prepared, Prepared::Underway(hurry) if hurry.is_up()));
        assert_eq!(hurried(&journal), Some(false), "nobody waits for it");

        let done = due.remove(0).run(&mut Nothing);
        journal.chore_done(done).unwrap();
        assert_eq!(kind(&fill(&mut journal, u64::MAX)), [ChoreKind::PrepareSegment]);
        assert_eq!(hurried(&journal), Some(false), "there is time");
        assert!(fill(&mut journal, bytes / HURRY_AT_PART).is_empty());
        assert_eq!(hurried(&journal), Some(true));
    }
}
