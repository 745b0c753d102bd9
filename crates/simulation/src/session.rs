//! What a client does for its session: open it, keep it alive with one heartbeat for all its leases, take in which of
//! them ended, close it.

use std::collections::BTreeSet;

use leasehold_client::keeper::{Keeper, Renewal, Step};
use leasehold_state_machine::answer::{Answer, Outcome, Refusal};
use leasehold_state_machine::command::Command;
use leasehold_state_machine::ids::SessionId;
use leasehold_state_machine::words::{Metadata, RequestId, Ttl};

use crate::client::{Alarm, Client};
use crate::keeping::Terms;
use crate::network::{Network, Purpose};
use crate::workload;
use crate::world::World;

/// A client's session.
#[derive(Debug)]
pub struct Session {
    /// Its number among all that the client does; alarms of an older one are void.
    pub number: u64,
    ttl: Ttl,
    request_id: RequestId,
    id: Option<SessionId>,
    keeper: Keeper,
    seen: Option<u64>,
    /// Tokens it was told have ended. An answer that was under way meanwhile may still grant one of them, and after
    /// `seen` no heartbeat names it again.
    ended: BTreeSet<u64>,
    round: u64,
    tries: u64,
    closing: bool,
}

impl Client {
    /// The session to ask under, if there is one.
    pub fn session_id(&self) -> Option<SessionId> {
        self.session.as_ref().filter(|session| !session.closing)?.id
    }

    /// Whether the session was told that this lease has ended.
    pub fn has_ended(&self, token: u64) -> bool {
        self.session.as_ref().is_some_and(|session| session.ended.contains(&token))
    }

    /// Opens a session.
    pub fn open_session(&mut self, world: &mut World, network: &mut Network) {
        let (number, request_id) = (self.fresh(), self.fresh_id());
        self.session = Some(Session {
            number,
            ttl: workload::ttl(world),
            request_id,
            id: None,
            keeper: Keeper::new(Renewal::Timetable),
            seen: None,
            ended: BTreeSet::new(),
            round: 0,
            tries: 0,
            closing: false,
        });
        self.ask_to_open(world, network);
    }

    fn ask_to_open(&mut self, world: &mut World, network: &mut Network) {
        let Some(session) = &mut self.session else { return };
        session.tries += 1;
        let command = Command::OpenSession {
            owner: self.owner.clone(),
            ttl: session.ttl,
            request_id: Some(session.request_id.clone()),
            metadata: Metadata::default(),
        };
        self.send(world, network, (0, Purpose::Open), command, 1_000_000);
    }

    /// The opening had no answer.
    pub fn open_failed(&mut self, world: &mut World, network: &mut Network) {
        if self.session.as_ref().is_some_and(|session| session.id.is_none() && session.tries < 6) {
            self.ask_to_open(world, network);
        } else if self.session.as_ref().is_some_and(|session| session.id.is_none()) {
            self.session = None;
        }
    }

    /// An answer to the opening.
    pub fn open_answered(
        &mut self,
        world: &mut World,
        network: &mut Network,
        sent_us: u64,
        outcome: Outcome,
    ) {
        let Some(session) = self.session.as_mut().filter(|session| session.id.is_none()) else { return };
        match outcome {
            Ok(Answer::Session(view)) => {
                session.id = Some(view.session);
                session.tries = 0;
                let number = session.number;
                let last_us =
                    if world.healing { 1_000_000 } else { world.random.between(500_000, 40_000_000) };
                let last_us = workload::lasting_us(world, last_us);
                self.wake_after(world, last_us, Alarm::EndSession { round: number });
                self.heard_from(world, network, sent_us, Terms::from(&*view));
            }
            _ => self.session = None,
        }
    }

    /// An answer confirms the session.
    fn heard_from(&mut self, world: &mut World, network: &mut Network, sent_us: u64, terms: Terms) {
        let heard_us = self.local_us(world);
        let Some(session) = &mut self.session else { return };
        session.keeper.confirm(terms.confirmation(sent_us, heard_us));
        self.tend_session(world, network);
    }

