//! Bytes that are not what was written: refused, with file and offset, and nothing is changed.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::collections::BTreeMap;

use leasehold_journal::{
    Damage, DamageKind, FaultyDisk, FileJournal, Journal, OpenError, Options, check, dump,
};
use support::{ID, Memory, batch, do_chores, open, tiny};

type Files = BTreeMap<String, Vec<u8>>;

/// Three segments: the first two full, the last one with two records.
fn three_segments(id: [u8; 16]) -> Files {
    let disk = FaultyDisk::new(1);
    let options = Options { journal_id: id, ..tiny() };
    let (mut journal, _) = FileJournal::open(disk.clone(), options, &mut Memory::default()).unwrap();
    for (number, length) in [3000, 4000, 100, 3000, 4000, 700, 1500].into_iter().enumerate() {
        journal.append(&batch(number as u64, length)).unwrap();
    }
    assert_eq!(journal.extent().segments, 3);
    disk.contents()
}

/// The same after a snapshot of the closed segments.
fn snapshot_and_segment() -> Files {
    let disk = FaultyDisk::holding(1, &three_segments(ID));
    let (mut journal, _, _) = open(&disk).unwrap();
    do_chores(&mut journal).unwrap();
    assert_eq!((journal.extent().segments, journal.extent().snapshot_index), (1, 5));
    drop(journal);
    // A prepared segment may lie about.
    open(&disk).unwrap();
    disk.contents()
}

fn names(files: &Files, kind: &str) -> Vec<String> {
    files.keys().filter(|name| name.starts_with(kind)).cloned().collect()
}

/// Refused by a start and by a check, alike, and the directory is as it was.
fn refused(files: &Files) -> OpenError {
    let disk = FaultyDisk::holding(3, files);
    let looked = check(&disk).expect_err("a check must refuse");
    let error = open(&disk).err().expect("a start must refuse");
    assert_eq!(looked.to_string(), error.to_string());
    let counts = disk.counts();
    assert_eq!((counts.calls, counts.writes), (0, 0), "nothing may be touched: {error}");
    assert_eq!(&disk.contents(), files);
    error
}

fn damage(files: &Files) -> Damage {
    match refused(files) {
        OpenError::Damaged(damage) => damage,
        other => panic!("{other}"),
    }
}

#[track_caller]
fn expect(files: &Files, name: &str, offset: u64, kind: DamageKind) {
    let path = format!("simulated/{name}");
    assert_eq!(damage(files), Damage { path, offset, kind });
}

#[test]
fn every_bit_of_every_file_counts() {
    for files in [three_segments(ID), snapshot_and_segment()] {
        for name in files.keys() {
            for bit in 0..files[name].len() * 8 {
                let mut changed = files.clone();
                changed.get_mut(name).unwrap()[bit / 8] ^= 1 << (bit % 8);
                let disk = FaultyDisk::holding(3, &changed);
                let error =
                    open(&disk).err().unwrap_or_else(|| panic!("{name}: bit {bit} may change unnoticed"));
                let OpenError::Damaged(damage) = error else { panic!("{name}, bit {bit}: {error}") };
                assert!(damage.path.ends_with(name.as_str()), "{name}, bit {bit}: {damage}");
                assert!(damage.offset <= bit as u64 / 8, "{name}, bit {bit}: {damage}");
                assert_eq!(disk.counts().calls, 0, "{name}, bit {bit}: something was touched");
            }
        }
    }
}

#[test]
fn every_shorter_and_longer_file_is_noticed() {
    for files in [three_segments(ID), snapshot_and_segment()] {
        for name in files.keys() {
            let length = files[name].len();
            for short in (0..length).step_by(61).chain((512..length).step_by(512)).chain([length - 1]) {
                let mut changed = files.clone();
                changed.get_mut(name).unwrap().truncate(short);
                assert!(damage(&changed).path.ends_with(name.as_str()));
            }
            for more in [1, 512] {
                let mut changed = files.clone();
                changed.get_mut(name).unwrap().resize(length + more, 0);
                assert!(damage(&changed).path.ends_with(name.as_str()));
            }
        }
    }
}

