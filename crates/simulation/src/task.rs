//! What a client does for one lock: ask for it, stand in line, come back with the same id, hold, give it back, or vanish.
//! How it keeps it meanwhile is in `keeping.rs`.

use leasehold_client::keeper::{Keeper, Renewal};
use leasehold_state_machine::answer::{Answer, LeaseView, Outcome, Refusal};
use leasehold_state_machine::command::{Acquire, Command, Proof, Renew};
use leasehold_state_machine::ids::{LeaseId, SessionId};
use leasehold_state_machine::resource::Resource;
use leasehold_state_machine::words::{Metadata, RequestId, Wait};

use crate::client::{Alarm, Client};
use crate::faults::FaultKind;
use crate::keeping::Terms;
use crate::network::{CallId, Network, Purpose};
use crate::stream::number_of;
use crate::workload::{self, Wish};
use crate::world::World;
use crate::writing;

/// How often a request is repeated before its client gives up.
const TRIES_MAX: u64 = 6;

/// One lock that a client wants or has.
#[derive(Debug)]
pub struct Task {
    pub(crate) wish: Wish,
    request_id: Option<RequestId>,
    pub(crate) session: Option<SessionId>,
    pub(crate) phase: Phase,
    tries: u64,
    /// Counts the alarms; an older one is void.
    pub(crate) round: u64,
    /// The first and the newest attempt of its request.
    attempts: Option<(CallId, CallId)>,
    /// When something was last sent for it.
    pub(crate) sent_us: u64,
    pub(crate) lease: Option<Held>,
    pub(crate) keeper: Keeper,
}

/// How far a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Asks, or stands in line.
    Asking,
    /// Has it, and renews.
    Holding,
    /// Gives it back.
    Ending,
}

/// A lease that a client was told of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) id: LeaseId,
    pub(crate) token: u64,
    pub(crate) ttl_us: u64,
}

impl Client {
    /// Begins to want a lock.
    pub fn begin_task(&mut self, world: &mut World, network: &mut Network) {
        let mut wish = workload::wish(world);
        if world.files
            && let Some(resource) = self.desk.resource(&mut world.file_random)
        {
            wish.resource = resource;
        }
        let session = self.session_id().filter(|_| world.random.chance(700));
        let request_id = wish.with_id.then(|| self.fresh_id());
        let number = self.fresh();
        // Mostly the session's heartbeat speaks for what is under it.
        let by_heartbeat = session.is_some() && !number.is_multiple_of(5);
        let renewal = if by_heartbeat { Renewal::Never } else { wish.renewal };
        let task = Task {
            wish,
            request_id,
            session,
            phase: Phase::Asking,
            tries: 0,
            round: 0,
            attempts: None,
            sent_us: 0,
            lease: None,
            keeper: Keeper::new(renewal),
        };
        self.tasks.insert(number, task);
        self.ask(world, network, number);
    }

    fn ask(&mut self, world: &mut World, network: &mut Network, number: u64) {
        let sent_us = self.local_us(world);
        let Some(task) = self.tasks.get_mut(&number) else { return };
        task.tries += 1;
        task.sent_us = sent_us;
        let wait = Wait::from_ms(task.wish.wait_ms).unwrap_or_default();
        let command = Command::Acquire(Acquire {
            resource: task.wish.resource.clone(),
            owner: self.owner.clone(),
            ttl: task.session.is_none().then_some(task.wish.ttl),
            mode: task.wish.mode,
            wait,
            session: task.session,
            request_id: task.request_id.clone(),
            metadata: task.wish.metadata.clone(),
        });
        let mut patience_us = wait.us() + world.random.between(300_000, 2_000_000);
        if task.request_id.is_some() && world.unlucky(250) {
            // An impatient one hangs up and comes back for its place.
            patience_us = world.random.between(1_000, 2_000_000);
        }
        let call = self.send(world, network, (number, Purpose::Acquire), command, patience_us);
        if let Some(task) = self.tasks.get_mut(&number) {
            task.attempts = Some((task.attempts.map_or(call, |(first, _)| first), call));
        }
    }

    /// Some ask again for their place and go on listening: whichever attempt is answered counts from its own sending.
    pub fn asks_beside(
        &mut self,
        world: &mut World,
        network: &mut Network,
        number: u64,
        call: CallId,
    ) -> bool {
        let Some(task) = self.tasks.get(&number).filter(|task| task.phase == Phase::Asking) else {
            return false;
        };
        let newest = task.attempts.is_some_and(|(_, newest)| newest == call);
        if !newest || task.request_id.is_none() || task.tries >= TRIES_MAX || !world.unlucky(300) {
            return false;
        }
        self.wake_after(world, 5_000_000, Alarm::Timeout(call));
        self.ask(world, network, number);
        true
    }