    /// Does what the session's keeper says, and comes back when it has more to say.
    fn tend_session(&mut self, world: &mut World, network: &mut Network) {
        let now_us = self.local_us(world);
        let Some(session) = self.session.as_mut().filter(|session| !session.closing) else { return };
        if session.keeper.step(now_us) == Step::Renew {
            session.keeper.renewal_sent(now_us);
            self.beat(world, network);
        }
        let Some(session) = &mut self.session else { return };
        match session.keeper.step(now_us) {
            Step::Renew => unreachable!("a heartbeat that was sent is not repeated at once"),
            Step::WaitUntil(at_us) => {
                session.round += 1;
                let alarm = Alarm::Heartbeat { round: session.round };
                self.wake_after(world, at_us - now_us, alarm);
            }
            Step::Lost => {
                world.tell(&self.name, || "has lost its session".into());
                self.close(world, network);
            }
        }
    }

    /// An alarm set for the session's keeper.
    pub fn heartbeat(&mut self, world: &mut World, network: &mut Network, round: u64) {
        if self.session.as_ref().is_some_and(|session| session.round == round && session.id.is_some()) {
            self.tend_session(world, network);
        }
    }

    fn beat(&mut self, world: &mut World, network: &mut Network) {
        let Some(session) = &self.session else { return };
        let Some(id) = session.id else { return };
        let command = Command::KeepAlive { session: id, seen: session.seen };
        let patience_us = session.ttl.us().max(500_000);
        self.send(world, network, (0, Purpose::KeepAlive), command, patience_us);
    }

    /// An answer to a heartbeat: it confirms every lease of the session that it does not name as ended.
    pub fn heartbeat_answered(
        &mut self,
        world: &mut World,
        network: &mut Network,
        sent_us: u64,
        outcome: Outcome,
    ) {
        let Some(session) = &mut self.session else { return };
        match outcome {
            Ok(Answer::Session(view)) => {
                if session.id != Some(view.session) || session.closing {
                    return;
                }
                session.ended.extend(view.ended.iter().map(|ended| ended.token));
                session.seen = view.ended.iter().map(|ended| ended.seq).max().or(session.seen);
                let mine: Vec<u64> = self
                    .tasks
                    .iter()
                    .filter(|(_, task)| task.session == Some(view.session))
                    .map(|(n, _)| *n)
                    .collect();
                for number in mine {
                    let Some(token) = self.token_of(number) else { continue };
                    if self.has_ended(token) {
                        self.forget_task(world, number);
                    } else {
                        self.confirmed(world, network, number, sent_us, Terms::from(&*view));
                    }
                }
                self.heard_from(world, network, sent_us, Terms::from(&*view));
            }
            Err(Refusal::Busy { .. } | Refusal::Unavailable { .. }) => {}
            _ => {
                if !session.closing {
                    self.drop_session_tasks(world);
                    self.session = None;
                }
            }
        }
    }

    /// The session has lasted for long enough.
    pub fn end_session(&mut self, world: &mut World, network: &mut Network, number: u64) {
        let Some(session) = self.session.as_ref().filter(|session| session.number == number) else { return };
        if session.closing {
            return;
        }
        if session.id.is_none() {
            if world.healing {
                self.wake_after(world, 1_000_000, Alarm::EndSession { round: number });
            }
            return;
        }
        self.close(world, network);
    }

    /// Stops everything under the session and closes it.
    fn close(&mut self, world: &mut World, network: &mut Network) {
        self.drop_session_tasks(world);
        let Some(session) = &mut self.session else { return };
        let Some(id) = session.id else { return };
        session.closing = true;
        session.tries += 1;
        self.send(world, network, (0, Purpose::Close), Command::CloseSession { session: id }, 1_000_000);
    }

    /// The close had no answer.
    pub fn close_failed(&mut self, world: &mut World, network: &mut Network) {
        let tries =
            self.session.as_ref().filter(|session| session.closing).map_or(0, |session| session.tries);
        if tries > 0 && tries < 8 {
            self.close(world, network);
        } else {
            self.session = None;
        }
    }

    fn drop_session_tasks(&mut self, world: &mut World) {
        let Some(id) = self.session.as_ref().and_then(|session| session.id) else { return };
        let mine: Vec<u64> =
            self.tasks.iter().filter(|(_, task)| task.session == Some(id)).map(|(n, _)| *n).collect();
        for number in mine {
            self.forget_task(world, number);
        }
    }
}
