//! The real directory: private, used by one server at a time, and copied while it is written to.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use leasehold_journal::{
    BackupError, Disk, DiskFile, FILES_FOLDER, FaultyDisk, FileJournal, Folder, FolderError, Journal,
    StorageError, backup, backup_beside, check,
};
use support::{Counter, batch, disk_with, do_chores, open, tiny};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_directory_is_created_private_and_batches_survive_in_it() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("deep/er/data");
    let batches: Vec<_> = (0..60).map(|number| batch(number, number as usize * 50)).collect();
    let (mut journal, recovery, _) = open(&Folder::open(&path).unwrap()).unwrap();
    assert_eq!(recovery.last_index, 0);
    for batch in &batches {
        journal.append(batch).unwrap();
        do_chores(&mut journal).unwrap();
    }
    assert!(journal.room().unwrap() > 0);
    assert!(journal.extent().snapshot_index > 0);
    assert_eq!(mode(&path), 0o700);
    for entry in fs::read_dir(&path).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }
    drop(journal);
    let folder = Folder::open_stopped(&path).unwrap();
    assert_eq!(check(&folder).unwrap().unwrap().last_index, 60);
    drop(folder);
    assert_eq!(open(&Folder::open(&path).unwrap()).unwrap().2.0, batches);
}

#[test]
fn an_existing_directory_is_made_private_unless_others_need_it() {
    let home = tempfile::tempdir().unwrap();
    let set_mode = |mode| fs::set_permissions(home.path(), fs::Permissions::from_mode(mode)).unwrap();
    set_mode(0o755);
    drop(open(&Folder::open(home.path()).unwrap()).unwrap());
    assert_eq!(mode(home.path()), 0o700);
    set_mode(0o777);
    drop(Folder::open(home.path()).unwrap());
    assert_eq!(mode(home.path()), 0o700, "with nothing in it but our own files");

    fs::write(home.path().join("a letter"), "").unwrap();
    set_mode(0o755);
    drop(Folder::open(home.path()).unwrap());
    assert_eq!(mode(home.path()), 0o755, "somebody else keeps things here");
    set_mode(0o1777);
    assert!(matches!(Folder::open(home.path()), Err(FolderError::Shared(_))));
    assert_eq!(mode(home.path()), 0o1777);
}

#[test]
fn a_directory_serves_one_process_at_a_time() {
    let home = tempfile::tempdir().unwrap();
    let folder = Folder::open(home.path()).unwrap();
    let (journal, _, _) = open(&folder).unwrap();
    drop(folder);
    // The journal itself keeps the lock.
    for second in [Folder::open(home.path()), Folder::open_stopped(home.path())] {
        let error = second.unwrap_err();
        assert!(matches!(error, FolderError::InUse(_)));
        let text = error.to_string();
        assert!(
            text.contains(&home.path().display().to_string()) && text.contains("another leasehold"),
            "{text}"
        );
    }
    drop(journal);
    // Two may look at the same time, and then no server may start.
    let looking = [Folder::open_stopped(home.path()).unwrap(), Folder::open_stopped(home.path()).unwrap()];
    assert!(matches!(Folder::open(home.path()), Err(FolderError::InUse(_))));
    drop(looking);
    Folder::open(home.path()).unwrap();
}

#[test]
fn looking_creates_and_changes_nothing() {
    let home = tempfile::tempdir().unwrap();
    assert!(Folder::open_stopped(&home.path().join("nowhere")).is_err());
    assert!(!home.path().join("nowhere").exists());
    let folder = Folder::open_stopped(home.path()).unwrap();
    assert_eq!(check(&folder).unwrap(), None);
    assert!(open(&folder).is_err(), "a directory opened to look at cannot be written to");
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
}

#[test]
fn a_path_that_cannot_be_a_directory_gets_a_clear_sentence() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("file");
    fs::write(&file, "").unwrap();
    for path in [file.clone(), file.join("data")] {
        let error = Folder::open(&path).unwrap_err().to_string();
        assert!(error.starts_with("cannot ") && error.contains("file"), "{error}");
    }
    let refused = FolderError::Io {
        doing: "create the data directory",
        path: file,
        source: std::io::Error::from(std::io::ErrorKind::PermissionDenied),
    };
    assert!(refused.to_string().contains("choose a directory that this user may write to"));
}

