//! What a client does at the register: under an exclusive lease that it believes in it reads, thinks for a while and writes
//! back, without looking again. Under a shared one it only reads. One errand for each lease, and none after one was lost:
//! only a client itself can keep its own writes apart.

use leasehold_state_machine::words::Mode;

use leasehold_client::keeper::Standing;

use crate::client::{Alarm, Client};
use crate::faults::FaultKind;
use crate::network::Way;
use crate::register::{Errand, Register, Taken};
use crate::task::Phase;
use crate::world::{Happening, World};

impl Client {
    /// It was granted a lease: it goes to the register under it.
    pub fn has_an_errand(&mut self, world: &mut World, number: u64) {
        if world.registers && world.more_random.chance(500) {
            let after_us = world.more_random.between(100, 200_000);
            self.wake_after(world, after_us, Alarm::Update { task: number });
        }
    }

    /// An alarm set by [`Client::has_an_errand`], or because there is more to do.
    pub fn goes_to_the_register(&mut self, world: &mut World, number: u64) {
        let now_us = self.local_us(world);
        let Some(task) = self.tasks.get_mut(&number).filter(|task| task.phase == Phase::Holding) else {
            return;
        };
        let believes =
            matches!(task.keeper.look(now_us), Standing::Safe { .. } | Standing::InJeopardy { .. });
        let Some(lease) = task.lease.filter(|_| believes && !world.healing) else { return };
        let cells = Register::cells_of(&task.wish.resource);
        if cells.is_empty() {
            return;
        }
        let cell = world.more_random.pick(&cells).clone();
        let errand = world.register.errand(self.number, number, lease.token, cell);
        send(world, errand);
    }

    /// It hears from the register.
    pub fn back_from_the_register(&mut self, world: &mut World, errand: Errand) {
        if errand.read.is_some() {
            let shared = self.tasks.get(&errand.task).is_some_and(|task| task.wish.mode == Mode::Shared);
            if !shared {
                send(world, errand);
            }
        } else if world.more_random.chance(700) {
            let after_us = world.more_random.between(100, 1_000_000);
            self.wake_after(world, after_us, Alarm::Update { task: errand.task });
        }
    }
}

/// On its way to the register.
fn send(world: &mut World, errand: Errand) {
    if world.is_cut_off(errand.client, Way::ToServer) || world.unlucky_with_more(30) {
        return;
    }
    let mut after_us = match world.more_random.below(4) {
        0 => world.more_random.between(1_000, 1_000_000),
        _ => world.more_random.between(100, 3_000),
    };
    if world.unlucky_with_more(40) {
        after_us += world.more_random.between(100_000, 30_000_000);
    }
    world.after(after_us, Happening::AtRegister(Box::new(errand)));
}

/// An errand reaches the register.
pub fn arrives(world: &mut World, errand: Errand) {
    let client = errand.client;
    let Taken { back, fenced_off, control_lost, verdict } = world.register.take(errand);
    if fenced_off {
        world.count(FaultKind::UpdateFencedOff);
    }
    if control_lost {
        world.count(FaultKind::LostUpdate);
    }
    if let Some(verdict) = verdict {
        world.tally.updates += 1;
        world.check(verdict);
    }
    let Some(errand) = back else { return };
    if world.is_cut_off(client, Way::FromServer) || world.unlucky_with_more(30) {
        return;
    }
    let after_us = world.more_random.between(100, 3_000);
    world.after(after_us, Happening::FromRegister(Box::new(errand)));
}
