//! **one_effect**: all that is done under one request id is done once. Repeats get the same token and the same lease; the same
//! id with something else asked is never done.

use std::collections::HashMap;

use crate::operation::{Kind, Operation, Outcome};
use crate::rules::Case;
use crate::violation::Violation;

pub(super) fn judge(case: &Case<'_>) -> Vec<Violation> {
    let mut firsts: HashMap<(&str, &str), &Operation> = HashMap::new();
    let mut wrong = Vec::new();
    for op in case.operations.iter().filter(|op| op.outcome == Outcome::Done) {
        let Some(id) = &op.request_id else { continue };
        let owner = match op.kind {
            Kind::Acquire | Kind::Append => &*op.client,
            // A break has no owner, and no owner is empty.
            Kind::Break => "",
            _ => continue,
        };
        let first = *firsts.entry((owner, id)).or_insert(op);
        if let Some(what) = difference(first, op) {
            wrong.push(Violation::new("one_effect", what, [first, op]));
        }
    }
    wrong
}

fn difference(first: &Operation, second: &Operation) -> Option<&'static str> {
    let asked = |op: &Operation| (op.kind, op.lock.clone(), op.mode, op.value.clone());
    if asked(first) != asked(second) {
        return Some("one request id was done for two different requests");
    }
    if first.kind != Kind::Acquire {
        return None;
    }
    if first.token != second.token {
        return Some("one request was granted twice");
    }
    let leases = first.lease.as_ref().zip(second.lease.as_ref());
    leases.is_some_and(|(a, b)| a != b).then_some("one request was answered with two leases")
}
