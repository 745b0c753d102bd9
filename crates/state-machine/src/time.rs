//! The one reading of the clocks that a turn works with. Nothing in this crate reads a clock.

/// What the clocks say, read once for a whole turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Now {
    /// The server's time: the boot clock less the time in which it could not answer. Decides who holds what.
    pub us: u64,
    /// The boot clock itself.
    pub raw_us: u64,
    /// The wall clock in Unix milliseconds: for tokens and for people.
    pub wall_ms: u64,
    /// Whether the wall reading may enter tokens.
    pub wall_trusted: bool,
}

impl Now {
    /// Milliseconds from now to a deadline, rounded down; 0 when it has passed.
    pub fn ms_until(&self, deadline_us: u64) -> u64 {
        deadline_us.saturating_sub(self.us) / 1000
    }
}
