//! Power loss, errors and full disks at any moment: what was acknowledged is there afterwards, in order, and at most
//! the one batch that was under way besides.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use leasehold_journal::{Call, Chore, Counts, Fault, FaultyDisk, FileJournal, Journal};
use support::{Memory, Random, batch, open, tiny};

/// What a run expects to find again.
struct Ledger {
    acknowledged: Vec<Vec<u8>>,
    /// The batch whose append failed.
    in_doubt: Option<Vec<u8>>,
}

impl Ledger {
    /// Holds the recovered batches against what was acknowledged, and takes them for the truth from here on.
    fn settle(&mut self, found: Memory, context: &str) {
        let sure = self.acknowledged.len();
        assert!(found.0.len() >= sure, "{context}: {} of {sure} acknowledged batches found", found.0.len());
        assert!(found.0[..sure] == self.acknowledged, "{context}: an acknowledged batch has changed");
        match &found.0[sure..] {
            [] => {}
            [more] => assert_eq!(Some(more), self.in_doubt.as_ref(), "{context}: an invented batch"),
            _ => panic!("{context}: {} invented batches", found.0.len() - sure),
        }
        self.acknowledged = found.0;
        self.in_doubt = None;
    }
}

/// Random appends, chores at random moments, faults and crashes; everything follows from the seed.
fn run(seed: u64, steps: u64) -> (Counts, [u64; 4]) {
    let mut random = Random(seed);
    let disk = FaultyDisk::new(seed ^ 0x5eed);
    let mut ledger = Ledger { acknowledged: Vec::new(), in_doubt: None };
    let (mut torn, mut snapshots, mut cuts, mut number) = (0, 0, 0, 0);
    let mut journal: Option<FileJournal<FaultyDisk>> = None;
    // Each with the fold that it is given: an empty one, or the state that the journal was cut for.
    let mut chores: Vec<(Chore, Memory)> = Vec::new();
    for step in 0..steps {
        let context = format!("seed {seed}, step {step}");
        if random.below(12) == 0 {
            let call =
                [Call::Any, Call::Any, Call::Write, Call::Sync, Call::SyncFolder][random.below(5) as usize];
            let fault = [Fault::PowerLoss, Fault::PowerLoss, Fault::Error, Fault::Full, Fault::Short];
            disk.fail_nth(call, 1 + random.below(8), fault[random.below(5) as usize]);
        }
        let Some(open_journal) = &mut journal else {
            match open(&disk) {
                Ok((opened, recovery, found)) => {
                    torn += u64::from(recovery.torn.is_some());
                    assert_eq!(recovery.last_index, found.0.len() as u64, "{context}");
                    snapshots += u64::from(recovery.snapshot_index > 0);
                    ledger.settle(found, &context);
                    journal = Some(opened);
                }
                Err(leasehold_journal::OpenError::Storage(_)) => {
                    // The fault struck while starting: start again, with or without a crash.
                    disk.disarm();
                    if random.below(2) == 0 {
                        disk.crash();
                    }
                }
                Err(other) => panic!("{context}: {other}"),
            }
            // Without power nothing can be opened.
            if journal.is_none() && leasehold_journal::Disk::list(&disk).is_err() {
                disk.crash();
            }
            continue;
        };
        let failed = match random.below(10) {
            0..7 if open_journal.wants_cut() && random.below(2) == 0 => {
                let cut = open_journal.cut();
                assert!(cut.is_ok() || open_journal.append(b"after").is_err(), "{context}");
                let state = || Memory(ledger.acknowledged.clone());
                cut.map(|chore| chores.extend(chore.map(|chore| (chore, state())))).is_err()
            }
            0..7 => {
                number += 1;
                let longest = if random.below(3) == 0 { 6000 } else { 700 };
                let bytes = batch(number, random.below(longest) as usize);
                match open_journal.append(&bytes) {
                    Ok(index) => {
                        ledger.acknowledged.push(bytes);
                        assert_eq!(index, ledger.acknowledged.len() as u64, "{context}");
                        false
                    }
                    Err(_) => {
                        ledger.in_doubt = Some(bytes);
                        assert!(open_journal.append(b"after").is_err(), "{context}: went on after an error");
                        true
                    }
                }
            }
            7 | 8 => {
                chores.extend(open_journal.chores().into_iter().map(|chore| (chore, Memory::default())));
                false
            }
            _ if chores.is_empty() => false,
            _ => {
                let (chore, mut fold) = chores.swap_remove(random.below(chores.len() as u64) as usize);
                cuts += u64::from(fold != Memory::default());
                let done = chore.run(&mut fold);
                let failed = open_journal.chore_done(done).is_err();
                assert!(!failed || open_journal.append(b"after").is_err(), "{context}");
                failed
            }
        };
        if failed || random.below(40) == 0 {
            // The process is gone; sometimes the machine with it.
            journal = None;
            chores.clear();
            disk.disarm();
            let dark = leasehold_journal::Disk::list(&disk).is_err();
            if dark || random.below(2) == 0 {
                disk.crash();
            }
        }
    }
    drop(journal);
    disk.crash();
    let (_, _, found) = open(&disk).unwrap_or_else(|error| panic!("seed {seed}, at the end: {error}"));
    ledger.settle(found, &format!("seed {seed}, at the end"));
    (disk.counts(), [torn, snapshots, cuts, ledger.acknowledged.len() as u64])
}

