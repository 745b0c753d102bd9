//! The journal's two threads: one appends batches and says when they are durable, one does the journal's chores beside
//! it. After the first error nothing is tried again.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use leasehold_journal::{Chore, ChoreDone, Fold, Journal, StorageError};
use leasehold_state_machine::event::Seq;

use crate::backlog::Batch;
use crate::limits::ROOM_LOOK_EVERY_MS;
use crate::metrics::Metrics;
use crate::replay::Replay;

/// What the storage threads have to say.
#[derive(Debug)]
pub(crate) enum Word {
    /// The batch that ends here is durable.
    Durable { last_seq: Seq, commit_us: u64 },
    /// Free disk space fell under the reserve, or rose above it.
    Room { short: bool, bytes: u64 },
    /// An append or a chore failed; nothing more will come.
    Failed(StorageError),
    /// A thread ran into a bug of ours; nothing more will come.
    Panicked,
}

/// The storage threads, as the engine thread holds them.
pub(crate) struct Storage {
    work: Sender<Work>,
    interrupt: Arc<AtomicBool>,
    threads: [JoinHandle<()>; 2],
}

/// What the storage threads need.
pub(crate) struct StorageParts {
    pub journal: Box<dyn Journal>,
    pub fresh_replay: Box<dyn Fn() -> Replay + Send>,
    pub room_reserve_bytes: u64,
    pub metrics: Arc<Metrics>,
    /// Hears what there is to say, from either thread.
    pub say: Box<dyn Fn(Word) + Send>,
}

enum Work {
    Append(Batch),
    ChoreDone(ChoreDone),
    ChoresPanicked,
    Stop,
}

impl Storage {
    /// Starts both threads.
    pub fn start(parts: StorageParts) -> io::Result<Storage> {
        let (work, works) = channel();
        let (chores, chores_due) = channel();
        let interrupt = Arc::new(AtomicBool::new(false));
        let StorageParts { journal, fresh_replay, room_reserve_bytes, metrics, say } = parts;
        let chore_thread = {
            let (done, interrupt) = (work.clone(), interrupt.clone());
            thread::Builder::new()
                .name("chores".into())
                .spawn(move || do_chores(chores_due, &fresh_replay, &interrupt, &done))?
        };
        let journal_thread = {
            let room = Room { reserve_bytes: room_reserve_bytes, looked: None, short: false };
            let thread = JournalThread { journal, room, chores, metrics, say };
            thread::Builder::new().name("journal".into()).spawn(move || thread.run(&works))?
        };
        Ok(Storage { work, interrupt, threads: [journal_thread, chore_thread] })
    }

    /// Hands over a batch. If the thread has ended, its last word says why.
    pub fn append(&self, batch: Batch) {
        let _ = self.work.send(Work::Append(batch));
    }

    /// Ends both threads, breaking off a snapshot if one is being made: the next start makes it anew.
    pub fn stop(self) {
        self.interrupt.store(true, Relaxed);
        let _ = self.work.send(Work::Stop);
        for thread in self.threads {
            // A thread that panicked has said so itself.
            let _ = thread.join();
        }
    }
}

struct JournalThread {
    journal: Box<dyn Journal>,
    room: Room,
    chores: Sender<Chore>,
    metrics: Arc<Metrics>,
    say: Box<dyn Fn(Word) + Send>,
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
                Ok(Work::Append(batch)) => {
                    let begun = Instant::now();
                    self.journal.append(&batch.payload)?;
                    let commit_us = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
                    (self.say)(Word::Durable { last_seq: batch.last_seq, commit_us });
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
            let bytes = self.journal.room()?;
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
        if thread::panicking() {
            (self.say)(Word::Panicked);
        }
    }
}

/// Whether there is room on the disk.
struct Room {
    reserve_bytes: u64,
    looked: Option<Instant>,
    short: bool,
}

impl Room {
    fn look_is_due(&mut self) -> bool {
        let every = Duration::from_millis(ROOM_LOOK_EVERY_MS);
        let due = self.looked.is_none_or(|looked| looked.elapsed() >= every);
        if due {
            self.looked = Some(Instant::now());
        }
        due
    }

    /// Whether it is short, if that has changed.
    fn judge(&mut self, bytes: u64) -> Option<bool> {
        let short = bytes < self.reserve_bytes;
        (std::mem::replace(&mut self.short, short) != short).then_some(short)
    }
}

fn do_chores(
    due: Receiver<Chore>,
    fresh_replay: &dyn Fn() -> Replay,
    interrupt: &Arc<AtomicBool>,
    done: &Sender<Work>,
) {
    let _on_panic = ChoresGuard(done);
    for chore in due {
        if interrupt.load(Relaxed) {
            return;
        }
        let mut fold = Interruptible { fold: fresh_replay(), interrupt: interrupt.clone() };
        let _ = done.send(Work::ChoreDone(chore.run(&mut fold)));
    }
}

struct ChoresGuard<'a>(&'a Sender<Work>);

impl Drop for ChoresGuard<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            // If the journal thread has ended too, it has said why.
            let _ = self.0.send(Work::ChoresPanicked);
        }
    }
}

/// A fold that gives up when the server stops.
struct Interruptible {
    fold: Replay,
    interrupt: Arc<AtomicBool>,
}

impl Interruptible {
    fn check(&self) -> Result<(), String> {
        if self.interrupt.load(Relaxed) { Err("the server is stopping".into()) } else { Ok(()) }
    }
}

impl Fold for Interruptible {
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
