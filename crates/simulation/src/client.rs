//! A client: asks, waits, believes, renews, retries, releases, on its own drifting clock. It knows only what it was told.
//! What it does for one lock is in `task.rs` and `keeping.rs`, for its session in `session.rs`, with files in `writing.rs`,
//! at the register in `updating.rs`; here it begins things and hears answers.

use std::collections::BTreeMap;

use leasehold_state_machine::answer::{Outcome, Refusal};
use leasehold_state_machine::command::{Break, Command, List};
use leasehold_state_machine::words::{Owner, RequestId};

use crate::faults::FaultKind;
use crate::local_clock::LocalClock;
use crate::network::{Call, CallId, Network, Purpose};
use crate::session::Session;
use crate::stream::{Stream, number_of};
use crate::task::Task;
use crate::workload;
use crate::world::{Happening, World};
use crate::writing::Desk;

/// Why a client is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alarm {
    /// To begin something.
    Begin,
    /// A call has had no answer for long enough.
    Timeout(CallId),
    /// The keeper of a task's lease has something to say.
    Tend {
        /// The task.
        task: u64,
        /// Counts; an older alarm is void.
        round: u64,
    },
    /// A task has held its lock for long enough.
    HoldOver {
        /// The task.
        task: u64,
    },
    /// A task writes to files.
    Write {
        /// The task.
        task: u64,
        /// How often it will go on.
        left: u64,
    },
    /// A task goes to the register.
    Update {
        /// The task.
        task: u64,
    },
    /// A task tries again.
    Again {
        /// The task.
        task: u64,
        /// Counts; an older alarm is void.
        round: u64,
    },
    /// The session's keeper has something to say.
    Heartbeat {
        /// Counts; an older alarm is void.
        round: u64,
    },
    /// The session has lasted for long enough.
    EndSession {
        /// Counts; an older alarm is void.
        round: u64,
    },
}

/// A client.
#[derive(Debug)]
pub struct Client {
    /// Its number.
    pub number: usize,
    /// Its name, for the story.
    pub name: String,
    /// Under which it asks.
    pub owner: Owner,
    /// Its clock.
    pub clock: LocalClock,
    /// Until when it stands still.
    pub paused_until_us: u64,
    /// What it does for locks.
    pub tasks: BTreeMap<u64, Task>,
    /// Its session, if it has one.
    pub session: Option<Session>,
    /// Calls that are repeated as they are if no answer comes.
    pub(crate) errands: BTreeMap<CallId, (Command, u64)>,
    /// What it knows of files.
    pub(crate) desk: Desk,
    /// Its stream, if it asks on one.
    pub(crate) stream: Option<Stream>,
    last: u64,
}

impl Client {
    /// One that has asked nothing yet.
    pub fn new(number: usize, clock: LocalClock) -> Client {
        let name = format!("client-{number}");
        let Ok(owner) = Owner::parse(&name) else { unreachable!("a short name is an owner") };
        Client {
            number,
            name,
            owner,
            clock,
            paused_until_us: 0,
            tasks: BTreeMap::new(),
            session: None,
            errands: BTreeMap::new(),
            desk: Desk::default(),
            stream: None,
            last: 0,
        }
    }

    /// What its clock shows.
    pub fn local_us(&self, world: &World) -> u64 {
        self.clock.local_us(world.now_us)
    }

