//! The server's door: requests and closes come in, answers go out. Does what the real one does with a connection that
//! closes, and tells the invariants what it saw.

use leasehold_engine::{Op, Permit};
use leasehold_state_machine::answer::{Answer, Outcome, Refusal};
use leasehold_state_machine::command::{Attachment, Command, Request};
use leasehold_state_machine::ids::Secret;

use super::{Node, ServerCall};
use crate::faults::FaultKind;
use crate::ledger::{self, Attempt};
use crate::network::{CallId, Network};
use crate::stream::Mark;
use crate::world::{Happening, World};

/// Whether a request changes what is journaled, if it is carried out.
fn changes(command: &Command) -> bool {
    matches!(
        command,
        Command::Acquire(_)
            | Command::Release(_)
            | Command::CancelNumber { .. }
            | Command::OpenSession { .. }
            | Command::CloseSession { .. }
    )
}

const NO_ROOM: Refusal = Refusal::Unavailable { why: "the disk is nearly full", retry_ms: 1000 };

/// A request as it comes in.
pub struct Asked {
    /// Whose request it is.
    pub from: usize,
    /// What is asked.
    pub command: Command,
    /// Which answers its client has, if it comes on a stream.
    pub mark: Option<Box<Mark>>,
    /// Since when it has lain in the socket of a process that stood still.
    pub since_us: Option<u64>,
}

impl Node {
    /// A request reaches the socket.
    pub fn request(&mut self, world: &mut World, call: Option<CallId>, asked: Asked) {
        let now_us = world.now_us;
        let since_us = asked.since_us.unwrap_or(now_us);
        // The worst moment for a stop: what is renewed has little more time than the server can tell a stop from a turn.
        let left_us = world.watch.promised_to_us(&asked.command).saturating_sub(now_us);
        if let Some(for_us) = self.stop_at_renewal_us.filter(|_| (220_000..440_000).contains(&left_us))
            && self.stop(world, for_us)
        {
            self.stop_at_renewal_us = None;
            world.count(FaultKind::StopAtRenewal);
        }
        match &mut self.process {
            None => {
                if let Some(call) = call {
                    Network::reset(world, call);
                }
            }
            Some(process) if process.stopped_until_us > now_us => {
                let Asked { from, command, mark, .. } = asked;
                let since_us = Some(since_us);
                process.socket.push(Happening::RequestArrives { call, from, command, mark, since_us });
            }
            Some(_) => self.accept(world, call, asked),
        }
    }

    pub(super) fn accept(
        &mut self,
        world: &mut World,
        call: Option<CallId>,
        Asked { command, mark, since_us, .. }: Asked,
    ) {
        let socket_us = since_us.unwrap_or(world.now_us);
        let arrived_raw_us = self.reading(world.now_us).raw_us;
        let life = self.life;
        self.requests += 1;
        world.tally.operations += 1;
        let secret = Secret([world.random.number(), self.requests]);
        let permit = match self.admit(world, &command) {
            Ok(permit) => permit,
            Err(refusal) => {
                if let Some(call) = call {
                    Network::reply(world, call, Err(refusal));
                }
                return;
            }
        };
        let Some(process) = &mut self.process else { return };
        if let Some(mark) = mark.filter(|_| changes(&command)) {
            // What the real stream does: marks ride before what changes something.
            process.next_attachment += 1;
            let Mark { client, answered_through, open } = *mark;
            process.arrivals.push(Request {
                attachment: Attachment(process.next_attachment),
                arrived_raw_us,
                secret: Secret([0, 0]),
                command: Command::Mark { client, answered_through, open },
            });
        }
        if world.watch.is_late(&command) {
            world.count(FaultKind::LateNumber);
        }
        process.next_attachment += 1;
        let attachment = process.next_attachment;
        let origin = ledger::origin(&command);
        let is_acquire = matches!(command, Command::Acquire(_));
        let attempt = Attempt {
            socket_us,
            arrived_us: world.now_us,
            turned_us: None,
            certain: true,
            closed_us: None,
            secret,
            command: command.clone(),
            origin,
        };
        world.watch.ledger.accepted((life, attachment), attempt);
        if let Command::WriteFile(write) = &command
            && world.watch.control_is_overwritten(write)
        {
            world.count(FaultKind::StaleWrite);
        }
        let purpose = Op::of(&command).purpose();
        process.calls.insert(
            attachment,
            ServerCall { call, is_acquire, closed: false, purpose, permit: Some(permit) },
        );
        match call {
            Some(call) => {
                process.by_call.insert(call, attachment);
            }
            None => {
                // Whoever replayed the request hangs up after a while.
                let after_us = world.random.between(1_000, 3_000_000);
                world.after(after_us, Happening::StrayCloses { life, attachment });
            }
        }
        process.arrivals.push(Request {
            attachment: Attachment(attachment),
            arrived_raw_us,
            secret,
            command,
        });
        let soon_us = world.random.between(10, 300);
        self.turn_at(world, world.now_us + soon_us);
    }

