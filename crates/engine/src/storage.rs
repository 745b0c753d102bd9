//! What keeps what was decided: the journal, which is appended to by whoever holds this; the threads that put bytes into
//! files; and one that does the journal's chores beside it. After the first error nothing is tried again.

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
use crate::history::History;
use crate::limits::{ROOM_LOOK_EVERY_BYTES, ROOM_LOOK_EVERY_MS, WRITE_ROOM_BYTES_MIN};
use crate::metrics::Metrics;
use crate::picture::Picture;
use crate::replay::Replay;
use crate::sync::mpsc::{Receiver, Sender, channel};
use crate::sync::panicking;
use crate::sync::thread::{self, JoinHandle};
use crate::synced_fold::SyncedFold;

/// A batch on its way to the disk in the stand-in's hands, and what keeps it.
pub(crate) struct Errand {
    pub storage: Box<Storage>,
    pub batch: Batch,
    /// The processor that it is to be run on; none: any.
    pub at: Option<usize>,
}

/// Back from an errand.
pub(crate) struct Back {
    pub storage: Box<Storage>,
    pub last_seq: Seq,
    pub appended: Result<Appended, StorageError>,
}

/// A batch is durable.
pub(crate) struct Appended {
    pub commit_us: u64,
    pub room: Option<RoomNews>,
}

/// What the storage threads have to say.
pub(crate) enum Word {
    /// What these events change in files is there.
    Applied(Vec<Seq>),
    /// A chore is done, or has failed.
    ChoreDone(ChoreDone),
    /// A change of a file failed; nothing more will come.
    Failed(StorageError),
    /// A thread ran into a bug of ours; nothing more will come.
    Panicked,
}

/// The journal and the threads around it.
pub(crate) struct Storage {
    journal: Box<dyn Journal>,
    files: Arc<dyn FileStore>,
    appliers: Appliers,
    room: Room,
    chores: Sender<Due>,
    /// Whether pictures of the state are of use.
    takes_pictures: bool,
    metrics: Arc<Metrics>,
    interrupt: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// What storage is made of.
pub(crate) struct StorageParts {
    pub journal: Box<dyn Journal>,
    pub files: Arc<dyn FileStore>,
    pub fresh_replay: Box<dyn Fn() -> Replay + Send>,
    /// Who keeps the history of what became durable; without one all snapshots are added up.
    pub history: Option<HistoryUpTo>,
    pub room_reserve_bytes: u64,
    pub metrics: Arc<Metrics>,
    /// Hears what there is to say, from each thread.
    pub say: Arc<dyn Fn(Word) + Send + Sync>,
}

/// Gives the history up to an event that it has heard of, if it has all of it.
pub type HistoryUpTo = Box<dyn Fn(Seq) -> Option<History> + Send>;

/// A chore that has become due, and the state that it is to write out, if that is there already.
struct Due {
    chore: Chore,
    picture: Option<Picture>,
}

/// Free disk space fell under the reserve, or rose above it.
pub(crate) struct RoomNews {
    pub short: bool,
    pub bytes: u64,
}

impl Storage {
    /// Starts the threads.
    pub fn start(parts: StorageParts) -> io::Result<Storage> {
        let (chores, chores_due) = channel();
        let interrupt = Arc::new(AtomicBool::new(false));
        let StorageParts { journal, files, fresh_replay, history, room_reserve_bytes, metrics, say } = parts;
        let takes_pictures = history.is_some();
        let (appliers, mut threads) = Appliers::start(&files, &say_applied(say.clone()))?;
        let chore_thread = ChoreThread {
            fresh_replay,
            history,
            files: files.clone(),
            appliers: appliers.clone(),
            metrics: metrics.clone(),
            interrupt: interrupt.clone(),
            say,
        };
        threads
            .push(thread::Builder::new().name("chores".into()).spawn(move || chore_thread.run(chores_due))?);
        let room = Room { reserve_bytes: room_reserve_bytes, looked: None, written_bytes: 0, short: false };
        Ok(Storage { journal, files, appliers, room, chores, takes_pictures, metrics, interrupt, threads })
    }

    /// Looks around, makes a batch durable, and hands on what it changes in files.
    pub fn append(&mut self, mut batch: Batch) -> Result<Appended, StorageError> {
        let room = self.look_around()?;
        let begun = Instant::now();
        if planted(Bug::FileBytesBeforeSync) {
            self.appliers.hand_over(std::mem::take(&mut batch.changes));
        }
        self.journal.append(&batch.payload)?;
        let commit_us = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        let takes = |change: &FileChange| change.len().max(WRITE_ROOM_BYTES_MIN);
        let into_files: usize = batch.changes.iter().map(|(_, change)| takes(change)).sum();
        self.room.written_bytes += (batch.payload.len() + into_files) as u64;
        // Before the next look at the chores: whoever makes a snapshot finds these changes handed over.
        self.appliers.hand_over(batch.changes);
        Ok(Appended { commit_us, room })
    }

