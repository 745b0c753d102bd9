//! What the tests share: a fold that remembers every batch, and small journals on a simulated disk.
#![allow(dead_code, clippy::unwrap_used)]

use std::io::{Read, Write};

use leasehold_journal::{
    Disk, FaultyDisk, FileJournal, Fold, Journal, OpenError, Options, Recovery, StorageError,
};

/// Remembers all batches in order; its snapshot is their lengths and bytes.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Memory(pub Vec<Vec<u8>>);

impl Fold for Memory {
    fn restore(&mut self, snapshot: &mut dyn Read) -> Result<(), String> {
        assert!(self.0.is_empty(), "restored once, and first");
        let mut bytes = Vec::new();
        snapshot.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (length, after) = rest.split_at(4);
            let length = u32::from_le_bytes(length.try_into().unwrap()) as usize;
            self.0.push(after[..length].to_vec());
            rest = &after[length..];
        }
        Ok(())
    }

    fn replay(&mut self, payload: &[u8]) -> Result<(), String> {
        if payload == b"unreadable" {
            return Err("no such event".to_owned());
        }
        self.0.push(payload.to_vec());
        Ok(())
    }

    fn write_snapshot(&mut self, out: &mut dyn Write) -> std::io::Result<()> {
        for batch in &self.0 {
            out.write_all(&(batch.len() as u32).to_le_bytes())?;
            out.write_all(batch)?;
        }
        Ok(())
    }
}

/// Counts batches and remembers the last, so that its snapshot stays small.
#[derive(Debug, Default)]
pub struct Counter {
    pub batches: u64,
    pub last: Vec<u8>,
}

impl Fold for Counter {
    fn restore(&mut self, snapshot: &mut dyn Read) -> Result<(), String> {
        let mut count = [0; 8];
        snapshot.read_exact(&mut count).map_err(|error| error.to_string())?;
        self.batches = u64::from_le_bytes(count);
        self.last.clear();
        snapshot.read_to_end(&mut self.last).map_err(|error| error.to_string())?;
        Ok(())
    }

    fn replay(&mut self, payload: &[u8]) -> Result<(), String> {
        self.batches += 1;
        self.last = payload.to_vec();
        Ok(())
    }

    fn write_snapshot(&mut self, out: &mut dyn Write) -> std::io::Result<()> {
        out.write_all(&self.batches.to_le_bytes())?;
        out.write_all(&self.last)
    }
}

pub const ID: [u8; 16] = *b"journal for test";

/// Segments of 16 sectors, a snapshot after two of them.
pub fn tiny() -> Options {
    Options { journal_id: ID, segment_bytes: 8192, batch_bytes_max: 6000, snapshot_after_bytes: 16384 }
}

pub fn open<D: Disk>(disk: &D) -> Result<(FileJournal<D>, Recovery, Memory), OpenError> {
    let mut memory = Memory::default();
    let (journal, recovery) = FileJournal::open(disk.clone(), tiny(), &mut memory)?;
    Ok((journal, recovery, memory))
}

/// Runs what is due here and now.
pub fn do_chores<D: Disk>(journal: &mut FileJournal<D>) -> Result<(), StorageError> {
    for chore in journal.chores() {
        let done = chore.run(&mut Memory::default());
        journal.chore_done(done)?;
    }
    Ok(())
}

/// A journal on a simulated disk with these batches, all acknowledged, and without chores.
pub fn disk_with(batches: &[Vec<u8>]) -> FaultyDisk {
    let disk = FaultyDisk::new(1);
    let (mut journal, _, _) = open(&disk).unwrap();
    for batch in batches {
        journal.append(batch).unwrap();
    }
    disk
}

/// A batch that differs from all others, zeros included.
pub fn batch(number: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let tag = number.to_le_bytes();
    let shared = length.min(8);
    bytes[..shared].copy_from_slice(&tag[..shared]);
    bytes
}

/// splitmix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}
