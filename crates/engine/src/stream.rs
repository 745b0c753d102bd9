//! Many requests and their answers over one channel: for doors that carry a whole conversation. Each request has a number
//! of the caller's; requests go together, and answers come in any order, as many at once as there are. Decides nothing but
//! who gets in.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use leasehold_state_machine::EndedNotice;
use leasehold_state_machine::answer::{EndedView, Outcome, Refusal};
use leasehold_state_machine::command::{Attachment, Command};
use leasehold_state_machine::ids::{Secret, SessionId};
use leasehold_state_machine::numbers::Numbers;
use leasehold_state_machine::words::ClientId;
use tokio::sync::oneshot;

use crate::handle::{Asked, Entry, Handle, Message, STOPPING, Shared};
use crate::op::Op;
use crate::voice::{Ear, Earful, Sleepers, Voice, voice};

/// What a stream hears.
#[derive(Debug)]
pub enum Heard<N = ()> {
    /// A request was answered.
    Outcome {
        /// Which one.
        number: u64,
        /// What was noted of it when it was asked.
        note: N,
        /// What came of it.
        outcome: Outcome,
    },
    /// A request was answered, and the answer is written already.
    Written {
        /// Which one.
        number: u64,
        /// What was noted of it when it was asked.
        note: N,
        /// Where its answer lies in what was written: see [`Stream::written`].
        at: Range<usize>,
    },
    /// A request stands in line, and that is durable; its outcome comes later.
    Queued {
        /// Which one.
        number: u64,
        /// Its place among those who wait for exactly the same, from 1.
        position: u64,
    },
    /// A lease of a session that the stream listens to ended otherwise than by its own release.
    Ended {
        /// Whose.
        session: SessionId,
        /// Which, and why.
        ended: EndedView,
    },
}

/// What is said into a conversation.
pub(crate) enum Said {
    /// To one attempt.
    To(Attachment, u64, News),
    /// To whoever listens to this session.
    Ended { session: SessionId, ended: EndedView },
}

/// What is said to an attempt.
pub(crate) enum News {
    Outcome(Outcome),
    /// Its answer is written, and so long.
    Written(usize),
    /// It stands in line, at this position.
    Queued(u64),
}

impl Said {
    /// Bytes that were written beside it.
    fn written_bytes(&self) -> usize {
        match self {
            Said::To(_, _, News::Written(bytes)) => *bytes,
            Said::To(..) | Said::Ended { .. } => 0,
        }
    }
}

/// One conversation. Whoever holds it may note something of each request, and is given it back with the outcome. Dropping it
/// detaches whatever still waits.
pub struct Stream<N = ()> {
    shared: Arc<Shared>,
    say: Voice<Said>,
    ear: Ear<Said>,
    /// What has been heard and not yet been asked for, and how much of what was written has been.
    heard: Earful<Said>,
    read: usize,
    /// What goes to the engine at the next sending.
    outgoing: Vec<Message>,
    /// Requests without an outcome.
    in_flight: Numbers<InFlight<N>>,
    /// How much is heard at once.
    share: usize,
    /// Which answers the client has; goes to the engine with the next request that changes something.
    mark: Option<Mark>,
    mark_is_news: bool,
    marked_raw_us: u64,
    /// When what is asked until the next sending has arrived, once that was looked at.
    arrived_raw_us: Option<u64>,
}

/// A request without an outcome.
struct InFlight<N> {
    /// Its newest attempt.
    attachment: Attachment,
    may_wait: bool,
    note: N,
}

/// Which answers a client has.
#[derive(Clone, PartialEq)]
struct Mark {
    client: ClientId,
    answered_through: u64,
    open: Vec<u64>,
}

impl Handle {
    /// Begins a conversation. Its acquires carry a request id, by which whoever comes back is told what was granted: a grant that is
    /// on its way when the conversation ends is not given back by itself.
    pub fn stream<N>(&self) -> Stream<N> {
        // Unbounded in type only: nothing is said that was not asked for, and the caller bounds what it asks.
        let (say, ear) = voice();
        Stream {
            shared: self.shared.clone(),
            say,
            ear,
            heard: Earful::default(),
            read: 0,
            outgoing: Vec::new(),
            in_flight: Numbers::default(),
            share: 1,
            arrived_raw_us: None,
            mark: None,
            mark_is_news: false,
            marked_raw_us: 0,
        }
    }
}

impl<N> Stream<N> {
    /// Asks under a number that is not in flight, with the next sending; the outcome is heard later. What is asked until then
    /// must have arrived by the time of the first of it.
    pub fn ask(&mut self, number: u64, note: N, command: Command) -> Result<(), Refusal> {
        let op = Op::of(&command);
        let attachment = self.begin(number, op, command)?;
        let may_wait = op == Op::Acquire;
        let before = self.in_flight.insert(number, InFlight { attachment, may_wait, note });
        assert!(before.is_none(), "a number in flight is asked again, or not at all");
        Ok(())
    }

