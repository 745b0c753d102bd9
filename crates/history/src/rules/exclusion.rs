//! **exclusion**: no two leases that conflict are alive, or believed to be, at one moment. Only what is certain counts: from
//! the answer of the grant to the first moment at which the lease may have ended.

use crate::ceiling::{Ceiling, Mark};
use crate::rules::Case;
use crate::violation::Violation;

pub(super) fn judge(case: &Case<'_>) -> Vec<Violation> {
    let grants = &case.grants.all;
    let mut by_hearing: Vec<usize> =
        (0..grants.len()).filter(|n| grants[*n].heard_us < grants[*n].alive_until_us).collect();
    by_hearing.sort_by_key(|number| grants[*number].heard_us);
    let mut alive = Ceiling::over(case.grants.ground.cells());
    let mut wrong = Vec::new();
    for number in by_hearing {
        let grant = &grants[number];
        if let Some(other) = alive.above(grant.at, grant.mode).filter(|other| other.value > grant.heard_us) {
            wrong.push(Violation::new(
                "exclusion",
                format!(
                    "at {} µs both of two conflicting leases were alive, the first of them up to {}",
                    grant.heard_us,
                    moment(other.value)
                ),
                [case.acquire(other.of), case.acquire(number)],
            ));
        }
        alive.put(grant.at, grant.mode, Mark { value: grant.alive_until_us, of: number });
    }
    wrong
}

fn moment(us: u64) -> String {
    if us == u64::MAX { "the end".into() } else { format!("{us} µs") }
}
