//! **token_order**: no token is given twice, and whoever asks after another's grant was heard gets a greater one, whatever
//! they ask for.

use std::collections::HashMap;

use crate::operation::{Kind, Operation, Outcome};
use crate::rules::Case;
use crate::violation::Violation;

pub(super) fn judge(case: &Case<'_>) -> Vec<Violation> {
    let mut wrong = unique(case.operations);
    let grants = &case.grants.all;
    let mut by_asking: Vec<usize> = (0..grants.len()).collect();
    by_asking.sort_by_key(|number| grants[*number].not_before_us);
    let mut by_hearing = by_asking.clone();
    by_hearing.sort_by_key(|number| grants[*number].heard_us);
    let mut heard = by_hearing.into_iter().peekable();
    let mut greatest: Option<usize> = None;
    for number in by_asking {
        let grant = &grants[number];
        while let Some(earlier) = heard.next_if(|earlier| grants[*earlier].heard_us < grant.not_before_us) {
            if greatest.is_none_or(|known| grants[known].token < grants[earlier].token) {
                greatest = Some(earlier);
            }
        }
        if let Some(earlier) = greatest.filter(|earlier| grants[*earlier].token >= grant.token) {
            wrong.push(Violation::new(
                "token_order",
                format!(
                    "token {} had been heard before the request was made that got {}",
                    grants[earlier].token, grant.token
                ),
                [case.acquire(earlier), case.acquire(number)],
            ));
        }
    }
    wrong
}

fn unique(operations: &[Operation]) -> Vec<Violation> {
    let mut holders: HashMap<u64, &Operation> = HashMap::new();
    let mut wrong = Vec::new();
    for op in operations.iter().filter(|op| op.kind == Kind::Acquire && op.outcome == Outcome::Done) {
        let Some(token) = op.token else {
            wrong.push(Violation::new("token_order", "a grant without a token", [op]));
            continue;
        };
        let first = *holders.entry(token).or_insert(op);
        let same_request = first.client == op.client
            && first.lock == op.lock
            && match (&first.request_id, &op.request_id) {
                (Some(a), Some(b)) => a == b,
                _ => std::ptr::eq(first, op),
            };
        if !same_request {
            let what = format!("two requests were granted with the token {token}");
            wrong.push(Violation::new("token_order", what, [first, op]));
        }
    }
    wrong
}
