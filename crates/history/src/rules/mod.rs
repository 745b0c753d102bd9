//! What every history must keep: one rule a file, each in O(n log n).

mod appends;
mod exclusion;
mod fifo;
mod never_early;
mod one_effect;
mod stale_writes;
mod token_order;

use crate::grants::Grants;
use crate::operation::Operation;
use crate::violation::Violation;

/// A history as the rules look at it.
pub(crate) struct Case<'a> {
    pub operations: &'a [Operation],
    pub grants: &'a Grants,
}

impl Case<'_> {
    /// The acquire that a grant was first heard of by.
    fn acquire(&self, grant: usize) -> &Operation {
        &self.operations[self.grants.all[grant].acquire]
    }
}

/// All rules.
pub(crate) fn judge(case: &Case<'_>) -> Vec<Violation> {
    let rules = [
        exclusion::judge,
        token_order::judge,
        never_early::judge,
        fifo::judge,
        one_effect::judge,
        stale_writes::judge,
        appends::judge,
    ];
    rules.into_iter().flat_map(|judge| judge(case)).collect()
}