    /// A number it has not used yet.
    pub fn fresh(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// A request id it has not used yet.
    pub fn fresh_id(&mut self) -> RequestId {
        if let Some(stream) = &mut self.stream {
            return stream.number();
        }
        let number = self.fresh();
        let Ok(id) = RequestId::parse(&format!("r{number}")) else { unreachable!("a short word is an id") };
        id
    }

    /// Sends a request, and sets the alarm for when no answer comes.
    pub fn send(
        &mut self,
        world: &mut World,
        network: &mut Network,
        (task, purpose): (u64, Purpose),
        command: Command,
        patience_us: u64,
    ) -> CallId {
        let sent_us = self.local_us(world);
        let words = world.trace_is_on().then(|| describe(&command));
        let mut call = Call::new(self.number, task, purpose, sent_us);
        let mark = self.stream.as_mut().map(|stream| {
            call.on_stream = Some((stream.connection, number_of(request_id(&command))));
            Box::new(stream.mark())
        });
        let call = network.send(world, call, command, mark);
        if let Some(words) = words {
            world.tell(&self.name, || format!("call {call}: {words}"));
        }
        self.wake_after(world, patience_us, Alarm::Timeout(call));
        call
    }

    /// Sets an alarm so many microseconds of its own clock from now. A starved program hears it late.
    pub fn wake_after(&self, world: &mut World, local_us: u64, alarm: Alarm) {
        let mut at_us = self.clock.real_us(self.local_us(world) + local_us);
        if world.unlucky(world.weather.late_alarm) {
            world.count(FaultKind::LateAlarm);
            at_us += world.random.between(1_000, 3_000_000);
        }
        world.at(at_us, Happening::Alarm { client: self.number, alarm });
    }

    /// An alarm goes off.
    pub fn wake(&mut self, world: &mut World, network: &mut Network, alarm: Alarm) {
        match alarm {
            Alarm::Begin => self.begin(world, network),
            Alarm::Timeout(id) => {
                let Some(call) = network.peek(id) else { return };
                let beside = call.purpose == Purpose::Acquire;
                if !(beside && self.asks_beside(world, network, call.task, id)) {
                    self.no_answer(world, network, id, true);
                }
            }
            Alarm::Tend { task, round } => self.tend_again(world, network, task, round),
            Alarm::HoldOver { task } => self.hold_is_over(world, network, task),
            Alarm::Write { task, left } => self.write_on(world, network, task, left),
            Alarm::Update { task } => self.goes_to_the_register(world, task),
            Alarm::Again { task, round } => self.try_again(world, network, task, round),
            Alarm::Heartbeat { round } => self.heartbeat(world, network, round),
            Alarm::EndSession { round } => self.end_session(world, network, round),
        }
    }

    /// Begins something, and comes back to begin more.
    fn begin(&mut self, world: &mut World, network: &mut Network) {
        if world.healing {
            return;
        }
        let pause_us = world.pace * world.random.between(5_000, 700_000);
        let silence_us = world.silence_us();
        let next_us = pause_us.max(world.lull_until_us.saturating_sub(world.now_us)).max(silence_us);
        self.wake_after(world, next_us, Alarm::Begin);
        if world.now_us < world.lull_until_us || silence_us > 0 {
            return;
        }
        if world.unlucky_with_files(150) {
            self.turns_to_files(world, network);
        }
        match world.random.below(100) {
            0..=1 => self.break_something(world, network),
            3..=9 => self.look(world, network),
            10..=19 if self.session.is_none() => self.open_session(world, network),
            _ if self.tasks.len() < 6 => self.begin_task(world, network),
            _ => {}
        }
    }

    fn break_something(&mut self, world: &mut World, network: &mut Network) {
        let request_id = world.random.chance(500).then(|| self.fresh_id_for_a_break());
        let wish = Break {
            resource: workload::resource(&mut world.random),
            reason: workload::reason(),
            force: world.random.chance(400),
            token: None,
            request_id,
            broken: Default::default(),
        };
        let again = wish.request_id.is_some();
        let command = Command::Break(Box::new(wish));
        let call = self.send(world, network, (0, Purpose::Break), command.clone(), 2_000_000);
        if again {
            self.errands.insert(call, (command, 3));
        }
    }

    /// The ids of breaks belong to nobody, so they carry the client's name.
    fn fresh_id_for_a_break(&mut self) -> RequestId {
        let (number, name) = (self.fresh(), &self.name);
        let Ok(id) = RequestId::parse(&format!("{name}-b{number}")) else {
            unreachable!("a short word is an id")
        };
        id
    }

    fn look(&mut self, world: &mut World, network: &mut Network) {
        let resource = workload::resource(&mut world.random);
        let command = match world.random.below(4) {
            0 => Command::List(List { limit: 100, ..List::default() }),
            1 => Command::ListSessions { limit: 100, cursor: None },
            2 => self.doubtful(world, resource),
            _ => Command::Get { resource },
        };
        self.send(world, network, (0, Purpose::Look), command, 2_000_000);
    }

    /// An answer comes.
    pub fn hear(&mut self, world: &mut World, network: &mut Network, id: CallId, outcome: Outcome) {
        let Some(call) = network.take(id) else { return };
        world.record.heard(id, &outcome, world.now_us);
        world.tell(&self.name, || format!("call {id} is answered: {}", describe_outcome(&outcome)));
        let sent_us = call.sent_local_us;
        self.takes_note(&call, &outcome);
        match call.purpose {
            Purpose::Acquire => self.acquire_answered(world, network, call.task, (id, sent_us), outcome),
            Purpose::Renew => self.renew_answered(world, network, call.task, sent_us, outcome),
            Purpose::Release | Purpose::Cancel => self.end_answered(world, call.task, outcome),
            Purpose::Open => self.open_answered(world, network, sent_us, outcome),
            Purpose::KeepAlive => self.heartbeat_answered(world, network, sent_us, outcome),
            Purpose::Close => self.session = None,
            Purpose::Break => {
                let forced =
                    matches!(&self.errands.remove(&id), Some((Command::Break(wish), _)) if wish.force);
                if forced && outcome.is_ok() {
                    world.count(FaultKind::ForcedBreak);
                }
            }
            Purpose::File => self.file_answered(world, network, id, &outcome),
            Purpose::Look | Purpose::OtherPayload => {}
        }
    }

    /// A number that was answered for good is one whose answer it has.
    fn takes_note(&mut self, call: &Call, outcome: &Outcome) {
        let again =
            matches!(outcome, Err(Refusal::Busy { .. } | Refusal::Unavailable { .. } | Refusal::Cancelled));
        if let (Some(stream), Some((connection, Some(number))), false) =
            (&mut self.stream, call.on_stream, again)
        {
            stream.answered(number, connection);
        }
    }

    /// No answer comes, or the connection is gone.
    pub fn no_answer(&mut self, world: &mut World, network: &mut Network, id: CallId, hang_up: bool) {
        let Some(call) = network.peek(id) else { return };
        let mut failed = vec![id];
        let mut closes = hang_up;
        if let (Some((connection, _)), Some(stream)) = (call.on_stream, &mut self.stream)
            && connection == stream.connection
        {
            // It takes the stream for dead, with all that is on it; or only asks again on it, and nobody sees a close.
            if !hang_up || world.healing || world.more_random.chance(400) {
                stream.connection += 1;
                failed = network.on_connection(self.number, connection);
                world.count(FaultKind::Reconnect);
            } else {
                closes = false;
            }
        }
        for id in failed {
            let Some(call) = network.peek(id) else { continue };
            if closes {
                network.close(world, id);
            } else {
                network.take(id);
            }
            world.tell(&self.name, || {
                format!("call {id} {}", if hang_up { "is given up" } else { "lost its connection" })
            });
            self.failed(world, network, id, &call);
        }
    }

    /// A call is over without an answer.
    fn failed(&mut self, world: &mut World, network: &mut Network, id: CallId, call: &Call) {
        match call.purpose {
            Purpose::Acquire => self.acquire_failed(world, network, call.task, id),
            Purpose::Release | Purpose::Cancel => self.end_failed(world, call.task),
            Purpose::Open => self.open_failed(world, network),
            Purpose::Close => self.close_failed(world, network),
            Purpose::Break => {
                if let Some((command, tries)) = self.errands.remove(&id)
                    && tries > 0
                {
                    let again = self.send(world, network, (0, Purpose::Break), command.clone(), 2_000_000);
                    self.errands.insert(again, (command, tries - 1));
                }
            }
            Purpose::File => self.file_failed(world, network, id),
            // Renewals and heartbeats are repeated by their own alarms.
            Purpose::Renew | Purpose::KeepAlive | Purpose::Look | Purpose::OtherPayload => {}
        }
    }

    /// The faults have stopped: bring everything to an end.
    pub fn heal(&mut self, world: &mut World) {
        self.paused_until_us = 0;
        for task in self.tasks.keys() {
            let soon_us = world.random.between(100_000, 3_000_000);
            self.wake_after(world, soon_us, Alarm::HoldOver { task: *task });
        }
        if let Some(session) = &self.session {
            self.wake_after(world, 5_000_000, Alarm::EndSession { round: session.number });
        }
    }

    /// How much it has not brought to an end.
    pub fn unfinished(&self) -> usize {
        self.tasks.len() + usize::from(self.session.is_some())
    }
}

/// The request id of what can be asked on a stream.
fn request_id(command: &Command) -> Option<&RequestId> {
    match command {
        Command::Acquire(ask) => ask.request_id.as_ref(),
        Command::OpenSession { request_id, .. } => request_id.as_ref(),
        _ => None,
    }
}

fn describe(command: &Command) -> String {
    let id = |id: &Option<RequestId>| id.as_ref().map_or(String::new(), |id| format!(" id={}", id.text()));
    match command {
        Command::Acquire(ask) => format!(
            "acquire {} {} wait={}ms{}{}{}",
            ask.resource,
            ask.mode.text(),
            ask.wait.ms(),
            ask.ttl.map_or(String::new(), |ttl| format!(" ttl={}ms", ttl.ms())),
            if ask.session.is_some() { " under its session" } else { "" },
            id(&ask.request_id)
        ),
        Command::Renew(renew) => format!(
            "renew {} token={}{}",
            renew.proof.resource,
            renew.proof.token,
            renew.ttl.map_or(String::new(), |ttl| format!(" ttl={}ms", ttl.ms()))
        ),
        Command::Release(proof) => format!("release {} token={}", proof.resource, proof.token),
        Command::Cancel { resource, request_id, .. } => format!("cancel {resource} id={}", request_id.text()),
        Command::CancelNumber { number, .. } => format!("cancel number {number}"),
        Command::ListFiles { prefix, .. } => format!("list files from {prefix:?}"),
        Command::Break(wish) => format!(
            "break {}{}{}",
            wish.resource,
            if wish.force { " by force" } else { "" },
            id(&wish.request_id)
        ),
        Command::OpenSession { ttl, request_id, .. } => {
            format!("open session ttl={}ms{}", ttl.ms(), id(request_id))
        }
        Command::KeepAlive { seen, .. } => {
            format!("keep session alive{}", seen.map_or(String::new(), |seen| format!(" seen={seen}")))
        }
        Command::CloseSession { .. } => "close session".into(),
        Command::WriteFile(write) => format!(
            "write {} to {} at {:?} under {} token={}{}",
            write.bytes.len(),
            write.name,
            write.offset,
            write.proof.resource,
            write.proof.token,
            id(&write.request_id)
        ),
        Command::DeleteFile { name, proof, request_id } => {
            format!("delete {name} under {} token={}{}", proof.resource, proof.token, id(request_id))
        }
        Command::StatFile { name } => format!("look at file {name}"),
        Command::Verify { resource, token } => format!("verify {resource} token={token}"),
        Command::Get { resource } => format!("get {resource}"),
        Command::List(_) => "list".into(),
        Command::ListSessions { .. } => "list sessions".into(),
        _ => "something no client asks".into(),
    }
}

fn describe_outcome(outcome: &Outcome) -> String {
    use leasehold_state_machine::answer::{Answer, Refusal};
    match outcome {
        Ok(Answer::Lease(lease)) => format!(
            "lease {} token={} expires_in={}ms stop_after={}ms",
            lease.resource, lease.token, lease.expires_in_ms, lease.stop_after_ms
        ),
        Ok(Answer::Released { .. }) => "released".into(),
        Ok(Answer::Cancelled(found)) => format!("cancelled, found {}", found.text()),
        Ok(Answer::Session(session)) => format!(
            "session expires_in={}ms stop_after={}ms ended={:?}",
            session.expires_in_ms,
            session.stop_after_ms,
            session.ended.iter().map(|ended| ended.token).collect::<Vec<_>>()
        ),
        Ok(Answer::Broke { tokens, free_in_ms }) => format!("broke {tokens:?}, free in {free_in_ms}ms"),
        Ok(Answer::Closed) => "closed".into(),
        Ok(Answer::Wrote(written)) => format!("wrote at {}, size {}", written.offset, written.size),
        Ok(Answer::Deleted) => "deleted".into(),
        Ok(Answer::File(view)) => format!("file {} size {} token={}", view.number, view.size, view.token),
        Ok(_) => "a look".into(),
        Err(Refusal::Held(held)) => format!("held by {}, {} in line", held.holders.len(), held.waiters.len()),
        Err(refusal) => format!("refused: {refusal:?}"),
    }
}
