//! Calls between clients and the server: each attempt is a call on a connection of its own, or on its client's stream, where
//! requests keep their order and nothing comes after what is lost. Loses, delays, reorders and doubles them, is cut one way or both, and lets the server notice late, or never, that a connection has closed. Never looks into what is said.

use std::collections::BTreeMap;

use leasehold_state_machine::answer::Outcome;
use leasehold_state_machine::command::Command;

use crate::faults::FaultKind;
use crate::stream::Mark;
use crate::world::{Happening, World};

/// One attempt of one call.
pub type CallId = u64;

/// What a client wants to know when an answer comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Acquire for a task.
    Acquire,
    /// Renew a task's lease.
    Renew,
    /// Release a task's lease.
    Release,
    /// Cancel a task's request.
    Cancel,
    /// The same request id with something else.
    OtherPayload,
    /// Open the session.
    Open,
    /// Keep the session alive.
    KeepAlive,
    /// Close the session.
    Close,
    /// Break somebody's lease.
    Break,
    /// Look at a file, or change it.
    File,
    /// Look.
    Look,
}

/// A call that is under way.
#[derive(Clone, Debug)]
pub struct Call {
    /// Who asked.
    pub client: usize,
    /// For which of its tasks.
    pub task: u64,
    /// Why.
    pub purpose: Purpose,
    /// When it was sent, on the caller's clock.
    pub sent_local_us: u64,
    /// The connection it went by, and its number there, if the caller has a stream.
    pub on_stream: Option<(u64, Option<u64>)>,
    /// When the request reaches the server, if it does.
    arrives_us: Option<u64>,
}

/// A way that messages go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Requests and closes.
    ToServer,
    /// Replies and resets.
    FromServer,
}

/// Between the server and a client, or all of them, nothing gets through one way or both.
#[derive(Clone, Copy, Debug)]
pub struct Partition {
    /// Whom it cuts off; none: everybody.
    pub client: Option<usize>,
    /// Whether requests do not get through.
    pub to_server: bool,
    /// Whether replies do not.
    pub from_server: bool,
    /// When it is over.
    pub until_us: u64,
}

impl Partition {
    /// Nobody reaches the server, and the server nobody.
    pub fn of_all(until_us: u64) -> Partition {
        Partition { client: None, to_server: true, from_server: true, until_us }
    }
}

impl World {
    /// Cuts the network.
    pub fn cut_off(&mut self, partition: Partition) {
        let now_us = self.now_us;
        self.tell("network", || format!("is cut: {partition:?}"));
        self.partitions.retain(|before| before.until_us > now_us);
        self.partitions.push(partition);
    }

    /// Whether nothing gets through to or from a client now.
    pub fn is_cut_off(&self, client: usize, way: Way) -> bool {
        self.partitions.iter().any(|cut| {
            let this_way = match way {
                Way::ToServer => cut.to_server,
                Way::FromServer => cut.from_server,
            };
            this_way && cut.until_us > self.now_us && cut.client.is_none_or(|one| one == client)
        })
    }
}

/// All calls under way.
#[derive(Debug, Default)]
pub struct Network {
    calls: BTreeMap<CallId, Call>,
    last: CallId,
    /// When the last request came through on a stream's connection; none once one was lost on it, and all after it.
    streams: BTreeMap<(usize, u64), Option<u64>>,
}

