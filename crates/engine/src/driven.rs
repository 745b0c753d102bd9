//! What the two threads around the engine turn, one at a time: the engine and its desk, what was taken from the inbox, what is to
//! go to the disk. Starts no thread and waits for nothing. When something fails, or a thread panics, everybody learns of it here.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use leasehold_journal::{ChoreDone, StorageError};
use tokio::sync::oneshot;

use crate::backlog::Batch;
use crate::desk::Desk;
use crate::handle::{Failure, Message, Shared, Telling};
use crate::limits::{LINGER_US, ROOM_LOOK_EVERY_MS};
use crate::storage::{Appended, Back, Word};
use crate::sync::{Mutex, MutexGuard, panicking};

/// What both threads hold.
pub(crate) struct Common {
    pub shared: Arc<Shared>,
    driven: Mutex<Driven>,
}

/// The engine and what goes with it: touched by one thread at a time.
pub(crate) struct Driven {
    pub desk: Desk,
    /// Taken from the inbox, and not looked at yet. Kept, so that it need not be allocated for each turn.
    messages: VecDeque<Message>,
    /// The stand-in is back from its errand.
    pub back: Option<Back>,
    /// Until when, in raw time, a batch that nobody waits for stays here.
    lingers_until_us: Option<u64>,
    /// For the journal, as soon as it is at hand.
    pub chores_done: Vec<ChoreDone>,
    /// Somebody wants it to stop: what was not decided is not decided any more.
    pub stop: Option<oneshot::Sender<()>>,
    /// Nobody may turn it any more.
    over: bool,
}

impl Common {
    /// Nothing has arrived yet.
    pub fn new(desk: Desk, shared: Arc<Shared>) -> Common {
        let driven = Driven {
            desk,
            messages: VecDeque::new(),
            back: None,
            lingers_until_us: None,
            chores_done: Vec::new(),
            stop: None,
            over: false,
        };
        Common { shared, driven: Mutex::new(driven) }
    }

    /// None when the engine has ended, or must not be turned any more because somebody panicked over it.
    pub fn driven(&self) -> Option<MutexGuard<'_, Driven>> {
        self.driven.lock().ok().filter(|driven| !driven.over)
    }

    /// First the reason, then the answers, then the threads: a disk that hangs must not keep a failure secret.
    pub fn fail(&self, mut driven: MutexGuard<'_, Driven>, failure: Failure) {
        driven.desk.engine.storage_failed();
        self.shared.fail(failure);
        self.end(&mut driven);
    }

    /// Who is not answered by now is told that the server is stopping.
    pub fn end(&self, driven: &mut Driven) {
        driven.over = true;
        drop(self.shared.inbox.close());
        driven.desk.dismiss();
    }
}

impl Driven {
    /// Tells what the stand-in has brought to the disk, takes in what has arrived, up to so many while it is away, and turns the
    /// engine.
    pub fn turn(&mut self, shared: &Shared, mut most: usize) -> Result<(), Failure> {
        let stopping = self.stop.is_some();
        if let Some(back) = shared.inbox.take_returned() {
            self.came_back(*back)?;
            // The disk waits, and whoever has arrived goes with the next batch.
            most = usize::MAX;
        }
        let mut has_looked = false;
        for _ in 0..most {
            // What was left by the turn before goes first.
            if self.messages.is_empty() && !std::mem::replace(&mut has_looked, true) {
                shared.inbox.take(&mut self.messages);
            }
            let Some(message) = self.messages.pop_front() else { break };
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

    /// Who is answered asks again while others are decided.
    fn came_back(&mut self, back: Back) -> Result<(), Failure> {
        assert!(self.back.is_none(), "one errand is run at a time");
        let Back { last_seq, appended, .. } = self.back.insert(back);
        match appended {
            Ok(Appended { commit_us, .. }) => {
                self.desk.durable(*last_seq, *commit_us);
                self.desk.let_go();
                Ok(())
            }
            // Once is enough: the storage knows that it has stopped.
            Err(error) => Err(Failure::Storage(Arc::new(std::mem::replace(error, StorageError::Stopped)))),
        }
    }

    /// The next batch for the journal, unless nobody waits for it and others may yet join it.
    pub fn batch(&mut self, shared: &Shared) -> Option<Batch> {
        let may_linger = !cfg!(feature = "shuttle") && self.stop.is_none();
        if may_linger && self.desk.engine.has_batch() && !self.desk.engine.is_awaited() {
            let now_us = shared.clock.raw_us();
            if now_us < *self.lingers_until_us.get_or_insert(now_us + LINGER_US) {
                return None;
            }
        }
        self.lingers_until_us = None;
        self.desk.take_batch()
    }

    /// How long to wait for something to arrive.
    pub fn patience(&self, shared: &Shared) -> Duration {
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

/// Held by each thread: a panic must not leave a server that merely stays silent.
pub(crate) struct FailOnPanic<'a>(pub &'a Common);

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
