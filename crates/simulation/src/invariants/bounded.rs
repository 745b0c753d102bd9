//! bounded: memory, queues and the journal have limits, and overload is an explicit answer. Renewals and releases outrank
//! acquires: they have a lane of their own, which nothing else can fill.
//!
//! Catches: a limit that is not looked at, a permit that is never given back or given back twice, a lane that refuses while it
//! has room, an upkeep that is told busy because of others, a journal whose old segments are never dropped.

use leasehold_engine::{AdmissionLimits, Purpose};
use leasehold_state_machine::Counts;
use leasehold_state_machine::answer::Refusal;
use leasehold_state_machine::limits::Limits;

use super::{Verdict, Violation};
use crate::plan::Plan;

/// A journal that is looked after keeps no more than this many segments' worth of bytes: what makes a snapshot due, what
/// comes while one is made and while the server dies in the middle of that, and what lives.
const SEGMENTS_MAX: u64 = 40;

/// How much there is of everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sizes {
    /// What the state machine keeps.
    pub counts: Counts,
    /// Bytes in the journal's files.
    pub journal_bytes: u64,
    /// Calls that wait for an answer and never stood in line. Those that did are waiters; or a newer attempt has taken
    /// their place, and while the disk hangs they cannot be told so: what bounds them is the number of connections.
    pub calls: usize,
}

/// Judges whether everything is within its bounds.
pub fn judge(sizes: &Sizes, plan: &Plan) -> Verdict {
    let Limits { leases_max, waiters_max, sessions_max, files_max, files_bytes_max, .. } = plan.limits;
    let AdmissionLimits { ordinary, upkeep, write, read } = plan.admission;
    let lanes = [ordinary, upkeep, write, read].iter().map(|lane| lane.requests_max).sum::<usize>();
    let counts = sizes.counts;
    let bounds = [
        // Who stands in line was let in: many who share may be granted at once and pass the limit, but never by more than
        // the line is long.
        ("leases and waiters", counts.leases + counts.waiters, leases_max.saturating_add(waiters_max)),
        ("waiters", counts.waiters, waiters_max),
        ("sessions", counts.opened_sessions, sessions_max),
        ("files", counts.files, files_max),
        ("bytes of files", as_usize(counts.file_bytes), as_usize(files_bytes_max)),
        ("calls inside", sizes.calls, lanes),
        ("bytes of journal", as_usize(sizes.journal_bytes), as_usize(SEGMENTS_MAX * plan.segment_bytes)),
    ];
    match bounds.iter().find(|(_, count, most)| count > most) {
        None => Ok(()),
        Some((what, count, most)) => Err(violation(format!("there are {count} {what}, and at most {most}"))),
    }
}

/// Judges who is let in at the door, given how many of the same purpose are inside already.
pub fn judge_door(
    purpose: Purpose,
    inside: usize,
    limits: &AdmissionLimits,
    refused: Option<&Refusal>,
) -> Verdict {
    let lane = match purpose {
        Purpose::Ordinary => limits.ordinary,
        Purpose::Upkeep => limits.upkeep,
        Purpose::Write => limits.write,
        Purpose::Read => limits.read,
    };
    let full = inside >= lane.requests_max;
    match refused {
        None if full => Err(violation(format!("{purpose:?} was let in as one more than {inside}"))),
        Some(_) if !full => {
            Err(violation(format!("{purpose:?} was refused though only {inside} were inside")))
        }
        Some(Refusal::Busy { retry_ms: 1.., .. }) | None => Ok(()),
        Some(other) => Err(violation(format!("a full lane was told as {other:?}"))),
    }
}

fn as_usize(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

fn violation(sentence: String) -> Violation {
    Violation::new("bounded", sentence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Sources;
    use leasehold_engine::LaneLimits;

    #[test]
    fn sees_more_than_there_may_be() {
        let mut plan = Plan::draw(&mut Sources::new(1));
        plan.limits.leases_max = 1;
        plan.limits.waiters_max = 2;
        let with = |leases| Sizes { counts: Counts { leases, ..Counts::default() }, ..Sizes::default() };
        judge(&with(3), &plan).unwrap();
        assert!(judge(&with(4), &plan).is_err());
        assert!(judge(&Sizes { journal_bytes: 1 << 40, ..Sizes::default() }, &plan).is_err());
    }

    #[test]
    fn sees_a_door_that_miscounts() {
        let lane = LaneLimits { requests_max: 2, bytes_max: usize::MAX };
        let limits = AdmissionLimits { ordinary: lane, ..AdmissionLimits::default() };
        let busy = Refusal::Busy { what: "requests", retry_ms: 50 };
        let never = Refusal::Busy { what: "requests", retry_ms: 0 };
        judge_door(Purpose::Ordinary, 1, &limits, None).unwrap();
        judge_door(Purpose::Ordinary, 2, &limits, Some(&busy)).unwrap();
        assert!(judge_door(Purpose::Ordinary, 2, &limits, None).is_err());
        assert!(judge_door(Purpose::Ordinary, 1, &limits, Some(&busy)).is_err());
        assert!(judge_door(Purpose::Upkeep, 2, &limits, Some(&busy)).is_err());
        assert!(judge_door(Purpose::Ordinary, 2, &limits, Some(&never)).is_err());
    }
}
