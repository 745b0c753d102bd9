//! Measurements of Leasehold alone, one a file: what it does where there is nothing to compare it with. Each records figures
//! like those of the comparison. Those about sizes are in `sizes/`.

mod files;
mod load;
mod refusals;

use std::time::Duration;

use crate::book::Book;
use crate::compare::Scale;

/// The system in the keys of all these figures.
pub const SYSTEM: &str = "leasehold";

/// One measurement.
pub struct Part {
    /// The workload in the keys of its figures, and what `--only` takes.
    pub name: &'static str,
    /// About how long one repetition takes.
    pub expected: fn(Scale) -> Duration,
    /// How often it is repeated in full; a quick look is taken once.
    pub rounds: usize,
    /// Measures once, and records what it finds.
    pub run: fn(Scale, &mut Book) -> Result<(), String>,
}

/// All of them, in the order of the report.
pub const PARTS: &[Part] = &[
    Part { name: "refusals", expected: |scale| scale.seconds(3, 1), rounds: 3, run: refusals::measure },
    Part { name: "files", expected: |scale| scale.seconds(60, 12), rounds: 3, run: files::measure },
];
