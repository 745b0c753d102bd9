//! The journal's two threads: one appends batches, says when they are durable and hands on what they change in files; one
//! does the journal's chores beside it. After the first error nothing is tried again.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use leasehold_files::FileStore;
use leasehold_journal::{Chore, ChoreDone, ChoreKind, Fold, Journal, StorageError};
use leasehold_planted::{Bug, planted};
use leasehold_state_machine::event::Seq;

use crate::appliers::{AppliedWord, Appliers, SayApplied};
use crate::backlog::Batch;
use crate::file_change::FileChange;
use crate::limits::{ROOM_LOOK_EVERY_BYTES, ROOM_LOOK_EVERY_MS, WRITE_ROOM_BYTES_MIN};
use crate::metrics::Metrics;
use crate::replay::Replay;
use crate::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use crate::sync::panicking;
use crate::sync::thread::{self, JoinHandle};
use crate::synced_fold::SyncedFold;

/// What the storage threads have to say.
#[derive(Debug)]
pub(crate) enum Word {
    /// The batch that ends here is durable.
    Durable { last_seq: Seq, commit_us: u64 },
    /// What these events change in files is there.
    Applied(Vec<Seq>),
    /// Free disk space fell under the reserve, or rose above it.
    Room { short: bool, bytes: u64 },
    /// An append, a change of a file or a chore failed; nothing more will come.
    Failed(StorageError),
    /// A thread ran into a bug of ours; nothing more will come.
    Panicked,
}

/// The storage threads, as the engine thread holds them.
pub(crate) struct Storage {
    work: Sender<Work>,
    interrupt: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// What the storage threads need.
pub(crate) struct StorageParts {
    pub journal: Box<dyn Journal>,
    pub files: Arc<dyn FileStore>,
    pub fresh_replay: Box<dyn Fn() -> Replay + Send>,
    pub room_reserve_bytes: u64,
    pub metrics: Arc<Metrics>,
    /// Hears what there is to say, from each thread.
    pub say: Arc<dyn Fn(Word) + Send + Sync>,
}

enum Work {
    Append(Batch),
    ChoreDone(ChoreDone),
    ChoresPanicked,
    Stop,
}

impl Storage {
    /// Starts the threads.
    pub fn start(parts: StorageParts) -> io::Result<Storage> {
        let (work, works) = channel();
        let (chores, chores_due) = channel();
        let interrupt = Arc::new(AtomicBool::new(false));
        let StorageParts { journal, files, fresh_replay, room_reserve_bytes, metrics, say } = parts;
        let (appliers, mut threads) = Appliers::start(&files, &say_applied(say.clone()))?;
        let chore_thread = ChoreThread {
            fresh_replay,
            files: files.clone(),
            appliers: appliers.clone(),
            metrics: metrics.clone(),
            interrupt: interrupt.clone(),
            done: work.clone(),
        };
        threads
            .push(thread::Builder::new().name("chores".into()).spawn(move || chore_thread.run(chores_due))?);
        let room = Room { reserve_bytes: room_reserve_bytes, looked: None, written_bytes: 0, short: false };
        let journal_thread = JournalThread { journal, files, appliers, room, chores, metrics, say };
        threads
            .push(thread::Builder::new().name("journal".into()).spawn(move || journal_thread.run(&works))?);
        Ok(Storage { work, interrupt, threads })
    }

    /// Hands over a batch. If the thread has ended, its last word says why.
    pub fn append(&self, batch: Batch) {
        let _ = self.work.send(Work::Append(batch));
    }

    /// Ends the threads, breaking off a snapshot if one is being made: the next start makes it anew.
    pub fn stop(self) {
        self.interrupt.store(true, Relaxed);
        let _ = self.work.send(Work::Stop);
        for thread in self.threads {
            // A thread that panicked has said so itself.
            let _ = thread.join();
        }
    }
}

fn say_applied(say: Arc<dyn Fn(Word) + Send + Sync>) -> SayApplied {
    Arc::new(move |word| {
        say(match word {
            AppliedWord::Applied(seqs) => Word::Applied(seqs),
            AppliedWord::Failed(error) => Word::Failed(error),
            AppliedWord::Panicked => Word::Panicked,
        });
    })
}

struct JournalThread {
    journal: Box<dyn Journal>,
    files: Arc<dyn FileStore>,
    appliers: Appliers,
    room: Room,
    chores: Sender<Chore>,
    metrics: Arc<Metrics>,
    say: Arc<dyn Fn(Word) + Send + Sync>,
}

impl JournalThread {
    fn run(mut self, works: &Receiver<Work>) {
        if let Err(error) = self.serve(works) {
            (self.say)(Word::Failed(error));
        }
    }