#[test]
fn a_sector_that_became_zeros_is_damage_wherever_something_follows() {
    let files = three_segments(ID);
    for (place, name) in names(&files, "segment-").into_iter().enumerate() {
        let last = place == 2;
        for sector in 0..16 {
            let mut changed = files.clone();
            let bytes = &mut changed.get_mut(&name).unwrap()[sector * 512..][..512];
            if bytes.iter().all(|byte| *byte == 0) {
                continue;
            }
            bytes.fill(0);
            // Only in the last record of the last segment can it be a write that never came to its end.
            if last && sector >= 3 {
                assert_eq!(open(&FaultyDisk::holding(1, &changed)).unwrap().2.0.len(), 6);
            } else {
                damage(&changed);
            }
        }
    }
}

#[test]
fn a_record_in_the_middle_is_never_taken_for_torn() {
    let files = three_segments(ID);
    let last = names(&files, "segment-").pop().unwrap();
    // Record 6 is sectors 1 and 2, record 7 is sectors 3 to 5.
    let mut changed = files.clone();
    changed.get_mut(&last).unwrap()[512..1024].fill(0);
    expect(&changed, &last, 512, DamageKind::Hole { index: 6, found: 1536 });
    changed.get_mut(&last).unwrap()[1024..1536].fill(0);
    expect(&changed, &last, 512, DamageKind::Hole { index: 6, found: 1536 });
    let mut changed = files.clone();
    changed.get_mut(&last).unwrap()[1024..1536].fill(0);
    expect(&changed, &last, 512, DamageKind::Hole { index: 6, found: 1536 });
    // The last record half there, and one sector of something else behind it.
    let mut changed = files;
    changed.get_mut(&last).unwrap()[2048..2560].fill(0);
    changed.get_mut(&last).unwrap()[4096] = 1;
    expect(&changed, &last, 1536, DamageKind::Hole { index: 7, found: 4096 });
}

#[test]
fn a_closed_segment_that_lost_its_last_record_is_damage() {
    let mut files = three_segments(ID);
    let second = names(&files, "segment-")[1].clone();
    let bytes = files.get_mut(&second).unwrap();
    let end = bytes.chunks(512).rposition(|sector| sector.iter().any(|byte| *byte != 0)).unwrap() + 1;
    let record = 8;
    bytes[(end - record) * 512..end * 512].fill(0);
    let offset = ((end - record) * 512) as u64;
    expect(&files, &second, offset, DamageKind::Missing { index: 5 });
}

#[test]
fn a_missing_segment_is_damage() {
    let files = three_segments(ID);
    for (gone, index) in [(0, 1), (1, 4)] {
        let mut changed = files.clone();
        let name = names(&files, "segment-")[gone].clone();
        changed.remove(&name);
        expect(&changed, &name, 0, DamageKind::Missing { index });
    }
    let mut changed = snapshot_and_segment();
    let name = names(&changed, "segment-")[0].clone();
    changed.remove(&name);
    expect(&changed, &name, 0, DamageKind::Missing { index: 6 });
}

#[test]
fn a_missing_snapshot_is_damage() {
    let mut files = snapshot_and_segment();
    let name = names(&files, "snapshot-")[0].clone();
    files.remove(&name);
    expect(&files, "segment-00000000000000000001", 0, DamageKind::Missing { index: 1 });
}

#[test]
fn a_damaged_newest_snapshot_is_not_passed_over_for_an_older_one() {
    let mut files = three_segments(ID);
    let mut snapshot = snapshot_and_segment().remove("snapshot-00000000000000000005").unwrap();
    files.insert("snapshot-00000000000000000005".to_owned(), snapshot.clone());
    // With the old segments still there, as after a crash between naming and trimming, all is well.
    let disk = FaultyDisk::holding(1, &files);
    assert_eq!(check(&disk).unwrap().unwrap().leftovers.len(), 2);
    let (_, recovery, found) = open(&disk).unwrap();
    assert_eq!((recovery.snapshot_index, recovery.records, found.0.len()), (5, 2, 7));
    assert_eq!(disk.contents(), snapshot_and_segment(), "what the snapshot replaces is removed");
    // Damaged, it is refused although everything could be had from the segments.
    snapshot[100] ^= 1;
    files.insert("snapshot-00000000000000000005".to_owned(), snapshot);
    expect(&files, "snapshot-00000000000000000005", 64, DamageKind::SnapshotChunk);
}

