//! How a client keeps a task's lease: by the SDK's own keeper, asked with the client's drifting clock. It says when to renew
//! and to repeat, what must be confirmed first, and when the lease is lost. What it is told of a lease goes to the
//! invariants too, before the client acts on it.

use leasehold_client::keeper::{Confirmation, Confirmed, Step};
use leasehold_planted::{Bug, planted};
use leasehold_state_machine::answer::{Answer, LeaseView, Outcome, Refusal, SessionView};
use leasehold_state_machine::command::{Command, Renew};
use leasehold_state_machine::ids::SessionId;

use crate::client::{Alarm, Client};
use crate::invariants;
use crate::network::{Network, Purpose};
use crate::task::Phase;
use crate::workload;
use crate::world::World;

/// What an answer of the server says about time, in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    ttl_us: u64,
    renew_after_us: u64,
    stop_after_us: u64,
}

impl From<&LeaseView> for Terms {
    fn from(view: &LeaseView) -> Terms {
        Terms {
            ttl_us: view.ttl.us(),
            renew_after_us: view.renew_after_ms * 1000,
            stop_after_us: view.stop_after_ms * 1000,
        }
    }
}

impl From<&SessionView> for Terms {
    fn from(view: &SessionView) -> Terms {
        Terms {
            ttl_us: view.ttl.us(),
            renew_after_us: view.renew_after_ms * 1000,
            stop_after_us: view.stop_after_ms * 1000,
        }
    }
}

impl Terms {
    /// As the keeper of whatever they are about takes them in.
    pub fn confirmation(self, sent_us: u64, heard_us: u64) -> Confirmation {
        let Terms { ttl_us, renew_after_us, stop_after_us } = self;
        Confirmation { sent_us, heard_us, ttl_us, renew_after_us, stop_after_us }
    }
}

impl Client {
    /// An answer confirms a task's lease; sees to what comes next.
    pub fn confirmed(
        &mut self,
        world: &mut World,
        network: &mut Network,
        number: u64,
        sent_us: u64,
        terms: Terms,
    ) {
        self.believe(world, number, sent_us, terms);
        self.tend(world, network, number);
    }

    /// Takes in what an answer confirms, and lets the invariants know.
    pub fn believe(&mut self, world: &mut World, number: u64, sent_us: u64, terms: Terms) {
        let heard_us = self.local_us(world);
        let Some(task) = self.tasks.get_mut(&number).filter(|task| task.phase == Phase::Holding) else {
            return;
        };
        let Some(lease) = &mut task.lease else { return };
        let mut answer = terms.confirmation(sent_us, heard_us);
        if planted(Bug::ClientCountsFromRetry) {
            answer.sent_us = task.sent_us.max(sent_us);
        }
        let confirmed = task.keeper.confirm(answer);
        lease.ttl_us = task.keeper.ttl_us();
        let stopping_us = lease.ttl_us * 35 / 100;
        let holder = invariants::Holder {
            token: lease.token,
            resource: task.wish.resource.clone(),
            mode: task.wish.mode,
            stopping_us,
            keeper: task.keeper.clone(),
            clock: self.clock,
        };
        let verdict = world.watch.keeps(world.now_us, holder);
        world.check(verdict);
        if let Confirmed::Until(until_us) = confirmed {
            let belief = invariants::Belief {
                token: lease.token,
                resource: task.wish.resource.clone(),
                mode: task.wish.mode,
                until_us: self.clock.real_us(until_us),
                stopping_us,
            };
            let verdict = world.watch.believes(world.now_us, belief);
            world.check(verdict);
        }
    }

    /// Does what the keeper of a task's lease says, and comes back when it has more to say.
    pub fn tend(&mut self, world: &mut World, network: &mut Network, number: u64) {
        let now_us = self.local_us(world);
        let Some(task) = self.tasks.get_mut(&number).filter(|task| task.phase == Phase::Holding) else {
            return;
        };
        if task.keeper.step(now_us) == Step::Renew {
            task.keeper.renewal_sent(now_us);
            self.renew(world, network, number);
        }
        let Some(task) = self.tasks.get_mut(&number) else { return };
        match task.keeper.step(now_us) {
            Step::Renew => unreachable!("a renewal that was sent is not repeated at once"),
            Step::WaitUntil(at_us) => {
                task.round += 1;
                let alarm = Alarm::Tend { task: number, round: task.round };
                self.wake_after(world, at_us - now_us, alarm);
            }
            Step::Lost => {
                // The holder has stopped, and the client gives back what may be left.
                world.tell(&self.name, || format!("has lost the lease of its task {number}"));
                self.give_back(world, network, number);
            }
        }
    }

    /// An alarm set by [`Client::tend`].
    pub fn tend_again(&mut self, world: &mut World, network: &mut Network, number: u64, round: u64) {
        if self.tasks.get(&number).is_some_and(|task| task.round == round) {
            self.tend(world, network, number);
        }
    }

    fn renew(&mut self, world: &mut World, network: &mut Network, number: u64) {
        let sent_us = self.local_us(world);
        let Some(task) = self.tasks.get_mut(&number) else { return };
        let Some(lease) = task.lease else { return };
        task.sent_us = sent_us;
        let under_session = task.session.is_some();
        let mut renew = Renew { proof: self.proof(number, lease), ttl: None, metadata: None };
        if !under_session && world.random.chance(120) {
            renew.ttl = Some(workload::ttl(world));
        }
        if world.random.chance(40) {
            renew.metadata = Some(workload::metadata(&mut world.random));
        }
        let command = if !under_session && number.is_multiple_of(4) {
            // A lease's own session can be kept alive like any other.
            Command::KeepAlive { session: SessionId::Own(lease.id), seen: None }
        } else {
            Command::Renew(renew)
        };
        self.send(world, network, (number, Purpose::Renew), command, lease.ttl_us.max(500_000));
    }

    /// An answer to a renewal.
    pub fn renew_answered(
        &mut self,
        world: &mut World,
        network: &mut Network,
        number: u64,
        sent_us: u64,
        outcome: Outcome,
    ) {
        if self.tasks.get(&number).is_none_or(|task| task.phase != Phase::Holding) {
            return;
        }
        match outcome {
            Ok(Answer::Lease(view)) => {
                self.confirmed(world, network, number, sent_us, Terms::from(&*view));
            }
            Ok(Answer::Session(view)) => {
                self.confirmed(world, network, number, sent_us, Terms::from(&*view));
            }
            Err(Refusal::Busy { .. } | Refusal::Unavailable { .. }) => {}
            _ => self.forget_task(world, number),
        }
    }
}
