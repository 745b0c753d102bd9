//! Real threads around the engine, and the first of the two. It turns the engine whenever something arrives or falls due, and
//! appends what was decided to the journal itself: for many requests on their way there is no other thread to be woken. While it
//! is away for the disk, the stand-in turns the engine, if that takes longer than usual; so renewals are answered and time goes on
//! while a disk is slow. A batch of few requests is taken to the disk by the stand-in, while the first thread stays at the
//! engine. Holds no rule of its own; what it does with real clocks and disks, the simulator does with virtual ones.

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
use crate::driven::{Common, Driven, FailOnPanic};
use crate::engine::Engine;
use crate::handle::{Failure, Handle, Message, Shared};
use crate::limits::{
    ERRAND_COMMIT_US_MIN, ERRAND_EVENTS, ERRAND_MESSAGES_AT_ONCE, LOOK_OUT_FOR_ANSWER_US, LOOK_OUT_US,
    ROOM_RESERVE_BYTES, SMALL_BATCH_EVENTS, STAND_IN_AT_ONCE_US,
};
use crate::notice::Notice;
use crate::pace::Pace;
use crate::picture::Picture;
use crate::placement::Placement;
use crate::scribe::{NoScribe, Scribe};
use crate::secrets::Secrets;
use crate::stand_in::stand_in;
use crate::storage::{Appended, Back, Errand, HistoryUpTo, RoomNews, Storage, StorageParts};
use crate::sync::thread::{self, JoinHandle};

/// How the engine is driven.
pub struct DriverOptions {
    /// How much may be in flight.
    pub admission: AdmissionLimits,
    /// Free disk space below which nothing new is begun.
    pub room_reserve_bytes: u64,
    /// Where the bytes of files are, brought in line with the journal.
    pub files: Arc<dyn FileStore>,
    /// Writes answers for conversations.
    pub scribe: Box<dyn Scribe>,
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
            scribe: Box::new(NoScribe),
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
    let desk =
        Desk::new(engine, shared.clone(), secrets, options.scribe, options.on_events, options.on_notice);
    let common = Arc::new(Common::new(desk, shared.clone()));
    let stand_in = {
        let common = common.clone();
        thread::Builder::new().name("stand-in".into()).spawn(move || stand_in(&common))?
    };
    // Where there is one processor, looking out would keep it from those who are to bring something. Where orders are chosen
    // there is no time.
    let may_look_out =
        !cfg!(feature = "shuttle") && available_parallelism().is_ok_and(|cores| cores.get() > 1);
    let driver = Driver {
        common,
        storage: Some(Box::new(storage)),
        stand_in,
        pace: Pace::default(),
        placement: Placement::free(),
        may_look_out,
        waited_us: u64::MAX,
    };
    thread::Builder::new().name("journal".into()).spawn(move || driver.run())?;
    Ok(Handle { shared })
}