#[test]
fn a_backup_of_a_directory_that_is_written_to_opens_and_has_all_that_was_acknowledged() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    let mut fold = Counter::default();
    let (mut journal, _) = FileJournal::open(Folder::open(&data).unwrap(), tiny(), &mut fold).unwrap();
    let (acknowledged, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut restarts = 0;
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for number in 1.. {
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                let index = journal.append(&batch(number, 8 + (number as usize * 37) % 1500)).unwrap();
                acknowledged.store(index, Ordering::SeqCst);
                for chore in journal.chores() {
                    let done = chore.run(&mut Counter::default());
                    journal.chore_done(done).unwrap();
                }
            }
        });
        let (mut copies, mut made) = (0, 0);
        while (copies < 40 || acknowledged.load(Ordering::SeqCst) < 200) && !writer.is_finished() {
            let target = home.path().join(format!("copy-{copies}"));
            let before = acknowledged.load(Ordering::SeqCst);
            let source = Folder::open_running(&data).unwrap();
            let copied = backup(&source, &Folder::create_new(&target).unwrap());
            let after = acknowledged.load(Ordering::SeqCst) + 1;
            match copied {
                Ok(report) => {
                    restarts += report.tries - 1;
                    assert!((before..=after).contains(&report.copy.last_index));
                    assert_eq!(mode(&target), 0o700);
                    let mut fold = Counter::default();
                    let (mut copy, recovery) =
                        FileJournal::open(Folder::open(&target).unwrap(), tiny(), &mut fold).unwrap();
                    assert_eq!((fold.batches, recovery.torn), (report.copy.last_index, None));
                    copy.append(b"goes on").unwrap();
                    made += 1;
                }
                // Segments of a few kilobytes are trimmed many times faster than real ones.
                Err(BackupError::Restless(_)) => restarts += 10,
                Err(other) => panic!("{other}"),
            }
            copies += 1;
        }
        stop.store(true, Ordering::SeqCst);
        writer.join().unwrap();
        assert!(made > 0, "no copy was ever made");
    });
    println!("{restarts} restarts, {} batches", acknowledged.load(Ordering::SeqCst));
}

#[test]
fn a_backup_leaves_a_torn_tail_behind_and_refuses_damage() {
    let disk = disk_with(&[batch(1, 300), batch(2, 2000)]);
    let name = "segment-00000000000000000001".to_owned();
    let mut files = disk.contents();
    files.get_mut(&name).unwrap()[1536..2048].fill(0);
    let copy = FaultyDisk::new(1);
    let report = backup(&FaultyDisk::holding(1, &files), &copy).unwrap();
    assert_eq!((report.copy.last_index, report.copy.torn, report.tries), (1, None, 1));
    copy.crash();
    assert_eq!(open(&copy).unwrap().2.0, [batch(1, 300)], "the copy is durable");

    files.get_mut(&name).unwrap()[600] ^= 1;
    let copy = FaultyDisk::new(1);
    let error = backup(&FaultyDisk::holding(1, &files), &copy).unwrap_err();
    assert!(error.to_string().contains("is damaged at byte 512"), "{error}");
    assert!(copy.contents().is_empty());
}