    /// Asks a newer attempt of a request in flight: the older one is not heard of any more.
    pub fn ask_again(&mut self, number: u64, command: Command) -> Result<(), Refusal> {
        assert!(self.in_flight.get(number).is_some(), "only what is in flight is asked again");
        let attachment = self.begin(number, Op::of(&command), command)?;
        if let Some(in_flight) = self.in_flight.get_mut(number) {
            in_flight.attachment = attachment;
        }
        Ok(())
    }

    /// What was noted of a request in flight.
    pub fn noted(&self, number: u64) -> Option<&N> {
        self.in_flight.get(number).map(|in_flight| &in_flight.note)
    }

    fn begin(&mut self, number: u64, op: Op, command: Command) -> Result<Attachment, Refusal> {
        // What goes together has come together: one look at the clock does for all of it.
        let arrived_raw_us = *self.arrived_raw_us.get_or_insert_with(|| self.shared.clock.raw_us());
        let Entry { attachment, permit } = self.shared.admit(op, &command, arrived_raw_us)?;
        self.send_mark(op, arrived_raw_us);
        let way = Way::Stream(Numbered { number, attachment, say: self.say.clone(), answered: false });
        self.outgoing.push(Message::Ask(Box::new(Asked {
            attachment,
            arrived_raw_us,
            command,
            permit,
            way,
        })));
        Ok(attachment)
    }

    /// Sends everything that was asked since the last time. Waiting to hear something does it too.
    pub fn send(&mut self) {
        self.arrived_raw_us = None;
        if !self.outgoing.is_empty() {
            self.share = (self.in_flight.len() / 2).clamp(1, HEARD_MAX);
            // Dropped when the server has just stopped, which each request then says by itself.
            self.shared.inbox.put_all(&mut self.outgoing);
        }
    }

    /// Takes note of which numbers' answers a client has. The engine hears of it just before the next request that is
    /// let in and changes something, so that marks cost no disk write of their own and are as few as requests.
    pub fn mark(&mut self, client: ClientId, answered_through: u64, open: Vec<u64>) {
        let mark = Mark { client, answered_through, open };
        self.mark_is_news |= self.mark.as_ref() != Some(&mark);
        self.mark = Some(mark);
    }

    fn send_mark(&mut self, op: Op, arrived_raw_us: u64) {
        let Some(mark) = &self.mark else { return };
        let news = self.mark_is_news && changes(op);
        // Without news it only says that the client is still there.
        if news || arrived_raw_us >= self.marked_raw_us + STILL_THERE_EVERY_US {
            self.mark_is_news &= !news;
            self.marked_raw_us = arrived_raw_us;
            let Mark { client, answered_through, open } = mark.clone();
            self.outgoing.push(self.shared.telling(Command::Mark { client, answered_through, open }));
        }
    }

    /// From the next sending on, hears of this session's ended leases.
    pub fn listen_to(&mut self, session: SessionId) {
        self.outgoing.push(Message::Listen(session, self.say.clone()));
    }

    /// From the next sending on, hears of them no more.
    pub fn ignore(&mut self, session: SessionId) {
        self.outgoing.push(Message::Ignore(session, self.say.clone()));
    }

    /// Waits until there is something to hear, but not more than half of what was in flight: who is told and asks for the
    /// next thing does so while the others are decided. With everybody told at once everybody would ask at once, and the
    /// client would rest while the server works, and the server while the client does. Nothing is lost when the future is
    /// dropped.
    pub async fn hear(&mut self) {
        self.send();
        if self.heard.said.is_empty() {
            self.read = 0;
            self.ear.hear(&mut self.heard, self.share, Said::written_bytes).await;
        }
    }

    /// The next of what there was to hear; none when that was all. There may have been nothing but the outcome of an older
    /// attempt, which is not heard of any more.
    pub fn heard(&mut self) -> Option<Heard<N>> {
        while let Some(said) = self.heard.said.pop_front() {
            let at = self.read..self.read + said.written_bytes();
            self.read = at.end;
            match said {
                Said::To(attempt, number, news) => {
                    let newest = self.in_flight.get(number).map(|asked| asked.attachment);
                    if newest != Some(attempt) {
                        continue;
                    }
                    if let News::Queued(position) = news {
                        return Some(Heard::Queued { number, position });
                    }
                    let asked = self.in_flight.remove(number);
                    assert!(asked.is_some(), "only what was asked is answered, and once");
                    let InFlight { note, .. } = asked?;
                    return match news {
                        News::Outcome(outcome) => Some(Heard::Outcome { number, note, outcome }),
                        _ => Some(Heard::Written { number, note, at }),
                    };
                }
                Said::Ended { session, ended } => return Some(Heard::Ended { session, ended }),
            }
        }
        None
    }

