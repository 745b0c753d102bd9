//! Calls between clients and the server: each attempt is a call on a connection of its own. Loses, delays and doubles
//! them, and lets the server notice late, or never, that a connection has closed. Never looks into what is said.

use std::collections::BTreeMap;

use leasehold_state_machine::answer::Outcome;
use leasehold_state_machine::command::Command;

use crate::faults::FaultKind;
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
    /// When the request reaches the server, if it does.
    arrives_us: Option<u64>,
}

/// All calls under way.
#[derive(Debug, Default)]
pub struct Network {
    calls: BTreeMap<CallId, Call>,
    last: CallId,
}

impl Network {
    /// Sends a request on a new connection.
    pub fn send(&mut self, world: &mut World, mut call: Call, command: Command) -> CallId {
        self.last += 1;
        let id = self.last;
        let mut way_us = way_us(world);
        if world.unlucky(world.weather.lost_request) {
            world.count(FaultKind::LostRequest);
            world.tell("network", || format!("loses the request of call {id}"));
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
            let copy_us = way_us + world.random.between(1, 10_000_000);
            world.tell("network", || format!("repeats call {id} after {copy_us} us"));
            world.after(
                copy_us,
                Happening::RequestArrives { call: None, command: command.clone(), since_us: None },
            );
        }
        call.arrives_us = Some(world.now_us + way_us);
        self.calls.insert(id, call);
        world.after(way_us, Happening::RequestArrives { call: Some(id), command, since_us: None });
        id
    }

    /// The caller hangs up.
    pub fn close(&mut self, world: &mut World, id: CallId) {
        let Some(call) = self.calls.remove(&id) else { return };
        // What never arrived leaves no connection behind.
        let Some(arrives_us) = call.arrives_us else { return };
        let mut way_us = way_us(world);
        if world.unlucky(world.weather.lost_close) {
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

    /// A call under way.
    pub fn peek(&self, id: CallId) -> Option<Call> {
        self.calls.get(&id).cloned()
    }
}

impl Call {
    /// A call about to be sent.
    pub fn new(client: usize, task: u64, purpose: Purpose, sent_local_us: u64) -> Call {
        Call { client, task, purpose, sent_local_us, arrives_us: None }
    }
}

/// How long one way takes on a good day, now and then on a busy one.
fn way_us(world: &mut World) -> u64 {
    let busy = world.random.chance(20);
    if busy { world.random.between(5_000, 150_000) } else { world.random.between(100, 3_000) }
}
