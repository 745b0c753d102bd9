//! Measurements about sizes: what does it cost to hold a million locks, to have a hundred thousand in line, to end a million
//! leases at once, to go on for an hour, to have a slow disk? Of Leasehold alone: the real server over real sockets, driven
//! with the SDK.
//!
//! Modules in reading order, low to high.

mod telling;

mod crew;
mod snapshots;

mod churn;
mod expiry;
mod growth;
mod held;
mod line;
mod slow_disk;

use std::time::Duration;

use crate::alone::{Part, SYSTEM};
use crate::book::{Book, Key};
use crate::drive::Values;
use crate::samples::Percentiles;

/// All of them, in the order of the report.
pub const PARTS: &[Part] = &[
    Part { name: "held", expected: |scale| scale.seconds(180, 14), rounds: 1, run: held::measure },
    Part { name: "growth", expected: |scale| scale.seconds(110, 6), rounds: 1, run: growth::measure },
    Part { name: "line", expected: |scale| scale.seconds(30, 4), rounds: 1, run: line::measure },
    Part { name: "expiry", expected: |scale| scale.seconds(60, 10), rounds: 1, run: expiry::measure },
    Part { name: "slow-disk", expected: |scale| scale.seconds(80, 14), rounds: 1, run: slow_disk::measure },
    Part {
        name: "churn",
        expected: |scale| Duration::from_secs(60 * scale.minutes),
        rounds: 1,
        run: churn::measure,
    },
];

/// From this number on, each ten times the one before, up to the most that is held.
fn steps(first: usize, most: usize) -> Vec<usize> {
    let below = |step: &usize| *step < most;
    let mut steps: Vec<usize> =
        std::iter::successors(Some(first), |step| Some(step * 10)).take_while(below).collect();
    steps.push(most);
    steps
}

/// Runs something on threads of its own.
fn on_threads(what: impl Future<Output = Result<(), String>>) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start threads: {error}"))?;
    let outcome = runtime.block_on(what);
    // Callers who still stand in line are not waited for.
    runtime.shutdown_background();
    outcome
}

fn record(book: &mut Book, workload: &'static str, way: &'static str, size: usize, values: Values) {
    book.record(Key { workload, system: SYSTEM, way, size }, values);
}

/// What is told of many times.
fn times(times_us: impl Iterator<Item = u32>) -> Values {
    let times_us: Vec<u32> = times_us.collect();
    let count = times_us.len() as f64;
    let times = Percentiles::of(times_us);
    Values::from([("count", count), ("p50_us", times.p50), ("p99_us", times.p99), ("max_us", times.max)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_end_with_the_most() {
        assert_eq!(steps(1_000, 1_000_000), [1_000, 10_000, 100_000, 1_000_000]);
        assert_eq!(steps(10_000, 10_000), [10_000]);
        assert_eq!(steps(1_000, 25_000), [1_000, 10_000, 25_000]);
    }
}
