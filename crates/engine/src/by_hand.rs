//! The engine behind its real handle, turned by hand: for tests of programs that ask it. No threads; time passes when the
//! clock that it was given says so, a batch is durable as soon as the journal has it, and its bytes are in their files then. Drives the same desk and the same
//! engine as the threads do.

use std::collections::VecDeque;
use std::sync::Arc;

use leasehold_files::FileStore;
use leasehold_journal::{Journal, StorageError};

use crate::backlog::Batch;
use crate::clock::Clock;
use crate::desk::Desk;
use crate::driver::DriverOptions;
use crate::engine::Engine;
use crate::handle::{Handle, Message, Shared, Telling};
use crate::secrets::Secrets;

/// An engine that moves when it is told to. Dropped, it answers nobody any more: whoever still waits is told that the server
/// is stopping.
pub struct ByHand {
    desk: Desk,
    journal: Box<dyn Journal>,
    files: Arc<dyn FileStore>,
    /// Kept, so that it need not be allocated for each turn.
    messages: VecDeque<Message>,
}

impl ByHand {
    /// Puts a recovered engine and its journal into somebody's hands. Free disk space is not looked at.
    pub fn new(
        engine: Engine,
        journal: Box<dyn Journal>,
        clock: Arc<dyn Clock>,
        secrets: Secrets,
        options: DriverOptions,
    ) -> (ByHand, Handle) {
        let metrics = engine.metrics().clone();
        let shared = Arc::new(Shared::new(options.admission, metrics, clock, &options.files));
        let desk =
            Desk::new(engine, shared.clone(), secrets, options.scribe, options.on_events, options.on_notice);
        (ByHand { desk, journal, files: options.files, messages: VecDeque::new() }, Handle { shared })
    }

    /// Takes in everything that was asked, does what is due at the clock's time, makes it durable, and lets go what may
    /// leave; again, until nothing more can be done at this time. Says whether anything left. After an error it must not be
    /// turned any more.
    pub fn turn(&mut self) -> Result<bool, StorageError> {
        let mut anything = false;
        loop {
            let shared = Arc::clone(&self.desk.shared);
            shared.inbox.take(&mut self.messages);
            for message in self.messages.drain(..) {
                match message {
                    Message::Ask(asked) => self.desk.enter(*asked),
                    Message::Listen(session, listener) => self.desk.listeners.add(session, listener),
                    Message::Ignore(session, listener) => self.desk.listeners.remove(session, &listener),
                    Message::Tell(telling) => {
                        let Telling { attachment, arrived_raw_us, command } = *telling;
                        self.desk.arrive(attachment, arrived_raw_us, command);
                    }
                    // There is no thread that could end, and the journal is asked where its word is needed.
                    Message::Stop(_) | Message::Storage(_) => {}
                }
            }
            self.desk.turn();
            loop {
                let batch = self.desk.take_batch();
                anything |= self.desk.let_go();
                let Some(batch) = batch else { break };
                if let Err(error) = self.make_durable(batch) {
                    self.desk.engine.storage_failed();
                    return Err(error);
                }
            }
            let now_us = shared.clock.raw_us();
            let due_now = self.desk.engine.wake_raw_us().is_some_and(|wake_us| wake_us <= now_us);
            if !due_now && !self.is_wanted() {
                return Ok(anything);
            }
        }
    }

    fn make_durable(&mut self, batch: Batch) -> Result<(), StorageError> {
        self.journal.append(&batch.payload)?;
        self.desk.durable(batch.last_seq, 0);
        for (seq, change) in batch.changes {
            change.apply(&*self.files)?;
            self.desk.engine.applied(seq);
        }
        Ok(())
    }

    /// Whether somebody has asked something since the last turn.
    pub fn is_wanted(&self) -> bool {
        self.desk.has_arrivals() || !self.desk.shared.inbox.is_empty()
    }

    /// The raw time at which it wants its next turn at the latest; none: when something is asked.
    pub fn wake_raw_us(&self) -> Option<u64> {
        self.desk.engine.wake_raw_us()
    }

    /// The engine, to look at.
    pub fn engine(&self) -> &Engine {
        &self.desk.engine
    }
}

impl Drop for ByHand {
    fn drop(&mut self) {
        drop(self.desk.shared.inbox.close());
        self.desk.dismiss();
    }
}
