//! progress: once the faults stop, every live waiter is granted within a bounded time, and everything ends; and while
//! nothing stands still, no lease outlives its deadline by long.
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
    /// Calls on open connections that have had no answer.
    pub calls: usize,
    /// Clients' tasks that have not come to an end.
    pub tasks: usize,
}

/// Judges what is left.
pub fn judge(left: &Left) -> Verdict {
    if left.up && left.leases + left.waiters + left.sessions + left.calls + left.tasks == 0 {
        return Ok(());
    }
    let sentence = format!(
        "{} s after the last fault there are still {} leases, {} waiters, {} sessions, {} calls without an answer and {} tasks of clients{}",
        left.after_us / 1_000_000,
        left.leases,
        left.waiters,
        left.sessions,
        left.calls,
        left.tasks,
        if left.up { "" } else { ", and the server is down" }
    );
    Err(Violation::new("progress", sentence))
}

/// Judges a lease that was ended late: at its deadline the next one gets the lock, not at a later sweep.
pub fn judge_lateness(calm: bool, by_ms: u64) -> Verdict {
    if !calm {
        return Ok(());
    }
    Err(Violation::new("progress", format!("leases were ended {by_ms} ms late though nothing stood still")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sees_a_late_sweep() {
        judge_lateness(false, 700).unwrap();
        assert!(judge_lateness(true, 700).is_err());
    }

    #[test]
    fn sees_what_is_left() {
        judge(&Left { up: true, ..Left::default() }).unwrap();
        assert!(judge(&Left::default()).is_err());
        assert!(judge(&Left { up: true, waiters: 1, ..Left::default() }).is_err());
        assert!(judge(&Left { up: true, calls: 1, ..Left::default() }).is_err());
        assert!(judge(&Left { up: true, tasks: 1, ..Left::default() }).is_err());
    }
}
