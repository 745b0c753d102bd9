//! **stale_writes**: what a token guards takes nothing from an older one. Once a write under a token was confirmed, no write
//! under a smaller token that is made afterwards is done. (Writes to one file or register are made under leases that conflict.)
//! A repeat that is told of an earlier attempt's success was made when that one was.

use std::collections::HashMap;

use crate::grants::{first_attempts, first_of};
use crate::operation::{Kind, Operation, Outcome};
use crate::rules::Case;
use crate::violation::Violation;

/// A write that was done, and the moment before which it was not made: the first attempt of its request was invoked then.
struct Write<'a> {
    token: u64,
    not_before_us: u64,
    op: &'a Operation,
}

pub(super) fn judge(case: &Case<'_>) -> Vec<Violation> {
    let firsts = first_attempts(case.operations);
    let mut places: HashMap<&str, Vec<Write<'_>>> = HashMap::new();
    for op in case.operations {
        let writes = matches!(op.kind, Kind::Append | Kind::Write) && op.outcome == Outcome::Done;
        if let Some(token) = op.token.filter(|_| writes) {
            let not_before_us = first_of(&firsts, op);
            places.entry(&op.lock).or_default().push(Write { token, not_before_us, op });
        }
    }
    let mut places: Vec<(&str, Vec<Write<'_>>)> = places.into_iter().collect();
    places.sort_unstable_by_key(|(name, _)| *name);
    places.into_iter().flat_map(|(_, writes)| one_place(writes)).collect()
}

fn one_place(mut writes: Vec<Write<'_>>) -> Vec<Violation> {
    writes.sort_by_key(|write| write.not_before_us);
    let mut confirmed: Vec<&Write<'_>> = writes.iter().collect();
    confirmed.sort_by_key(|write| write.op.effect_by_us());
    let mut confirmed = confirmed.into_iter().peekable();
    let mut highest: Option<&Write<'_>> = None;
    let mut wrong = Vec::new();
    for write in &writes {
        while let Some(other) = confirmed.next_if(|other| other.op.effect_by_us() < write.not_before_us) {
            if highest.is_none_or(|known| known.token < other.token) {
                highest = Some(other);
            }
        }
        if let Some(seen) = highest.filter(|seen| seen.token > write.token) {
            let (token, seen_token) = (write.token, seen.token);
            let what = format!("a write under {token} was done after one under {seen_token} was confirmed");
            wrong.push(Violation::new("stale_writes", what, [seen.op, write.op]));
        }
    }
    wrong
}
