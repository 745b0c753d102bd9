//! Chores: disk use stays bounded however much is appended, and appends never wait for a snapshot.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use leasehold_journal::{
    Chore, ChoreKind, FaultyDisk, FileJournal, Journal, MemoryJournal, Options, StorageError,
};
use support::{Counter, Memory, Random, batch, open, tiny};

#[test]
fn disk_use_stays_bounded_over_many_appends() {
    let disk = FaultyDisk::new(1);
    let mut fold = Counter::default();
    let (mut journal, _) = FileJournal::open(disk.clone(), tiny(), &mut fold).unwrap();
    let mut random = Random(4);
    let (mut snapshots, mut most, mut underway) = (0, 0, Vec::<Chore>::new());
    let appends = 60_000_u64;
    for number in 1..=appends {
        journal.append(&batch(number, 8 + random.below(300) as usize)).unwrap();
        underway.extend(journal.chores());
        // Chores take a while: a few appends go on beside each.
        if random.below(4) == 0 {
            for chore in underway.drain(..) {
                snapshots += u64::from(chore.kind() == ChoreKind::Snapshot);
                let done = chore.run(&mut Counter::default());
                journal.chore_done(done).unwrap();
            }
        }
        most = most.max(disk.used_bytes());
    }
    assert!(snapshots > 1000, "{snapshots}");
    // Two closed segments make a snapshot due; two more may close meanwhile; one active, one prepared; the snapshots.
    assert!(most <= 6 * tiny().segment_bytes + 2000, "{most} bytes");
    assert!(journal.extent().bytes <= most);
    drop(journal);
    let mut fold = Counter::default();
    let (_, recovery) = FileJournal::open(disk, tiny(), &mut fold).unwrap();
    assert_eq!((fold.batches, recovery.last_index), (appends, appends));
    assert_eq!(fold.last[..8], appends.to_le_bytes());
    assert!(recovery.snapshot_index > appends - 200);
}

#[test]
fn a_growing_state_is_snapshotted_less_and_less_often() {
    let disk = FaultyDisk::new(1);
    let (mut journal, _, _) = open(&disk).unwrap();
    let mut snapshots = Vec::new();
    for number in 0..2000 {
        journal.append(&batch(number, 400)).unwrap();
        for chore in journal.chores() {
            let kind = chore.kind();
            let done = chore.run(&mut Memory::default());
            journal.chore_done(done).unwrap();
            if kind == ChoreKind::Snapshot {
                snapshots.push(number);
            }
        }
    }
    // The state only grows, and each snapshot waits for as much new as the last one was long: it doubles each time.
    assert!((4..12).contains(&snapshots.len()), "{snapshots:?}");
    let (_, recovery, found) = open(&disk).unwrap();
    assert_eq!((recovery.last_index, found.0.len()), (2000, 2000));
}

#[test]
fn appends_go_on_while_chores_are_under_way_and_each_is_handed_out_once() {
    let disk = FaultyDisk::new(1);
    let (mut journal, _, _) = open(&disk).unwrap();
    let mut chores: Vec<Chore> = Vec::new();
    for number in 0..200 {
        journal.append(&batch(number, 600)).unwrap();
        chores.extend(journal.chores());
    }
    let kinds: Vec<ChoreKind> = chores.iter().map(Chore::kind).collect();
    assert_eq!(kinds, [ChoreKind::PrepareSegment, ChoreKind::Snapshot]);
    // They come back in the other order, long after other segments were opened without them.
    for chore in chores.into_iter().rev() {
        journal.append(b"meanwhile").unwrap();
        let done = chore.run(&mut Memory::default());
        assert!(done.error().is_none());
        journal.chore_done(done).unwrap();
    }
    assert!(journal.extent().snapshot_index > 0);
    for number in 0..50 {
        journal.append(&batch(number, 600)).unwrap();
    }
    drop(journal);
    let (_, _, found) = open(&disk).unwrap();
    assert_eq!(found.0.len(), 252);
}

#[test]
fn a_chore_that_finds_damage_stops_the_journal() {
    let disk = FaultyDisk::new(1);
    let (mut journal, _, _) = open(&disk).unwrap();
    for number in 0..40 {
        journal.append(&batch(number, 600)).unwrap();
    }
    let mut file = leasehold_journal::Disk::open(&disk, "segment-00000000000000000001").unwrap();
    leasehold_journal::DiskFile::write_at(&mut file, 1000, b"x").unwrap();
    let chores = journal.chores();
    let snapshot = chores.into_iter().find(|chore| chore.kind() == ChoreKind::Snapshot).unwrap();
    let error = journal.chore_done(snapshot.run(&mut Memory::default())).unwrap_err();
    assert!(matches!(error, StorageError::Background(_)), "{error}");
    assert!(error.to_string().contains("segment-00000000000000000001 is damaged at byte 512"), "{error}");
    assert!(matches!(journal.append(b"x"), Err(StorageError::Stopped)));
    assert!(journal.chores().is_empty());
}

