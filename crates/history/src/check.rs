//! Judges a history by every rule, and counts what it had to judge by: a history in which nothing happened proves nothing.

use std::fmt;

use crate::grants::{Grants, Settings};
use crate::linear;
use crate::lines::History;
use crate::operation::{Kind, Outcome};
use crate::rules::{Case, judge};
use crate::violation::Violation;

/// What came of looking at a history.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Operations.
    pub operations: usize,
    /// Those that nobody knows the end of.
    pub open_ended: usize,
    /// Leases that were granted.
    pub grants: usize,
    /// Acquires that were told they stand in line.
    pub queued: usize,
    /// Appends and writes that were confirmed.
    pub writes: usize,
    /// What is wrong.
    pub violations: Vec<Violation>,
    /// What could not be judged, and why.
    pub undecided: Vec<String>,
}

impl Report {
    /// Whether everything could be judged and nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.violations.is_empty() && self.undecided.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { operations, open_ended, grants, queued, writes, .. } = self;
        writeln!(
            f,
            "{operations} operations ({open_ended} open-ended): {grants} grants, {queued} waits, {writes} writes"
        )?;
        self.violations.iter().try_for_each(|violation| writeln!(f, "WRONG {violation}"))?;
        self.undecided.iter().try_for_each(|why| writeln!(f, "UNDECIDED {why}"))
    }
}

/// Judges a history.
pub fn check(history: &History, settings: &Settings) -> Report {
    let operations = history.operations();
    let grants = Grants::of(operations, settings);
    let mut violations = judge(&Case { operations, grants: &grants });
    let mut undecided = Vec::new();
    for (wrong, unknown) in
        [linear::lock::judge(operations, &grants, settings), linear::register::judge(operations, settings)]
    {
        violations.extend(wrong);
        undecided.extend(unknown);
    }
    let count = |counts: fn(&crate::Operation) -> bool| operations.iter().filter(|op| counts(op)).count();
    Report {
        operations: operations.len(),
        open_ended: count(|op| op.effect_by_us() == u64::MAX),
        grants: grants.all.len(),
        queued: count(|op| op.queued_us.is_some()),
        writes: count(|op| matches!(op.kind, Kind::Append | Kind::Write) && op.outcome == Outcome::Done),
        violations,
        undecided,
    }
}
