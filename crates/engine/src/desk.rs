//! Between the doors and the engine: who asked what, who is to be answered, who wants to hear of which session. The same
//! whether threads drive the engine or somebody turns it by hand. Holds no rule of its own, and never waits.

use std::sync::Arc;

use leasehold_planted::{Bug, planted};
use leasehold_state_machine::answer::Reply;
use leasehold_state_machine::command::{Attachment, Command, Request};
use leasehold_state_machine::event::Seq;
use leasehold_state_machine::numbers::Numbers;

use crate::admission::Permit;
use crate::backlog::Batch;
use crate::chapter::Chapter;
use crate::engine::{Engine, Released};
use crate::handle::{Asked, Shared, undelivered};
use crate::notice::Notice;
use crate::parcels::{Answered, Parcels};
use crate::scribe::Scribe;
use crate::secrets::Secrets;
use crate::stream::{Listeners, Way};
use crate::voice::Sleepers;
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
    /// Answers that were packed as soon as they were decided, and leave with the next batch...
    gathered: Parcels,
    /// ...or with the one that was handed out...
    handed_out: Parcels,
    /// ...which is durable.
    leaving: Parcels,
    /// Answers that could not be packed before they leave.
    late: Parcels,
    /// Those that are being packed; kept, so that it need not be allocated each time.
    replies: Vec<Reply>,
    /// Who is woken when everything has been said.
    sleepers: Sleepers,
    scribe: Box<dyn Scribe>,
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
            gathered: Parcels::default(),
            handed_out: Parcels::default(),
            leaving: Parcels::default(),
            late: Parcels::default(),
            replies: Vec::new(),
            sleepers: Sleepers::default(),
            scribe,
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

    /// One turn with everything that was taken in. Answers are packed while all that they speak of is at hand, and nobody waits for
    /// that when the disk is done.
    pub fn turn(&mut self) {
        self.engine.turn(self.shared.clock.read(), &mut self.arrivals);
        self.note_queued();
        let mut replies = std::mem::take(&mut self.replies);
        // Who stands in line hears of that first, and who has gone nothing.
        let calls = &self.calls;
        let is_wanted = |reply: &Reply| calls.get(reply.to.0).is_some_and(|call| call.permit.is_some());
        self.engine.take_to_pack(is_wanted, &mut replies);
        for reply in replies.drain(..) {
            if let Some(answered) = answered(&mut self.calls, reply) {
                self.gathered.pack(answered, &mut *self.scribe);
            }
        }
        self.replies = replies;
    }

    fn note_queued(&mut self) {
        for attachment in self.engine.take_queued() {
            if let Some(call) = self.calls.get_mut(attachment.0) {
                call.permit = None;
            }
        }
    }

    /// The next batch for the journal.
    pub fn take_batch(&mut self) -> Option<Batch> {
        let batch = self.engine.take_batch()?;
        if batch.packed > 0 {
            assert_eq!(batch.packed, self.gathered.count(), "all or none");
            self.gathered.go_over_to(&mut self.handed_out);
        }
        if planted(Bug::ReplyBeforeSync) {
            self.handed_out.go_over_to(&mut self.leaving);
        }
        Some(batch)
    }

    /// The batch that ends with this event is durable; making it so took `commit_us`.
    pub fn durable(&mut self, last_seq: Seq, commit_us: u64) {
        self.engine.durable(last_seq, commit_us);
        self.handed_out.go_over_to(&mut self.leaving);
    }

    /// Answers nobody any more: whoever waits is told that the server is stopping.
    pub fn dismiss(&mut self) {
        self.calls = Numbers::default();
        self.gathered = Parcels::default();
        self.handed_out = Parcels::default();
        self.leaving = Parcels::default();
    }

    /// Gives everybody what may leave. Says whether anything did.
    pub fn let_go(&mut self) -> bool {
        let mut released = std::mem::take(&mut self.released);
        self.engine.release(&mut released);
        let Released { gone, unasked, packed, replies, chapters } = &mut released;
        let packed = std::mem::take(packed);
        let anything = !(unasked.is_empty() && packed == 0 && replies.is_empty() && chapters.is_empty());
        for attachment in gone.drain(..) {
            self.calls.remove(attachment.0);
        }
        for news in unasked.drain(..) {
            match news {
                Unasked::Queued(notice) => {
                    if let Some(call) = self.calls.get(notice.to.0) {
                        call.way.say_queued(notice.position, &mut self.sleepers);
                    }
                }
                Unasked::Ended(notice) => self.listeners.say_ended(&notice, &mut self.sleepers),
            }
        }
        // Events before replies: who was answered and then begins to watch hears what comes after the answer, and who
        // watches from a number that he was told finds it known.
        for chapter in chapters.drain(..) {
            (self.on_events)(chapter);
        }
        let told = packed + replies.len();
        if told > 0 {
            self.shared.bustle.told(self.shared.clock.raw_us(), told);
        }
        let mut unheard = Vec::new();
        if packed > 0 {
            assert_eq!(packed, self.leaving.count(), "all of them");
            unheard.append(&mut self.leaving.hand_over(&mut self.sleepers));
            self.sleepers.wake();
        }
        for reply in replies.drain(..) {
            if let Some(answered) = answered(&mut self.calls, reply) {
                self.late.pack(answered, &mut *self.scribe);
            }
        }
        unheard.append(&mut self.late.hand_over(&mut self.sleepers));
        self.sleepers.wake();
        self.released = released;
        for (to, lease) in unheard {
            let arrived_raw_us = self.shared.clock.raw_us();
            self.arrive(to, arrived_raw_us, Command::Abandon { lease });
        }
        for notice in self.engine.take_notices() {
            (self.on_notice)(&notice);
        }
        anything
    }
}

/// A reply with the way to whoever waits for it; none when nobody does.
fn answered(calls: &mut Numbers<Call>, reply: Reply) -> Option<Answered> {
    let Reply { to, outcome, .. } = reply;
    let Call { way, permit, is_acquire } = calls.remove(to.0)?;
    let grant = if is_acquire { undelivered(&outcome) } else { None };
    Some(Answered { to, way, permit, outcome, grant })
}