#[test]
fn a_backup_that_is_interrupted_is_no_journal() {
    use leasehold_journal::{Call, Fault};
    let source = disk_with(&(0..30).map(|number| batch(number, 700)).collect::<Vec<_>>());
    let (mut journal, _, _) = open(&source).unwrap();
    do_chores(&mut journal).unwrap();
    for number in 0..20 {
        journal.append(&batch(number, 700)).unwrap();
    }
    let calls = {
        let copy = FaultyDisk::new(1);
        assert_eq!(backup(&source, &copy).unwrap().copy.last_index, 50);
        copy.counts().calls
    };
    let mut refused = 0;
    for nth in 1..=calls {
        for seed in 0..8 {
            let copy = FaultyDisk::new(seed);
            copy.fail_nth(Call::Any, nth, Fault::PowerLoss);
            backup(&source, &copy).unwrap_err();
            assert_eq!(copy.counts().faults, 1);
            copy.crash();
            match check(&copy) {
                Ok(None) => {}
                Ok(Some(report)) => assert_eq!(report.last_index, 50, "half a copy passes for a journal"),
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > 0);
}

#[test]
fn a_backup_wants_a_journal_and_an_empty_directory() {
    let home = tempfile::tempdir().unwrap();
    let empty = FaultyDisk::new(1);
    let full = disk_with(&[batch(1, 1)]);
    assert!(matches!(backup(&empty, &FaultyDisk::new(2)), Err(BackupError::Nothing(_))));
    assert!(matches!(backup(&full, &disk_with(&[])), Err(BackupError::Occupied(_))));
    fs::write(home.path().join("something"), "").unwrap();
    assert!(matches!(Folder::create_new(home.path()), Err(FolderError::NotEmpty(_))));
}

/// What is beside the journal is as old as the snapshot at most and as new as the end at most, however far the journal is
/// trimmed while it is copied.
#[test]
fn what_is_copied_beside_a_journal_lies_between_its_snapshot_and_its_end() {
    let home = tempfile::tempdir().unwrap();
    let folder = Folder::open(&home.path().join("data")).unwrap();
    let mut fold = Counter::default();
    let (mut journal, _) = FileJournal::open(folder, tiny(), &mut fold).unwrap();
    let append = |journal: &mut FileJournal<Folder>, count: u64| {
        for _ in 0..count {
            let number = journal.extent().last_index + 1;
            journal.append(&batch(number, 700)).unwrap();
            for chore in journal.chores() {
                let done = chore.run(&mut Counter::default());
                journal.chore_done(done).unwrap();
            }
        }
    };
    append(&mut journal, 100);
    let snapshot_before = journal.extent().snapshot_index;
    assert!(snapshot_before > 0);

    let source = Folder::open_running(&home.path().join("data")).unwrap();
    let target = Folder::create_new(&home.path().join("copy")).unwrap();
    let mut tries = 0;
    let report = backup_beside(&source, &target, &mut |hold| {
        tries += 1;
        for _ in 0..50 {
            append(&mut journal, 4);
            hold()?;
        }
        Ok(())
    });
    let report = report.unwrap();
    assert_eq!((tries, report.tries, report.copy.last_index), (1, 1, 300));
    assert!(journal.extent().snapshot_index > 250, "the journal was trimmed meanwhile");
    assert_eq!(report.copy.snapshot.map(|snapshot| snapshot.index), Some(snapshot_before));

    // Who does not keep hold of it begins anew.
    let target = Folder::create_new(&home.path().join("another")).unwrap();
    let mut tries = 0;
    let report = backup_beside(&source, &target, &mut |_| {
        tries += 1;
        if tries == 1 {
            append(&mut journal, 200);
        }
        Ok(())
    });
    assert_eq!((report.unwrap().copy.last_index, tries), (500, 2));

    let target = Folder::create_new(&home.path().join("third")).unwrap();
    let full = |_: &mut dyn FnMut() -> Result<(), StorageError>| {
        Err(StorageError::io("write", "somewhere".into())(std::io::ErrorKind::StorageFull.into()))
    };
    assert!(matches!(backup_beside(&source, &target, &mut { full }), Err(BackupError::Beside(_))));
}

#[test]
fn a_directory_has_another_one_inside() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("data");
    let folder = Folder::open(&path).unwrap();
    assert!(folder.find_inside(FILES_FOLDER).unwrap().is_none());
    let inside = folder.make_inside(FILES_FOLDER).unwrap();
    assert_eq!(mode(&path.join("files")), 0o700);
    inside.create("1").unwrap().write_at(0, b"x").unwrap();
    assert_eq!(folder.make_inside(FILES_FOLDER).unwrap().list().unwrap(), ["1"]);
    assert_eq!(folder.list().unwrap(), ["lock"], "what is inside is not the journal's");
    drop(folder);
    // The lock is held as long as anybody may write.
    assert!(matches!(Folder::open(&path), Err(FolderError::InUse(_))));
    drop(inside);
    let running = Folder::open_running(&path).unwrap();
    assert!(running.make_inside("other").is_err() && !path.join("other").exists());
    let inside = running.find_inside(FILES_FOLDER).unwrap().unwrap();
    assert!(inside.create("2").is_err() && inside.open("1").is_ok());
    // Somebody opened it to all; what is in it is ours, so that it can be closed again.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    drop(Folder::open(&path).unwrap());
    assert_eq!(mode(&path), 0o700);
}