#[test]
fn everything_acknowledged_survives_thousands_of_unlucky_runs() {
    let (mut disks, mut total) = ([0; 3], [0; 4]);
    for seed in 0..3000 {
        let (counts, run) = run(seed, 150);
        for (sum, one) in disks.iter_mut().zip([counts.faults, counts.sectors_lost, counts.names_lost]) {
            *sum += one;
        }
        total.iter_mut().zip(run).for_each(|(sum, one)| *sum += one);
    }
    let ([faults, sectors_lost, names_lost], [torn, snapshots, cuts, batches]) = (disks, total);
    println!(
        "faults {faults}, sectors lost {sectors_lost}, names lost {names_lost}, torn {torn}, from snapshots {snapshots}, cuts {cuts}, batches {batches}"
    );
    // The harness proves nothing unless its faults took effect.
    assert!(faults > 1000 && sectors_lost > 1000 && names_lost > 100, "too kind a disk");
    assert!(torn > 300 && snapshots > 300 && cuts > 300 && batches > 10_000, "too short a story");
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    for seed in [3, 77, 1234] {
        assert_eq!(run(seed, 400), run(seed, 400));
    }
}

/// A fixed story: appends of several sizes with every chore run when it is due. Snapshots are cut for where they can be, or
/// added up.
fn story(disk: &FaultyDisk, cuts: bool) -> (Vec<Vec<u8>>, Option<Vec<u8>>) {
    let mut acknowledged = Vec::new();
    let Ok((mut journal, _, found)) = open(disk) else {
        return (acknowledged, None);
    };
    acknowledged.extend(found.0);
    for number in 0..40 {
        let bytes = batch(number, (number as usize * 397) % 3000);
        if journal.append(&bytes).is_err() {
            return (acknowledged, Some(bytes));
        }
        acknowledged.push(bytes);
        if cuts && journal.wants_cut() {
            let cut = journal.cut().and_then(|chore| match chore {
                Some(chore) => journal.chore_done(chore.run(&mut Memory(acknowledged.clone()))),
                None => Ok(()),
            });
            if cut.is_err() {
                assert!(journal.append(b"after").is_err());
                return (acknowledged, None);
            }
        }
        for chore in journal.chores() {
            let done = chore.run(&mut Memory::default());
            if journal.chore_done(done).is_err() {
                assert!(journal.append(b"after").is_err());
                return (acknowledged, None);
            }
        }
    }
    (acknowledged, None)
}

#[test]
fn a_fault_at_every_single_call_loses_nothing() {
    for cuts in [false, true] {
        a_fault_at_every_call_of_this_loses_nothing(cuts);
    }
}

fn a_fault_at_every_call_of_this_loses_nothing(cuts: bool) {
    let calls = {
        let disk = FaultyDisk::new(0);
        assert_eq!(story(&disk, cuts).0.len(), 40);
        disk.counts().calls
    };
    assert!(calls > 100);
    for fault in [Fault::Error, Fault::Full, Fault::Short, Fault::PowerLoss] {
        for nth in 1..=calls {
            for (crash, seed) in [(true, 1), (true, 2), (true, 3), (false, 4)] {
                let context = format!("{fault:?} at call {nth}, cuts {cuts}, crash {crash}, seed {seed}");
                let disk = FaultyDisk::new(seed ^ nth << 8);
                disk.fail_nth(Call::Any, nth, fault);
                let (acknowledged, in_doubt) = story(&disk, cuts);
                assert_eq!(disk.counts().faults, 1, "{context}: the fault did not take effect");
                if crash || fault == Fault::PowerLoss {
                    disk.crash();
                }
                let mut ledger = Ledger { acknowledged, in_doubt };
                let (mut journal, _, found) =
                    open(&disk).unwrap_or_else(|error| panic!("{context}: {error}"));
                ledger.settle(found, &context);
                // What was found at a start is durable from then on, as is what follows.
                journal.append(b"more").unwrap();
                ledger.acknowledged.push(b"more".to_vec());
                disk.crash();
                let (_, _, found) = open(&disk).unwrap_or_else(|error| panic!("{context}, again: {error}"));
                ledger.settle(found, &context);
            }
        }
    }
}

#[test]
fn what_a_failed_sync_left_in_memory_only_is_made_durable_by_the_next_start() {
    for seed in 0..64 {
        let disk = FaultyDisk::new(seed);
        let (mut journal, _, _) = open(&disk).unwrap();
        journal.append(b"first").unwrap();
        disk.fail_nth(Call::Sync, 1, Fault::Error);
        journal.append(&batch(2, 2000)).unwrap_err();
        drop(journal);
        // The process starts again on the same machine, and reads the record from the system's memory.
        let (_, recovery, found) = open(&disk).unwrap();
        assert_eq!((found.0.len(), recovery.torn), (2, None));
        disk.crash();
        assert_eq!(
            open(&disk).unwrap().2,
            found,
            "seed {seed}: somebody may have been told of the second record"
        );
    }
}

#[test]
fn a_full_disk_stops_the_journal_and_starting_with_room_goes_on() {
    let disk = FaultyDisk::new(9);
    let (mut journal, _, _) = open(&disk).unwrap();
    disk.set_capacity(Some(tiny().segment_bytes + 1000));
    assert_eq!(journal.room().unwrap(), 1000);
    let mut kept = 0;
    let error = loop {
        match journal.append(&batch(kept, 900)) {
            Ok(_) => kept += 1,
            Err(error) => break error.to_string(),
        }
    };
    assert!(kept > 5 && error.contains("free some space"), "{kept} {error}");
    assert!(journal.append(b"x").is_err());
    drop(journal);
    disk.set_capacity(None);
    let (mut journal, _, found) = open(&disk).unwrap();
    assert_eq!(found.0.len() as u64, kept);
    journal.append(b"x").unwrap();
}