/// The first thread: turns the engine and appends to the journal.
struct Driver {
    common: Arc<Common>,
    /// None while the stand-in is on an errand with it.
    storage: Option<Box<Storage>>,
    stand_in: JoinHandle<()>,
    /// How long commits take on this disk at the moment.
    pace: Pace,
    /// Where it sits while small batches follow each other.
    placement: Placement,
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
        // If it panicked it has said so itself.
        let _ = self.stand_in.join();
        // An errand that was not begun any more has it, or one that came back when nobody looked any more. Any other has ended it.
        let inbox = &common.shared.inbox;
        let storage = self.storage.or_else(|| Some(inbox.take_errand()?.storage));
        let storage = storage.or_else(|| Some(inbox.take_returned()?.storage));
        if let Some(storage) = storage {
            storage.stop();
        }
        if let Some(ended) = stopped {
            // Who asked may have gone.
            let _ = ended.send(());
        }
    }

    fn serve(&mut self) -> Result<Option<oneshot::Sender<()>>, StorageError> {
        self.look_around()?;
        let mut durable = None;
        loop {
            let Turned { next, chores_done, picture } = self.turn(durable.take());
            for done in chores_done {
                self.at_hand().chore_done(done)?;
            }
            if let Some(picture) = picture {
                self.away(|storage| storage.snapshot_of(picture))?;
            }
            match next {
                Next::Append(batch) => {
                    let at = self.sit(&batch);
                    if self.is_errand(&batch) {
                        self.send(batch, at);
                        continue;
                    }
                    let last_seq = batch.last_seq;
                    let Appended { commit_us, room } = self.away(|storage| storage.append(batch))?;
                    self.pace.took(commit_us);
                    self.placement.took(commit_us, self.pace.us());
                    self.tell_of_room(room);
                    durable = Some((last_seq, commit_us));
                }
                Next::Wait(patience) => {
                    self.wait(patience);
                    if self.storage.as_ref().is_some_and(|storage| storage.look_is_due()) {
                        self.look_around()?;
                    }
                }
                Next::Stopped(ended) => return Ok(ended),
                Next::Over => return Ok(None),
            }
        }
    }

    /// What only ever happens while the stand-in is not on an errand.
    fn at_hand(&mut self) -> &mut Storage {
        let Some(storage) = &mut self.storage else { panic!("nobody is at the disk") };
        storage
    }

    /// Whether the stand-in is to take this batch to the disk. Of few requests the other half comes back and is decided while it
    /// is on its way, and the processor stays awake for its return. Many are better off with both processors, and with one
    /// large batch after the other.
    fn is_errand(&self, batch: &Batch) -> bool {
        if cfg!(feature = "shuttle") {
            // Where orders are chosen, now one way and now the other.
            return batch.last_seq.is_multiple_of(2);
        }
        let few = ERRAND_EVENTS.contains(&batch.contents.events);
        // A journal in memory is done before anybody else could begin.
        let takes_time = self.pace.us() >= ERRAND_COMMIT_US_MIN;
        // A picture wants everything that is decided to be durable.
        let wants_picture = self.storage.as_ref().is_some_and(|storage| storage.wants_picture());
        self.may_look_out && few && takes_time && !wants_picture
    }

    /// Where this batch is taken to the disk from; none: anywhere. Who takes many along works more than it waits, and goes where there
    /// is room; and on a slow disk it is all the same.
    fn sit(&mut self, batch: &Batch) -> Option<usize> {
        let small = batch.contents.events <= SMALL_BATCH_EVENTS;
        let commit_us = self.pace.us();
        if !self.may_look_out || !small || commit_us < ERRAND_COMMIT_US_MIN {
            self.placement.rise();
        } else if commit_us >= STAND_IN_AT_ONCE_US {
            self.placement.leave_slow_spot();
        } else {
            return self.placement.sit();
        }
        None
    }

    fn send(&mut self, batch: Batch, at: Option<usize>) {
        let Some(storage) = self.storage.take() else { panic!("nobody is at the disk") };
        self.common.shared.inbox.send(Errand { storage, batch, at });
        // The stand-in sits on this processor.
        thread::yield_now();
    }

    /// Waits for something to arrive. When things come one upon the other it does not sleep at once: waking it would take
    /// longer than what it is woken for.
    fn wait(&mut self, patience: Duration) {
        let inbox = &self.common.shared.inbox;
        let begun = Instant::now();
        let on_errand = self.storage.is_none();
        if on_errand && patience.is_zero() {
            // Whoever is at the disk needs this processor between its steps.
            return thread::yield_now();
        }
        let look_out_us = if on_errand && self.pace.us() < LOOK_OUT_FOR_ANSWER_US {
            LOOK_OUT_FOR_ANSWER_US
        } else if self.waited_us < LOOK_OUT_US {
            LOOK_OUT_US
        } else {
            0
        };
        if self.may_look_out {
            inbox.look_out(patience.min(Duration::from_micros(look_out_us)));
        }
        let patience = patience.saturating_sub(begun.elapsed());
        if !patience.is_zero() && !inbox.has_news() {
            self.placement.rise();
        }
        inbox.wait(Some(patience));
        self.waited_us = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
    }

    /// Does what may take long, while the stand-in looks after the engine.
    fn away<T>(&mut self, what: impl FnOnce(&mut Storage) -> T) -> T {
        // Where orders are chosen there is no time, and whoever is needed is woken.
        let at_once = cfg!(feature = "shuttle") || self.pace.us() >= STAND_IN_AT_ONCE_US;
        self.common.shared.inbox.leave(at_once);
        let done = what(self.at_hand());
        self.common.shared.inbox.back();
        done
    }

    fn look_around(&mut self) -> Result<(), StorageError> {
        let room = self.away(Storage::look_around)?;
        self.tell_of_room(room);
        Ok(())
    }

    /// Tells what has become durable, takes in what has arrived, and says what is to be done next.
    fn turn(&mut self, durable: Option<(Seq, u64)>) -> Turned {
        let over = Turned { picture: None, chores_done: Vec::new(), next: Next::Over };
        let Common { shared, .. } = &*self.common;
        let Some(mut driven) = self.common.driven() else { return over };
        if let Some((last_seq, commit_us)) = durable {
            driven.desk.durable(last_seq, commit_us);
            // Before anything else is decided: who is answered asks again meanwhile.
            driven.desk.let_go();
        }
        // Before anything else is decided, and after everything decided was told: whoever keeps the history has heard of it.
        let wants_picture =
            driven.stop.is_none() && self.storage.as_ref().is_some_and(|storage| storage.wants_picture());
        let picture = wants_picture.then(|| driven.desk.engine.picture()).flatten();
        // In pieces while somebody is at the disk, who needs this processor between its steps.
        let most = if self.storage.is_none() { ERRAND_MESSAGES_AT_ONCE } else { usize::MAX };
        let turned = driven.turn(shared, most);
        let mut room = None;
        if let Some(Back { storage, appended, .. }) = driven.back.take() {
            self.storage = Some(storage);
            if let Ok(Appended { commit_us, room: news }) = appended {
                self.pace.took(commit_us);
                self.placement.took(commit_us, self.pace.us());
                room = news;
            }
        }
        if let Err(failure) = turned {
            self.common.fail(driven, failure);
            return over;
        }
        self.tell(&mut driven, room);
        let chores_done = match self.storage {
            Some(_) => std::mem::take(&mut driven.chores_done),
            None => Vec::new(),
        };
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
        if news.is_some()
            && let Some(mut driven) = self.common.driven()
        {
            self.tell(&mut driven, news);
        }
    }

    fn tell(&self, driven: &mut Driven, news: Option<RoomNews>) {
        if let Some(RoomNews { short, bytes }) = news {
            self.common.shared.short_of_room.store(short, Relaxed);
            (driven.desk.on_notice)(&Notice::Room { short, bytes });
        }
    }
}
