//! In what order, and who may be told when. The engine owns the state, gives each turn one reading of the clocks, and
//! withholds every reply until what it depends on is durable. A plain struct: no threads, no clock, no I/O, no async.
//! Whoever drives it, the server's threads or the simulator, drives the same thing:
//!
//! ```text
//! loop { turn(reading, arrivals) -> take_batch() -> (the journal) -> durable(…) -> released() }
//!                                                   └─ (its changes, into the files) -> applied(…) ┘
//! ```
//!
//! One batch is with the journal at a time; turns go on meanwhile and gather the next. What a batch changes in files is
//! changed once it is durable, in order for each file, and then made known.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use leasehold_planted::{Bug, planted};
use leasehold_state_machine::answer::{Answer, Reply};
use leasehold_state_machine::codec::{BootId, Stamp};
use leasehold_state_machine::command::{Attachment, Command, Request};
use leasehold_state_machine::event::{Event, Seq};
use leasehold_state_machine::ids::HashKey;
use leasehold_state_machine::limits::Limits;
use leasehold_state_machine::time::Now;
use leasehold_state_machine::token;
use leasehold_state_machine::{Machine, Output};

use crate::backlog::{Backlog, Batch};
use crate::chapter::Chapter;
use crate::clock::Reading;
use crate::horizon::HorizonPolicy;
use crate::limits::{PIECE_BYTES, PIECE_EVENTS, SLOW_COMMIT_MS, SWEEP_LAG_MS, TURN_EVERY_US};
use crate::metrics::Metrics;
use crate::notice::Notice;
use crate::picture::Picture;
use crate::recovery::{Recovered, Restored, Resumption, resume};
use crate::replay::{Replay, Traces};
use crate::server_time::ServerTime;
use crate::wall::Wall;
use crate::withheld::{Unasked, Withheld};

/// What an engine is started with.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Random; becomes the journal's own key if the journal begins with this start.
    pub founding_key: HashKey,
    /// An old copy of the data was put back.
    pub restored: Option<Restored>,
    /// The operator vouches for the wall clock.
    pub accept_clock: bool,
    /// The largest batch that the journal takes.
    pub batch_bytes_max: usize,
    /// What the engine feeds.
    pub metrics: Arc<Metrics>,
}

/// What may leave now, in order.
#[derive(Debug, Default)]
pub struct Released {
    /// Attempts that will never be answered: nobody is there.
    pub gone: Vec<Attachment>,
    /// What somebody should hear before they ask. Said before the replies.
    pub unasked: Vec<Unasked>,
    /// So many answers that were given away to be packed, all of those that were handed out with a batch: they may be told.
    pub packed: usize,
    /// Answers.
    pub replies: Vec<Reply>,
    /// What happened.
    pub chapters: Vec<Chapter>,
}

impl Released {
    /// Whether nothing may leave.
    pub fn is_empty(&self) -> bool {
        let Released { gone, unasked, packed, replies, chapters } = self;
        gone.is_empty() && unasked.is_empty() && *packed == 0 && replies.is_empty() && chapters.is_empty()
    }
}

/// The state and everything that has to do with its order.
#[derive(Debug)]
pub struct Engine {
    machine: Machine,
    limits: Limits,
    metrics: Arc<Metrics>,

    time: ServerTime,
    wall: Wall,
    horizon: HorizonPolicy,
    /// In server time: when grants that are held for an old copy's sake go on.
    grants_resume_us: Option<u64>,

    /// Requests that wait for another turn: held back by the state machine, or kept for want of room in the backlog.
    line: VecDeque<Request>,
    /// Whose requests those are, so that a closed connection finds its own among them.
    in_line: HashSet<Attachment>,
    /// Whether the state machine has more to do at once.
    more_due: bool,

    out: Output,
    boot_id: BootId,
    stamp: Stamp,
    /// What the journal will say beside the events, as far as they are decided.
    traces: Traces,
    backlog: Backlog,
    in_flight: Option<InFlight>,
    withheld: Withheld,
    queued: Vec<Attachment>,
    gone: Vec<Attachment>,
    notices: Vec<Notice>,
    storage_failed: bool,
}

