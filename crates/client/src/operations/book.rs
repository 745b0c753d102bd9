//! What one client id has asked and not yet heard of: numbers, what goes out next, what to do when a stream breaks or falls
//! silent. Plain data; time is an argument, and nothing in here waits or sends.

#[cfg(test)]
mod tests;
mod trouble;

use std::collections::{BTreeMap, VecDeque};
use std::task::{Poll, Waker};
use std::time::Duration;

use leasehold_planted::{Bug, planted};
use leasehold_protocol::v1;
use leasehold_protocol::v1::operation::What;
use tokio::sync::oneshot;

pub(super) use self::trouble::Verdict;
use super::Answered;
use super::answers::{Answers, Come, Seat};
use super::asked::{Asked, Kind, Lane};
use super::begins::Begins;
use super::entry::{Entry, Next, Place, Stance, background};
use super::mark::{Mark, Marks};
use super::open::Open;
use crate::error::Error;
use crate::group::{self, Group, GroupWriter, Usual};
use crate::outcome::{Outcome, OutcomeGroup, Told};
use crate::random::Random;
use crate::refusal::{self, Again};
use crate::retry::RetryPolicy;
use crate::view::us;
use crate::wire::{Failed, Trouble};

/// Bytes of operations in one group: as many as the server takes without counting them.
const GROUP_BYTES: usize = 60 * 1024;
/// So many pieces of memory are kept for what is asked next, each of no more bytes than this.
const SPARE_MAX: usize = 1_024;
const SPARE_BYTES_MAX: usize = 256;
/// Operations that may be in flight before the server has said how many.
const IN_FLIGHT_UNKNOWN: usize = 1;

/// Everything that one client id has open.
pub(super) struct Book {
    server: String,
    client_id: String,
    policy: RetryPolicy,
    random: Random,
    open: Open<Entry>,
    /// Memory of what is over, for what is asked next.
    spare: Vec<Vec<u8>>,
    /// The answers to what is over, and those who wait for them.
    answers: Answers,
    /// Numbers to be sent, by lane. One that is not queued any more is passed over.
    lanes: [VecDeque<u64>; 2],
    writer: GroupWriter,
    /// Whoever carries the groups, while there is nothing to carry.
    carrier: Option<Waker>,
    in_flight: [usize; 2],
    /// What is over here, while the server still has it in flight on this stream.
    adrift: BTreeMap<u64, (Lane, Begins)>,
    in_flight_max: Option<usize>,
    marks: Marks,
    /// Streams are counted from 1.
    streams: u64,
    stream: Option<Stream>,
    /// When the next stream may be opened.
    reopen_us: u64,
    /// When the last stream fell, and how many have fallen one right after the other.
    fell_us: Option<u64>,
    falls: u32,
    /// Somebody wants to know whether there is a server.
    greeters: Vec<oneshot::Sender<Result<(), Failed>>>,
    /// Nothing needs to be looked at before this.
    due_us: u64,
    doubted_since_us: Option<u64>,
    /// What the last stream met.
    trouble: Option<Trouble>,
}

/// The stream that is there or being opened.
struct Stream {
    hello_us: Option<u64>,
    /// When the server took it; how long that may take is the wire's business.
    opened_us: Option<u64>,
    welcome: bool,
    /// How long the server took for its welcome: so long an answer may take, and nothing is wrong.
    welcomed_in_us: u64,
    heard_us: u64,
}

/// What must be told to whom, once the book is closed again.
#[derive(Default)]
pub(super) struct Effects {
    /// Whoever is to be woken because their answer has come.
    pub woken: Vec<Waker>,
    pub greetings: Vec<Delivery<Result<(), Failed>>>,
    pub ended: Vec<v1::Ended>,
}

/// Something that somebody waits for.
pub(super) struct Delivery<T> {
    to: oneshot::Sender<T>,
    what: T,
}

impl<T> Delivery<T> {
    /// Hands it over, if there is still somebody.
    pub fn deliver(self) {
        let _ = self.to.send(self.what);
    }
}

/// What to do without a stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Open one.
    Open,
    /// Nothing before this.
    Wait(u64),
}

