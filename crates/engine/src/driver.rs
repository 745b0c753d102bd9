//! Real threads around the engine: one owns it and turns it whenever something arrives or falls due. Holds no rule of its
//! own; what it does with real clocks and disks, the simulator does with virtual ones.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use leasehold_files::{DiskStore, FileStore, MemoryDisk};
use leasehold_journal::Journal;
use tokio::sync::oneshot;

use crate::admission::AdmissionLimits;
use crate::clock::Clock;
use crate::desk::{Desk, OnEvents, OnNotice};
use crate::engine::Engine;
use crate::handle::{Failure, Handle, Message, Shared};
use crate::limits::ROOM_RESERVE_BYTES;
use crate::notice::Notice;
use crate::secrets::Secrets;
use crate::storage::{Storage, StorageParts, Word};
use crate::sync::{panicking, thread};

/// How the engine is driven.
pub struct DriverOptions {
    /// How much may be in flight.
    pub admission: AdmissionLimits,
    /// Free disk space below which nothing new is begun.
    pub room_reserve_bytes: u64,
    /// Where the bytes of files are, brought in line with the journal.
    pub files: Arc<dyn FileStore>,
    /// Hears every event once it is durable, in order. Runs on the engine thread.
    pub on_events: OnEvents,
    /// Hears what an operator should know. Runs on the engine thread.
    pub on_notice: OnNotice,
}

impl Default for DriverOptions {
    fn default() -> Self {
        DriverOptions {
            admission: AdmissionLimits::default(),
            room_reserve_bytes: ROOM_RESERVE_BYTES,
            files: Arc::new(DiskStore::new(MemoryDisk::new())),
            on_events: Box::new(|_| {}),
            on_notice: Box::new(|_| {}),
        }
    }
}

/// Starts the threads around a recovered engine and its journal.
pub fn start(
    engine: Engine,
    journal: Box<dyn Journal>,
    clock: Arc<dyn Clock>,
    options: DriverOptions,
) -> io::Result<Handle> {
    let files = options.files;
    let shared = Arc::new(Shared::new(options.admission, engine.metrics().clone(), clock, &files));
    // The storage threads look again and again, and say what is wrong if they cannot. But who comes before their first word
    // must not be let in on a full disk either.
    let room = [journal.room(), files.room()].into_iter().flatten().min();
    let short = room.is_some_and(|bytes| bytes < options.room_reserve_bytes);
    shared.short_of_room.store(short, Relaxed);
    let limits = engine.limits();
    let storage = Storage::start(StorageParts {
        journal,
        files,
        fresh_replay: Box::new(move || crate::Replay::new(limits)),
        room_reserve_bytes: options.room_reserve_bytes,
        metrics: engine.metrics().clone(),
        say: {
            let shared = shared.clone();
            Arc::new(move |word| {
                // After the engine thread has ended nobody needs to hear it.
                let _ = shared.inbox.put(Message::Storage(word));
            })
        },
    })?;
    let secrets = Secrets::from_system()?;
    let desk = Desk::new(engine, shared.clone(), secrets, options.on_events, options.on_notice);
    let driver = Driver { desk, storage, shared: shared.clone() };
    thread::Builder::new().name("engine".into()).spawn(move || driver.run())?;
    Ok(Handle { shared })
}

/// The engine thread.
struct Driver {
    desk: Desk,
    storage: Storage,
    shared: Arc<Shared>,
}

/// Why the thread ends.
enum End {
    Stopped(oneshot::Sender<()>),
    Failed(Failure),
}

impl Driver {
    fn run(mut self) {
        let shared = self.shared.clone();
        // A panic must not leave a server that merely stays silent.
        let on_panic = FailOnPanic(shared.clone());
        let end = self.serve();
        drop(on_panic);
        // First the reason, then the answers, then the threads: a disk that hangs must not keep a failure secret.
        if let End::Failed(failure) = &end {
            shared.fail(failure.clone());
        }
        // Who is not answered by now is told that the server is stopping.
        drop(shared.inbox.close());
        self.desk.dismiss();
        self.storage.stop();
        if let End::Stopped(ended) = end {
            // Who asked may have gone.
            let _ = ended.send(());
        }
    }

    fn serve(&mut self) -> End {
        // What recovery decided goes to the disk before anything arrives.
        self.hand_over();
        let mut messages = VecDeque::new();
        loop {
            self.shared.inbox.take(self.patience(), &mut messages);
            let mut stop = None;
            for message in messages.drain(..) {
                match message {
                    Message::Stop(ended) => stop = Some(ended),
                    Message::Storage(word) => {
                        if let Err(failure) = self.hear(word) {
                            return End::Failed(failure);
                        }
                    }
                    Message::Ask(asked) => self.desk.enter(*asked),
                    Message::Listen(session, listener) => self.desk.listeners.add(session, listener),
                    Message::Ignore(session, listener) => self.desk.listeners.remove(session, &listener),
                    Message::Tell { attachment, arrived_raw_us, command } => {
                        self.desk.arrive(attachment, arrived_raw_us, command);
                    }
                }
            }
            self.desk.turn();
            self.hand_over();
            if let Some(ended) = stop {
                return match self.drain() {
                    Ok(()) => End::Stopped(ended),
                    Err(failure) => End::Failed(failure),
                };
            }
        }
    }

    /// How long to wait for something to arrive.
    fn patience(&self) -> Option<Duration> {
        if self.desk.has_arrivals() {
            return Some(Duration::ZERO);
        }
        let wake_us = self.desk.engine.wake_raw_us()?;
        Some(Duration::from_micros(wake_us.saturating_sub(self.shared.clock.raw_us())))
    }

    fn hear(&mut self, word: Word) -> Result<(), Failure> {
        match word {
            Word::Durable { last_seq, commit_us } => self.desk.engine.durable(last_seq, commit_us),
            Word::Applied(seqs) => seqs.into_iter().for_each(|seq| self.desk.engine.applied(seq)),
            Word::Room { short, bytes } => {
                self.shared.short_of_room.store(short, Relaxed);
                (self.desk.on_notice)(&Notice::Room { short, bytes });
            }
            Word::Failed(error) => {
                self.desk.engine.storage_failed();
                return Err(Failure::Storage(Arc::new(error)));
            }
            Word::Panicked => {
                self.desk.engine.storage_failed();
                return Err(Failure::Panicked);
            }
        }
        Ok(())
    }

    fn hand_over(&mut self) {
        self.desk.hand_over(|batch| self.storage.append(batch));
    }

    /// Makes everything durable that was decided, and tells it. What was not decided is not decided any more.
    fn drain(&mut self) -> Result<(), Failure> {
        let mut messages = VecDeque::new();
        while !self.desk.engine.is_settled() {
            self.shared.inbox.take(None, &mut messages);
            for message in messages.drain(..) {
                if let Message::Storage(word) = message {
                    self.hear(word)?;
                }
            }
            self.hand_over();
        }
        Ok(())
    }
}

struct FailOnPanic(Arc<Shared>);

impl Drop for FailOnPanic {
    fn drop(&mut self) {
        if panicking() {
            self.0.fail(Failure::Panicked);
            drop(self.0.inbox.close());
        }
    }
}
