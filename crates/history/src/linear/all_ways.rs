//! Follows all ways of ordering at once. Sees for certain that there is none, or that there are too many to tell.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::linear::way::{Onward, Way};
use crate::linear::{Fault, Model, Moment, Span};

/// So many operations that were under way are named.
const NAMED_MAX: usize = 12;

pub(super) fn follow<M: Model>(
    model: &M,
    spans: &[Span],
    moments: &[Moment],
    ways_max: usize,
) -> Result<(), Fault> {
    let mut ways = vec![Way { state: model.initial(), left: Vec::new() }];
    let mut under_way: BTreeSet<usize> = BTreeSet::new();
    for moment in moments {
        let operation = moment.operation;
        if !moment.answered {
            ways.iter_mut().for_each(|way| way.left.push(operation));
            under_way.insert(operation);
            continue;
        }
        under_way.remove(&operation);
        let mut onward = Onward::from(ways, *moment);
        let mut placed = Vec::new();
        while let Some(way) = onward.next(model, spans, ways_max) {
            placed.push(way);
        }
        if onward.looked_at() >= ways_max {
            return Err(Fault::TooManyWays { operation });
        }
        if placed.is_empty() {
            let among = under_way.iter().rev().take(NAMED_MAX).copied().collect();
            return Err(Fault::Impossible { operation, among });
        }
        ways = without_the_poorer(placed, spans);
    }
    Ok(())
}

/// A way that differs from another only in having placed more of what need not be placed at all can do nothing that the
/// other cannot.
fn without_the_poorer<S: Clone + Ord>(ways: Vec<Way<S>>, spans: &[Span]) -> Vec<Way<S>> {
    let mut alike: BTreeMap<(S, Vec<usize>), Vec<Vec<usize>>> = BTreeMap::new();
    for way in ways {
        let (bound, free): (Vec<usize>, Vec<usize>) =
            way.left.into_iter().partition(|number| spans[*number].answered_us.is_some());
        alike.entry((way.state, bound)).or_default().push(free);
    }
    let mut kept = Vec::new();
    for ((state, bound), mut free) in alike {
        free.sort_by_key(|numbers| std::cmp::Reverse(numbers.len()));
        let mut rich: Vec<HashSet<usize>> = Vec::new();
        for numbers in free {
            if rich.iter().any(|known| numbers.iter().all(|number| known.contains(number))) {
                continue;
            }
            rich.push(numbers.iter().copied().collect());
            let mut left = [bound.clone(), numbers].concat();
            left.sort_unstable();
            kept.push(Way { state: state.clone(), left });
        }
    }
    kept
}