impl Book {
    pub fn new(server: &str, policy: RetryPolicy, random: Random) -> Book {
        Book {
            server: server.to_owned(),
            client_id: random.id(),
            policy,
            random,
            open: Open::default(),
            spare: Vec::new(),
            answers: Answers::default(),
            lanes: Default::default(),
            writer: GroupWriter::default(),
            carrier: None,
            in_flight: [0; 2],
            adrift: BTreeMap::new(),
            in_flight_max: None,
            marks: Marks::default(),
            streams: 0,
            stream: None,
            reopen_us: 0,
            fell_us: None,
            falls: 0,
            greeters: Vec::new(),
            due_us: u64::MAX,
            doubted_since_us: None,
            trouble: None,
        }
    }

    /// Takes in an operation, to be sent in its turn.
    pub fn ask(&mut self, entry: Entry) -> u64 {
        if let Stance::InLine { until_us: Some(until_us) } = entry.stance {
            self.due_us = self.due_us.min(until_us);
        }
        let lane = entry.lane();
        let number = self.open.push(entry);
        self.lanes[lane as usize].push_back(number);
        number
    }

    /// Takes in an operation whose answer somebody waits for, who is woken like this.
    #[inline]
    pub fn ask_for(&mut self, mut entry: Entry, waker: Option<Waker>) -> Seat {
        let seat = self.answers.sit_down(self.open.next(), waker);
        entry.answer = Some(seat);
        self.ask(entry);
        seat
    }

    /// The same for what is asked most often, in memory of what is over.
    pub fn ask_usual(&mut self, usual: &Usual<'_>, stance: Stance, waker: Waker) -> (Seat, Kind) {
        let asked = Asked::usual(usual, self.spare.pop().unwrap_or_default());
        let kind = asked.kind;
        (self.ask_for(Entry::new(asked, stance), Some(waker)), kind)
    }

    /// See [`Answers::poll`].
    pub fn poll_answer(&mut self, seat: Seat, waker: &Waker) -> (Poll<Come>, Option<Waker>) {
        self.answers.poll(seat, waker)
    }

    /// Whoever waited here does so no more: gives the answer if it has come, and forgets the operation if not. Then gives who
    /// was to be woken.
    pub fn leave(&mut self, seat: Seat) -> Result<Come, Option<Waker>> {
        let left = self.answers.leave(seat);
        if left.is_err() {
            self.forget(seat.number());
        }
        left
    }

    /// See [`Answers::leave_it_to_go_on`].
    pub fn leave_it_to_go_on(&mut self, seat: Seat) -> Option<Waker> {
        self.answers.leave_it_to_go_on(seat)
    }

