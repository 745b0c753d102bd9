//! Files behind real threads: in real files, or in a store that the test holds by the hand.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod by_hand;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Waker};

use by_hand::{acquire, append, delete, file, get, write};
use leasehold_engine::{
    AdmissionLimits, Clock, DriverOptions, Engine, EngineOptions, Failure, FilesRecovered, Handle,
    LaneLimits, MachineClock, Metrics, Notice, Op, ReadError, Replay, founding_key, recover_files, start,
};
use leasehold_files::{DiskStore, FileStore, MemoryDisk};
use leasehold_journal::{
    FILES_FOLDER, FileJournal, Folder, Journal, MemoryJournal, Options, StorageError, backup_beside,
};
use leasehold_state_machine::answer::{Answer, LeaseView, Outcome, Refusal, Written};
use leasehold_state_machine::file::Offset;
use leasehold_state_machine::limits::Limits;

fn launch(replay: Replay, journal: Box<dyn Journal>, options: DriverOptions) -> Handle {
    let clock = Arc::new(MachineClock::new().unwrap());
    let engine_options = EngineOptions {
        founding_key: founding_key().unwrap(),
        restored: None,
        accept_clock: true,
        batch_bytes_max: journal.batch_bytes_max(),
        metrics: Arc::new(Metrics::default()),
    };
    let (engine, _) = Engine::recover(replay, clock.boot_id(), clock.read(), engine_options);
    start(engine, journal, clock, options).unwrap()
}

fn launch_with(files: Arc<dyn FileStore>, admission: AdmissionLimits) -> Handle {
    let options = DriverOptions { files, admission, ..DriverOptions::default() };
    launch(Replay::new(Limits::default()), Box::new(MemoryJournal::new()), options)
}

/// A server in a directory, with segments so small that snapshots are made all the time.
fn launch_in(directory: &Path) -> (Handle, FilesRecovered) {
    let folder = Folder::open(directory).unwrap();
    let options = Options {
        segment_bytes: 256 << 10,
        batch_bytes_max: 128 << 10,
        snapshot_after_bytes: 256 << 10,
        ..Options::new([7; 16])
    };
    let mut replay = Replay::new(Limits::default());
    let (journal, _) = FileJournal::open(folder.clone(), options, &mut replay).unwrap();
    let files = DiskStore::new(folder.make_inside(FILES_FOLDER).unwrap());
    let recovered = recover_files(&replay, &folder, &files).unwrap();
    let options = DriverOptions { files: Arc::new(files), ..DriverOptions::default() };
    (launch(replay, Box::new(journal), options), recovered)
}

fn lease(outcome: Outcome) -> LeaseView {
    match outcome {
        Ok(Answer::Lease(lease)) => *lease,
        other => panic!("not a lease: {other:?}"),
    }
}

fn wrote(outcome: Outcome) -> Written {
    match outcome {
        Ok(Answer::Wrote(written)) => written,
        other => panic!("not written: {other:?}"),
    }
}

async fn content(handle: &Handle, name: &str) -> Vec<u8> {
    let open = handle.open_file(file(name)).await.unwrap();
    let mut bytes = vec![0; open.view().size as usize];
    open.read_at(0, &mut bytes).unwrap();
    bytes
}

fn pending<T>(future: &mut (impl Future<Output = T> + Unpin)) -> bool {
    matches!(std::pin::Pin::new(future).poll(&mut Context::from_waker(Waker::noop())), Poll::Pending)
}

