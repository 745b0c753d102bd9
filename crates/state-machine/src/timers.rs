//! What falls due next. Each live session, lease of its own and waiter stands here once, at its deadline or earlier: a
//! renewal does not move the entry; whoever finds it due looks at the deadline and puts it back.
//!
//! Leases are many, and stand close together in twelve bytes each.

use alloc::collections::BTreeSet;

use crate::event::Ticket;
use crate::sorted::Sorted;

/// What falls due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    /// The opened session in this slot.
    Session(u32),
    /// The lease in this slot, by its own deadline.
    Lease(u32),
    /// The waiter with this ticket.
    Waiter(Ticket),
}

/// A lease's time, in two halves so that nothing is lost to alignment, and its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LeaseDue {
    at_high: u32,
    at_low: u32,
    slot: u32,
}

impl LeaseDue {
    fn new(at_us: u64, slot: u32) -> LeaseDue {
        LeaseDue { at_high: (at_us >> 32) as u32, at_low: at_us as u32, slot }
    }

    fn at_us(&self) -> u64 {
        u64::from(self.at_high) << 32 | u64::from(self.at_low)
    }
}

/// Everything that falls due, in order.
#[derive(Debug)]
pub(crate) struct Timers {
    leases: Sorted<LeaseDue>,
    others: BTreeSet<(u64, Due)>,
}

impl Timers {
    pub(crate) fn new() -> Self {
        Timers { leases: Sorted::new(), others: BTreeSet::new() }
    }

    /// Moves an entry to `at_us`; `armed_us` is where it stood and is brought up to date.
    pub(crate) fn arm(&mut self, armed_us: &mut Option<u64>, due: Due, at_us: u64) {
        self.disarm(armed_us, due);
        let new = match due {
            Due::Lease(slot) => {
                let entry = LeaseDue::new(at_us, slot);
                self.leases.insert(entry, |other| other.cmp(&entry))
            }
            _ => self.others.insert((at_us, due)),
        };
        assert!(new, "everything stands here once");
        *armed_us = Some(at_us);
    }

    pub(crate) fn disarm(&mut self, armed_us: &mut Option<u64>, due: Due) {
        if let Some(at_us) = armed_us.take() {
            let stood = match due {
                Due::Lease(slot) => {
                    let entry = LeaseDue::new(at_us, slot);
                    self.leases.remove(|other| other.cmp(&entry)).is_some()
                }
                _ => self.others.remove(&(at_us, due)),
            };
            assert!(stood, "an armed timer stands where it says");
        }
    }

    /// The first entry.
    pub(crate) fn first(&self) -> Option<(u64, Due)> {
        let lease = self.leases.first().map(|entry| (entry.at_us(), Due::Lease(entry.slot)));
        lease.into_iter().chain(self.others.first().copied()).min()
    }

    pub(crate) fn len(&self) -> usize {
        self.leases.len() + self.others.len()
    }
}