/// The batch that is being made durable.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    last_seq: Seq,
    events: u64,
}

impl Engine {
    /// Goes on from what the journal holds. What is past its time is ended before anything is answered.
    pub fn recover(
        replay: Replay,
        boot_id: BootId,
        reading: Reading,
        options: EngineOptions,
    ) -> (Engine, Recovered) {
        let (limits, machine, traces) = replay.into_parts();
        let Resumption { rearm, same_boot, away_ms, horizon } =
            resume(&traces, machine.horizon(), boot_id, reading);
        let found = machine.counts();
        let durable = machine.seq();
        let mut engine = Engine {
            machine,
            limits,
            metrics: options.metrics,
            time: ServerTime::starting_at(reading.raw_us),
            wall: Wall::new(boot_id, traces.anchor, options.accept_clock),
            horizon,
            grants_resume_us: None,
            line: VecDeque::new(),
            in_line: HashSet::new(),
            more_due: false,
            out: Output::default(),
            boot_id,
            stamp: Stamp { raw_us: 0, wall_ms: 0, wall_trusted: false },
            traces,
            backlog: Backlog::new(boot_id, options.batch_bytes_max),
            in_flight: None,
            withheld: Withheld::after(durable),
            queued: Vec::new(),
            gone: Vec::new(),
            notices: Vec::new(),
            storage_failed: false,
        };
        engine.machine.limit_writes(engine.backlog.write_bytes_max() as u64);
        if options.restored.is_some() {
            engine.wall.begin_anew(reading);
        }

        let now = engine.look(reading);
        engine.machine.begin(now);
        let founded = !engine.machine.is_founded();
        if founded {
            engine.record(Event::Founded { key: options.founding_key });
        } else {
            engine.machine.recover(now, rearm, &mut engine.out);
        }
        if let Some(restored) = options.restored {
            let for_ms = restored.for_ms.unwrap_or_else(|| engine.machine.largest_ttl_ms());
            engine.record(Event::GrantsHeld { for_ms });
            // Said for good: a later start may doubt the clock, and would go on from the copy's last token.
            if now.wall_trusted {
                let to = token::next(engine.machine.last_token(), Some(now.wall_ms));
                engine.record(Event::TokensRaised { to });
            }
        }
        engine.grants_resume_us =
            engine.machine.grants_held().map(|for_ms| now.us.saturating_add(for_ms.saturating_mul(1000)));
        engine.finish(now);
        while engine.machine.housekeep(&mut engine.out) {
            engine.finish(now);
            engine.machine.begin(now);
        }
        engine.finish(now);
        engine.machine.assert_invariants();
        // What was noticed on the way is said in `Recovered`.
        let doubt = std::mem::take(&mut engine.notices).iter().find_map(|notice| match notice {
            Notice::ClockDoubted { doubt } => Some(*doubt),
            _ => None,
        });

        let counts = engine.machine.counts();
        let recovered = Recovered {
            founded,
            same_boot,
            away_ms,
            leases: counts.leases,
            expired: found.leases.saturating_sub(counts.leases),
            waiters: counts.waiters,
            sessions: counts.sessions,
            grants_held_ms: engine.machine.grants_held(),
            doubt,
        };
        (engine, recovered)
    }

    /// One turn: one reading of the clocks, what is due, those who waited for this turn, those who have arrived.
    pub fn turn(&mut self, reading: Reading, arrivals: &mut Vec<Request>) {
        let now = self.look(reading);
        self.machine.begin(now);
        if self.grants_resume_us.is_some_and(|due_us| now.us >= due_us) {
            self.grants_resume_us = None;
            self.record(Event::GrantsResumed);
        }
        self.more_due = false;
        if !self.backlog.is_full() {
            self.more_due = self.machine.housekeep(&mut self.out);
            self.encode();
        }
        self.take_up_the_line();
        for request in arrivals.drain(..) {
            self.take_up(request);
        }
        self.finish(now);
    }

