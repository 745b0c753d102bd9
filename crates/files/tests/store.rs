//! Bytes by number, on a real disk, in memory, and on a disk that loses power.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;

use leasehold_files::{DiskStore, FileStore, MemoryDisk, copy};
use leasehold_journal::{Call, Disk, Fault, FaultyDisk, Folder, StorageError};

const FIRST: u64 = 1 << 52;

fn content(store: &dyn FileStore, number: u64) -> Option<Vec<u8>> {
    let length = store.length(number).unwrap()?;
    let mut bytes = vec![0; length as usize];
    assert!(store.read(number, 0, &mut bytes).unwrap());
    Some(bytes)
}

fn exercise(store: &dyn FileStore) {
    assert_eq!(store.numbers().unwrap(), []);
    assert_eq!(content(store, FIRST), None);
    assert!(!store.read(FIRST, 0, &mut [0; 1]).unwrap());
    store.write(FIRST, 0, b"").unwrap();
    assert_eq!(store.numbers().unwrap(), [], "nothing to put, nothing to make");

    store.write(FIRST, 0, b"hello").unwrap();
    store.write(FIRST + 1, 0, b"other").unwrap();
    store.write(FIRST, 5, b" world").unwrap();
    store.write(FIRST, 3, b"p!").unwrap();
    assert_eq!(content(store, FIRST).unwrap(), b"help! world");
    let mut part = [0; 3];
    assert!(store.read(FIRST, 6, &mut part).unwrap());
    assert_eq!(&part, b"wor");
    assert!(store.read(FIRST, 9, &mut part).is_err(), "beyond the end there is nothing to read");

    assert_eq!(store.sync().unwrap(), 2);
    assert_eq!(store.sync().unwrap(), 0, "what is synced is synced");
    store.cut(FIRST, 4).unwrap();
    assert_eq!(content(store, FIRST).unwrap(), b"help");
    assert_eq!(store.sync().unwrap(), 1);

    assert_eq!(store.numbers().unwrap(), [FIRST, FIRST + 1]);
    store.write(FIRST + 1, 0, b"O").unwrap();
    store.remove(FIRST + 1).unwrap();
    store.remove(FIRST + 1).unwrap();
    assert_eq!(content(store, FIRST + 1), None);
    assert!(
        !store.read(FIRST + 1, 0, &mut part).unwrap(),
        "not through a handle that was open before either"
    );
    assert_eq!(store.sync().unwrap(), 0, "what is gone needs no sync");
    assert!(store.room().unwrap() > 0);
}

#[test]
fn bytes_are_where_they_were_put() {
    let home = tempfile::tempdir().unwrap();
    let folder = Folder::open(home.path()).unwrap().make_inside("files").unwrap();
    exercise(&DiskStore::new(folder));
    exercise(&DiskStore::new(MemoryDisk::new()));
    exercise(&DiskStore::new(FaultyDisk::new(1)));
}

#[test]
#[cfg(target_os = "linux")]
fn few_files_are_open_however_many_there_are() {
    const COUNT: u64 = 600;
    let home = tempfile::tempdir().unwrap();
    let folder = Folder::open(home.path()).unwrap().make_inside("files").unwrap();
    let inside = std::fs::canonicalize(folder.directory()).unwrap();
    let open_files = || {
        let open = std::fs::read_dir("/proc/self/fd").unwrap();
        let paths = open.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
        paths.filter(|path| path.starts_with(&inside)).count()
    };
    let store = DiskStore::new(folder);
    let mut most = 0;
    for number in FIRST..FIRST + COUNT {
        store.write(number, 0, &number.to_le_bytes()).unwrap();
        assert!(store.read(number, 0, &mut [0; 8]).unwrap());
        most = most.max(open_files());
    }
    assert!((100..=128 + 128).contains(&most), "{most} files were open at once");
    for number in FIRST..FIRST + COUNT {
        store.write(number, 8, b"!").unwrap();
        assert_eq!(content(&store, number).unwrap(), [&number.to_le_bytes()[..], b"!"].concat());
    }
}

