//! The disk's room: somebody else fills it for a while; the server looks now and then how much is left, and begins nothing
//! new while that is less than its reserve. Who fills the reserve too ends the process, and it starts when there is room.

use leasehold_journal::Journal;

use super::Node;
use crate::world::{Happening, World};

/// How often the server looks.
const LOOK_EVERY_US: u64 = 1_000_000;

impl Node {
    /// Somebody else fills the disk.
    pub fn fill_the_disk(&mut self, world: &mut World) {
        let for_us = world.more_random.between(2_000_000, 20_000_000);
        let free_bytes = world.more_random.below(2 * self.reserve_bytes());
        self.full_until_us = world.now_us + for_us;
        self.disk.set_capacity(Some(self.disk.used_bytes() + free_bytes));
        world.tell("disk", || format!("has {free_bytes} bytes left for {} ms", for_us / 1000));
        world.after(for_us, Happening::RoomAgain);
    }

    /// Somebody else takes their files away, unless others have come meanwhile.
    pub fn room_again(&mut self, world: &World) {
        if world.now_us >= self.full_until_us {
            self.empty_the_disk();
        }
    }

    /// The disk has room without end again.
    pub fn empty_the_disk(&mut self) {
        self.full_until_us = 0;
        self.disk.set_capacity(None);
    }

    /// Whether somebody else has filled the disk, so that anything may fail on it.
    pub(super) fn disk_is_full(&self) -> bool {
        self.full_until_us > 0
    }

    /// Looks at the free space, now and then.
    pub(super) fn look_at_room(&mut self, world: &World) {
        let reserve_bytes = self.reserve_bytes();
        let Some(process) = &mut self.process else { return };
        if world.now_us < process.room_looked_us + LOOK_EVERY_US {
            return;
        }
        process.room_looked_us = world.now_us;
        process.short_of_room = process.journal.room().is_ok_and(|bytes| bytes < reserve_bytes);
    }

    /// Enough for a few segments and snapshots.
    fn reserve_bytes(&self) -> u64 {
        6 * self.plan.segment_bytes
    }
}