    /// Whether there is a batch to be handed out.
    pub fn has_batch(&self) -> bool {
        self.in_flight.is_none() && !self.storage_failed && !self.backlog.is_empty()
    }

    /// Whether somebody waits for what is decided to become durable. Who only stands in line does not: they will be answered
    /// by something that is yet to be decided.
    pub fn is_awaited(&self) -> bool {
        self.withheld.is_awaited()
    }

    /// Everything decided and not yet handed out, as the next record of the journal; none while one is in flight.
    pub fn take_batch(&mut self) -> Option<Batch> {
        if !self.has_batch() {
            return None;
        }
        let mut batch = self.backlog.take()?;
        self.in_flight = Some(InFlight { last_seq: batch.last_seq, events: batch.contents.events });
        batch.packed = self.withheld.chapter(batch.chapter());
        if planted(Bug::ReplyBeforeSync) {
            self.withheld.durable(batch.last_seq);
        }
        Some(batch)
    }

    /// Gives those answers away that leave with the next batch, for their caller to pack while what they speak of is at hand. They may
    /// not be told before [`Released::packed`] says so. Those stay that also wait for bytes in a file, and those that the caller does
    /// not want before their time.
    pub fn take_to_pack(&mut self, wanted: impl Fn(&Reply) -> bool, into: &mut Vec<Reply>) {
        // With more than one batch to come it is not known which one they leave with.
        if self.backlog.is_one_batch() {
            self.withheld.take_to_pack(wanted, into);
        }
    }

    /// The batch that ends with this event is durable; making it so took `commit_us`.
    pub fn durable(&mut self, last_seq: Seq, commit_us: u64) {
        let Some(batch) = self.in_flight.take().filter(|batch| batch.last_seq == last_seq) else {
            panic!("only the batch in flight becomes durable");
        };
        self.horizon.durable(last_seq, commit_us);
        self.withheld.durable(last_seq);
        self.metrics.journal_commit.observe(commit_us);
        self.metrics.journal_batch.observe(batch.events);
        if commit_us / 1000 >= SLOW_COMMIT_MS {
            self.notices.push(Notice::SlowCommit { ms: commit_us / 1000 });
        }
    }

    /// What this event changes in a file is there.
    pub fn applied(&mut self, seq: Seq) {
        self.withheld.applied(seq);
    }

    /// The journal failed: nothing more will ever leave, not even what needs no disk.
    pub fn storage_failed(&mut self) {
        if planted(Bug::AckAfterError)
            && let Some(batch) = self.in_flight
        {
            return self.durable(batch.last_seq, 0);
        }
        self.storage_failed = true;
    }

    /// Attempts that stand in line from now on. To be asked after each turn, before anything leaves: an answer to one of them may be
    /// among the replies.
    pub fn take_queued(&mut self) -> impl Iterator<Item = Attachment> {
        self.queued.drain(..)
    }

    /// What may leave now.
    pub fn released(&mut self) -> Released {
        let mut released = Released::default();
        self.release(&mut released);
        released
    }

    /// The same into empty lists, whose room is used again.
    pub fn release(&mut self, into: &mut Released) {
        assert!(into.is_empty(), "what left before has been taken out");
        if self.storage_failed {
            return;
        }
        std::mem::swap(&mut into.gone, &mut self.gone);
        self.withheld.take_unasked(&mut into.unasked);
        into.packed = self.withheld.take_ready_packed();
        self.withheld.take_replies(&mut into.replies);
        self.withheld.take_chapters(&mut into.chapters);
    }