    /// An attempt had no answer.
    pub fn acquire_failed(&mut self, world: &mut World, network: &mut Network, number: u64, call: CallId) {
        let Some(task) = self.tasks.get_mut(&number).filter(|task| task.phase == Phase::Asking) else {
            return;
        };
        if task.attempts.is_none_or(|(_, newest)| newest != call) {
            return;
        }
        let stubborn = world.healing || (task.request_id.is_some() && task.tries < TRIES_MAX);
        if stubborn {
            let pause_us = if world.random.chance(400) { 0 } else { world.random.between(1_000, 1_000_000) };
            self.again_after(world, number, pause_us);
        } else {
            self.take_back(world, network, number);
        }
    }

    fn again_after(&mut self, world: &mut World, number: u64, pause_us: u64) {
        let Some(task) = self.tasks.get_mut(&number) else { return };
        task.round += 1;
        let round = task.round;
        self.wake_after(world, pause_us, Alarm::Again { task: number, round });
    }

    /// An alarm set by [`Client::again_after`].
    pub fn try_again(&mut self, world: &mut World, network: &mut Network, number: u64, round: u64) {
        let Some(task) = self.tasks.get(&number).filter(|task| task.round == round) else { return };
        match task.phase {
            Phase::Asking => self.ask(world, network, number),
            Phase::Ending => self.give_back(world, network, number),
            Phase::Holding => {}
        }
    }

    /// An answer to an acquire.
    pub fn acquire_answered(
        &mut self,
        world: &mut World,
        network: &mut Network,
        number: u64,
        (call, sent_us): (CallId, u64),
        outcome: Outcome,
    ) {
        let Some(task) = self.tasks.get_mut(&number).filter(|task| task.phase == Phase::Asking) else {
            return;
        };
        // An older attempt counts if it brings the lease; all else is the newest one's to say.
        let Some((first, newest)) = task.attempts else { return };
        if call < first || (call != newest && outcome.is_err()) {
            return;
        }
        match outcome {
            Ok(Answer::Lease(view)) => self.granted(world, network, number, sent_us, &view),
            Err(Refusal::Busy { retry_ms, .. } | Refusal::Unavailable { retry_ms, .. })
                if world.healing || task.tries < TRIES_MAX =>
            {
                if world.healing {
                    task.request_id = None;
                    task.attempts = None;
                }
                // At the end of a quiet run it may be busy for a day.
                let patient = world.healing && world.is_quiet();
                let pause_ms = if patient { 60_000 } else { retry_ms.min(500) };
                self.again_after(world, number, pause_ms * 1000);
            }
            // A copy of an older attempt took its place: ask again.
            Err(Refusal::Cancelled) if task.request_id.is_some() && task.tries < TRIES_MAX => {
                self.again_after(world, number, 10_000);
            }
            // The file may be gone, and its bytes with it.
            Err(Refusal::NotFound(_)) if writing::is_of_a_file(&task.wish.resource) => {
                self.tasks.remove(&number);
            }
            // Once the faults have stopped nobody gives up before having had it.
            Err(_) if world.healing => {
                let id = self.fresh_id();
                if let Some(task) = self.tasks.get_mut(&number) {
                    task.request_id = task.request_id.is_some().then_some(id);
                    task.attempts = None;
                    task.session = None;
                    task.wish.wait_ms = task.wish.wait_ms.max(if world.is_quiet() { 600_000 } else { 3000 });
                }
                self.again_after(world, number, 50_000);
            }
            _ => {
                self.tasks.remove(&number);
            }
        }
    }

    fn granted(
        &mut self,
        world: &mut World,
        network: &mut Network,
        number: u64,
        sent_us: u64,
        view: &LeaseView,
    ) {
        if self.has_ended(view.token) {
            self.tasks.remove(&number);
            return;
        }
        let Some(task) = self.tasks.get_mut(&number) else { return };
        task.phase = Phase::Holding;
        task.lease = Some(Held { id: view.lease, token: view.token, ttl_us: view.ttl.us() });
        let hold_us = if world.healing { task.wish.hold_us.min(2_000_000) } else { task.wish.hold_us };
        let (id, resource) = (task.request_id.clone(), task.wish.resource.clone());
        self.wake_after(world, hold_us, Alarm::HoldOver { task: number });
        self.takes_up_the_pen(world, number);
        self.has_an_errand(world, number);
        self.confirmed(world, network, number, sent_us, Terms::from(view));
        if let Some(id) = id
            && world.unlucky(30)
        {
            self.misuse(world, network, id, &resource);
        }
    }

    /// The same id with another payload.
    fn misuse(&mut self, world: &mut World, network: &mut Network, id: RequestId, not: &Resource) {
        let resource = workload::resource(&mut world.random);
        if resource == *not {
            return;
        }
        let command = Command::Acquire(Acquire {
            resource,
            owner: self.owner.clone(),
            ttl: None,
            mode: Default::default(),
            wait: Wait::default(),
            session: None,
            request_id: Some(id),
            metadata: Metadata::default(),
        });
        self.send(world, network, (0, Purpose::OtherPayload), command, 1_000_000);
    }

