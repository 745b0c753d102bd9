//! progress: once the faults stop, every live waiter is granted within a bounded time, and everything ends.
//!
//! Catches: a lost wake-up, a lease that nobody ends, a waiter that stands in line for ever, a server that does not come
//! back, time that stands still without need.

use super::{Verdict, Violation};

/// What is left a good while after the last fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// How long ago that was.
    pub after_us: u64,
    /// Whether the server answers.
    pub up: bool,
    /// Leases.
    pub leases: usize,
    /// Waiters.
    pub waiters: usize,
    /// Sessions.
    pub sessions: usize,
    /// Clients' tasks that have not come to an end.
    pub tasks: usize,
}

/// Judges what is left.
pub fn judge(left: &Left) -> Verdict {
    if left.up && left.leases + left.waiters + left.sessions + left.tasks == 0 {
        return Ok(());
    }
    let sentence = format!(
        "{} s after the last fault there are still {} leases, {} waiters, {} sessions and {} tasks of clients{}",
        left.after_us / 1_000_000,
        left.leases,
        left.waiters,
        left.sessions,
        left.tasks,
        if left.up { "" } else { ", and the server is down" }
    );
    Err(Violation::new("progress", sentence))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sees_what_is_left() {
        judge(&Left { up: true, ..Left::default() }).unwrap();
        assert!(judge(&Left::default()).is_err());
        assert!(judge(&Left { up: true, waiters: 1, ..Left::default() }).is_err());
        assert!(judge(&Left { up: true, tasks: 1, ..Left::default() }).is_err());
    }
}
