//! **never_early**: nobody hears that a lease has ended before its time to live has passed since its last confirmed renewal
//! was sent, unless somebody gave it back or broke it.

use crate::grants::Grant;
use crate::operation::{Kind, Operation, Outcome};
use crate::rules::Case;
use crate::violation::Violation;

pub(super) fn judge(case: &Case<'_>) -> Vec<Violation> {
    let mut wrong = Vec::new();
    for op in case.operations {
        let told = matches!(
            (op.kind, op.outcome),
            (Kind::Ended, _) | (Kind::Renew | Kind::Release | Kind::Append, Outcome::Lost)
        );
        let Some(number) = op.token.filter(|_| told).and_then(|token| case.grants.by_token(token)) else {
            continue;
        };
        let grant = &case.grants.all[number];
        let (Some(until_us), Some(at_us)) = (grant.runs_until_us, op.answered_us) else { continue };
        if at_us < until_us && !ended_by_somebody(grant, op, at_us) {
            wrong.push(Violation::new(
                "never_early",
                format!("a lease that could not run out before {until_us} µs was gone at {at_us} µs"),
                [case.acquire(number), op],
            ));
        }
    }
    wrong
}

/// Whether anything else than its time may have ended the lease by then. A release does not excuse what it was told itself.
fn ended_by_somebody(grant: &Grant, told: &Operation, at_us: u64) -> bool {
    let own = usize::from(told.kind == Kind::Release);
    grant.broken_us <= at_us || (grant.releases > own && grant.released_us <= at_us)
}
