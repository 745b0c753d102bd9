//! Real threads around the engine. One turns it whenever something arrives or falls due, and appends what was decided to the
//! journal itself: for many requests on their way there is no other thread to be woken. While it is away for the disk, a
//! stand-in turns the engine, if that takes longer than usual; so renewals are answered and time goes on while a disk is slow.
//! A batch of few requests is taken to the disk by the stand-in, while the other one stays at the engine. Holds no rule of its
//! own; what it does with real clocks and disks, the simulator does with virtual ones.

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
use crate::inbox::{StandingIn, Wanted};
use crate::limits::{
    ERRAND_COMMIT_US_MIN, ERRAND_EVENTS, ERRAND_MESSAGES_AT_ONCE, LINGER_US, LOOK_OUT_FOR_ANSWER_US,
    LOOK_OUT_US, ROOM_LOOK_EVERY_MS, ROOM_RESERVE_BYTES, STAND_IN_AT_ONCE_US, STAND_IN_LOOK_EVERY_MS,
};
use crate::notice::Notice;
use crate::pace::Pace;
use crate::picture::Picture;
use crate::placement::{self, Bond, Placement};
use crate::scribe::{NoScribe, Scribe};
use crate::secrets::Secrets;
use crate::storage::{Appended, Back, Errand, HistoryUpTo, RoomNews, Storage, StorageParts, Word};
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
    let driven = Driven {
        desk,
        messages: VecDeque::new(),
        back: None,
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
        storage: Some(Box::new(storage)),
        stand_in,
        pace: Pace::default(),
        placement: Placement::default(),
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
    /// Taken from the inbox, and not looked at yet. Kept, so that it need not be allocated for each turn.
    messages: VecDeque<Message>,
    /// The stand-in is back from its errand.
    back: Option<Back>,
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

    /// Turns the engine while the other thread is away for longer than usual, and goes to the disk when that one sends it.
    fn stand_in(&self) {
        let _on_panic = FailOnPanic(self);
        let look_every = Duration::from_millis(STAND_IN_LOOK_EVERY_MS);
        let (mut standing_in, mut bond) = (StandingIn::default(), Bond::none());
        while let Some(wanted) = self.shared.inbox.stand_in(look_every, &mut standing_in) {
            if let Wanted::For(errand) = wanted {
                self.run(errand, &mut bond);
                continue;
            }
            bond.change(None);
            let Some(mut driven) = self.driven() else { return };
            // One that has come back meanwhile does it itself.
            if !self.shared.inbox.is_away() {
                continue;
            }
            match driven.turn(&self.shared, usize::MAX) {
                Ok(()) => drop(driven.desk.let_go()),
                Err(failure) => return self.fail(driven, failure),
            }
        }
    }

    /// Takes a batch to the disk.
    fn run(&self, errand: Errand, bond: &mut Bond) {
        let Errand { mut storage, batch, at } = errand;
        bond.change(at);
        let last_seq = batch.last_seq;
        let appended = storage.append(batch);
        let at = if at.is_none() { placement::here() } else { None };
        let back = Back { storage, last_seq, appended, at };
        if let Err(Message::Storage(Word::Back(back))) =
            self.shared.inbox.put(Message::Storage(Word::Back(Box::new(back))))
        {
            // The engine has ended meanwhile, and nobody hears of it.
            back.storage.stop();
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
    /// Takes in what has arrived, up to so many, and turns the engine. Comes to an end early when a batch can leave.
    fn turn(&mut self, shared: &Shared, most: usize) -> Result<(), Failure> {
        let stopping = self.stop.is_some();
        if self.messages.is_empty() {
            shared.inbox.take(&mut self.messages);
        }
        for _ in 0..most {
            let Some(message) = self.messages.pop_front() else { break };
            match message {
                Message::Storage(Word::Back(back)) => {
                    self.came_back(*back)?;
                    if self.desk.engine.has_batch() && self.desk.engine.is_awaited() {
                        break;
                    }
                }
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

    /// What the stand-in has brought to the disk is told before anything else is decided.
    fn came_back(&mut self, back: Back) -> Result<(), Failure> {
        assert!(self.back.is_none(), "one errand is run at a time");
        let Back { last_seq, appended, .. } = self.back.insert(back);
        match appended {
            Ok(Appended { commit_us, .. }) => {
                self.desk.engine.durable(*last_seq, *commit_us);
                self.desk.let_go();
                Ok(())
            }
            // Once is enough: the storage knows that it has stopped.
            Err(error) => Err(Failure::Storage(Arc::new(std::mem::replace(error, StorageError::Stopped)))),
        }
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
        if !self.messages.is_empty() {
            return Duration::ZERO;
        }
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
    /// None while the stand-in is on an errand with it.
    storage: Option<Box<Storage>>,
    stand_in: JoinHandle<()>,
    /// How long commits take on this disk at the moment.
    pace: Pace,
    /// Where to sit while the stand-in runs errands.
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
        // An errand that was not begun any more has it. One that was has ended it.
        let storage = self.storage.or_else(|| Some(common.shared.inbox.take_errand()?.storage));
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
                Next::Append(batch) if self.is_errand(&batch) => self.send(batch),
                Next::Append(batch) => {
                    let last_seq = batch.last_seq;
                    let Appended { commit_us, room } = self.away(|storage| storage.append(batch))?;
                    self.pace.took(commit_us);
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

    fn send(&mut self, batch: Batch) {
        let Some(storage) = self.storage.take() else { panic!("nobody is at the disk") };
        let at = self.placement.next();
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
        inbox.wait(Some(patience.saturating_sub(begun.elapsed())));
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
            driven.desk.engine.durable(last_seq, commit_us);
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
        if let Some(Back { storage, appended, at, .. }) = driven.back.take() {
            self.storage = Some(storage);
            if let Ok(Appended { commit_us, room: news }) = appended {
                self.pace.took(commit_us);
                room = news;
            }
            if let Some(at) = at {
                self.placement.came_back(at);
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
