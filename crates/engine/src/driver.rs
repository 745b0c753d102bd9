//! Real threads around the engine: one owns it and turns it whenever something arrives or falls due. Holds no rule of its
//! own; what it does with real clocks and disks, the simulator does with virtual ones.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use leasehold_journal::Journal;
use leasehold_state_machine::answer::Reply;
use leasehold_state_machine::command::{Attachment, Command, Request};
use tokio::sync::oneshot;

use crate::admission::{AdmissionLimits, Permit};
use crate::clock::Clock;
use crate::engine::{Engine, Released};
use crate::handle::{Admitted, Asked, Failure, Handle, Message, Shared, undelivered};
use crate::limits::ROOM_RESERVE_BYTES;
use crate::notice::Notice;
use crate::secrets::Secrets;
use crate::storage::{Storage, StorageParts, Word};
use crate::stream::{Listeners, Way};
use crate::withheld::{Told, Unasked};

/// Hears events, and may keep them.
pub type OnEvents = Box<dyn FnMut(Vec<Told>) + Send>;
/// Hears notices.
pub type OnNotice = Box<dyn FnMut(&Notice) + Send>;

/// How the engine is driven.
pub struct DriverOptions {
    /// How much may be in flight.
    pub admission: AdmissionLimits,
    /// Free disk space below which nothing new is begun.
    pub room_reserve_bytes: u64,
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
    let shared = Arc::new(Shared::new(options.admission, engine.metrics().clone(), clock));
    let limits = engine.limits();
    let storage = Storage::start(StorageParts {
        journal,
        fresh_replay: Box::new(move || crate::Replay::new(limits)),
        room_reserve_bytes: options.room_reserve_bytes,
        metrics: engine.metrics().clone(),
        say: {
            let shared = shared.clone();
            Box::new(move |word| {
                // After the engine thread has ended nobody needs to hear it.
                let _ = shared.inbox.put(Message::Storage(word));
            })
        },
    })?;
    let driver = Driver {
        engine,
        storage,
        shared: shared.clone(),
        secrets: Secrets::from_system()?,
        calls: HashMap::new(),
        listeners: Listeners::default(),
        arrivals: Vec::new(),
        on_events: options.on_events,
        on_notice: options.on_notice,
    };
    thread::Builder::new().name("engine".into()).spawn(move || driver.run())?;
    Ok(Handle { shared })
}

/// The engine thread.
struct Driver {
    engine: Engine,
    storage: Storage,
    shared: Arc<Shared>,
    secrets: Secrets,
    /// Who is to be answered.
    calls: HashMap<Attachment, Call>,
    /// Who wants to hear of sessions' ended leases.
    listeners: Listeners,
    arrivals: Vec<Request>,
    on_events: OnEvents,
    on_notice: OnNotice,
}

/// A call that waits for its answer.
struct Call {
    way: Way,
    /// Given back when the call stands in line: the line has a bound of its own.
    permit: Option<Permit>,
    is_acquire: bool,
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
        drop((shared.inbox.close(), self.calls));
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
                    Message::Ask(asked) => self.enter(*asked),
                    Message::Listen(session, listener) => self.listeners.add(session, listener),
                    Message::Ignore(session, listener) => self.listeners.remove(session, &listener),
                    Message::Tell { attachment, arrived_raw_us, command } => {
                        self.arrive(attachment, arrived_raw_us, command);
                    }
                }
            }
            self.engine.turn(self.shared.clock.read(), &mut self.arrivals);
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
        if !self.arrivals.is_empty() {
            return Some(Duration::ZERO);
        }
        let wake_us = self.engine.wake_raw_us()?;
        Some(Duration::from_micros(wake_us.saturating_sub(self.shared.clock.raw_us())))
    }

    fn enter(&mut self, asked: Asked) {
        let Asked { admitted, way } = asked;
        let Admitted { attachment, arrived_raw_us, command, permit } = admitted;
        let is_acquire = matches!(command, Command::Acquire(_));
        self.calls.insert(attachment, Call { way, permit: Some(permit), is_acquire });
        self.arrive(attachment, arrived_raw_us, command);
    }

    fn arrive(&mut self, attachment: Attachment, arrived_raw_us: u64, command: Command) {
        let secret = self.secrets.draw();
        self.arrivals.push(Request { attachment, arrived_raw_us, secret, command });
    }

    fn hear(&mut self, word: Word) -> Result<(), Failure> {
        match word {
            Word::Durable { last_seq, commit_us } => self.engine.durable(last_seq, commit_us),
            Word::Room { short, bytes } => {
                self.shared.short_of_room.store(short, Relaxed);
                (self.on_notice)(&Notice::Room { short, bytes });
            }
            Word::Failed(error) => {
                self.engine.storage_failed();
                return Err(Failure::Storage(Arc::new(error)));
            }
            Word::Panicked => {
                self.engine.storage_failed();
                return Err(Failure::Panicked);
            }
        }
        Ok(())
    }

    /// Gives the journal its next batch, and everybody what may leave.
    fn hand_over(&mut self) {
        // The disk first: it takes longest.
        if let Some(batch) = self.engine.take_batch() {
            self.storage.append(batch);
        }
        let Released { queued, gone, unasked, replies, events } = self.engine.released();
        for attachment in queued {
            if let Some(call) = self.calls.get_mut(&attachment) {
                call.permit = None;
            }
        }
        for attachment in gone {
            self.calls.remove(&attachment);
        }
        for news in unasked {
            match news {
                Unasked::Queued(notice) => {
                    if let Some(call) = self.calls.get(&notice.to) {
                        call.way.say_queued(notice.position);
                    }
                }
                Unasked::Ended(notice) => self.listeners.say_ended(&notice),
            }
        }
        // Events before replies: who was answered and then begins to watch hears what comes after the answer, and who
        // watches from a number that he was told finds it known.
        if !events.is_empty() {
            (self.on_events)(events);
        }
        for reply in replies {
            self.answer(reply);
        }
        for notice in self.engine.take_notices() {
            (self.on_notice)(&notice);
        }
    }

    fn answer(&mut self, reply: Reply) {
        let Some(Call { way, permit, is_acquire }) = self.calls.remove(&reply.to) else { return };
        // Whoever hears the answer may ask again at once.
        drop(permit);
        if let Some(outcome) = way.send(reply.outcome)
            && is_acquire
            && let Some(lease) = undelivered(&outcome)
        {
            let arrived_raw_us = self.shared.clock.raw_us();
            self.arrive(reply.to, arrived_raw_us, Command::Abandon { lease });
        }
    }

    /// Makes everything durable that was decided, and tells it. What was not decided is not decided any more.
    fn drain(&mut self) -> Result<(), Failure> {
        let mut messages = VecDeque::new();
        while !self.engine.is_settled() {
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
        if thread::panicking() {
            self.0.fail(Failure::Panicked);
            drop(self.0.inbox.close());
        }
    }
}
