//! The engine's turns: when it is due, what it is given, and what may leave afterwards.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use leasehold_engine::{Chapter, Notice};
use leasehold_state_machine::answer::Refusal;

use super::Node;
use crate::faults::FaultKind;
use crate::invariants::Reply;
use crate::world::{Happening, World};

impl Node {
    pub(super) fn turn_at(&mut self, world: &mut World, at_us: u64) {
        let life = self.life;
        let Some(process) = &mut self.process else { return };
        let at_us = at_us.max(process.stopped_until_us).max(process.stalled_until_us);
        if process.next_turn_us.is_none_or(|next_us| at_us < next_us || next_us < world.now_us) {
            process.next_turn_us = Some(at_us);
            world.at(at_us, Happening::Turn { life });
        }
    }

    /// The engine's alarm.
    pub fn turn_is_due(&mut self, world: &mut World, life: u64) {
        if life != self.life {
            return;
        }
        let Some(process) = &mut self.process else { return };
        if process.next_turn_us != Some(world.now_us) {
            return;
        }
        process.next_turn_us = None;
        let until_us = process.stopped_until_us.max(process.stalled_until_us);
        if until_us > world.now_us {
            self.turn_at(world, until_us);
            return;
        }
        self.wake_up(world);
        self.turn(world);
    }

    /// After a stop: what lies in the socket is read over the next moments.
    pub(super) fn wake_up(&mut self, world: &mut World) {
        let Some(process) = &mut self.process else { return };
        let socket = std::mem::take(&mut process.socket);
        // The server's time rests for 250 ms after a stop that it notices, and after a shorter one it does not.
        let noticed = process.stopped_until_us - process.stopped_since_us > 200_000;
        let within_us = if noticed { 240_000 } else { 5_000 };
        // Whoever has several requests there is read late with all of them.
        let mut late_us = BTreeMap::new();
        for happening in socket {
            let mut after_us = world.random.below(within_us);
            if let Happening::RequestArrives { from, .. } = &happening {
                let first_us = *late_us.entry(*from).or_insert(after_us);
                after_us = first_us + (after_us.saturating_sub(first_us)).min(2_000);
            }
            world.after(after_us, happening);
        }
    }

    pub(super) fn turn(&mut self, world: &mut World) {
        let reading = self.reading(world.now_us);
        let life = self.life;
        let Some(process) = &mut self.process else { return };
        for request in &process.arrivals {
            world.watch.ledger.turned((life, request.attachment.0), world.now_us);
        }
        process.engine.turn(reading, &mut process.arrivals);
        let left_out_us = process.engine.metrics().stall_us_total.load(Relaxed);
        world.watch.ledger.left_out(life, world.now_us, left_out_us);
        self.pack(world);
        self.hand_over(world);
    }

    /// Gives the disk its next batch, and everybody what may leave.
    pub(super) fn hand_over(&mut self, world: &mut World) {
        self.begin_append(world);
        let life = self.life;
        let Some(process) = &mut self.process else { return };
        let released = process.engine.released();
        let mut replies = process.packed.leave(released.packed);
        replies.extend(released.replies);
        let verdict = world.watch.unasked(&released.unasked);
        world.check(verdict);
        for reply in &replies {
            if matches!(reply.outcome, Err(Refusal::Busy { .. })) {
                world.count(FaultKind::LimitReached);
            }
            let left = Reply { at_us: world.now_us, to: (life, reply.to.0), outcome: &reply.outcome };
            let verdict = world.watch.replied(&left);
            world.check(verdict);
            process.files.replied(world, life, &left);
        }
        let told: Vec<_> = released.chapters.iter().flat_map(Chapter::read).collect();
        let verdict = world.watch.told(&told);
        world.check(verdict);
        for notice in process.engine.take_notices() {
            let Notice::SweepLag { ms } = notice else { continue };
            let verdict = world.watch.swept_late(world.now_us, ms);
            world.check(verdict);
        }
        self.dismiss(&released.gone);
        for reply in replies {
            self.answer(world, reply.to.0, reply.outcome);
        }
        let Some(process) = &mut self.process else { return };
        let wake_us = process.engine.wake_raw_us();
        if let Some(raw_us) = wake_us {
            let at_us = self.real_us(raw_us).max(world.now_us + 50);
            self.turn_at(world, at_us);
        }
    }
}