#[tokio::test]
async fn what_is_acknowledged_can_be_read_at_once_and_after_a_restart() {
    const FILES: usize = 4;
    let directory = tempfile::tempdir().unwrap();
    let (handle, recovered) = launch_in(directory.path());
    assert_eq!(recovered, FilesRecovered::default());
    let mut writers = Vec::new();
    for n in 0..FILES {
        let handle = handle.clone();
        writers.push(tokio::spawn(async move {
            let name = format!("dir/f{n}");
            let holder = lease(handle.ask(acquire(&format!("path:/{name}"), "w", 3_600_000)).await);
            let mut expected: Vec<u8> = Vec::new();
            for round in 0..150_usize {
                let bytes = vec![(n * 50 + round) as u8; 2_000 + round];
                let offset = match round % 3 {
                    0 => Offset::At(expected.len() as u64 / 2),
                    _ => Offset::End,
                };
                let written = wrote(handle.ask(write(&holder, &name, offset, &bytes, None)).await);
                let (start, end) = (written.offset as usize, written.offset as usize + bytes.len());
                expected.resize(expected.len().max(end), 0);
                expected[start..end].copy_from_slice(&bytes);
                assert_eq!(written.size as usize, expected.len());
                if round % 10 == 0 {
                    assert!(content(&handle, &name).await == expected, "what was acknowledged can be read");
                }
            }
            expected
        }));
    }
    let mut expected = Vec::new();
    for writer in writers {
        expected.push(writer.await.unwrap());
    }
    let snapshots = handle.metrics().file_syncs_total.load(Ordering::Relaxed);
    assert!(snapshots > 0, "files were synced for snapshots");
    let writes = handle.metrics().file_writes_total.load(Ordering::Relaxed);
    assert_eq!(writes, 150 * FILES as u64);
    handle.stop().await;

    let (handle, recovered) = launch_in(directory.path());
    assert_eq!((recovered.files, recovered.cut, recovered.removed), (4, 0, 0));
    assert!(recovered.rewritten < writes, "only what came after the last snapshot is written again");
    for (n, expected) in expected.iter().enumerate() {
        assert!(content(&handle, &format!("dir/f{n}")).await == *expected);
    }
    handle.stop().await;
}

#[tokio::test]
async fn a_copy_made_while_files_are_written_holds_what_was_acknowledged_before() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    let (handle, _) = launch_in(&data);
    let holder = lease(handle.ask(acquire("path:/", "w", 3_600_000)).await);
    for n in 0..5 {
        for _ in 0..2 {
            wrote(handle.ask(append(&holder, &format!("f{n}"), &vec![0; 50_000], None)).await);
        }
    }
    let (stop, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let writer = {
        let (handle, holder, stop, rounds) = (handle.clone(), holder.clone(), stop.clone(), rounds.clone());
        // Each round overwrites every file with its number: a file of a copy is all of one round.
        tokio::spawn(async move {
            let mut round: u64 = 0;
            while !stop.load(Ordering::SeqCst) {
                round += 1;
                for n in 0..5 {
                    for part in 0..2 {
                        let bytes = round.to_le_bytes().repeat(50_000 / 8);
                        let offset = Offset::At(part * 50_000);
                        wrote(handle.ask(write(&holder, &format!("f{n}"), offset, &bytes, None)).await);
                    }
                }
                rounds.store(round, Ordering::SeqCst);
            }
        })
    };
    for copy in 0..4 {
        while rounds.load(Ordering::SeqCst) < 5 * (copy + 1) {
            tokio::task::yield_now().await;
        }
        let before = rounds.load(Ordering::SeqCst);
        let (data, target) = (data.clone(), home.path().join(format!("copy-{copy}")));
        let rounds = rounds.clone();
        let copied = tokio::task::spawn_blocking(move || {
            let source = Folder::open_running(&data).unwrap();
            let folder = Folder::create_new(&target).unwrap();
            let (from, to) = (
                source.find_inside(FILES_FOLDER).unwrap().unwrap(),
                folder.make_inside(FILES_FOLDER).unwrap(),
            );
            let done = backup_beside(&source, &folder, &mut |hold| {
                // Much happens before and after the files are copied.
                let rounds_pass = |hold: &mut dyn FnMut() -> Result<(), StorageError>| {
                    let until = rounds.load(Ordering::SeqCst) + 2;
                    while rounds.load(Ordering::SeqCst) < until {
                        hold()?;
                    }
                    Ok(())
                };
                rounds_pass(hold)?;
                leasehold_files::copy(&from, &to, hold)?;
                rounds_pass(hold)
            });
            done.unwrap();
            target
        });
        let target = copied.await.unwrap();
        let (restored, recovered) = launch_in(&target);
        assert_eq!(recovered.files, 5);
        let mut last = u64::MAX;
        for n in 0..5 {
            let bytes = content(&restored, &format!("f{n}")).await;
            let rounds: Vec<u64> =
                bytes.chunks(8).map(|chunk| u64::from_le_bytes(chunk.try_into().unwrap())).collect();
            let (first, second) = rounds.split_at(50_000 / 8);
            for half in [first, second] {
                assert!(half.iter().all(|round| *round == half[0]), "half a write is in the copy");
                assert!(half[0] >= before, "what was acknowledged before the copy is in it");
                // Files and halves were written one after the other: the copy is one moment of that.
                assert!(half[0] <= last, "the copy mixes moments");
                last = half[0];
            }
        }
        restored.stop().await;
    }
    stop.store(true, Ordering::SeqCst);
    writer.await.unwrap();
    handle.stop().await;
}

