//! Snapshots that are written from the state in service, by the real threads and into real files: nothing is lost by them, and
//! whoever cannot give the history gets one that is added up.
#![allow(clippy::unwrap_used)]

mod by_hand;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use by_hand::{acquire, release};
use leasehold_engine::{
    Clock, DriverOptions, Engine, EngineOptions, Handle, History, MachineClock, Metrics, Replay,
    founding_key, start,
};
use leasehold_journal::{
    Chore, ChoreDone, ChoreKind, Extent, FileJournal, Folder, Journal, Options, Recovery, StorageError,
};
use leasehold_state_machine::answer::{Answer, LeaseView};
use leasehold_state_machine::limits::Limits;
use tokio::sync::watch;

/// Counts what it is asked for.
struct Counting {
    journal: FileJournal<Folder>,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    cuts: AtomicU64,
    added_up: AtomicU64,
    /// Chores that are not done.
    underway: watch::Sender<u64>,
}

impl Counts {
    /// Waits until all chores are done: a segment that is not ready in time, on a machine that is busy, is none of what is
    /// looked at here.
    async fn calm(&self) {
        self.underway.subscribe().wait_for(|underway| *underway == 0).await.unwrap();
    }
}

impl Journal for Counting {
    fn append(&mut self, payload: &[u8]) -> Result<u64, StorageError> {
        self.journal.append(payload)
    }
    fn batch_bytes_max(&self) -> usize {
        self.journal.batch_bytes_max()
    }
    fn room(&self) -> Result<u64, StorageError> {
        self.journal.room()
    }
    fn chores(&mut self) -> Vec<Chore> {
        let due = self.journal.chores();
        let snapshots = due.iter().filter(|chore| chore.kind() == ChoreKind::Snapshot).count();
        self.counts.added_up.fetch_add(snapshots as u64, Relaxed);
        self.counts.underway.send_modify(|underway| *underway += due.len() as u64);
        due
    }
    fn chore_done(&mut self, done: ChoreDone) -> Result<(), StorageError> {
        self.journal.chore_done(done)?;
        self.counts.underway.send_modify(|underway| *underway -= 1);
        Ok(())
    }
    fn wants_cut(&self) -> bool {
        self.journal.wants_cut()
    }
    fn cut(&mut self) -> Result<Option<Chore>, StorageError> {
        let cut = self.journal.cut()?;
        self.counts.cuts.fetch_add(u64::from(cut.is_some()), Relaxed);
        self.counts.underway.send_modify(|underway| *underway += u64::from(cut.is_some()));
        Ok(cut)
    }
    fn extent(&self) -> Extent {
        self.journal.extent()
    }
}

fn open(folder: &Path) -> (Replay, FileJournal<Folder>, Recovery) {
    let mut replay = Replay::new(Limits::default());
    let options = Options {
        segment_bytes: 128 << 10,
        batch_bytes_max: 64 << 10,
        snapshot_after_bytes: 128 << 10,
        ..Options::new([7; 16])
    };
    let folder = Folder::open(folder).unwrap();
    let (journal, recovery) = FileJournal::open(folder, options, &mut replay).unwrap();
    (replay, journal, recovery)
}

/// A server on this folder, and the history that it feeds, which may be given for a picture or not.
fn launch(folder: &Path, gives_history: bool) -> (Handle, Arc<Counts>) {
    let (mut replay, journal, _) = open(folder);
    let history = Arc::new(Mutex::new(replay.take_history()));
    let counts = Arc::new(Counts::default());
    let clock = MachineClock::new().unwrap();
    let engine_options = EngineOptions {
        founding_key: founding_key().unwrap(),
        restored: None,
        accept_clock: true,
        batch_bytes_max: journal.batch_bytes_max(),
        metrics: Arc::new(Metrics::default()),
    };
    let (engine, _) = Engine::recover(replay, clock.boot_id(), clock.read(), engine_options);
    let heard = history.clone();
    let options = DriverOptions {
        on_events: Box::new(move |chapter| {
            let mut history = heard.lock().unwrap();
            for (seq, wall_ms, event) in chapter.read() {
                history.note(seq, wall_ms, &event);
            }
        }),
        history: Some(Box::new(move |seq| -> Option<History> {
            if gives_history { history.lock().unwrap().up_to(seq) } else { None }
        })),
        ..DriverOptions::default()
    };
    let journal = Counting { journal, counts: counts.clone() };
    (start(engine, Box::new(journal), Arc::new(clock), options).unwrap(), counts)
}

async fn lease(handle: &Handle, name: &str) -> LeaseView {
    match handle.ask(acquire(name, "w1", 60_000)).await {
        Ok(Answer::Lease(lease)) => *lease,
        other => panic!("not a lease: {other:?}"),
    }
}

/// Takes and gives back names until this many snapshots were begun in this way.
async fn churn(handle: &Handle, counts: &Counts, count: &AtomicU64, snapshots: u64) {
    for n in 0.. {
        counts.calm().await;
        if count.load(Relaxed) >= snapshots {
            return;
        }
        assert!(n < 100_000, "only {} snapshots", count.load(Relaxed));
        let granted = lease(handle, &format!("lock-{}", n % 10)).await;
        assert!(matches!(handle.ask(release(&granted)).await, Ok(Answer::Released { .. })));
    }
}

/// What a start finds.
fn found(folder: &Path) -> (Replay, Recovery) {
    let (replay, _, recovery) = open(folder);
    assert_eq!(replay.history().through(), replay.machine().seq());
    (replay, recovery)
}

#[tokio::test]
async fn a_small_state_is_written_as_it_is_and_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut last = 0;
    for _ in 0..3 {
        let (handle, counts) = launch(folder.path(), true);
        let kept = lease(&handle, &format!("kept-{last}")).await;
        churn(&handle, &counts, &counts.cuts, 4).await;
        assert_eq!(counts.added_up.load(Relaxed), 0, "nothing had to be added up");
        handle.stop().await;
        let (replay, recovery) = found(folder.path());
        assert!(recovery.snapshot_index > last, "snapshots go on from those before");
        last = recovery.snapshot_index;
        assert!(replay.machine().last_token() > kept.token);
        assert_eq!(replay.history().after(), 0, "everything is remembered for watchers");
    }
    let (replay, _) = found(folder.path());
    assert_eq!(replay.machine().counts().leases, 3, "one was kept each time");
}

#[tokio::test]
async fn without_the_history_it_is_added_up() {
    let folder = tempfile::tempdir().unwrap();
    let (handle, counts) = launch(folder.path(), false);
    churn(&handle, &counts, &counts.added_up, 3).await;
    assert!(counts.cuts.load(Relaxed) > 0, "it was tried");
    handle.stop().await;
    let (replay, recovery) = found(folder.path());
    assert!(recovery.snapshot_index > 0);
    assert_eq!(replay.history().after(), 0);
}
