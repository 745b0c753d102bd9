//! One seed, one run: a time of faults in which nothing may ever be wrong, then a time without, in which everything must
//! come to a good end.

use leasehold_history::History;

use crate::client::{Alarm, Client};
use crate::cuts::Cuts;
use crate::faults::{FaultKind, Tally};
use crate::invariants::{Left, Violation};
use crate::local_clock::LocalClock;
use crate::network::{Network, Way};
use crate::node::{Asked, Node};
use crate::plan::Plan;
use crate::random::Sources;
use crate::stream::Stream;
use crate::updating;
use crate::workload;
use crate::world::{Happening, World};

/// How long after the last fault everything must have ended: the longest horizon, everybody's turn, and three times the
/// longest TTL, which is also for how long nothing is granted after an old copy was put back.
const HEAL_US: u64 = 220_000_000;
/// How often the whole state is looked at...
const INSPECT_EVERY_US: u64 = 2_000_000;
/// ...and how often in a silence.
const INSPECT_SILENCE_EVERY_US: u64 = 3_600_000_000;
/// No run takes more steps than this; one that would is going round in circles.
const STEPS_MAX: u64 = 3_000_000;
/// How many more a quiet run may take.
const QUIET_STEPS_MAX: u64 = 100_000_000;

/// What came of a run.
#[derive(Debug)]
pub struct Outcome {
    /// What took effect.
    pub tally: Tally,
    /// The first invariant that did not hold.
    pub violation: Option<Violation>,
    /// The virtual time at which the run ended.
    pub ended_us: u64,
    /// The story, if it was wanted.
    pub trace: String,
    /// What clients asked and heard, if it was wanted.
    pub history: History,
}

/// Which run is wanted.
#[derive(Clone, Debug, Default)]
pub struct Order {
    /// The seed from which all follows.
    pub seed: u64,
    /// What is left out of what the seed would have.
    pub cuts: Cuts,
    /// Whether its story is wanted.
    pub trace: bool,
    /// Whether the history of what clients asked and heard is wanted.
    pub history: bool,
    /// The one invariant that is heeded, if not all are: whatever else is wrong, it must see for itself.
    pub heeds: Option<&'static str>,
}

/// Runs one seed.
pub fn run(seed: u64, trace: bool) -> Outcome {
    carry_out(&Order { seed, trace, ..Order::default() })
}

/// Runs one seed and heeds one invariant alone. With a bug put in on purpose: whatever else is wrong, it must see for itself.
pub fn run_heeding(seed: u64, invariant: &'static str) -> Outcome {
    carry_out(&Order { seed, heeds: Some(invariant), ..Order::default() })
}

/// Runs what is wanted.
pub fn carry_out(order: &Order) -> Outcome {
    let seed = order.seed;
    let mut sources = Sources::new(seed);
    let mut plan = Plan::draw(&mut sources);
    order.cuts.apply(&mut plan);
    let mut world = World::new(sources, &plan, order);
    world.tell("run", || format!("seed {seed}: {plan:?}"));
    let node = Node::new(&mut world, &plan);
    let clients = (0..plan.clients).map(|number| new_client(&mut world, &plan, number)).collect();
    let mut run = Run { world, node, network: Network::default(), clients, heal_at_us: plan.heal_at_us };
    run.begin(&plan);
    run.go();
    let mut tally = std::mem::take(&mut run.world.tally);
    let ended_us = run.world.now_us;
    tally.simulated_us = ended_us;
    Outcome {
        tally,
        violation: run.world.violation.take(),
        ended_us,
        trace: run.world.trace.into_text(),
        history: run.world.record.into_history(),
    }
}

/// A run under way.
pub(crate) struct Run {
    pub world: World,
    pub node: Node,
    pub network: Network,
    pub clients: Vec<Client>,
    pub heal_at_us: u64,
}

fn new_client(world: &mut World, plan: &Plan, number: usize) -> Client {
    let drift = i64::try_from(world.random.below(2 * plan.drift_ppm + 1)).unwrap_or(0);
    let drift_ppm = drift - i64::try_from(plan.drift_ppm).unwrap_or(0);
    let mut client = Client::new(number, LocalClock { offset_us: world.random.below(1 << 40), drift_ppm });
    if plan.streams && world.more_random.chance(600) {
        client.stream = Some(Stream::new(&mut world.more_random, 1));
    }
    client
}

impl Run {
    fn begin(&mut self, plan: &Plan) {
        self.world.at(0, Happening::Start);
        for client in 0..self.clients.len() {
            let at_us = self.world.random.below(1_000_000);
            self.world.at(at_us, Happening::Alarm { client, alarm: Alarm::Begin });
        }
        for (at_us, disaster) in &plan.disasters {
            self.world.at(*at_us, Happening::Disaster(*disaster));
        }
        self.world.at(plan.heal_at_us, Happening::Heal);
        self.world.at(INSPECT_EVERY_US, Happening::Inspect);
    }

