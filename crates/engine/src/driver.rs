//! Real threads around the engine. One turns it whenever something arrives or falls due, and appends what was decided to the
//! journal itself: for a request on its way there is no other thread to be woken. While it is away for the disk, a stand-in
//! turns the engine, if that takes longer than usual; so renewals are answered and time goes on while a disk is slow. Holds
//! no rule of its own; what it does with real clocks and disks, the simulator does with virtual ones.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use leasehold_files::{DiskStore, FileStore, MemoryDisk};
use leasehold_journal::{ChoreDone, Journal, StorageError};
use leasehold_state_machine::event::Seq;
use tokio::sync::oneshot;

use crate::admission::AdmissionLimits;
use crate::backlog::Batch;
use crate::clock::Clock;
use crate::desk::{Desk, OnEvents, OnNotice};
use crate::engine::Engine;
use crate::handle::{Failure, Handle, Message, Shared, Telling};
use crate::inbox::StandingIn;
use crate::limits::{
    LINGER_US, LOOK_OUT_US, ROOM_LOOK_EVERY_MS, ROOM_RESERVE_BYTES, STAND_IN_AT_ONCE_US,
    STAND_IN_LOOK_EVERY_MS,
};
use crate::notice::Notice;
use crate::pace::Pace;
use crate::picture::Picture;
use crate::secrets::Secrets;
use crate::storage::{HistoryUpTo, RoomNews, Storage, StorageParts, Word};
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{Mutex, MutexGuard, panicking};

/// How the engine is driven.
pub struct DriverOptions {
    /// How much may be in flight.
    pub admission: AdmissionLimits,
    /// Free disk space below which nothing new is begun.
    pub room_reserve_bytes: u64,
    /// Where the bytes of files are, brought in line with the journal.
    pub files: Arc<dyn FileStore>,
    /// Hears every event once it is durable, in order. Runs on the threads that turn the engine, one at a time.
    pub on_events: OnEvents,
    /// Gives the history of what `on_events` has heard; runs on a thread of its own. With it a snapshot of a small state is
    /// written from the state itself, and without it, or where it does not have all, added up from the journal.
    pub history: Option<HistoryUpTo>,
    /// Hears what an operator should know. Runs on the same.
    pub on_notice: OnNotice,
}

impl Default for DriverOptions {
    fn default() -> Self {
        DriverOptions {
            admission: AdmissionLimits::default(),
            room_reserve_bytes: ROOM_RESERVE_BYTES,
            files: Arc::new(DiskStore::new(MemoryDisk::new())),
            on_events: Box::new(|_| {}),
            history: None,
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
        history: options.history,
        room_reserve_bytes: options.room_reserve_bytes,
        metrics: engine.metrics().clone(),
        say: {
            let shared = shared.clone();
            Arc::new(move |word| {
                // After the engine has ended nobody needs to hear it.
                let _ = shared.inbox.put(Message::Storage(word));
            })
        },
    })?;
    let secrets = Secrets::from_system()?;
    let desk = Desk::new(engine, shared.clone(), secrets, options.on_events, options.on_notice);
    let driven = Driven {
        desk,
        messages: VecDeque::new(),
        lingers_until_us: None,
        chores_done: Vec::new(),
        stop: None,
        over: false,
    };
    let common = Arc::new(Common { shared: shared.clone(), driven: Mutex::new(driven) });
    let stand_in = {
        let common = common.clone();
        thread::Builder::new().name("stand-in".into()).spawn(move || common.stand_in())?
    };
    // Where there is one processor, looking out would keep it from those who are to bring something. Where orders are chosen
    // there is no time.
    let may_look_out =
        !cfg!(feature = "shuttle") && available_parallelism().is_ok_and(|cores| cores.get() > 1);
    let driver = Driver {
        common,
        storage,
        stand_in,
        commit_us: 0,
        pace: Pace::default(),
        may_look_out,
        waited_us: u64::MAX,
    };
    thread::Builder::new().name("journal".into()).spawn(move || driver.run())?;
    Ok(Handle { shared })
}

/// What both threads turn.
struct Common {
    shared: Arc<Shared>,
    driven: Mutex<Driven>,
}

/// The engine and what goes with it: touched by one thread at a time.
struct Driven {
    desk: Desk,
    /// Kept, so that it need not be allocated for each turn.
    messages: VecDeque<Message>,
    /// Until when, in raw time, a batch that nobody waits for stays here.
    lingers_until_us: Option<u64>,
    /// For the journal, as soon as it is at hand.
    chores_done: Vec<ChoreDone>,
    /// Somebody wants it to stop: what was not decided is not decided any more.
    stop: Option<oneshot::Sender<()>>,
    /// Nobody may turn it any more.
    over: bool,
}

