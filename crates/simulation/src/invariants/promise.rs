//! promise: what an answer says about time is what the contract says it says. Counted from the arrival of the attempt that is
//! answered, `stop_after` is never further than half the TTL past the decision and always half the TTL before the deadline;
//! `renew_after` comes first. And a fresh grant is of use: it may be believed for half its TTL.
//!
//! Catches: an answer that gives a holder too much time or none, also where nobody comes to harm by it in this run: an old,
//! later deadline after a TTL was shortened, a wait that is left out or counted twice.

use leasehold_state_machine::answer::Answer;

use super::{Reply, Verdict, Violation};
use crate::ledger::Ledger;

/// Durations are told in whole milliseconds, rounded down.
const ROUNDING_US: u64 = 2_000;

/// The times of an answer.
struct Times {
    ttl_us: u64,
    left_us: u64,
    renew_after_us: u64,
    stop_after_us: u64,
}

/// Judges what an answer promises.
pub fn judge(reply: &Reply<'_>, ledger: &Ledger) -> Verdict {
    let (Some(attempt), Ok(answer)) = (ledger.attempt(reply.to), reply.outcome) else { return Ok(()) };
    let (ttl, left_ms, renew_ms, stop_ms) = match answer {
        Answer::Lease(view) => (view.ttl, view.expires_in_ms, view.renew_after_ms, view.stop_after_ms),
        Answer::Session(view) => (view.ttl, view.expires_in_ms, view.renew_after_ms, view.stop_after_ms),
        _ => return Ok(()),
    };
    let times = Times {
        ttl_us: ttl.us(),
        left_us: left_ms * 1000,
        renew_after_us: renew_ms * 1000,
        stop_after_us: stop_ms * 1000,
    };
    // It was decided no later than it left.
    let elapsed_us = reply.at_us - attempt.arrived_us;
    if let Some(wrong) = times.wrong(elapsed_us) {
        let Times { ttl_us, left_us, renew_after_us, stop_after_us } = times;
        return Err(Violation::new(
            "promise",
            format!(
                "{wrong}: an answer {elapsed_us} us after its attempt came in says that of {ttl_us} us {left_us} are left, renew after {renew_after_us}, stop after {stop_after_us}"
            ),
        ));
    }
    Ok(())
}

impl Times {
    fn wrong(&self, elapsed_us: u64) -> Option<&'static str> {
        let Times { ttl_us, left_us, renew_after_us, stop_after_us } = *self;
        let half_us = ttl_us / 2;
        if stop_after_us > elapsed_us + half_us + ROUNDING_US {
            return Some("it may be believed for more than half its TTL past the decision");
        }
        if stop_after_us > elapsed_us + left_us.saturating_sub(half_us) + ROUNDING_US {
            return Some("it may be believed when less than half its TTL is left");
        }
        if renew_after_us > stop_after_us {
            return Some("it is to be renewed after it must have stopped");
        }
        if left_us + ROUNDING_US >= ttl_us && stop_after_us + ROUNDING_US < half_us {
            return Some("with all of its TTL left it may not be believed for half of it");
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sees_too_much_and_too_little() {
        let fresh =
            || Times { ttl_us: 900_000, left_us: 900_000, renew_after_us: 300_000, stop_after_us: 450_000 };
        assert_eq!(fresh().wrong(0), None);
        assert_eq!(Times { stop_after_us: 1_450_000, ..fresh() }.wrong(1_000_000), None);
        for wrong in [
            Times { stop_after_us: 500_000, ..fresh() },
            Times { left_us: 500_000, ..fresh() },
            Times { renew_after_us: 451_000, ..fresh() },
            Times { renew_after_us: 0, stop_after_us: 300_000, ..fresh() },
            // A TTL that was shortened leaves an old, later deadline standing.
            Times { left_us: 5_000_000, stop_after_us: 4_550_000, ..fresh() },
        ] {
            assert!(wrong.wrong(0).is_some());
        }
    }
}