#[test]
fn a_snapshot_is_not_made_of_less_than_there_was() {
    // The last record of the last closed segment goes, by half and wholly.
    for (offset, bytes) in [(6656 + 512, 512), (6656, 1024)] {
        let disk = FaultyDisk::new(1);
        let (mut journal, _, _) = open(&disk).unwrap();
        for number in 0..15 {
            journal.append(&batch(number, 600)).unwrap();
        }
        assert_eq!(journal.extent().segments, 3);
        let mut file = leasehold_journal::Disk::open(&disk, "segment-00000000000000000008").unwrap();
        leasehold_journal::DiskFile::write_at(&mut file, offset, &vec![0; bytes]).unwrap();
        let before = disk.contents();
        let chores = journal.chores();
        let snapshot = chores.into_iter().find(|chore| chore.kind() == ChoreKind::Snapshot).unwrap();
        let error = journal.chore_done(snapshot.run(&mut Memory::default())).unwrap_err().to_string();
        assert!(error.contains("segment-00000000000000000008 is damaged at byte 6656"), "{error}");
        assert_eq!(disk.contents(), before, "nothing is trimmed");
    }
}

#[test]
fn a_batch_that_is_too_large_is_refused_and_changes_nothing() {
    let disk = FaultyDisk::new(1);
    let (mut journal, _, _) = open(&disk).unwrap();
    assert_eq!(journal.batch_bytes_max(), 6000);
    let error = journal.append(&[0; 6001]).unwrap_err();
    assert!(matches!(error, StorageError::BatchTooLarge { bytes: 6001, bytes_max: 6000 }));
    assert_eq!(journal.append(&[0; 6000]).unwrap(), 1);
}

#[test]
fn segments_of_another_size_are_read_and_go_on() {
    let disk = FaultyDisk::new(1);
    let (mut journal, _, _) = open(&disk).unwrap();
    journal.append(&batch(1, 5000)).unwrap();
    drop(journal);
    let mut memory = Memory::default();
    let larger = Options { segment_bytes: 65536, batch_bytes_max: 60_000, ..tiny() };
    let (mut journal, _) = FileJournal::open(disk.clone(), larger, &mut memory).unwrap();
    journal.append(&batch(2, 60_000)).unwrap();
    drop(journal);
    // A record above today's limit, in a segment above today's size.
    let (mut journal, recovery, found) = open(&disk).unwrap();
    assert_eq!((found.0.len(), recovery.segments), (2, 2));
    journal.append(&batch(3, 5000)).unwrap();
    assert_eq!(open(&disk).unwrap().2.0.len(), 3);
}

#[test]
fn contradictory_options_are_refused() {
    for options in [
        Options { segment_bytes: 8000, ..tiny() },
        Options { segment_bytes: 2048, batch_bytes_max: 10, ..tiny() },
        Options { segment_bytes: 2 << 30, ..tiny() },
        Options { batch_bytes_max: 8192, ..tiny() },
        Options { batch_bytes_max: 8192 - 512 - 24, ..tiny() },
    ] {
        assert!(FileJournal::open(FaultyDisk::new(1), options, &mut Memory::default()).is_err());
    }
    assert!(FileJournal::open(FaultyDisk::new(1), Options::new([1; 16]), &mut Memory::default()).is_ok());
}

#[test]
fn memory_keeps_nothing_and_counts() {
    let mut journal = MemoryJournal::new();
    assert_eq!((journal.append(b"a").unwrap(), journal.append(b"b").unwrap()), (1, 2));
    assert_eq!(journal.room().unwrap(), u64::MAX);
    assert!(journal.chores().is_empty());
    assert!(journal.append(&vec![0; journal.batch_bytes_max() + 1]).is_err());
    assert_eq!(journal.extent().last_index, 2);
}

#[test]
fn a_snapshot_without_room_is_put_off_and_made_when_there_is_some() {
    let disk = FaultyDisk::new(1);
    let (mut journal, _, _) = open(&disk).unwrap();
    let run_chores = |journal: &mut FileJournal<FaultyDisk>| {
        let mut snapshots = 0;
        for chore in journal.chores() {
            snapshots += u64::from(chore.kind() == ChoreKind::Snapshot);
            let done = chore.run(&mut Memory::default());
            journal.chore_done(done).unwrap();
        }
        snapshots
    };
    // Room for a segment or two, never for a snapshot of all that is there.
    let mut number = 0;
    for _ in 0..200 {
        disk.set_capacity(Some(disk.used_bytes() + 3 * tiny().segment_bytes / 2));
        journal.append(&batch(number, 400)).unwrap();
        number += 1;
        run_chores(&mut journal);
    }
    let before = journal.extent();
    assert!(before.segments > 4, "the closed segments stay: {before:?}");
    disk.set_capacity(None);
    let mut snapshots = 0;
    while snapshots == 0 {
        journal.append(&batch(number, 400)).unwrap();
        number += 1;
        snapshots = run_chores(&mut journal);
    }
    assert!(journal.extent().segments < before.segments, "and go when there is room");
    drop(journal);
    let (_, _, memory) = open(&disk).unwrap();
    assert_eq!(memory.0.len() as u64, number, "nothing is lost");
}
