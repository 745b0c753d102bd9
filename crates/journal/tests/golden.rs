//! Bytes of format 1, kept for ever: they must decode, and the same batches must give the same bytes.
//!
//! `tests/golden/version-1.txt` lists each file's name and length, and every row of 32 bytes that is not all zeros. It
//! is never edited: a new format gets a file of its own beside it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::collections::BTreeMap;
use std::fmt::Write;

use leasehold_journal::{ChoreKind, FaultyDisk, Journal, check};
use support::{ID, Memory, open};

const GOLDEN: &str = include_str!("golden/version-1.txt");

/// Batches of one sector, of several, of none, and of zeros; a snapshot after the first five.
fn batches() -> Vec<Vec<u8>> {
    let text = |length: usize| (0..length).map(|n| b"what survives? "[n % 15]).collect::<Vec<u8>>();
    vec![
        text(3000),
        text(4000),
        text(100),
        vec![0; 3000],
        text(4000),
        text(700),
        vec![],
        text(5000),
        text(12),
        text(999),
    ]
}

fn write_directory() -> FaultyDisk {
    let disk = FaultyDisk::new(0);
    let (mut journal, _, _) = open(&disk).unwrap();
    for batch in batches() {
        journal.append(&batch).unwrap();
        if journal.extent().snapshot_index > 0 {
            continue;
        }
        // A prepared segment has no lasting name, and is left out.
        for chore in journal.chores().into_iter().filter(|chore| chore.kind() == ChoreKind::Snapshot) {
            let done = chore.run(&mut Memory::default());
            journal.chore_done(done).unwrap();
        }
    }
    disk
}

fn to_text(files: &BTreeMap<String, Vec<u8>>) -> String {
    let mut out = String::new();
    for (name, bytes) in files {
        writeln!(out, "file {name} {}", bytes.len()).unwrap();
        for (row, bytes) in bytes.chunks(32).enumerate().filter(|(_, row)| row.iter().any(|byte| *byte != 0))
        {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            writeln!(out, "{:06x} {hex}", row * 32).unwrap();
        }
    }
    out
}

fn from_text(text: &str) -> BTreeMap<String, Vec<u8>> {
    let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let mut current = String::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        if let ["file", name, length] = words[..] {
            current = name.to_owned();
            files.insert(current.clone(), vec![0; length.parse().unwrap()]);
            continue;
        }
        let at = usize::from_str_radix(words[0], 16).unwrap();
        for (n, byte) in words[1].as_bytes().chunks(2).enumerate() {
            let byte = u8::from_str_radix(std::str::from_utf8(byte).unwrap(), 16).unwrap();
            files.get_mut(&current).unwrap()[at + n] = byte;
        }
    }
    files
}

#[test]
fn golden_bytes_decode() {
    let disk = FaultyDisk::holding(1, &from_text(GOLDEN));
    let report = check(&disk).unwrap().unwrap();
    assert_eq!(report.journal_id, ID);
    assert_eq!(report.snapshot.as_ref().map(|snapshot| snapshot.index), Some(5));
    assert_eq!(report.segments.iter().map(|segment| segment.number).collect::<Vec<_>>(), [3, 4]);
    let (_, recovery, found) = open(&disk).unwrap();
    assert_eq!(found.0, batches());
    assert_eq!((recovery.records, recovery.last_index, recovery.torn), (5, 10, None));
}

#[test]
fn the_same_batches_give_the_golden_bytes() {
    let written = to_text(&write_directory().contents());
    let differs = written.lines().zip(GOLDEN.lines()).position(|(ours, golden)| ours != golden);
    assert!(written == GOLDEN, "the format has changed, first in line {differs:?}");
}
