//! **stale_writes**: what a token guards takes nothing from an older one. Once a write under a token was confirmed, no write
//! under a smaller token that is made afterwards is done. (Writes to one file or register are made under leases that conflict.)

use std::collections::HashMap;

use crate::operation::{Kind, Operation, Outcome};
use crate::rules::Case;
use crate::violation::Violation;

pub(super) fn judge(case: &Case<'_>) -> Vec<Violation> {
    let mut places: HashMap<&str, Vec<(u64, &Operation)>> = HashMap::new();
    for op in case.operations {
        let writes = matches!(op.kind, Kind::Append | Kind::Write) && op.outcome == Outcome::Done;
        if let Some(token) = op.token.filter(|_| writes) {
            places.entry(&op.lock).or_default().push((token, op));
        }
    }
    let mut names: Vec<&str> = places.keys().copied().collect();
    names.sort_unstable();
    names.into_iter().flat_map(|name| one_place(&places[name])).collect()
}

fn one_place(writes: &[(u64, &Operation)]) -> Vec<Violation> {
    let mut confirmed: Vec<&(u64, &Operation)> = writes.iter().collect();
    confirmed.sort_by_key(|(_, op)| op.effect_by_us());
    let mut confirmed = confirmed.into_iter().peekable();
    let mut highest: Option<&(u64, &Operation)> = None;
    let mut wrong = Vec::new();
    // In the order in which they were invoked, as the history has them.
    for (token, op) in writes {
        while let Some(write) = confirmed.next_if(|(_, other)| other.effect_by_us() < op.invoked_us) {
            if highest.is_none_or(|(known, _)| *known < write.0) {
                highest = Some(write);
            }
        }
        if let Some((seen, other)) = highest.filter(|(seen, _)| seen > token) {
            let what = format!("a write under {token} was done after one under {seen} was confirmed");
            wrong.push(Violation::new("stale_writes", what, [*other, *op]));
        }
    }
    wrong
}