    /// The token of a task's lease, if it has one.
    pub fn token_of(&self, number: u64) -> Option<u64> {
        Some(self.tasks.get(&number)?.lease?.token)
    }

    /// It has had the lock for long enough.
    pub fn hold_is_over(&mut self, world: &mut World, network: &mut Network, number: u64) {
        if self.tasks.get(&number).is_none_or(|task| task.phase != Phase::Holding) {
            return;
        }
        if world.unlucky(world.weather.client_death) {
            // It goes away without a word; the belief of whatever it started ends by its clock.
            world.count(FaultKind::ClientDeath);
            world.tell(&self.name, || format!("drops its task {number} without a word"));
            if let Some(stream) = self.stream.as_mut().filter(|_| world.more_random.chance(500)) {
                stream.begin_anew(&mut world.more_random);
            }
            if let Some(session) = self.tasks.remove(&number).and_then(|task| task.session) {
                // What shares its session was one program with it.
                self.tasks.retain(|_, task| task.session != Some(session));
                self.session = None;
            }
            return;
        }
        self.give_back(world, network, number);
    }

    /// Stops, and gives the lock back: by release or, with an id, by taking the request back.
    pub fn give_back(&mut self, world: &mut World, network: &mut Network, number: u64) {
        let Some(task) = self.tasks.get_mut(&number) else { return };
        let Some(lease) = task.lease else { return self.take_back(world, network, number) };
        task.phase = Phase::Ending;
        task.tries += 1;
        world.watch.stops(world.now_us, lease.token);
        // A number's answer was confirmed, and nothing can be taken back by it any more.
        let by_number = number_of(task.request_id.as_ref()).is_some();
        if !by_number && task.request_id.is_some() && world.random.chance(150) {
            self.take_back(world, network, number);
            return;
        }
        let command = if task.session.is_none() && world.random.chance(100) {
            Command::CloseSession { session: SessionId::Own(lease.id) }
        } else {
            Command::Release(self.proof(number, lease))
        };
        self.send(world, network, (number, Purpose::Release), command, 1_500_000);
    }

    /// Takes the request back, whatever has become of it.
    fn take_back(&mut self, world: &mut World, network: &mut Network, number: u64) {
        let Some(task) = self.tasks.get_mut(&number) else { return };
        let Some(request_id) = task.request_id.clone().filter(|_| world.random.chance(600)) else {
            self.tasks.remove(&number);
            return;
        };
        if task.phase == Phase::Asking {
            task.tries = 0;
        }
        task.phase = Phase::Ending;
        let (resource, owner) = (task.wish.resource.clone(), self.owner.clone());
        let command = match request_id {
            RequestId::Numbered(client, number) => Command::CancelNumber { client, number },
            request_id => Command::Cancel { resource, owner, request_id },
        };
        self.send(world, network, (number, Purpose::Cancel), command, 1_500_000);
    }

    /// An answer to a release or a cancel.
    pub fn end_answered(&mut self, world: &mut World, number: u64, outcome: Outcome) {
        match outcome {
            Err(Refusal::Busy { .. } | Refusal::Unavailable { .. }) => self.end_failed(world, number),
            _ => self.forget_task(world, number),
        }
    }

    /// A release or a cancel had no answer.
    pub fn end_failed(&mut self, world: &mut World, number: u64) {
        let Some(task) = self.tasks.get(&number) else { return };
        if task.tries > 2 * TRIES_MAX {
            self.forget_task(world, number);
        } else {
            self.again_after(world, number, 100_000);
        }
    }

    /// Something about a lease that may or may not be true: a verify, or a release by somebody who is not the holder.
    pub fn doubtful(&mut self, world: &mut World, resource: Resource) -> Command {
        let held = self.tasks.values().find_map(|task| Some((task.wish.resource.clone(), task.lease?)));
        let Some((mine, lease)) = held else { return Command::Get { resource } };
        let token = lease.token;
        let mut proof = Proof { resource: mine.clone(), owner: self.owner.clone(), lease: lease.id, token };
        match world.random.below(5) {
            0 => proof.token += 1,
            1 => proof.lease.secret.0[0] ^= 1,
            2 if resource != mine => proof.resource = resource,
            3 => return Command::Verify { resource, token },
            _ => return Command::Verify { resource: mine, token },
        }
        if world.random.chance(500) {
            Command::Release(proof)
        } else {
            Command::Renew(Renew { proof, ttl: None, metadata: None })
        }
    }

    /// The lease is over, and known to be.
    pub fn forget_task(&mut self, world: &mut World, number: u64) {
        if let Some(lease) = self.tasks.remove(&number).and_then(|task| task.lease) {
            world.watch.stops(world.now_us, lease.token);
        }
    }

    pub(crate) fn proof(&self, number: u64, lease: Held) -> Proof {
        let resource = match self.tasks.get(&number) {
            Some(task) => task.wish.resource.clone(),
            None => unreachable!("a lease belongs to a task"),
        };
        Proof { resource, owner: self.owner.clone(), lease: lease.id, token: lease.token }
    }
}