/// A store whose writes to one file wait until they may go on.
struct Slow {
    inner: DiskStore<MemoryDisk>,
    number: u64,
    held: Mutex<bool>,
    news: Condvar,
}

impl Slow {
    fn new(number: u64) -> Arc<Slow> {
        let inner = DiskStore::new(MemoryDisk::new());
        Arc::new(Slow { inner, number, held: Mutex::new(false), news: Condvar::new() })
    }

    fn hold(&self, held: bool) {
        *self.held.lock().unwrap() = held;
        self.news.notify_all();
    }
}

/// Everything but `write`.
macro_rules! as_inner {
    () => {
        fn remove(&self, number: u64) -> Result<(), StorageError> {
            self.inner.remove(number)
        }
        fn read(&self, number: u64, offset: u64, buffer: &mut [u8]) -> Result<bool, StorageError> {
            self.inner.read(number, offset, buffer)
        }
        fn sync(&self) -> Result<u64, StorageError> {
            self.inner.sync()
        }
        fn length(&self, number: u64) -> Result<Option<u64>, StorageError> {
            self.inner.length(number)
        }
        fn cut(&self, number: u64, length: u64) -> Result<(), StorageError> {
            self.inner.cut(number, length)
        }
        fn numbers(&self) -> Result<Vec<u64>, StorageError> {
            self.inner.numbers()
        }
        fn path(&self, number: u64) -> String {
            self.inner.path(number)
        }
    };
}

impl FileStore for Slow {
    fn write(&self, number: u64, offset: u64, bytes: &[u8]) -> Result<(), StorageError> {
        if number == self.number {
            drop(self.news.wait_while(self.held.lock().unwrap(), |held| *held).unwrap());
        }
        self.inner.write(number, offset, bytes)
    }
    fn room(&self) -> Result<u64, StorageError> {
        self.inner.room()
    }
    as_inner!();
}

#[tokio::test]
async fn a_slow_file_holds_up_nothing_but_itself() {
    let slow = Slow::new(1 << 52);
    let write_lane = LaneLimits { requests_max: 2, bytes_max: usize::MAX };
    let admission = AdmissionLimits { write: write_lane, ..AdmissionLimits::default() };
    let handle = launch_with(slow.clone(), admission);
    let holder = lease(handle.ask(acquire("path:/", "w", 3_600_000)).await);
    wrote(handle.ask(append(&holder, "slow", b"1", None)).await);
    slow.hold(true);
    let mut stuck = Box::pin(handle.ask(append(&holder, "slow", b"2", None)));
    assert!(pending(&mut stuck));
    wrote(handle.ask(append(&holder, "quick", b"3", None)).await);
    lease(handle.ask(acquire("b", "w", 60_000)).await);
    assert!(handle.ask(get("b")).await.is_ok());
    assert_eq!(content(&handle, "quick").await, b"3");
    let mut look = Box::pin(handle.open_file(file("slow")));
    assert!(pending(&mut look), "who looks at it hears of it when the bytes are there");

    let mut another = Box::pin(handle.ask(append(&holder, "slow", b"4", None)));
    assert!(pending(&mut another));
    let busy = handle.ask(append(&holder, "quick", b"5", None)).await;
    assert!(matches!(busy, Err(Refusal::Busy { .. })), "{busy:?}");
    assert_eq!(handle.metrics().busy_total(Op::WriteFile), 1);
    assert!(handle.ask(acquire("c", "w", 60_000)).await.is_ok(), "other lanes are open");
    slow.hold(false);
    assert_eq!(wrote(stuck.await), Written { offset: 1, length: 1, size: 2 });
    assert_eq!(wrote(another.await), Written { offset: 2, length: 1, size: 3 });
    let open = look.await.unwrap();
    let mut bytes = vec![0; open.view().size as usize];
    open.read_at(0, &mut bytes).unwrap();
    assert_eq!(bytes, b"124"[..bytes.len()]);
    handle.stop().await;
}