impl Network {
    /// Sends a request on a new connection.
    pub fn send(
        &mut self,
        world: &mut World,
        mut call: Call,
        command: Command,
        mark: Option<Box<Mark>>,
    ) -> CallId {
        self.last += 1;
        let id = self.last;
        world.record.sent(id, call.client, &command, world.now_us);
        let mut way_us = way_us(world);
        let from = call.client;
        let stream = call.on_stream.map(|(connection, _)| (call.client, connection));
        if stream.is_some_and(|stream| self.streams.get(&stream) == Some(&None)) {
            self.calls.insert(id, call);
            return id;
        }
        let cut_off = world.is_cut_off(call.client, Way::ToServer);
        if cut_off || world.unlucky(world.weather.lost_request) {
            world.count(if cut_off { FaultKind::CutOffRequest } else { FaultKind::LostRequest });
            world.tell("network", || format!("loses the request of call {id}"));
            if let Some(stream) = stream {
                self.streams.insert(stream, None);
            }
            self.calls.insert(id, call);
            return id;
        }
        if world.unlucky(world.weather.delayed) {
            world.count(FaultKind::DelayedRequest);
            way_us += world.random.between(200_000, 20_000_000);
            world.tell("network", || format!("delays call {id} by {way_us} us"));
        }
        if world.unlucky(world.weather.duplicated) {
            world.count(FaultKind::DuplicatedRequest);
            let mut copy_us = way_us + world.random.between(1, 10_000_000);
            if world.more_random.chance(200) {
                // Stuck in a proxy until its answer has long been taken in.
                copy_us += world.more_random.between(10_000_000, 90_000_000);
            }
            world.tell("network", || format!("repeats call {id} after {copy_us} us"));
            world.after(
                copy_us,
                Happening::RequestArrives {
                    call: None,
                    from,
                    command: command.clone(),
                    mark: mark.clone(),
                    since_us: None,
                },
            );
        }
        let mut arrives_us = world.now_us + way_us;
        if let Some(stream) = stream {
            let last_us = self.streams.entry(stream).or_insert(Some(0));
            arrives_us = arrives_us.max(last_us.unwrap_or(0) + 1);
            *last_us = Some(arrives_us);
        }
        call.arrives_us = Some(arrives_us);
        self.calls.insert(id, call);
        world.at(
            arrives_us,
            Happening::RequestArrives { call: Some(id), from, command, mark, since_us: None },
        );
        id
    }

    /// The caller hangs up.
    pub fn close(&mut self, world: &mut World, id: CallId) {
        let Some(call) = self.calls.remove(&id) else { return };
        // What never arrived leaves no connection behind.
        let Some(arrives_us) = call.arrives_us else { return };
        let mut way_us = way_us(world);
        if world.is_cut_off(call.client, Way::ToServer) || world.unlucky(world.weather.lost_close) {
            world.count(FaultKind::LostClose);
            return;
        }
        if world.unlucky(world.weather.late_close) {
            world.count(FaultKind::LateClose);
            way_us += world.random.between(100_000, 8_000_000);
        }
        let at_us = (world.now_us + way_us).max(arrives_us + 1);
        world.at(at_us, Happening::CloseArrives(id));
    }

    /// The server answers.
    pub fn reply(world: &mut World, id: CallId, outcome: Outcome) {
        if world.unlucky(world.weather.lost_reply) {
            world.count(FaultKind::LostReply);
            world.tell("network", || format!("loses the reply to call {id}"));
            return;
        }
        let mut way_us = way_us(world);
        if world.unlucky(world.weather.delayed_reply) {
            world.count(FaultKind::DelayedReply);
            way_us += world.random.between(20_000, 20_000_000);
            world.tell("network", || format!("delays the reply to call {id} by {way_us} us"));
        }
        world.after(way_us, Happening::ReplyArrives(id, Box::new(outcome)));
    }

    /// The server's end of a connection has gone.
    pub fn reset(world: &mut World, id: CallId) {
        let way_us = way_us(world);
        world.after(way_us, Happening::ResetArrives(id));
    }

    /// Takes the call that an answer or a reset belongs to; none if the caller has hung up.
    pub fn take(&mut self, id: CallId) -> Option<Call> {
        self.calls.remove(&id)
    }

    /// The calls under way on a stream's connection.
    pub fn on_connection(&self, client: usize, connection: u64) -> Vec<CallId> {
        let on_it = |call: &Call| {
            call.client == client && call.on_stream.is_some_and(|(other, _)| other == connection)
        };
        self.calls.iter().filter(|(_, call)| on_it(call)).map(|(id, _)| *id).collect()
    }

    /// A call under way.
    pub fn peek(&self, id: CallId) -> Option<Call> {
        self.calls.get(&id).cloned()
    }
}

impl Call {
    /// A call about to be sent.
    pub fn new(client: usize, task: u64, purpose: Purpose, sent_local_us: u64) -> Call {
        Call { client, task, purpose, sent_local_us, on_stream: None, arrives_us: None }
    }
}

/// How long one way takes on a good day, now and then on a busy one.
fn way_us(world: &mut World) -> u64 {
    let busy = world.random.chance(20);
    if busy { world.random.between(5_000, 150_000) } else { world.random.between(100, 3_000) }
}