impl Common {
    /// None when the engine has ended, or must not be turned any more because somebody panicked over it.
    fn driven(&self) -> Option<MutexGuard<'_, Driven>> {
        self.driven.lock().ok().filter(|driven| !driven.over)
    }

    /// Turns the engine while the other thread is away for longer than usual.
    fn stand_in(&self) {
        let _on_panic = FailOnPanic(self);
        let look_every = Duration::from_millis(STAND_IN_LOOK_EVERY_MS);
        let mut standing_in = StandingIn::default();
        while self.shared.inbox.stand_in(look_every, &mut standing_in) {
            let Some(mut driven) = self.driven() else { return };
            // One that has come back meanwhile does it itself.
            if !self.shared.inbox.is_away() {
                continue;
            }
            match driven.turn(&self.shared) {
                Ok(()) => drop(driven.desk.let_go()),
                Err(failure) => return self.fail(driven, failure),
            }
        }
    }

    /// First the reason, then the answers, then the threads: a disk that hangs must not keep a failure secret.
    fn fail(&self, mut driven: MutexGuard<'_, Driven>, failure: Failure) {
        driven.desk.engine.storage_failed();
        self.shared.fail(failure);
        self.end(&mut driven);
    }

    /// Who is not answered by now is told that the server is stopping.
    fn end(&self, driven: &mut Driven) {
        driven.over = true;
        drop(self.shared.inbox.close());
        driven.desk.dismiss();
    }
}

impl Driven {
    /// Takes in everything that has arrived, and turns the engine.
    fn turn(&mut self, shared: &Shared) -> Result<(), Failure> {
        let stopping = self.stop.is_some();
        shared.inbox.take(&mut self.messages);
        for message in self.messages.drain(..) {
            match message {
                Message::Storage(Word::Applied(seqs)) => {
                    seqs.into_iter().for_each(|seq| self.desk.engine.applied(seq));
                }
                Message::Storage(Word::ChoreDone(done)) => self.chores_done.push(done),
                Message::Storage(Word::Failed(error)) => return Err(Failure::Storage(Arc::new(error))),
                Message::Storage(Word::Panicked) => return Err(Failure::Panicked),
                // Dropped, it is told that the server is stopping.
                _ if stopping => {}
                Message::Stop(ended) => self.stop = Some(ended),
                Message::Ask(asked) => self.desk.enter(*asked),
                Message::Listen(session, listener) => self.desk.listeners.add(session, listener),
                Message::Ignore(session, listener) => self.desk.listeners.remove(session, &listener),
                Message::Tell(telling) => {
                    let Telling { attachment, arrived_raw_us, command } = *telling;
                    self.desk.arrive(attachment, arrived_raw_us, command);
                }
            }
        }
        if !stopping {
            self.desk.turn();
        }
        Ok(())
    }

    /// The next batch for the journal, unless nobody waits for it and others may yet join it.
    fn batch(&mut self, shared: &Shared) -> Option<Batch> {
        let may_linger = !cfg!(feature = "shuttle") && self.stop.is_none();
        if may_linger && self.desk.engine.has_batch() && !self.desk.engine.is_awaited() {
            let now_us = shared.clock.raw_us();
            if now_us < *self.lingers_until_us.get_or_insert(now_us + LINGER_US) {
                return None;
            }
        }
        self.lingers_until_us = None;
        self.desk.engine.take_batch()
    }

    /// How long to wait for something to arrive.
    fn patience(&self, shared: &Shared) -> Duration {
        let look = Duration::from_millis(ROOM_LOOK_EVERY_MS);
        if self.stop.is_some() {
            return look;
        }
        if self.desk.has_arrivals() {
            return Duration::ZERO;
        }
        let wake_us = [self.desk.engine.wake_raw_us(), self.lingers_until_us].into_iter().flatten().min();
        wake_us.map_or(look, |wake_us| {
            look.min(Duration::from_micros(wake_us.saturating_sub(shared.clock.raw_us())))
        })
    }
}

/// The thread that turns the engine and appends to the journal.
struct Driver {
    common: Arc<Common>,
    storage: Storage,
    stand_in: JoinHandle<()>,
    /// How long the last commit took.
    commit_us: u64,
    /// How long commits take on this disk at the moment.
    pace: Pace,
    /// Whether it may keep a processor busy for a moment.
    may_look_out: bool,
    /// How long nothing came the last time that nothing was to be done.
    waited_us: u64,
}

/// What came of a turn.
struct Turned {
    /// Of everything before what the turn decided.
    picture: Option<Picture>,
    chores_done: Vec<ChoreDone>,
    next: Next,
}

/// What a turn left to be done.
enum Next {
    Append(Batch),
    Wait(Duration),
    /// Everything that was decided before the stop is durable and told.
    Stopped(Option<oneshot::Sender<()>>),
    /// The engine has ended.
    Over,
}

