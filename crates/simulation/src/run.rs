//! One seed, one run: a time of faults in which nothing may ever be wrong, then a time without, in which everything must
//! come to a good end.

use crate::client::{Alarm, Client};
use crate::faults::{Disaster, FaultKind, Plan, Tally};
use crate::invariants::{Left, Violation};
use crate::local_clock::LocalClock;
use crate::network::Network;
use crate::node::{Death, Moment, Node};
use crate::random::Random;
use crate::trace::Trace;
use crate::world::{Happening, World};

/// How long after the last fault everything must have ended: the longest TTL, the longest horizon, everybody's turn.
const HEAL_US: u64 = 400_000_000;
/// How often the whole state is looked at.
const INSPECT_EVERY_US: u64 = 2_000_000;
/// No run takes more steps than this; one that would is going round in circles.
const STEPS_MAX: u64 = 3_000_000;

/// What came of a run.
#[derive(Debug)]
pub struct Outcome {
    /// What took effect.
    pub tally: Tally,
    /// The first invariant that did not hold.
    pub violation: Option<Violation>,
    /// The story, if it was wanted.
    pub trace: String,
}

/// Runs one seed.
pub fn run(seed: u64, trace: bool) -> Outcome {
    run_with(seed, trace, None)
}

/// Runs one seed and heeds one invariant alone. With a bug put in on purpose: whatever else is wrong, it must see for itself.
pub fn run_heeding(seed: u64, invariant: &'static str) -> Outcome {
    run_with(seed, false, Some(invariant))
}

fn run_with(seed: u64, trace: bool, heeds: Option<&'static str>) -> Outcome {
    let mut random = Random::new(seed);
    let mut file_random = Random::new(!seed);
    let plan = Plan::draw(&mut random, &mut file_random);
    let mut world = World::new((random, file_random), plan.weather.clone(), Trace::new(trace), heeds);
    world.pace = plan.pace;
    world.files = plan.files;
    world.tell("run", || format!("seed {seed}: {plan:?}"));
    let node = Node::new(&mut world, &plan);
    let clients = (0..plan.clients).map(|number| new_client(&mut world, &plan, number)).collect();
    let mut run = Run { world, node, network: Network::default(), clients, heal_at_us: plan.heal_at_us };
    run.begin(&plan);
    run.go();
    let mut tally = std::mem::take(&mut run.world.tally);
    tally.simulated_us = run.world.now_us;
    Outcome { tally, violation: run.world.violation.take(), trace: run.world.trace.into_text() }
}

struct Run {
    world: World,
    node: Node,
    network: Network,
    clients: Vec<Client>,
    heal_at_us: u64,
}

fn new_client(world: &mut World, plan: &Plan, number: usize) -> Client {
    let drift = i64::try_from(world.random.below(2 * plan.drift_ppm + 1)).unwrap_or(0);
    let drift_ppm = drift - i64::try_from(plan.drift_ppm).unwrap_or(0);
    Client::new(number, LocalClock { offset_us: world.random.below(1 << 40), drift_ppm })
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
        let mut steps = 0;
        while self.world.violation.is_none()
            && let Some(happening) = self.world.next()
        {
            steps += 1;
            if steps > STEPS_MAX {
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
        if after_us > HEAL_US {
            let verdict = self.world.watch.progressed(&left);
            self.world.check(verdict);
            return true;
        }
        false
    }

    fn happen(&mut self, happening: Happening) {
        let Run { world, node, network, clients, .. } = self;
        match happening {
            Happening::RequestArrives { call, command, since_us } => {
                node.request(world, call, command, since_us);
            }
            Happening::CloseArrives(call) => node.hang_up(world, call),
            Happening::StrayCloses { life, attachment } => node.closed(world, life, attachment),
            Happening::ReplyArrives(id, outcome) => {
                let Some(client) = network.peek(id).and_then(|call| clients.get_mut(call.client)) else {
                    return;
                };
                if client.paused_until_us > world.now_us {
                    world.at(client.paused_until_us, Happening::ReplyArrives(id, outcome));
                } else {
                    client.hear(world, network, id, *outcome);
                }
            }
            Happening::ResetArrives(id) => {
                let Some(client) = network.peek(id).and_then(|call| clients.get_mut(call.client)) else {
                    return;
                };
                if client.paused_until_us > world.now_us {
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
            Happening::ChoreRuns { life, chore } => node.run_chore(world, life, *chore),
            Happening::ChangeDue { life } => node.change_is_due(world, life),
            Happening::FileRead { life, view } => node.read_file(world, life, &view),
            Happening::ChoreEnds { life, done } => node.chore_ends(world, life, *done),
            Happening::Disaster(disaster) => self.strike(disaster),
            Happening::Inspect => {
                node.inspect(world);
                world.after(INSPECT_EVERY_US, Happening::Inspect);
            }
            Happening::Heal => {
                world.tell("run", || "the faults stop".into());
                world.healing = true;
                for client in clients {
                    client.heal(world);
                }
            }
        }
    }

    fn strike(&mut self, disaster: Disaster) {
        let Run { world, node, clients, .. } = self;
        if world.healing {
            return;
        }
        match disaster {
            Disaster::Kill | Disaster::PowerLoss => {
                let moment = *world.random.pick(&[Moment::Now, Moment::InAppend, Moment::BeforeReplies]);
                let moment = if world.unlucky_with_files(300) { Moment::InFiles } else { moment };
                let death = if disaster == Disaster::Kill { Death::Process } else { Death::Power };
                node.doom(world, moment, death);
            }
            Disaster::DiskError => node.fail_disk(),
            Disaster::ProcessStop => {
                let for_us = standstill_us(&mut world.random);
                node.stop(world, for_us);
            }
            Disaster::EngineStall => {
                let for_us = standstill_us(&mut world.random);
                node.stall(world, for_us);
            }
            Disaster::Backup => node.back_up(world),
            Disaster::Restore => node.restore(world),
            Disaster::WallJump => node.set_wall_clock(world),
            Disaster::Lull => {
                world.count(FaultKind::Lull);
                world.lull_until_us = world.now_us + world.random.between(3_000_000, 40_000_000);
            }
            Disaster::ClientPause => {
                let for_us = standstill_us(&mut world.random);
                let number = usize::try_from(world.random.below(clients.len() as u64)).unwrap_or(0);
                if let Some(client) = clients.get_mut(number) {
                    world.count(FaultKind::ClientPause);
                    client.paused_until_us = world.now_us + for_us;
                    world.tell(&client.name, || format!("stands still for {} ms", for_us / 1000));
                }
            }
        }
    }
}

/// From a moment to tens of seconds.
fn standstill_us(random: &mut Random) -> u64 {
    match random.below(3) {
        0 => random.between(50_000, 500_000),
        1 => random.between(500_000, 5_000_000),
        _ => random.between(5_000_000, 40_000_000),
    }
}
