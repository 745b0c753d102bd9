//! Between the doors and the engine: who asked what, who is to be answered, who wants to hear of which session. The same
//! whether threads drive the engine or somebody turns it by hand. Holds no rule of its own, and never waits.

use std::sync::Arc;

use leasehold_state_machine::answer::Reply;
use leasehold_state_machine::command::{Attachment, Command, Request};
use leasehold_state_machine::numbers::Numbers;

use crate::admission::Permit;
use crate::chapter::Chapter;
use crate::engine::{Engine, Released};
use crate::handle::{Asked, Shared, undelivered};
use crate::notice::Notice;
use crate::scribe::Scribe;
use crate::secrets::Secrets;
use crate::stream::{Listeners, Teller, Way};
use crate::withheld::Unasked;

/// Hears of events, and may keep them.
pub type OnEvents = Box<dyn FnMut(Chapter) + Send>;
/// Hears notices.
pub type OnNotice = Box<dyn FnMut(&Notice) + Send>;

/// The engine and everybody who waits for its word.
pub(crate) struct Desk {
    pub engine: Engine,
    pub shared: Arc<Shared>,
    pub listeners: Listeners,
    pub on_notice: OnNotice,
    secrets: Secrets,
    /// Who is to be answered.
    calls: Numbers<Call>,
    arrivals: Vec<Request>,
    /// What leaves; kept, so that its lists need not be allocated each time.
    released: Released,
    teller: Teller,
    on_events: OnEvents,
}

/// A call that waits for its answer.
struct Call {
    way: Way,
    /// Given back when the call stands in line: the line has a bound of its own.
    permit: Option<Permit>,
    is_acquire: bool,
}

impl Desk {
    pub fn new(
        engine: Engine,
        shared: Arc<Shared>,
        secrets: Secrets,
        scribe: Box<dyn Scribe>,
        on_events: OnEvents,
        on_notice: OnNotice,
    ) -> Desk {
        Desk {
            engine,
            shared,
            listeners: Listeners::default(),
            on_notice,
            secrets,
            calls: Numbers::default(),
            arrivals: Vec::new(),
            released: Released::default(),
            teller: Teller::new(scribe),
            on_events,
        }
    }

    /// Takes in a request that wants an answer, for the next turn.
    pub fn enter(&mut self, asked: Asked) {
        let Asked { attachment, arrived_raw_us, command, permit, way } = asked;
        let is_acquire = matches!(command, Command::Acquire(_));
        self.calls.insert(attachment.0, Call { way, permit: Some(permit), is_acquire });
        self.arrive(attachment, arrived_raw_us, command);
    }

    /// Takes in something that has no answer, for the next turn.
    pub fn arrive(&mut self, attachment: Attachment, arrived_raw_us: u64, command: Command) {
        let secret = self.secrets.draw();
        self.arrivals.push(Request { attachment, arrived_raw_us, secret, command });
    }

    /// Whether somebody waits for the next turn already.
    pub fn has_arrivals(&self) -> bool {
        !self.arrivals.is_empty()
    }

    /// One turn with everything that was taken in.
    pub fn turn(&mut self) {
        self.engine.turn(self.shared.clock.read(), &mut self.arrivals);
    }

    /// Answers nobody any more: whoever waits is told that the server is stopping.
    pub fn dismiss(&mut self) {
        self.calls = Numbers::default();
    }

    /// Gives everybody what may leave. Says whether anything did.
    pub fn let_go(&mut self) -> bool {
        let mut released = std::mem::take(&mut self.released);
        self.engine.release(&mut released);
        let Released { queued, gone, unasked, replies, chapters } = &mut released;
        let anything = !(unasked.is_empty() && replies.is_empty() && chapters.is_empty());
        for attachment in queued.drain(..) {
            if let Some(call) = self.calls.get_mut(attachment.0) {
                call.permit = None;
            }
        }
        for attachment in gone.drain(..) {
            self.calls.remove(attachment.0);
        }
        for news in unasked.drain(..) {
            match news {
                Unasked::Queued(notice) => {
                    if let Some(call) = self.calls.get(notice.to.0) {
                        call.way.say_queued(notice.position, &mut self.teller.sleepers);
                    }
                }
                Unasked::Ended(notice) => self.listeners.say_ended(&notice, &mut self.teller.sleepers),
            }
        }
        // Events before replies: who was answered and then begins to watch hears what comes after the answer, and who
        // watches from a number that he was told finds it known.
        for chapter in chapters.drain(..) {
            (self.on_events)(chapter);
        }
        if !replies.is_empty() {
            self.shared.bustle.told(self.shared.clock.raw_us(), replies.len());
        }
        for reply in replies.drain(..) {
            self.answer(reply);
        }
        self.teller.sleepers.wake();
        self.released = released;
        for notice in self.engine.take_notices() {
            (self.on_notice)(&notice);
        }
        anything
    }

    fn answer(&mut self, reply: Reply) {
        let Some(Call { way, permit, is_acquire }) = self.calls.remove(reply.to.0) else { return };
        // Whoever hears the answer may ask again at once.
        drop(permit);
        if let Some(outcome) = way.send(reply.outcome, &mut self.teller)
            && is_acquire
            && let Some(lease) = undelivered(&outcome)
        {
            let arrived_raw_us = self.shared.clock.raw_us();
            self.arrive(reply.to, arrived_raw_us, Command::Abandon { lease });
        }
    }
}
