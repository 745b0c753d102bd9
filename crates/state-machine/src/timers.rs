//! What falls due next. Each live session, lease of its own and waiter stands here once, at its deadline or earlier: a
//! renewal does not move the entry; whoever finds it due looks at the deadline and puts it back.

use alloc::collections::BTreeSet;

use crate::event::Ticket;

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

/// Everything that falls due, in order.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    due: BTreeSet<(u64, Due)>,
}

impl Timers {
    /// Moves an entry to `at_us`; `armed_us` is where it stood and is brought up to date.
    pub(crate) fn arm(&mut self, armed_us: &mut Option<u64>, due: Due, at_us: u64) {
        self.disarm(armed_us, due);
        self.due.insert((at_us, due));
        *armed_us = Some(at_us);
    }

    pub(crate) fn disarm(&mut self, armed_us: &mut Option<u64>, due: Due) {
        if let Some(at_us) = armed_us.take() {
            let stood = self.due.remove(&(at_us, due));
            assert!(stood, "an armed timer stands where it says");
        }
    }

    /// The first entry.
    pub(crate) fn first(&self) -> Option<(u64, Due)> {
        self.due.first().copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.due.len()
    }
}