    /// Somebody wants to know whether there is a server.
    pub fn greet(&mut self, greeter: oneshot::Sender<Result<(), Failed>>) {
        match &self.stream {
            // Who has gone need not be told.
            Some(stream) if stream.welcome => drop(greeter.send(Ok(()))),
            _ => self.greeters.push(greeter),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Whether a stream is there, or is being opened.
    pub fn has_stream(&self) -> bool {
        self.stream.is_some()
    }

    /// How many operations may be in flight, if the server has said so.
    pub fn in_flight_max(&self) -> Option<usize> {
        self.in_flight_max
    }

    /// When to look at the clock next.
    pub fn due_us(&self) -> u64 {
        self.due_us
    }

    /// What to do while there is no stream.
    pub fn step(&mut self, now_us: u64) -> Step {
        assert!(self.stream.is_none(), "streams are opened one at a time");
        let mut wanted_us = if self.greeters.is_empty() { u64::MAX } else { now_us };
        let mut due_us = u64::MAX;
        for (_, entry) in self.open.iter() {
            match entry.place {
                Place::Queued => wanted_us = now_us,
                Place::Cut { until_us } | Place::Refused { until_us } => wanted_us = wanted_us.min(until_us),
                Place::Sent { .. } | Place::Recalled => {}
            }
            if let Stance::InLine { until_us: Some(until_us) } = entry.stance {
                due_us = due_us.min(until_us);
            }
        }
        wanted_us = wanted_us.max(self.reopen_us);
        self.due_us = due_us;
        match wanted_us <= now_us {
            true => Step::Open,
            false => Step::Wait(wanted_us.min(due_us)),
        }
    }

    /// A stream is being opened. Gives its number.
    pub fn begin_stream(&mut self, now_us: u64) -> u64 {
        self.streams += 1;
        self.stream = Some(Stream {
            hello_us: None,
            opened_us: None,
            welcome: false,
            welcomed_in_us: 0,
            heard_us: now_us,
        });
        self.queue_where(|place| match place {
            Place::Queued => true,
            Place::Cut { until_us } | Place::Refused { until_us } => until_us <= now_us,
            Place::Sent { .. } | Place::Recalled => false,
        });
        self.streams
    }

    /// The server has taken the stream; its welcome should follow soon.
    pub fn opened(&mut self, now_us: u64) {
        if let Some(stream) = &mut self.stream {
            stream.opened_us = Some(now_us);
        }
        // From now on attempts are waited for.
        self.due_us = now_us;
    }

    /// Ends the stream if nothing is open. Gives whether it did.
    pub fn finish_stream(&mut self) -> bool {
        let finished = self.open.is_empty();
        if finished {
            self.stream = None;
            self.in_flight = [0; 2];
            self.adrift.clear();
        }
        finished
    }

    /// When the server should have welcomed us.
    fn welcome_due_us(&self) -> u64 {
        match self.stream {
            Some(Stream { opened_us: Some(opened_us), welcome: false, .. }) => {
                opened_us.saturating_add(us(self.policy.attempt_timeout))
            }
            _ => u64::MAX,
        }
    }

    fn queue_where(&mut self, wanted: impl Fn(Place) -> bool) {
        self.lanes.iter_mut().for_each(VecDeque::clear);
        self.open.for_each_mut(|number, entry| {
            if entry.place == Place::Queued || wanted(entry.place) {
                entry.place = Place::Queued;
                self.lanes[entry.lane() as usize].push_back(number);
            }
        });
    }

    /// Whether this stream is over, and nothing more is to be sent on it.
    pub fn is_over(&self, stream: u64) -> bool {
        self.stream.is_none() || stream != self.streams
    }

    /// There is nothing to carry: this is how to wake whoever carries the groups. Gives how it was until now.
    pub fn await_more(&mut self, carrier: &Waker) -> Option<Waker> {
        let known = self.carrier.as_ref().is_some_and(|known| known.will_wake(carrier));
        if known { None } else { self.carrier.replace(carrier.clone()) }
    }

    /// Whoever waits for something to carry on the stream that is there.
    pub fn take_carrier(&mut self) -> Option<Waker> {
        self.carrier.take()
    }

    /// The next group for the stream that is there, if there is anything to send; its operations are stamped with this time.
    pub fn take_group(&mut self, now_us: u64) -> Option<Group> {
        let current = self.stream.as_mut()?;
        let mut group = std::mem::take(&mut self.writer);
        if current.hello_us.replace(current.hello_us.unwrap_or(now_us)).is_none() {
            let hello = v1::Hello { client_id: self.client_id.clone() };
            group.add(0, &group::encoded(&What::Hello(hello)));
        }
        let mut room = GROUP_BYTES;
        for lane in [Lane::Upkeep, Lane::Ordinary] {
            self.take_lane(lane, now_us, &mut room, &mut group);
        }
        if group.is_empty() {
            self.writer = group;
            return None;
        }
        let mark = self.marks.say(self.open.len(), self.open.iter().map(|(number, _)| number));
        let Mark { answered_through, open } = mark.unwrap_or(Mark { answered_through: 0, open: Vec::new() });
        let finished = group.finish(answered_through, &open);
        self.writer = group;
        Some(finished)
    }

    fn take_lane(&mut self, lane: Lane, now_us: u64, room: &mut usize, into: &mut GroupWriter) {
        let in_flight_max = self.in_flight_max.unwrap_or(IN_FLIGHT_UNKNOWN);
        let (queue, in_flight) = (&mut self.lanes[lane as usize], &mut self.in_flight[lane as usize]);
        while *in_flight < in_flight_max
            && let Some(number) = queue.front().copied()
        {
            let queued = self.open.get_mut(number).filter(|entry| entry.place == Place::Queued);
            let Some(entry) = queued else {
                queue.pop_front();
                continue;
            };
            if entry.bytes() > *room {
                return;
            }
            *room -= entry.bytes();
            queue.pop_front();
            *in_flight += usize::from(!entry.in_flight);
            let due_us = entry.due_us(now_us, &self.policy);
            self.due_us = self.due_us.min(due_us);
            // An answer may be to any sending on this stream: the first is the safe one to count from.
            entry.first_us.get_or_insert(now_us);
            entry.place = Place::Sent { at_us: now_us, due_us };
            entry.in_flight = true;
            into.add(number, entry.message(now_us));
        }
    }

    /// Takes in what the server has told. Gives whether more can be sent now.
    pub fn hear(&mut self, group: OutcomeGroup, now_us: u64, effects: &mut Effects) -> bool {
        if let Some(stream) = &mut self.stream {
            stream.heard_us = now_us;
        }
        effects.woken.reserve(group.outcomes.len());
        for Outcome { number, told } in group.outcomes {
            match told {
                Some(Told::Welcome(welcome)) => self.welcome(&welcome, now_us, effects),
                Some(Told::Ended(ended)) => effects.ended.push(*ended),
                Some(Told::Queued(queued)) => {
                    let entry = self.open.get(number);
                    if let Some(position) = entry.and_then(|entry| entry.position.as_ref()) {
                        position.send_replace(Some(queued.position));
                    }
                }
                Some(told) => self.answer(number, told, now_us, effects),
                None => self.answer(number, Told::Error(Box::new(nonsense())), now_us, effects),
            }
        }
        self.lanes.iter().any(|lane| !lane.is_empty())
    }

    fn welcome(&mut self, welcome: &v1::Welcome, now_us: u64, effects: &mut Effects) {
        self.in_flight_max = Some(usize::try_from(welcome.in_flight_max).unwrap_or(usize::MAX).max(1));
        if let Some(stream) = &mut self.stream {
            stream.welcome = true;
            stream.welcomed_in_us = stream.hello_us.map_or(0, |hello_us| now_us.saturating_sub(hello_us));
        }
        // Whoever only waited for a connection has one.
        self.queue_where(|place| matches!(place, Place::Cut { .. }));
        effects.greetings.extend(self.greeters.drain(..).map(|to| Delivery { to, what: Ok(()) }));
    }

    fn answer(&mut self, number: u64, told: Told, now_us: u64, effects: &mut Effects) {
        let Some(entry) = self.open.get_mut(number) else { return self.end_drift(number, told) };
        if std::mem::take(&mut entry.in_flight) {
            self.in_flight[entry.lane() as usize] -= 1;
        }
        if entry.place == Place::Recalled {
            return;
        }
        // Nobody can have answered what was not sent: there would be no time to count from.
        let Some(sent_us) = entry.first_us else { return };
        let sent_us = match entry.place {
            Place::Sent { at_us, .. } if planted(Bug::ClientCountsFromRetry) => at_us,
            _ => sent_us,
        };
        let refusal = match told {
            Told::Error(refusal) => *refusal,
            told => {
                let awaited = entry.answer.is_some_and(|seat| self.answers.is_awaited(seat));
                if !awaited && let Some(undo) = entry.kind().begins().undo(&told) {
                    // Nobody waits for what has begun: it is taken back.
                    self.ask(Entry::in_background(undo, &self.policy));
                }
                return self.end(number, Ok(Answered { told, sent_us }), effects);
            }
        };
        if entry.is_cut_short(&refusal, now_us) {
            // The server's longest wait is over, the caller's is not.
            entry.refused(now_us, Duration::ZERO, self.random.number(), &self.policy);
            return self.look_again(number);
        }
        if entry.is_displaced(&refusal) {
            // What was sent on a stream that is over has arrived late, and is taken for the newer attempt: this one goes
            // back to its place.
            entry.uncertain = true;
            let error = entry.unavailable(&self.server, Trouble::Broken(refusal.detail));
            return match entry.refused(now_us, Duration::ZERO, self.random.number(), &self.policy) {
                Next::Over => self.give_up(number, error, effects),
                Next::On => self.look_again(number),
            };
        }
        let (after, error) = match refusal::again(&refusal) {
            None => {
                let unheard_of = entry.was_unheard_of(&refusal);
                let error = refusal::error(refusal, &entry.lock());
                if unheard_of {
                    reply(entry, Err(error), &mut self.answers, effects);
                    return self.recall(number);
                }
                return self.end(number, Err(error), effects);
            }
            Some(Again::Busy(after)) if !entry.uncertain => {
                let error = Error::Busy { detail: refusal.detail, retry_after: after };
                if entry.has_no_line() {
                    // There is no line to stand in: its caller says how to go on.
                    return self.end(number, Err(error), effects);
                }
                (after, error)
            }
            Some(again) => {
                // One that was carried out just before the server stopped is not told apart.
                entry.uncertain |= matches!(again, Again::NotServing(_));
                let (Again::Busy(after) | Again::NotServing(after)) = again;
                let trouble = Trouble::NotServing(refusal.detail);
                (after, entry.unavailable(&self.server, trouble))
            }
        };
        match entry.refused(now_us, after, self.random.number(), &self.policy) {
            Next::Over => self.give_up(number, error, effects),
            Next::On => self.look_again(number),
        }
    }

    /// Looks at the clock again when this one is due.
    fn look_again(&mut self, number: u64) {
        if let Some(Place::Refused { until_us } | Place::Cut { until_us }) =
            self.open.get(number).map(|entry| entry.place)
        {
            self.due_us = self.due_us.min(until_us);
        }
    }

    /// A late answer to what has been over for long: there is room for another, and nobody needs what it has begun.
    fn end_drift(&mut self, number: u64, told: Told) {
        let Some((lane, begins)) = self.adrift.remove(&number) else { return };
        self.in_flight[lane as usize] -= 1;
        if let Some(undo) = begins.undo(&told) {
            self.ask(Entry::in_background(undo, &self.policy));
        }
    }

    /// A number is over: it is not sent again.
    #[inline]
    fn take_out(&mut self, number: u64) {
        self.open.end(number, |entry| {
            self.marks.answered(number);
            if entry.in_flight {
                self.adrift.insert(number, (entry.lane(), entry.kind().begins()));
            }
            let memory = entry.take_memory();
            if memory.capacity() <= SPARE_BYTES_MAX && self.spare.len() < SPARE_MAX {
                self.spare.push(memory);
            }
        });
    }

    /// An operation is over, and its number with it.
    #[inline]
    fn end(&mut self, number: u64, come: Come, effects: &mut Effects) {
        let Some(entry) = self.open.get_mut(number) else { return };
        reply(entry, come, &mut self.answers, effects);
        let recalled = entry.recalled();
        self.take_out(number);
        if let Some(recalled) = recalled
            && let Some(entry) = self.open.get_mut(recalled)
        {
            // Nothing comes of it any more.
            reply(entry, Err(Error::Cancelled), &mut self.answers, effects);
            self.take_out(recalled);
        }
    }

    /// An operation was tried often enough. What it may have begun is taken back; what was to end is tried on.
    fn give_up(&mut self, number: u64, error: Error, effects: &mut Effects) {
        let Some(entry) = self.open.get_mut(number) else { return };
        let wanted = reply(entry, Err(error.clone()), &mut self.answers, effects);
        match entry.kind() {
            Kind::Acquire if entry.uncertain => return self.recall(number),
            // There is no taking back what has no name yet: it is asked for until it has one, and ended then.
            Kind::OpenSession if entry.uncertain && wanted => {
                (entry.attempts, entry.stance) = (0, background(&self.policy));
                entry.place = Place::Queued;
                return self.lanes[entry.lane() as usize].push_back(number);
            }
            // Whoever asked for an end has let go, and there is no asking again.
            Kind::Release | Kind::CloseSession if wanted => {
                let again = entry.again_in_background(&self.policy);
                self.ask(again);
            }
            _ => {}
        }
        self.end(number, Err(error), effects);
    }

    /// Nobody waits for this one any more.
    pub fn forget(&mut self, number: u64) {
        let Some(entry) = self.open.get_mut(number) else { return };
        entry.answer = None;
        match entry.kind() {
            Kind::Acquire if entry.in_flight || entry.uncertain => self.recall(number),
            Kind::OpenSession if entry.in_flight || entry.uncertain => {
                entry.stance = background(&self.policy);
            }
            _ if entry.in_flight => entry.stance = Stance::Given,
            _ => self.take_out(number),
        }
    }

    /// Takes back an acquire, wherever it has got to.
    fn recall(&mut self, number: u64) {
        if let Some(entry) = self.open.get_mut(number) {
            entry.place = Place::Recalled;
            entry.stance = Stance::Given;
            self.ask(Entry::in_background(What::Cancel(number), &self.policy));
        }
    }
}

/// Answers whoever waits for this operation. Gives whether there is somebody.
#[inline]
fn reply(entry: &mut Entry, come: Come, answers: &mut Answers, effects: &mut Effects) -> bool {
    let Some(seat) = entry.answer.take() else { return false };
    effects.woken.extend(answers.put(seat, come));
    true
}

fn nonsense() -> v1::Error {
    v1::Error { detail: "an answer of a kind that is not known here".into(), ..v1::Error::default() }
}