    /// An answer that was written and has just been heard.
    pub fn written(&self, at: Range<usize>) -> &[u8] {
        &self.heard.written[at]
    }

    /// Whether there is more to be heard at once.
    pub fn has_more(&self) -> bool {
        self.ear.has_more()
    }

    /// Requests without an outcome.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }
}

/// The most that is heard at once, however much is in flight.
const HEARD_MAX: usize = 256;
/// How often a client that changes nothing is said to be still there; far within the time it is remembered.
const STILL_THERE_EVERY_US: u64 = 60_000_000;

/// Whether a request changes what is journaled, if it is carried out.
fn changes(op: Op) -> bool {
    match op {
        Op::Acquire
        | Op::Release
        | Op::Cancel
        | Op::Break
        | Op::OpenSession
        | Op::CloseSession
        | Op::WriteFile
        | Op::DeleteFile => true,
        Op::Renew
        | Op::KeepAlive
        | Op::Verify
        | Op::Get
        | Op::List
        | Op::ListSessions
        | Op::StatFile
        | Op::ListFiles
        | Op::Detach
        | Op::Abandon
        | Op::Mark => false,
    }
}

impl<N> Drop for Stream<N> {
    fn drop(&mut self) {
        self.send();
        for (_, waiting) in self.in_flight.iter().filter(|(_, in_flight)| in_flight.may_wait) {
            self.shared.tell(Command::Detach { gone: waiting.attachment });
        }
    }
}

/// Who hears of a session's ended leases.
pub(crate) type Listener = Voice<Said>;

/// How an answer goes back. Dropped without one, it belongs to a server that stops: a call finds that out by itself, a
/// conversation is told.
pub(crate) enum Way {
    /// To one call.
    Once(oneshot::Sender<Outcome>),
    /// Into a conversation.
    Stream(Numbered),
}

/// One request of a conversation.
pub(crate) struct Numbered {
    number: u64,
    attachment: Attachment,
    say: Voice<Said>,
    answered: bool,
}

impl Numbered {
    /// The number under which it is answered, which is the caller's business from now on.
    pub fn into_number(mut self) -> u64 {
        self.answered = true;
        self.number
    }

    /// The conversation.
    pub fn voice(&self) -> &Voice<Said> {
        &self.say
    }
}

impl Drop for Numbered {
    fn drop(&mut self) {
        if !self.answered {
            let stopping = Said::To(self.attachment, self.number, News::Outcome(Err(STOPPING)));
            let mut sleepers = Sleepers::default();
            let _ = self.say.say(stopping, &mut sleepers);
            sleepers.wake();
        }
    }
}

impl Way {
    /// Says that the request stands in line, to whoever wants to know.
    pub fn say_queued(&self, position: u64, sleepers: &mut Sleepers) {
        if let Way::Stream(request) = self {
            // Who has gone will be found out when the answer is sent.
            let queued = Said::To(request.attachment, request.number, News::Queued(position));
            let _ = request.say.say(queued, sleepers);
        }
    }
}

/// Who wants to hear of which session.
#[derive(Default)]
pub(crate) struct Listeners {
    by_session: HashMap<Secret, Vec<Listener>>,
}

/// After this many sessions have been added, those that nobody listens to any more are cleared away.
const CLEAR_AT: usize = 1024;

impl Listeners {
    pub fn add(&mut self, session: SessionId, listener: Listener) {
        if self.by_session.len().is_multiple_of(CLEAR_AT) {
            self.by_session.retain(|_, listeners| listeners.iter().any(|listener| !listener.is_unheard()));
        }
        let listeners = self.by_session.entry(session.secret()).or_default();
        listeners.retain(|known| !known.is_unheard() && !known.is_same(&listener));
        listeners.push(listener);
    }

    pub fn remove(&mut self, session: SessionId, listener: &Listener) {
        let Some(listeners) = self.by_session.get_mut(&session.secret()) else { return };
        listeners.retain(|known| !known.is_same(listener));
        if listeners.is_empty() {
            self.by_session.remove(&session.secret());
        }
    }

    pub fn say_ended(&mut self, notice: &EndedNotice, sleepers: &mut Sleepers) {
        let Some(listeners) = self.by_session.get_mut(&notice.session.secret()) else { return };
        let ended = || Said::Ended { session: notice.session, ended: notice.ended.clone() };
        listeners.retain(|listener| listener.say(ended(), sleepers));
    }
}