#[test]
fn swapped_and_stale_segments_are_refused() {
    let files = three_segments(ID);
    let names = names(&files, "segment-");
    let mut swapped = files.clone();
    swapped.insert(names[0].clone(), files[&names[1]].clone());
    swapped.insert(names[1].clone(), files[&names[0]].clone());
    expect(&swapped, &names[0], 40, DamageKind::Misnamed);

    // The same place in another history of the same journal: only the chain can tell.
    let disk = FaultyDisk::new(1);
    let (mut journal, _, _) = open(&disk).unwrap();
    for (number, length) in [3000, 4000, 99, 3000, 4000, 700, 1500].into_iter().enumerate() {
        journal.append(&batch(number as u64, length)).unwrap();
    }
    let other = disk.contents();
    let mut stale = files.clone();
    stale.insert(names[1].clone(), other[&names[1]].clone());
    expect(&stale, &names[1], 56, DamageKind::OutOfOrder);
    // Sectors of that other history in our last segment.
    let mut stale = files;
    stale.get_mut(&names[2]).unwrap()[512..].copy_from_slice(&other[&names[2]][512..]);
    expect(&stale, &names[2], 512, DamageKind::RecordChecksum { index: 6 });
}

#[test]
fn files_of_another_journal_are_refused() {
    let mut files = three_segments(ID);
    let foreign = three_segments([7; 16]);
    let name = names(&files, "segment-")[1].clone();
    files.insert(name.clone(), foreign[&name].clone());
    let error = refused(&files);
    assert!(
        matches!(error, OpenError::Foreign { found, expected, .. } if found == [7; 16] && expected == ID)
    );
    assert!(error.to_string().contains(&name), "{error}");
    // Records of another journal behind our own header.
    let mut files = three_segments(ID);
    files.get_mut(&name).unwrap()[512..].copy_from_slice(&foreign[&name][512..]);
    expect(&files, &name, 512, DamageKind::Sector { index: 4 });
}

#[test]
fn a_newer_format_is_refused_as_such() {
    for (kind, header) in [("segment-", 512), ("snapshot-", 64)] {
        let mut files = snapshot_and_segment();
        let name = names(&files, kind)[0].clone();
        let bytes = files.get_mut(&name).unwrap();
        bytes[8] = 2;
        let checksum = crc32c::crc32c(&bytes[..header - 4]);
        bytes[header - 4..header].copy_from_slice(&checksum.to_le_bytes());
        let error = refused(&files);
        assert!(matches!(error, OpenError::NewerFormat { version: 2, supported: 1, .. }), "{error}");
        assert!(error.to_string().contains(&name), "{error}");
    }
}

#[test]
fn a_strange_name_among_ours_is_refused() {
    let mut files = three_segments(ID);
    let name = names(&files, "segment-")[2].clone();
    let bytes = files.remove(&name).unwrap();
    files.insert(format!("{name}.old"), bytes);
    expect(&files, &format!("{name}.old"), 0, DamageKind::Name);
}

#[test]
fn a_batch_that_cannot_be_replayed_is_named() {
    let disk = FaultyDisk::new(1);
    let (mut journal, _, _) = open(&disk).unwrap();
    journal.append(b"fine").unwrap();
    journal.append(b"unreadable").unwrap();
    drop(journal);
    let before = disk.contents();
    let error = open(&disk).err().unwrap().to_string();
    assert!(error.contains("at byte 1024: record 2 cannot be replayed: no such event"), "{error}");
    assert_eq!(disk.contents(), before);
}

#[test]
fn a_dump_shows_everything_up_to_the_damage() {
    let mut files = snapshot_and_segment();
    let name = names(&files, "segment-")[0].clone();
    let mut seen = Vec::new();
    let mut look = |files: &Files| {
        seen.clear();
        let result = dump(&FaultyDisk::holding(1, files), &mut |entry| {
            seen.push(match entry {
                leasehold_journal::Entry::Snapshot { index, content, .. } => {
                    let mut bytes = Vec::new();
                    content.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
                    (0, index, bytes.len())
                }
                leasehold_journal::Entry::Record { offset, index, payload, .. } => {
                    (offset, index, payload.len())
                }
            });
            Ok(())
        });
        (result.is_ok(), seen.clone())
    };
    let snapshot = (0, 5, 3000 + 4000 + 100 + 3000 + 4000 + 5 * 4);
    assert_eq!(look(&files), (true, vec![snapshot, (512, 6, 700), (1536, 7, 1500)]));
    files.get_mut(&name).unwrap()[2000] ^= 1;
    assert_eq!(look(&files), (false, vec![snapshot, (512, 6, 700)]));
}
