//! **fifo**: whoever was told that it stands in line before another asked for something that conflicts is granted first, as
//! long as it stays. Who left before, or whose connection broke, is not counted; who asked again under the same request id
//! has the place of its first attempt.

use crate::ceiling::{Ceiling, Mark};
use crate::grants::{first_attempts, first_of};
use crate::ground::Stretch;
use crate::operation::{Kind, Operation, Outcome};
use crate::rules::Case;
use crate::violation::Violation;

/// One who waited.
struct Waiter<'a> {
    op: &'a Operation,
    queued_us: u64,
    at: Stretch,
}

pub(super) fn judge(case: &Case<'_>) -> Vec<Violation> {
    let mut waiters: Vec<Waiter<'_>> = case
        .operations
        .iter()
        .filter(|op| op.kind == Kind::Acquire)
        .filter_map(|op| {
            Some(Waiter { op, queued_us: op.queued_us?, at: case.grants.ground.stretch(&op.lock) })
        })
        .collect();
    waiters.sort_by_key(|waiter| waiter.queued_us);
    let firsts = first_attempts(case.operations);
    let mut asked: Vec<(u64, &Operation)> = case
        .operations
        .iter()
        .filter(|op| op.kind == Kind::Acquire && op.outcome == Outcome::Done)
        .map(|op| (first_of(&firsts, op), op))
        .collect();
    asked.sort_by_key(|(asked_us, _)| *asked_us);

    // The greatest token of those who stood there and were granted, and the latest moment of those who still stood there
    // when their time was over.
    let mut granted = Ceiling::over(case.grants.ground.cells());
    let mut standing = Ceiling::over(case.grants.ground.cells());
    let mut wrong = Vec::new();
    let mut next = 0;
    for (asked_us, op) in asked {
        while let Some(waiter) = waiters.get(next).filter(|waiter| waiter.queued_us < asked_us) {
            match (waiter.op.outcome, waiter.op.token) {
                (Outcome::Done, Some(token)) => {
                    granted.put(waiter.at, waiter.op.mode, Mark { value: token, of: next });
                }
                (Outcome::Refused, _) => {
                    let mark = Mark { value: stayed_until_us(waiter.op), of: next };
                    standing.put(waiter.at, waiter.op.mode, mark);
                }
                _ => {}
            }
            next += 1;
        }
        let at = case.grants.ground.stretch(&op.lock);
        let (Some(token), Some(heard_us)) = (op.token, op.answered_us) else { continue };
        let overtaken = granted.above(at, op.mode).filter(|mark| mark.value > token);
        let passed_by = standing.above(at, op.mode).filter(|mark| mark.value > heard_us);
        for mark in [overtaken, passed_by].into_iter().flatten() {
            wrong.push(Violation::new(
                "fifo",
                "the first stood in line before the second asked, and the second was granted before it",
                [waiters[mark.of].op, op],
            ));
        }
    }
    wrong
}

/// Up to when one who was not granted in time surely stood there.
fn stayed_until_us(op: &Operation) -> u64 {
    let waited_us = op.wait_us.map_or(0, |wait_us| op.invoked_us.saturating_add(wait_us));
    waited_us.min(op.answered_us.unwrap_or(0))
}