    /// What an operator should hear of since the last call.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// The raw time at which it wants its next turn at the latest; none: when something arrives.
    pub fn wake_raw_us(&self) -> Option<u64> {
        if planted(Bug::DeafToTime) {
            return None;
        }
        let raw_us = self.time.raw_us();
        let heartbeat_us = self.is_live().then_some(raw_us + TURN_EVERY_US);
        if self.backlog.is_full() {
            // What is due would add to the backlog: the journal's word comes first.
            return heartbeat_us;
        }
        if self.more_due || !self.line.is_empty() {
            return Some(raw_us);
        }
        let due_us = [self.machine.next_due_us(), self.grants_resume_us].into_iter().flatten().min();
        [due_us.and_then(|due_us| self.time.raw_at(due_us)), heartbeat_us].into_iter().flatten().min()
    }

    /// Whether everything that was decided is durable, is where it belongs, and has left.
    pub fn is_settled(&self) -> bool {
        self.backlog.is_empty() && self.in_flight.is_none() && self.withheld.is_empty()
    }

    /// The state, to be written out elsewhere: what the journal's batches add up to, if everything decided is durable and
    /// there is little of it.
    pub fn picture(&self) -> Option<Picture> {
        let all_durable = self.backlog.is_empty() && self.in_flight.is_none() && !self.storage_failed;
        if !all_durable && !planted(Bug::PictureTooEarly) {
            return None;
        }
        Some(Picture { traces: self.traces, machine: self.machine.picture()? })
    }

    /// The state.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The bounds it works under: a background snapshot folds under the same.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// What the engine feeds.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// The one reading of the clocks that this turn works with.
    fn look(&mut self, reading: Reading) -> Now {
        let us = self.time.advance(reading.raw_us);
        let reading = Reading { raw_us: self.time.raw_us(), ..reading };
        let verdict = self.wall.judge(reading);
        self.notices.extend(verdict.news.map(|doubt| Notice::ClockDoubted { doubt }));
        self.stamp =
            Stamp { raw_us: reading.raw_us, wall_ms: reading.wall_ms, wall_trusted: verdict.trusted };
        Now { us, raw_us: reading.raw_us, wall_ms: reading.wall_ms, wall_trusted: verdict.trusted }
    }

    /// Those who waited for this turn, as far as the backlog has room.
    fn take_up_the_line(&mut self) {
        let waiting = self.line.len();
        let mut held_back = VecDeque::new();
        for _ in 0..waiting {
            if self.backlog.is_full() {
                break;
            }
            let Some(request) = self.line.pop_front() else { break };
            let attachment = request.attachment;
            let again = self.decide(request);
            if again.is_none() {
                self.in_line.remove(&attachment);
            }
            held_back.extend(again);
        }
        // Who was held back once more still stands before who was not looked at.
        held_back.append(&mut self.line);
        self.line = held_back;
    }

    /// One that has just arrived.
    fn take_up(&mut self, request: Request) {
        let waits = match &request.command {
            // Detaching somebody who is not decided yet would find nobody, and leave him in line for ever.
            Command::Detach { gone } => self.in_line.contains(gone),
            _ => false,
        };
        let later = if waits || (self.backlog.is_full() && !keeps_alive(&request.command)) {
            Some(request)
        } else {
            self.decide(request)
        };
        if let Some(request) = later {
            self.in_line.insert(request.attachment);
            self.line.push_back(request);
        }
    }

    fn decide(&mut self, request: Request) -> Option<Request> {
        let to = request.attachment;
        let may_wait = matches!(request.command, Command::Acquire(_));
        let brings_bytes =
            matches!(&request.command, Command::WriteFile(write) if write.bytes.len() >= PIECE_BYTES);
        let before = self.out.replies.len();
        let held_back = self.machine.decide(request, &mut self.out);
        if may_wait && held_back.is_none() && self.out.replies[before..].iter().all(|reply| reply.to != to) {
            self.queued.push(to);
        }
        if self.out.events.len() >= PIECE_EVENTS || brings_bytes {
            self.encode();
        }
        held_back
    }

    fn record(&mut self, event: Event) {
        self.machine.record(event, &mut self.out);
    }