impl Driver {
    fn run(mut self) {
        let common = self.common.clone();
        // A panic must not leave a server that merely stays silent.
        let on_panic = FailOnPanic(&common);
        let stopped = self.serve();
        drop(on_panic);
        let stopped = stopped.unwrap_or_else(|error| {
            if let Some(driven) = common.driven() {
                common.fail(driven, Failure::Storage(Arc::new(error)));
            }
            None
        });
        self.storage.stop();
        // If it panicked it has said so itself.
        let _ = self.stand_in.join();
        if let Some(ended) = stopped {
            // Who asked may have gone.
            let _ = ended.send(());
        }
    }

    fn serve(&mut self) -> Result<Option<oneshot::Sender<()>>, StorageError> {
        let room = self.away(Storage::look_around)?;
        self.tell_of_room(room);
        let mut durable = None;
        loop {
            let Turned { next, chores_done, picture } = self.turn(durable.take());
            for done in chores_done {
                self.storage.chore_done(done)?;
            }
            if let Some(picture) = picture {
                self.away(|storage| storage.snapshot_of(picture))?;
            }
            match next {
                Next::Append(batch) => {
                    let last_seq = batch.last_seq;
                    let looked = self.away(|storage| {
                        let room = storage.look_around()?;
                        Ok((room, storage.append(batch)?))
                    });
                    let room;
                    (room, self.commit_us) = looked?;
                    self.pace.took(self.commit_us);
                    self.tell_of_room(room);
                    durable = Some(last_seq);
                }
                Next::Wait(patience) => {
                    self.wait(patience);
                    if self.storage.look_is_due() {
                        let room = self.away(Storage::look_around)?;
                        self.tell_of_room(room);
                    }
                }
                Next::Stopped(ended) => return Ok(ended),
                Next::Over => return Ok(None),
            }
        }
    }

    /// Waits for something to arrive. When things come one upon the other it does not sleep at once: waking it would take
    /// longer than what it is woken for.
    fn wait(&mut self, patience: Duration) {
        let inbox = &self.common.shared.inbox;
        let begun = Instant::now();
        if self.may_look_out && self.waited_us < LOOK_OUT_US {
            inbox.look_out(patience.min(Duration::from_micros(LOOK_OUT_US)));
        }
        inbox.wait(Some(patience.saturating_sub(begun.elapsed())));
        self.waited_us = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
    }

    /// Does what may take long, while the stand-in looks after the engine.
    fn away<T>(&mut self, what: impl FnOnce(&mut Storage) -> T) -> T {
        // Where orders are chosen there is no time, and whoever is needed is woken.
        let at_once = cfg!(feature = "shuttle") || self.pace.us() >= STAND_IN_AT_ONCE_US;
        self.common.shared.inbox.leave(at_once);
        let done = what(&mut self.storage);
        self.common.shared.inbox.back();
        done
    }

    /// Tells what has become durable, takes in what has arrived, and says what is to be done next.
    fn turn(&mut self, durable: Option<Seq>) -> Turned {
        let over = Turned { picture: None, chores_done: Vec::new(), next: Next::Over };
        let Common { shared, .. } = &*self.common;
        let Some(mut driven) = self.common.driven() else { return over };
        if let Some(last_seq) = durable {
            driven.desk.engine.durable(last_seq, self.commit_us);
            // Before anything else is decided: who is answered asks again meanwhile.
            driven.desk.let_go();
        }
        // Before anything else is decided, and after everything decided was told: whoever keeps the history has heard of it.
        let wants_picture = self.storage.wants_picture() && driven.stop.is_none();
        let picture = wants_picture.then(|| driven.desk.engine.picture()).flatten();
        if let Err(failure) = driven.turn(shared) {
            self.common.fail(driven, failure);
            return over;
        }
        let chores_done = std::mem::take(&mut driven.chores_done);
        let batch = driven.batch(shared);
        driven.desk.let_go();
        let next = match batch {
            Some(batch) => Next::Append(batch),
            None if driven.stop.is_some() && driven.desk.engine.is_settled() => {
                let ended = driven.stop.take();
                self.common.end(&mut driven);
                Next::Stopped(ended)
            }
            None => Next::Wait(driven.patience(shared)),
        };
        Turned { picture, chores_done, next }
    }

    fn tell_of_room(&self, news: Option<RoomNews>) {
        if let Some(RoomNews { short, bytes }) = news
            && let Some(mut driven) = self.common.driven()
        {
            self.common.shared.short_of_room.store(short, Relaxed);
            (driven.desk.on_notice)(&Notice::Room { short, bytes });
        }
    }
}

struct FailOnPanic<'a>(&'a Common);

impl Drop for FailOnPanic<'_> {
    fn drop(&mut self) {
        if panicking() {
            self.0.shared.fail(Failure::Panicked);
            drop(self.0.shared.inbox.close());
            // Who waits is told, unless it is the engine itself that is broken: then they are when it is dropped.
            if let Some(mut driven) = self.0.driven() {
                self.0.end(&mut driven);
            }
        }
    }
}
