//! A disk that spoils what it holds: one bit of a record in the middle of the journal. A start must be refused, and must leave
//! everything as it was. That is tried on a copy: what the server has stays sound, and the run goes on.

use leasehold_engine::Replay;
use leasehold_journal::{Entry, FaultyDisk, FileJournal, dump};

use super::Node;
use crate::disk::GuardedDisk;
use crate::faults::FaultKind;
use crate::invariants::Violation;
use crate::world::World;

impl Node {
    /// Sometimes, before a start: somebody starts the server on a copy that is damaged.
    pub(super) fn try_a_damaged_copy(&mut self, world: &mut World) {
        if world.healing || !self.damage_random.chance(300) {
            return;
        }
        let mut files = self.disk.contents();
        let Some((name, from, to)) = self.record_in_the_middle(&FaultyDisk::holding(0, &files)) else {
            return;
        };
        let Some(file) = files.get_mut(&name) else { return };
        let at = usize::try_from(self.damage_random.between(from, to)).unwrap_or(0);
        file[at] ^= 1 << self.damage_random.below(8);
        world.count(FaultKind::DamagedRecord);
        world.tell("disk", || format!("spoils byte {at} of {name} in a copy"));

        let disk = FaultyDisk::holding(0, &files);
        let mut replay = Replay::new(self.plan.limits);
        let opened = FileJournal::open(GuardedDisk::new(disk.clone()), self.options.clone(), &mut replay);
        let wrong = match opened {
            Ok(_) => "the server starts on a journal that is damaged in the middle",
            Err(_) if disk.contents() != files => "a start that refused a damaged journal has changed it",
            Err(_) => return,
        };
        world.check(Err(Violation::new("durability", wrong)));
    }

    /// A record that is not the last: its file, and from where to where it reaches there.
    fn record_in_the_middle(&mut self, disk: &FaultyDisk) -> Option<(String, u64, u64)> {
        let mut places = Vec::new();
        let read = dump(disk, &mut |entry| {
            if let Entry::Record { path, offset, .. } = entry {
                places.push((path.to_owned(), offset));
            }
            Ok(())
        });
        read.ok()?;
        let pairs: Vec<_> = places.windows(2).filter(|pair| pair[0].0 == pair[1].0).collect();
        if pairs.is_empty() {
            return None;
        }
        let pair = self.damage_random.pick(&pairs);
        let name = pair[0].0.rsplit('/').next()?.to_owned();
        Some((name, pair[0].1, pair[1].1))
    }
}