    /// The end of a turn: the horizon is kept ahead, the events go to the backlog, and the replies are withheld.
    fn finish(&mut self, now: Now) {
        let live = self.is_live();
        // Nearly every answer shows a deadline, or rests on one that was renewed and not written. So while sessions
        // live none leaves before a horizon above this turn's raw time is durable; in good times one always is.
        let clock_us = if planted(Bug::HorizonOnWrongClock) { now.us } else { now.raw_us };
        let horizon = if live {
            self.horizon.due(clock_us)
        } else if self.out.replies.iter().any(|reply| reply.promises_time) {
            self.horizon.wanted(clock_us)
        } else {
            None
        };
        if let Some(event) = horizon {
            self.record(event.clone());
            self.horizon.recorded(self.machine.seq(), &event);
        }
        self.encode();

        let cover = self.horizon.cover(clock_us);
        let mut replies = std::mem::take(&mut self.out.replies);
        for reply in replies.drain(..) {
            let mut after = reply.after;
            if (live || reply.promises_time) && !planted(Bug::GrantNotBoundedByHorizon) {
                assert!(cover.is_some(), "a promise is covered by a horizon");
                after = after.max(cover.unwrap_or(Seq::MAX));
            }
            if let Ok(Answer::Released { remaining_ms: Some(ms) }) = reply.outcome {
                self.metrics.remaining.observe(ms);
            }
            self.withheld.reply(reply, after);
        }
        self.out.replies = replies;
        self.gone.append(&mut self.out.gone);
        for notice in self.out.queued.drain(..) {
            self.withheld.unasked(Unasked::Queued(notice), notice.after);
        }
        for notice in self.out.ended.drain(..) {
            let after = notice.after;
            self.withheld.unasked(Unasked::Ended(notice), after);
        }
        self.take_stock(live);
    }

    /// Hands what was decided so far to the backlog.
    fn encode(&mut self) {
        if self.out.events.is_empty() {
            return;
        }
        self.backlog.add(&self.stamp, &self.out.events);
        self.traces.follow(self.boot_id, &self.stamp);
        for (seq, event) in self.out.events.drain(..) {
            self.traces.note(self.boot_id, &event);
            match &event {
                Event::Expired { .. } => {
                    self.metrics.expired_total.fetch_add(1, Relaxed);
                }
                Event::FileWritten { bytes, .. } => {
                    self.metrics.file_writes_total.fetch_add(1, Relaxed);
                    self.metrics.file_written_bytes_total.fetch_add(bytes.len(), Relaxed);
                }
                _ => {}
            }
            self.withheld.event(seq, &event);
        }
    }

    fn take_stock(&mut self, live: bool) {
        let stall_us = self.time.settle(live, self.horizon.durable_us());
        self.notices.extend(stall_us.map(|us| Notice::Stall { ms: us / 1000 }));
        let mut lag_us_max = 0;
        for lag_us in self.out.expiry_lag_us.drain(..) {
            self.metrics.expiry_lag.observe(lag_us);
            lag_us_max = lag_us_max.max(lag_us);
        }
        if lag_us_max / 1000 >= SWEEP_LAG_MS {
            self.notices.push(Notice::SweepLag { ms: lag_us_max / 1000 });
        }
        let counts = self.machine.counts();
        self.metrics.locks_held.store(counts.leases as u64, Relaxed);
        self.metrics.waiters.store(counts.waiters as u64, Relaxed);
        self.metrics.sessions_live.store(counts.sessions as u64, Relaxed);
        self.metrics.files.store(counts.files as u64, Relaxed);
        self.metrics.file_bytes.store(counts.file_bytes, Relaxed);
        self.metrics.stall_us_total.store(self.time.left_out_us(), Relaxed);
    }

    fn is_live(&self) -> bool {
        self.machine.counts().sessions > 0
    }
}

/// Renewals go on while the disk is slow, also those that change something: time goes on up to the horizon, and a lease
/// must not end while its renewal waits for room. How many there can be is bounded where they are admitted.
fn keeps_alive(command: &Command) -> bool {
    matches!(command, Command::Renew(_) | Command::KeepAlive { .. })
}