#[tokio::test]
async fn a_reader_finds_the_end_of_what_it_asked_for_and_a_deletion() {
    let handle = launch_with(Arc::new(DiskStore::new(MemoryDisk::new())), AdmissionLimits::default());
    let holder = lease(handle.ask(acquire("path:/", "w", 3_600_000)).await);
    wrote(handle.ask(append(&holder, "empty", b"", None)).await);
    let empty = handle.open_file(file("empty")).await.unwrap();
    assert_eq!(empty.view().size, 0);
    empty.read_at(0, &mut []).unwrap();
    assert!(matches!(empty.read_at(0, &mut [0]), Err(ReadError::BeyondTheEnd)));

    wrote(handle.ask(append(&holder, "a", b"hello", None)).await);
    let before = handle.open_file(file("a")).await.unwrap();
    wrote(handle.ask(append(&holder, "a", b" world", None)).await);
    let mut bytes = [0; 4];
    before.read_at(1, &mut bytes).unwrap();
    assert_eq!(&bytes, b"ello");
    assert!(matches!(before.read_at(2, &mut bytes), Err(ReadError::BeyondTheEnd)), "it was that long then");
    assert!(matches!(before.read_at(u64::MAX, &mut bytes), Err(ReadError::BeyondTheEnd)));
    assert_eq!(handle.ask(delete(&holder, "a")).await, Ok(Answer::Deleted));
    assert!(matches!(handle.open_file(file("a")).await, Err(Refusal::NotFound(_))));
    // It goes after the answer, which says that nobody finds it any more.
    while before.read_at(0, &mut bytes).is_ok() {
        tokio::task::yield_now().await;
    }
    assert!(matches!(before.read_at(0, &mut bytes), Err(ReadError::Gone)));
    handle.stop().await;
    assert!(matches!(before.read_at(0, &mut bytes), Err(ReadError::Stopped)));
}

/// A store that fails, or has a bug, or is full.
struct Failing {
    inner: DiskStore<MemoryDisk>,
    panics: bool,
    room: AtomicU64,
}

impl FileStore for Failing {
    fn write(&self, number: u64, offset: u64, bytes: &[u8]) -> Result<(), StorageError> {
        if offset == 0 {
            return self.inner.write(number, offset, bytes);
        }
        assert!(!self.panics, "a bug, as this test wants it");
        let source = std::io::Error::other("a broken disk");
        Err(StorageError::io("write to", self.path(number))(source))
    }
    fn room(&self) -> Result<u64, StorageError> {
        Ok(self.room.load(Ordering::SeqCst))
    }
    as_inner!();
}

fn failing(panics: bool) -> Arc<Failing> {
    Arc::new(Failing { inner: DiskStore::new(MemoryDisk::new()), panics, room: AtomicU64::new(u64::MAX) })
}

#[tokio::test]
async fn a_file_that_cannot_be_written_ends_the_server() {
    for panics in [false, true] {
        let handle = launch_with(failing(panics), AdmissionLimits::default());
        let holder = lease(handle.ask(acquire("path:/", "w", 3_600_000)).await);
        wrote(handle.ask(append(&holder, "a", b"hello", None)).await);
        let (second, failure) =
            tokio::join!(handle.ask(append(&holder, "a", b" world", None)), handle.failed());
        assert!(matches!(second, Err(Refusal::Unavailable { .. })), "{second:?}");
        match failure {
            Failure::Storage(error) => {
                assert!(!panics && error.to_string().contains("a broken disk"), "{error}")
            }
            Failure::Panicked => assert!(panics),
        }
        assert!(!handle.is_ready());
    }
}