    fn serve(&mut self, works: &Receiver<Work>) -> Result<(), StorageError> {
        loop {
            self.look_around()?;
            match works.recv_timeout(Duration::from_millis(ROOM_LOOK_EVERY_MS)) {
                Ok(Work::Append(mut batch)) => {
                    let begun = Instant::now();
                    if planted(Bug::FileBytesBeforeSync) {
                        self.appliers.hand_over(std::mem::take(&mut batch.changes));
                    }
                    self.journal.append(&batch.payload)?;
                    let commit_us = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
                    (self.say)(Word::Durable { last_seq: batch.last_seq, commit_us });
                    let room = |change: &FileChange| change.len().max(WRITE_ROOM_BYTES_MIN);
                    let into_files: usize = batch.changes.iter().map(|(_, change)| room(change)).sum();
                    self.room.written_bytes += (batch.payload.len() + into_files) as u64;
                    // Before the next look at the chores: whoever makes a snapshot finds these changes handed over.
                    self.appliers.hand_over(batch.changes);
                }
                Ok(Work::ChoreDone(done)) => self.journal.chore_done(done)?,
                Ok(Work::ChoresPanicked) => panic!("the chores thread panicked"),
                Ok(Work::Stop) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Sees to chores that have become due and, now and then, to the free space.
    fn look_around(&mut self) -> Result<(), StorageError> {
        for chore in self.journal.chores() {
            // The chore thread outlives this sender.
            let _ = self.chores.send(chore);
        }
        if self.room.look_is_due() {
            let bytes = self.journal.room()?.min(self.files.room()?);
            self.metrics.room_bytes.store(bytes, Relaxed);
            self.metrics.journal_bytes.store(self.journal.extent().bytes, Relaxed);
            if let Some(short) = self.room.judge(bytes) {
                (self.say)(Word::Room { short, bytes });
            }
        }
        Ok(())
    }
}

impl Drop for JournalThread {
    fn drop(&mut self) {
        if panicking() {
            (self.say)(Word::Panicked);
        }
    }
}

/// Whether there is room on the disk.
struct Room {
    reserve_bytes: u64,
    looked: Option<Instant>,
    /// Since then.
    written_bytes: u64,
    short: bool,
}

impl Room {
    fn look_is_due(&mut self) -> bool {
        let every = Duration::from_millis(ROOM_LOOK_EVERY_MS);
        let due = self.looked.is_none_or(|looked| looked.elapsed() >= every)
            || self.written_bytes >= ROOM_LOOK_EVERY_BYTES;
        if due {
            self.looked = Some(Instant::now());
            self.written_bytes = 0;
        }
        due
    }

    /// Whether it is short, if that has changed.
    fn judge(&mut self, bytes: u64) -> Option<bool> {
        let short = bytes < self.reserve_bytes;
        (std::mem::replace(&mut self.short, short) != short).then_some(short)
    }
}

struct ChoreThread {
    fresh_replay: Box<dyn Fn() -> Replay + Send>,
    files: Arc<dyn FileStore>,
    appliers: Appliers,
    metrics: Arc<Metrics>,
    interrupt: Arc<AtomicBool>,
    done: Sender<Work>,
}

impl ChoreThread {
    fn run(self, due: Receiver<Chore>) {
        let _on_panic = ChoresGuard(&self.done);
        for chore in due {
            if self.interrupt.load(Relaxed) {
                return;
            }
            let fold = SyncedFold::new((self.fresh_replay)(), || self.sync_files());
            let mut fold = Interruptible { fold, interrupt: &self.interrupt };
            let begun = (chore.kind() == ChoreKind::Snapshot).then(Instant::now);
            self.metrics.snapshot_running.store(u64::from(begun.is_some()), Relaxed);
            let done = chore.run(&mut fold);
            if let Some(begun) = begun {
                let took_us = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
                self.metrics.snapshot.observe(took_us);
                self.metrics.snapshot_running.store(0, Relaxed);
            }
            let _ = self.done.send(Work::ChoreDone(done));
        }
    }

    /// Everything that is durable when a chore begins was handed over before, and is on the disk after this.
    fn sync_files(&self) -> Result<(), StorageError> {
        self.appliers.settle()?;
        let synced = self.files.sync()?;
        self.metrics.file_syncs_total.fetch_add(synced, Relaxed);
        Ok(())
    }
}

struct ChoresGuard<'a>(&'a Sender<Work>);

impl Drop for ChoresGuard<'_> {
    fn drop(&mut self) {
        if panicking() {
            // If the journal thread has ended too, it has said why.
            let _ = self.0.send(Work::ChoresPanicked);
        }
    }
}

/// A fold that gives up when the server stops.
struct Interruptible<'a, F> {
    fold: F,
    interrupt: &'a AtomicBool,
}

impl<F> Interruptible<'_, F> {
    fn check(&self) -> Result<(), String> {
        if self.interrupt.load(Relaxed) { Err("the server is stopping".into()) } else { Ok(()) }
    }
}

impl<F: Fold> Fold for Interruptible<'_, F> {
    fn restore(&mut self, snapshot: &mut dyn io::Read) -> Result<(), String> {
        self.check()?;
        self.fold.restore(snapshot)
    }

    fn replay(&mut self, payload: &[u8]) -> Result<(), String> {
        self.check()?;
        self.fold.replay(payload)
    }

    fn write_snapshot(&mut self, out: &mut dyn io::Write) -> io::Result<()> {
        self.check().map_err(io::Error::other)?;
        self.fold.write_snapshot(out)
    }
}
