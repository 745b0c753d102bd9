//! Large things go wrong: whatever the plan has for this moment happens to the server, its disk, its clocks, the network or a
//! client. What follows from it is everybody else's business.

use crate::faults::FaultKind;
use crate::network::Partition;
use crate::node::{Death, Moment};
use crate::plan::Disaster;
use crate::random::Random;
use crate::run::Run;

impl Run {
    /// Lets a disaster strike, if the faults have not stopped.
    pub(crate) fn strike(&mut self, disaster: Disaster) {
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
            Disaster::DiskFills => node.fill_the_disk(world),
            Disaster::ProcessStop => {
                let for_us = standstill_us(&mut world.random);
                node.stop(world, for_us);
            }
            Disaster::StopAtRenewal => {
                let for_us = standstill_us(&mut world.more_random);
                node.stop_at_renewal(for_us);
            }
            Disaster::EngineStall => {
                let for_us = standstill_us(&mut world.random);
                node.stall(world, for_us);
            }
            Disaster::Suspend => {
                let for_us = absence_us(&mut world.more_random).min(self.heal_at_us - world.now_us);
                if node.stop(world, for_us) {
                    world.count(FaultKind::Suspend);
                    // A machine that sleeps has no network either.
                    world.cut_off(Partition::of_all(world.now_us + for_us));
                }
            }
            Disaster::Partition => {
                let one = world.more_random.below(clients.len() as u64);
                let client = world.more_random.chance(600).then_some(usize::try_from(one).unwrap_or(0));
                let ways = *world.more_random.pick(&[(true, false), (false, true), (true, true)]);
                let for_us = absence_us(&mut world.more_random);
                let both = ways == (true, true);
                world.count(if both { FaultKind::TwoWayPartition } else { FaultKind::OneWayPartition });
                let (to_server, from_server) = ways;
                let until_us = world.now_us + for_us;
                world.cut_off(Partition { client, to_server, from_server, until_us });
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
                    client.paused_until_us = world.now_us + for_us;
                    let suspended = world.more_random.chance(300);
                    if suspended {
                        world.count(FaultKind::ClientSuspend);
                        let until_us = world.now_us + for_us;
                        world.cut_off(Partition { client: Some(number), ..Partition::of_all(until_us) });
                    } else {
                        world.count(FaultKind::ClientPause);
                    }
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

/// From seconds to an hour.
fn absence_us(random: &mut Random) -> u64 {
    match random.below(8) {
        0 => random.between(60_000_000, 3_600_000_000),
        1..=3 => random.between(5_000_000, 60_000_000),
        _ => random.between(300_000, 5_000_000),
    }
}