    fn go(&mut self) {
        let (mut steps, mut last_us) = (0, 0);
        let steps_max = if self.world.is_quiet() { QUIET_STEPS_MAX } else { STEPS_MAX };
        while self.world.violation.is_none()
            && let Some(happening) = self.world.next()
        {
            let passed_us = self.world.now_us - std::mem::replace(&mut last_us, self.world.now_us);
            if passed_us > 0 && self.node.is_live() {
                self.world.tally.live_us += passed_us;
            }
            steps += 1;
            if steps > steps_max {
                let sentence = "the run goes round in circles";
                self.world.check(Err(Violation::new("progress", sentence)));
            }
            self.happen(happening);
            if self.world.healing && self.is_over() {
                break;
            }
        }
        if self.world.violation.is_none() {
            self.node.inspect(&mut self.world);
        }
    }

    /// Whether everything has come to an end, well or not.
    fn is_over(&mut self) -> bool {
        let after_us = self.world.now_us - self.heal_at_us;
        let counts = self.node.machine().map(|machine| machine.counts()).unwrap_or_default();
        let left = Left {
            after_us,
            up: self.node.is_up(),
            leases: counts.leases,
            waiters: counts.waiters,
            sessions: counts.sessions,
            calls: self.node.unanswered(),
            tasks: self.clients.iter().map(Client::unfinished).sum(),
        };
        if self.world.watch.progressed(&left).is_ok() {
            return true;
        }
        if after_us > HEAL_US + 3 * workload::ttl_us_max(self.world.is_quiet()) {
            let verdict = self.world.watch.progressed(&left);
            self.world.check(verdict);
            return true;
        }
        false
    }

    fn happen(&mut self, happening: Happening) {
        let Run { world, node, network, clients, .. } = self;
        match happening {
            Happening::RequestArrives { call, from, command, mark, since_us } => {
                node.request(world, call, Asked { from, command, mark, since_us });
            }
            Happening::CloseArrives(call) => node.hang_up(world, call),
            Happening::StrayCloses { life, attachment } => node.closed(world, life, attachment),
            Happening::ReplyArrives(id, outcome) => {
                let Some(client) = network.peek(id).and_then(|call| clients.get_mut(call.client)) else {
                    return;
                };
                if world.is_cut_off(client.number, Way::FromServer) {
                    world.count(FaultKind::CutOffReply);
                } else if client.paused_until_us > world.now_us {
                    world.at(client.paused_until_us, Happening::ReplyArrives(id, outcome));
                } else {
                    client.hear(world, network, id, *outcome);
                }
            }
            Happening::ResetArrives(id) => {
                let Some(client) = network.peek(id).and_then(|call| clients.get_mut(call.client)) else {
                    return;
                };
                if world.is_cut_off(client.number, Way::FromServer) {
                    world.count(FaultKind::CutOffReply);
                } else if client.paused_until_us > world.now_us {
                    world.at(client.paused_until_us, Happening::ResetArrives(id));
                } else {
                    client.no_answer(world, network, id, false);
                }
            }
            Happening::Alarm { client: number, alarm } => {
                let Some(client) = clients.get_mut(number) else { return };
                if client.paused_until_us > world.now_us {
                    world.at(client.paused_until_us, Happening::Alarm { client: number, alarm });
                } else {
                    client.wake(world, network, alarm);
                }
            }
            Happening::Start => node.start(world),
            Happening::Turn { life } => node.turn_is_due(world, life),
            Happening::BatchDone { life, begun_us } => node.batch_done(world, life, begun_us),
            Happening::ChoreRuns { life, chore, picture } => node.run_chore(world, life, *chore, picture),
            Happening::ChangeDue { life } => node.change_is_due(world, life),
            Happening::FileRead { life, view } => node.read_file(world, life, &view),
            Happening::ChoreEnds { life, done } => node.chore_ends(world, life, *done),
            Happening::AtRegister(errand) => updating::arrives(world, *errand),
            Happening::FromRegister(errand) => {
                let Some(client) = clients.get_mut(errand.client) else { return };
                if client.paused_until_us > world.now_us {
                    world.at(client.paused_until_us, Happening::FromRegister(errand));
                } else {
                    client.back_from_the_register(world, *errand);
                }
            }
            Happening::BackupEnds => node.backup_ends(world),
            Happening::RoomAgain => node.room_again(world),
            Happening::Disaster(disaster) => self.strike(disaster),
            Happening::Inspect => {
                node.inspect(world);
                let silent = world.silence_us() > 0 && !node.is_live();
                let every_us = if silent { INSPECT_SILENCE_EVERY_US } else { INSPECT_EVERY_US };
                world.after(every_us, Happening::Inspect);
            }
            Happening::Heal => {
                world.tell("run", || "the faults stop".into());
                world.healing = true;
                world.partitions.clear();
                node.empty_the_disk();
                for client in clients {
                    client.heal(world);
                }
            }
        }
    }
}