    /// Takes note of a chore that was done.
    pub fn chore_done(&mut self, done: ChoreDone) -> Result<(), StorageError> {
        self.journal.chore_done(done)
    }

    /// Whether a picture of the state as of the last batch would be of use now.
    pub fn wants_picture(&self) -> bool {
        self.takes_pictures && self.journal.wants_cut()
    }

    /// Has a snapshot made of this state, which must be that as of the last batch.
    pub fn snapshot_of(&mut self, picture: Picture) -> Result<(), StorageError> {
        if let Some(chore) = self.journal.cut()? {
            // The chore thread outlives this sender.
            let _ = self.chores.send(Due { chore, picture: Some(picture) });
        }
        Ok(())
    }

    /// Whether there has been no look at the free space for long.
    pub fn look_is_due(&self) -> bool {
        self.room.look_is_due()
    }

    /// Sees to chores that have become due and, now and then, to the free space.
    pub fn look_around(&mut self) -> Result<Option<RoomNews>, StorageError> {
        for chore in self.journal.chores() {
            // The chore thread outlives this sender.
            let _ = self.chores.send(Due { chore, picture: None });
        }
        if !self.room.look_is_due() {
            return Ok(None);
        }
        self.room.looked = Some(Instant::now());
        self.room.written_bytes = 0;
        let bytes = self.journal.room()?.min(self.files.room()?);
        self.metrics.room_bytes.store(bytes, Relaxed);
        self.metrics.journal_bytes.store(self.journal.extent().bytes, Relaxed);
        Ok(self.room.judge(bytes).map(|short| RoomNews { short, bytes }))
    }

    /// Ends the threads, breaking off a snapshot if one is being made: the next start makes it anew.
    pub fn stop(self) {
        let Storage { journal, chores, appliers, threads, interrupt, .. } = self;
        interrupt.store(true, Relaxed);
        // Without the journal nobody needs to take his time for its chores.
        drop((journal, chores, appliers));
        for thread in threads {
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

/// Whether there is room on the disk.
struct Room {
    reserve_bytes: u64,
    looked: Option<Instant>,
    /// Since then.
    written_bytes: u64,
    short: bool,
}

impl Room {
    fn look_is_due(&self) -> bool {
        let every = Duration::from_millis(ROOM_LOOK_EVERY_MS);
        self.written_bytes >= ROOM_LOOK_EVERY_BYTES
            || self.looked.is_none_or(|looked| looked.elapsed() >= every)
    }

    /// Whether it is short, if that has changed.
    fn judge(&mut self, bytes: u64) -> Option<bool> {
        let short = bytes < self.reserve_bytes;
        (std::mem::replace(&mut self.short, short) != short).then_some(short)
    }
}

struct ChoreThread {
    fresh_replay: Box<dyn Fn() -> Replay + Send>,
    history: Option<HistoryUpTo>,
    files: Arc<dyn FileStore>,
    appliers: Appliers,
    metrics: Arc<Metrics>,
    interrupt: Arc<AtomicBool>,
    say: Arc<dyn Fn(Word) + Send + Sync>,
}

impl ChoreThread {
    fn run(self, due: Receiver<Due>) {
        let _on_panic = ChoresGuard(&*self.say);
        for Due { chore, picture } in due {
            if self.interrupt.load(Relaxed) {
                return;
            }
            let begun = (chore.kind() == ChoreKind::Snapshot).then(Instant::now);
            self.metrics.snapshot_running.store(u64::from(begun.is_some()), Relaxed);
            let done = match picture {
                None => self.run_on(chore, (self.fresh_replay)()),
                Some(picture) => match self.history.as_ref().and_then(|up_to| up_to(picture.seq())) {
                    Some(history) => self.run_on(chore, picture.with(history)),
                    None => chore.put_off(),
                },
            };
            if let Some(begun) = begun {
                let took_us = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
                self.metrics.snapshot.observe(took_us);
                self.metrics.snapshot_running.store(0, Relaxed);
            }
            (self.say)(Word::ChoreDone(done));
        }
    }

    fn run_on(&self, chore: Chore, fold: impl Fold) -> ChoreDone {
        let fold = SyncedFold::new(fold, || self.sync_files());
        chore.run(&mut Interruptible { fold, interrupt: &self.interrupt })
    }

    /// Everything that is durable when a chore begins was handed over before, and is on the disk after this.
    fn sync_files(&self) -> Result<(), StorageError> {
        self.appliers.settle()?;
        let synced = self.files.sync()?;
        self.metrics.file_syncs_total.fetch_add(synced, Relaxed);
        Ok(())
    }
}

struct ChoresGuard<'a>(&'a (dyn Fn(Word) + Send + Sync));

impl Drop for ChoresGuard<'_> {
    fn drop(&mut self) {
        if panicking() {
            (self.0)(Word::Panicked);
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
