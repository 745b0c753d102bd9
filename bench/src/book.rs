//! Everything that was measured: figures by workload, system, way and size, each with the values of every repetition. What is
//! told of a figure is the median of each of its values. Plain data; written out by `report`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::drive::Values;
use crate::samples::median;

/// What a figure is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// What was done: `uncontended`, `held`.
    pub workload: &'static str,
    /// By whom: the name of a peer.
    pub system: &'static str,
    /// Over which way; empty where there is only one.
    pub way: &'static str,
    /// How many: clients, locks, waiters.
    pub size: usize,
}

/// All figures, in the order in which they were first taken.
#[derive(Debug, Default)]
pub struct Book {
    order: Vec<Key>,
    figures: BTreeMap<Key, Vec<Values>>,
    failures: Vec<String>,
}

impl Book {
    /// Takes in one repetition.
    pub fn record(&mut self, key: Key, values: Values) {
        if !self.figures.contains_key(&key) {
            self.order.push(key.clone());
        }
        self.figures.entry(key).or_default().push(values);
    }

    /// Something could not be measured, for this reason. The run goes on without it, and tells.
    pub fn fail(&mut self, what: &str, why: &str) {
        let why = why.lines().next().unwrap_or_default();
        eprintln!("{what} FAILED: {why}");
        self.failures.push(format!("{what}: {why}"));
    }

    /// What could not be measured.
    pub fn failures(&self) -> &[String] {
        &self.failures
    }

    /// Takes in all figures of workloads that this has none of.
    /// Gives which workloads those are.
    pub fn keep(&mut self, before: &Book) -> Vec<&'static str> {
        let measured: Vec<&str> = self.order.iter().map(|key| key.workload).collect();
        let mut kept = Vec::new();
        for (key, rounds) in before.figures().filter(|(key, _)| !measured.contains(&key.workload)) {
            if !kept.contains(&key.workload) {
                kept.push(key.workload);
            }
            for values in rounds {
                self.record(key.clone(), values.clone());
            }
        }
        kept
    }

    /// Everything, in order.
    pub fn figures(&self) -> impl Iterator<Item = (&Key, &[Values])> {
        self.order.iter().filter_map(|key| Some((key, &**self.figures.get(key)?)))
    }

    /// Each repetition by itself, as far as every figure has it.
    pub fn rounds(&self) -> impl Iterator<Item = Book> {
        let most = self.figures.values().map(Vec::len).max().unwrap_or(0);
        (0..most).map(|round| {
            let mut alone = Book::default();
            for (key, rounds) in self.figures() {
                if let Some(values) = rounds.get(round) {
                    alone.record(key.clone(), values.clone());
                }
            }
            alone
        })
    }

    /// The median of one value of a figure.
    pub fn value(&self, key: &Key, name: &str) -> Option<f64> {
        let rounds = self.figures.get(key)?;
        median(&rounds.iter().filter_map(|values| values.get(name).copied()).collect::<Vec<f64>>())
    }
}

/// Shows how far a run is, one line for each measurement, with what remains.
pub struct Progress {
    began: Instant,
    expected: Duration,
    done: Duration,
}

impl Progress {
    /// Of a run that begins now.
    pub fn new() -> Progress {
        Progress { began: Instant::now(), expected: Duration::ZERO, done: Duration::ZERO }
    }

    /// There is something to do that should take so long.
    pub fn expect(&mut self, more: Duration) {
        self.expected += more;
    }

    /// Something that was expected to take so long is done. What remains is reckoned by how long the rest has taken.
    pub fn done(&mut self, expected: Duration, what: &str) {
        self.done += expected;
        let pace = self.began.elapsed().as_secs_f64() / self.done.as_secs_f64().max(0.1);
        let left = self.expected.saturating_sub(self.done).as_secs_f64() * pace;
        let left = if left < 90.0 { format!("{left:.0} s") } else { format!("{:.0} min", left / 60.0) };
        eprintln!("[{left:>6} left] {what}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_the_median_of_its_repetitions() {
        let mut book = Book::default();
        let key = |size| Key { workload: "uncontended", system: "redis-memory", way: "pipeline", size };
        for value in [3.0, 1.0, 2.0] {
            book.record(key(64), Values::from([("per_second", value)]));
            book.record(key(1), Values::from([("per_second", value * 10.0)]));
        }
        assert_eq!(book.value(&key(64), "per_second"), Some(2.0));
        assert_eq!(book.value(&key(64), "p50_us"), None);
        assert_eq!(book.value(&key(16), "per_second"), None);
        assert_eq!(book.figures().map(|(key, _)| key.size).collect::<Vec<_>>(), [64, 1]);
        let alone: Vec<_> = book.rounds().map(|round| round.value(&key(64), "per_second")).collect();
        assert_eq!(alone, [Some(3.0), Some(1.0), Some(2.0)]);
    }

    #[test]
    fn other_workloads_are_kept() {
        let key = |workload| Key { workload, system: "leasehold", way: "stream", size: 1 };
        let (mut old, mut new) = (Book::default(), Book::default());
        old.record(key("churn"), Values::from([("per_second", 1.0)]));
        old.record(key("held"), Values::from([("per_second", 1.0)]));
        new.record(key("held"), Values::from([("per_second", 2.0)]));
        new.keep(&old);
        assert_eq!(new.value(&key("held"), "per_second"), Some(2.0));
        assert_eq!(new.value(&key("churn"), "per_second"), Some(1.0));
    }
}