#[tokio::test]
async fn a_nearly_full_disk_takes_no_bytes_and_lets_files_be_deleted() {
    let store = failing(false);
    let (said, heard) = std::sync::mpsc::channel();
    let options = DriverOptions {
        files: store.clone(),
        on_notice: Box::new(move |notice| {
            if let Notice::Room { short, .. } = notice {
                let _ = said.send(*short);
            }
        }),
        ..DriverOptions::default()
    };
    let handle = launch(Replay::new(Limits::default()), Box::new(MemoryJournal::new()), options);
    let holder = lease(handle.ask(acquire("path:/", "w", 3_600_000)).await);
    wrote(handle.ask(append(&holder, "a", b"hello", None)).await);
    store.room.store(1 << 20, Ordering::SeqCst);
    let heard = tokio::task::spawn_blocking(move || {
        assert!(heard.recv().unwrap());
        heard
    });
    let heard = heard.await.unwrap();
    let refused = handle.ask(append(&holder, "b", b"hello", None)).await;
    assert!(matches!(refused, Err(Refusal::Unavailable { .. })), "{refused:?}");
    assert_eq!(content(&handle, "a").await, b"hello");
    assert_eq!(handle.ask(delete(&holder, "a")).await, Ok(Answer::Deleted));
    store.room.store(u64::MAX, Ordering::SeqCst);
    tokio::task::spawn_blocking(move || assert!(!heard.recv().unwrap())).await.unwrap();
    wrote(handle.ask(append(&holder, "b", b"hello", None)).await);
    handle.stop().await;
}

#[tokio::test]
async fn a_start_on_files_that_lack_bytes_is_refused_and_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (handle, _) = launch_in(directory.path());
    let holder = lease(handle.ask(acquire("path:/", "w", 3_600_000)).await);
    wrote(handle.ask(append(&holder, "old", &[7; 5_000], None)).await);
    // Enough for a snapshot that has it.
    let before = handle.metrics().file_syncs_total.load(Ordering::Relaxed);
    while handle.metrics().file_syncs_total.load(Ordering::Relaxed) == before {
        wrote(handle.ask(write(&holder, "new", Offset::At(0), &[8; 50_000], None)).await);
    }
    wrote(handle.ask(append(&holder, "last", b"1", None)).await);
    handle.stop().await;

    let inside = directory.path().join(FILES_FOLDER);
    let of_length = |length: u64| {
        let mut files = std::fs::read_dir(&inside).unwrap().map(|entry| entry.unwrap());
        files.find(|entry| entry.metadata().unwrap().len() == length).unwrap().path()
    };
    let (old, last) = (of_length(5_000), of_length(1));
    std::fs::OpenOptions::new().write(true).open(&old).unwrap().set_len(4_999).unwrap();
    std::fs::write(&last, b"22").unwrap();
    std::fs::write(inside.join("4503599627999999"), b"nobody's").unwrap();

    let open = |replay: &mut Replay| {
        let folder = Folder::open(directory.path()).unwrap();
        let options =
            Options { segment_bytes: 256 << 10, batch_bytes_max: 128 << 10, ..Options::new([7; 16]) };
        let (journal, _) = FileJournal::open(folder.clone(), options, replay).unwrap();
        (folder, journal)
    };
    let mut replay = Replay::new(Limits::default());
    let (folder, journal) = open(&mut replay);
    let files = DiskStore::new(folder.make_inside(FILES_FOLDER).unwrap());
    let error = recover_files(&replay, &folder, &files).unwrap_err().to_string();
    assert!(error.contains("is damaged at byte 4999") && error.contains(old.to_str().unwrap()), "{error}");
    assert_eq!(std::fs::read(&last).unwrap(), b"22", "nothing was changed");
    drop((journal, folder, files));

    std::fs::write(&old, [7; 5_000]).unwrap();
    let (handle, recovered) = launch_in(directory.path());
    assert_eq!((recovered.cut, recovered.removed), (1, 1));
    assert_eq!(content(&handle, "last").await, b"1", "what the journal does not know is gone");
    handle.stop().await;
}
