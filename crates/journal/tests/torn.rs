//! A record that a crash cut short: the journal recovers to the last whole one, says so, and goes on.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::collections::BTreeMap;

use leasehold_journal::{FaultyDisk, Journal, Torn, check};
use support::{batch, disk_with, open};

const SECTOR: usize = 512;

/// Lengths that take 1, 2, 3, 4 and 6 sectors, one of them all zeros.
const LENGTHS: [usize; 6] = [0, 100, 600, 1500, 1600, 3000];

type Files = BTreeMap<String, Vec<u8>>;

/// Where two states of a directory differ: the one segment, and from which sector to which.
fn written(before: &Files, after: &Files) -> (String, usize, usize) {
    let mut found = None;
    for (name, bytes) in after {
        let was = before.get(name).unwrap_or_else(|| panic!("{name} is new"));
        let differs = |n: &usize| was[n * SECTOR..][..SECTOR] != bytes[n * SECTOR..][..SECTOR];
        let changed: Vec<usize> = (0..bytes.len() / SECTOR).filter(differs).collect();
        if let (Some(first), Some(last)) = (changed.first(), changed.last()) {
            assert!(found.is_none(), "two files changed");
            found = Some((name.clone(), *first, last + 1));
        }
    }
    found.expect("a record was written")
}

/// A directory, and the same with one more record.
fn before_and_after(earlier: &[Vec<u8>], last: &[u8]) -> (Files, Files) {
    let disk = disk_with(earlier);
    let before = disk.contents();
    let (mut journal, _, _) = open(&disk).unwrap();
    journal.append(last).unwrap();
    (before, disk.contents())
}

/// Opens what is left when only these sectors of the last record reached the disk.
fn recover(before: &Files, after: &Files, kept: &dyn Fn(usize) -> bool, earlier: &[Vec<u8>]) {
    let (name, from, to) = written(before, after);
    let mut files = before.clone();
    let mut last_kept = None;
    for number in (0..to - from).filter(|number| kept(*number)) {
        let range = (from + number) * SECTOR..(from + number + 1) * SECTOR;
        files.get_mut(&name).unwrap()[range.clone()].copy_from_slice(&after[&name][range]);
        last_kept = Some(number);
    }
    let disk = FaultyDisk::holding(5, &files);

    let report = check(&disk).unwrap().expect("a journal");
    assert_eq!(disk.contents(), files, "looking changes nothing");
    let (mut journal, recovery, found) = open(&disk).unwrap();
    assert_eq!(found.0, earlier);
    assert_eq!(report.torn, recovery.torn);
    match (recovery.torn, last_kept) {
        (None, None) => {}
        (Some(Torn { path, offset, bytes }), Some(last_kept)) => {
            assert!(path.ends_with(&name));
            assert_eq!(offset as usize, from * SECTOR);
            // With the first sector gone, nobody knows how much further the record went.
            let known = if kept(0) { to - from } else { last_kept + 1 };
            assert_eq!(bytes as usize, known * SECTOR);
        }
        (torn, _) => panic!("torn {torn:?}, last sector kept {last_kept:?}"),
    }
    assert_eq!(&disk.contents(), before, "as if the record had never been begun");

    // It goes on from there, and the cut is durable.
    journal.append(b"next").unwrap();
    disk.crash();
    let (_, recovery, found) = open(&disk).unwrap();
    assert_eq!(found.0[..earlier.len()], *earlier);
    assert_eq!(found.0[earlier.len()..], [b"next".to_vec()]);
    assert_eq!(recovery.torn, None);
}

#[test]
fn a_record_cut_in_any_way_is_dropped_and_reported() {
    let starts: [&[Vec<u8>]; 3] = [&[], &[batch(1, 700)], &[batch(1, 5000), batch(2, 2500), batch(3, 20)]];
    for earlier in starts {
        for length in LENGTHS {
            let (before, after) = before_and_after(earlier, &batch(9, length));
            let (_, from, to) = written(&before, &after);
            let whole = (1_u32 << (to - from)) - 1;
            for kept in 0..whole {
                recover(&before, &after, &|number| kept >> number & 1 == 1, earlier);
            }
        }
    }
}

#[test]
fn a_long_record_is_cut_after_and_before_every_sector() {
    let earlier = [batch(1, 10)];
    let (before, after) = before_and_after(&earlier, &batch(2, 5900));
    let (_, from, to) = written(&before, &after);
    assert_eq!(to - from, 12);
    for at in 0..to - from {
        recover(&before, &after, &|number| number < at, &earlier);
        recover(&before, &after, &|number| number > at, &earlier);
        recover(&before, &after, &|number| number != at, &earlier);
    }
}

#[test]
fn an_unfinished_segment_or_snapshot_does_not_stand_in_the_way() {
    let disk = disk_with(&[batch(1, 10)]);
    let sound = disk.contents();
    let mut files = sound.clone();
    files.insert("prepared-1.tmp".to_owned(), vec![0; 700]);
    files.insert("snapshot-00000000000000000001.tmp".to_owned(), b"LHSNAPSH".to_vec());
    files.insert("cut.tmp".to_owned(), Vec::new());
    let disk = FaultyDisk::holding(2, &files);
    assert_eq!(check(&disk).unwrap().unwrap().leftovers.len(), 3);
    let (_, recovery, found) = open(&disk).unwrap();
    assert_eq!((found.0.len(), recovery.torn), (1, None));
    assert_eq!(disk.contents(), sound);
    disk.crash();
    assert_eq!(disk.contents(), sound, "gone for good");
}