#[test]
fn what_is_synced_survives_the_loss_of_power() {
    let mut lost = 0;
    for seed in 0..500 {
        let disk = FaultyDisk::new(seed);
        let store = DiskStore::new(disk.clone());
        for number in FIRST..FIRST + 5 {
            store.write(number, 0, &[number as u8; 1300]).unwrap();
        }
        store.remove(FIRST + 4).unwrap();
        store.sync().unwrap();
        for number in FIRST..FIRST + 3 {
            store.write(number, 700, &[0xee; 1300]).unwrap();
        }
        store.write(FIRST + 9, 0, b"new").unwrap();
        disk.crash();
        let store = DiskStore::new(disk);
        for number in FIRST..FIRST + 4 {
            let bytes = content(&store, number).unwrap();
            assert_eq!(bytes[..700], [number as u8; 700], "what was written after concerns other bytes only");
            lost += usize::from(bytes.len() < 2000);
        }
        assert_eq!(content(&store, FIRST + 3).unwrap(), [3; 1300], "untouched since");
        assert_eq!(content(&store, FIRST + 4), None);
    }
    assert!(lost > 0, "the disk does lose what was not synced");
}

#[test]
fn a_failure_is_told_with_the_file() {
    for (call, doing) in [(Call::Create, "create"), (Call::Write, "write to")] {
        let disk = FaultyDisk::new(1);
        let store = DiskStore::new(disk.clone());
        disk.fail_nth(call, 1, Fault::Full);
        let error = store.write(FIRST, 0, b"hello").unwrap_err().to_string();
        assert!(error.contains(&format!("cannot {doing} simulated/{FIRST}")), "{error}");
    }
    for call in [Call::Sync, Call::SyncFolder] {
        let disk = FaultyDisk::new(1);
        let store = DiskStore::new(disk.clone());
        store.write(FIRST, 0, b"hello").unwrap();
        disk.fail_nth(call, 1, Fault::Error);
        assert!(matches!(store.sync(), Err(StorageError::Io { .. })));
    }
}

/// A reader beside an overwrite sees all of it or nothing, and the writer comes to its end.
#[test]
fn reads_beside_overwrites_see_them_whole() {
    let home = tempfile::tempdir().unwrap();
    let folder = Folder::open(home.path()).unwrap().make_inside("files").unwrap();
    let store = DiskStore::new(folder);
    store.write(FIRST, 0, &[0; 20_000]).unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for n in 0..2000 {
                store.write(FIRST, 100, &[n as u8; 19_000]).unwrap();
            }
        });
        let mut reads = 0;
        while !writer.is_finished() || reads == 0 {
            let mut bytes = vec![0; 19_000];
            assert!(store.read(FIRST, 100, &mut bytes).unwrap());
            assert!(bytes.iter().all(|byte| *byte == bytes[0]), "half of a write was seen");
            reads += 1;
        }
    });
}

#[test]
fn a_copy_has_all_files_and_takes_the_place_of_an_earlier_one() {
    let (source, target) = (MemoryDisk::new(), MemoryDisk::new());
    let store = DiskStore::new(source.clone());
    let mut expected = BTreeMap::new();
    for (number, length) in [(FIRST, 0), (FIRST + 1, 10), (FIRST + 2, (2 << 20) + 5)] {
        let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
        store.write(number, 0, &bytes).unwrap();
        if length > 0 {
            expected.insert(number, bytes);
        }
    }
    source.create("not ours").unwrap();
    let copied = DiskStore::new(target.clone());
    copied.write(FIRST + 7, 0, b"of an earlier try").unwrap();
    let mut pulses = 0;
    let bytes = copy(&source, &target, &mut || {
        pulses += 1;
        Ok(())
    });
    assert_eq!(bytes.unwrap(), 10 + (2 << 20) + 5);
    assert!(pulses >= 5, "{pulses}");
    let copied = DiskStore::new(target);
    let found: BTreeMap<u64, Vec<u8>> = copied
        .numbers()
        .unwrap()
        .into_iter()
        .map(|number| (number, content(&copied, number).unwrap()))
        .collect();
    assert!(found == expected);
    let stopped = copy(&source, &MemoryDisk::new(), &mut || Err(StorageError::Stopped));
    assert!(matches!(stopped, Err(StorageError::Stopped)));
}
