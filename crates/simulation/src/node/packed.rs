//! Answers that are packed as soon as they are decided, as the real desk does it, in half of all runs: they are with whoever
//! packed them while their batch is with the disk, and leave when the engine says so.

use leasehold_state_machine::answer::Reply;

use super::Node;
use crate::faults::FaultKind;
use crate::world::World;

/// Packed answers of a life.
#[derive(Debug, Default)]
pub(super) struct Packed {
    /// They leave with the next batch...
    gathered: Vec<Reply>,
    /// ...or with the one that was handed out...
    handed_out: Vec<Reply>,
    /// ...which is durable.
    leaving: Vec<Reply>,
}

impl Packed {
    /// A batch was handed out, with so many of them.
    pub fn hand_out(&mut self, count: usize) {
        if count > 0 {
            assert!(self.handed_out.is_empty(), "one batch is with the disk at a time");
            assert_eq!(count, self.gathered.len(), "all or none");
            self.handed_out = std::mem::take(&mut self.gathered);
        }
    }

    /// That batch is durable.
    pub fn durable(&mut self) {
        assert!(self.leaving.is_empty(), "what left before is gone");
        self.leaving = std::mem::take(&mut self.handed_out);
    }

    /// So many may leave, as the engine says: it is believed, and judged by what then leaves.
    pub fn leave(&mut self, count: usize) -> Vec<Reply> {
        if count > self.leaving.len() {
            self.leaving.append(&mut self.handed_out);
        }
        assert!(count == 0 || count == self.leaving.len(), "all or none");
        self.leaving.drain(..count).collect()
    }
}

impl Node {
    /// After a turn: what was decided in it is packed.
    pub(super) fn pack(&mut self, world: &mut World) {
        let Some(process) = &mut self.process else { return };
        let queued: Vec<_> = process.engine.take_queued().collect();
        self.stand_in_line(&queued);
        let Some(process) = self.process.as_mut().filter(|_| self.packs) else { return };
        // Who stands in line hears of that first, and who has gone nothing.
        let calls = &process.calls;
        let is_wanted = |reply: &Reply| calls.get(&reply.to.0).is_some_and(|call| call.permit.is_some());
        let before = process.packed.gathered.len();
        process.engine.take_to_pack(is_wanted, &mut process.packed.gathered);
        for _ in before..process.packed.gathered.len() {
            world.count(FaultKind::Packed);
        }
    }
}