    /// Lets a request in, as the real door does, if there is room for it.
    fn admit(&mut self, world: &mut World, command: &Command) -> Result<Permit, Refusal> {
        self.look_at_room(world);
        let limits = self.plan.admission;
        let Some(process) = &self.process else { return Err(NO_ROOM) };
        let op = Op::of(command);
        if op.needs_room() && process.short_of_room {
            world.count(FaultKind::ShortOfRoom);
            return Err(NO_ROOM);
        }
        let admitted = process.admission.admit(command, self.requests);
        let purpose = op.purpose();
        let inside =
            process.calls.values().filter(|call| call.purpose == purpose && call.permit.is_some()).count();
        let verdict = world.watch.let_in(purpose, inside, &limits, admitted.as_ref().err());
        world.check(verdict);
        admitted.inspect_err(|_| world.count(FaultKind::LaneFull))
    }

    /// The server notices that a caller has hung up.
    pub fn hang_up(&mut self, world: &mut World, call: CallId) {
        let Some(process) = &mut self.process else { return };
        if process.stopped_until_us > world.now_us {
            process.socket.push(Happening::CloseArrives(call));
        } else if let Some(attachment) = process.by_call.get(&call) {
            let (life, attachment) = (self.life, *attachment);
            self.closed(world, life, attachment);
        }
    }

    /// A connection has closed.
    pub fn closed(&mut self, world: &mut World, life: u64, attachment: u64) {
        let raw_us = self.reading(world.now_us).raw_us;
        if life != self.life {
            return;
        }
        let Some(process) = &mut self.process else { return };
        let Some(call) = process.calls.get_mut(&attachment) else { return };
        call.closed = true;
        if !call.is_acquire {
            return;
        }
        world.watch.ledger.closed((life, attachment), world.now_us);
        let attempt = world.watch.ledger.attempt((life, attachment));
        let origin = attempt.and_then(|attempt| attempt.origin.clone());
        let newer = origin.and_then(|origin| {
            let is_newer = |number: &u64| {
                let attempt = world.watch.ledger.attempt((life, *number));
                *number > attachment
                    && attempt.is_some_and(|attempt| attempt.origin.as_ref() == Some(&origin))
            };
            process
                .calls
                .iter()
                .filter(|(_, call)| call.is_acquire && !call.closed)
                .map(|(n, _)| *n)
                .find(is_newer)
        });
        if newer.is_some() {
            world.count(FaultKind::OvertakenClose);
        }
        world.tell("server", || format!("notices that attempt {attachment} has gone"));
        process.next_attachment += 1;
        let own = process.next_attachment;
        let command = Command::Detach { gone: Attachment(attachment) };
        let secret = Secret([0, 0]);
        process.arrivals.push(Request {
            attachment: Attachment(own),
            arrived_raw_us: raw_us,
            secret,
            command,
        });
        self.turn_at(world, world.now_us + 50);
    }

    /// These attempts stand in line: whoever is in line is no longer at the door.
    pub(super) fn stand_in_line(&mut self, attachments: &[Attachment]) {
        let Some(process) = &mut self.process else { return };
        for attachment in attachments {
            if let Some(call) = process.calls.get_mut(&attachment.0) {
                call.permit = None;
            }
        }
    }

    /// These attempts will never be answered.
    pub(super) fn dismiss(&mut self, attachments: &[Attachment]) {
        let Some(process) = &mut self.process else { return };
        for attachment in attachments {
            if let Some(id) = process.calls.remove(&attachment.0).and_then(|call| call.call) {
                process.by_call.remove(&id);
            }
        }
    }

    /// An answer goes out, or is found to have nobody to go to.
    pub(super) fn answer(&mut self, world: &mut World, attachment: u64, outcome: Outcome) {
        let raw_us = self.reading(world.now_us).raw_us;
        let Some(process) = &mut self.process else { return };
        let Some(call) = process.calls.remove(&attachment) else { return };
        if let Some(id) = call.call {
            process.by_call.remove(&id);
        }
        if call.closed {
            if let Ok(Answer::Lease(view)) = &outcome
                && call.is_acquire
                && !view.repeatable
            {
                let command = Command::Abandon { lease: view.lease };
                let (attachment, secret) = (Attachment(attachment), Secret([0, 0]));
                process.arrivals.push(Request { attachment, arrived_raw_us: raw_us, secret, command });
                self.turn_at(world, world.now_us + 50);
            }
        } else if let Some(id) = call.call {
            Network::reply(world, id, outcome);
        }
    }
}
