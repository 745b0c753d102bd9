//! The goals: what Leasehold should reach, as ratios between figures of one run, and whether it does. Pure.

use std::fmt::Write as _;

use super::units::number;
use crate::book::{Book, Key};

/// The way of our own that the goals are about, unless they say otherwise.
const STREAM: &str = "stream";
/// What is no client, and counts for nobody.
pub const CEILING: &str = "redis-benchmark";

/// One goal.
pub struct Goal {
    /// What is measured.
    pub workload: &'static str,
    /// Beside whom.
    pub against: &'static str,
    /// What is to be reached.
    pub reach: f64,
    /// What is to be aimed for then.
    pub aim: f64,
    lower_is_better: bool,
    measure: fn(&Book) -> Option<f64>,
}

impl Goal {
    const fn higher(
        workload: &'static str,
        against: &'static str,
        [reach, aim]: [f64; 2],
        measure: fn(&Book) -> Option<f64>,
    ) -> Goal {
        Goal { workload, against, reach, aim, lower_is_better: false, measure }
    }

    const fn lower(
        workload: &'static str,
        against: &'static str,
        [reach, aim]: [f64; 2],
        measure: fn(&Book) -> Option<f64>,
    ) -> Goal {
        Goal { workload, against, reach, aim, lower_is_better: true, measure }
    }

    /// How it stands.
    pub fn verdict(&self, measured: Option<f64>) -> &'static str {
        let meets = |goal: f64, measured: f64| {
            if self.lower_is_better { measured <= goal } else { measured >= goal }
        };
        match measured {
            None => "not measured",
            Some(measured) if meets(self.aim, measured) => "met, and what was aimed for",
            Some(measured) if meets(self.reach, measured) => "met",
            Some(_) => "not met",
        }
    }
}

/// All of them.
const GOALS: &[Goal] = &[
    Goal::higher("uncontended, 64 clients, stream", "Redis without persistence", [0.6, 0.8], |book| {
        rate(book, STREAM, 64, "redis-memory")
    }),
    Goal::higher("uncontended, 256 clients, stream", "Redis without persistence", [1.1, 1.5], |book| {
        rate(book, STREAM, 256, "redis-memory")
    }),
    Goal::higher("uncontended, 1024 clients, stream", "Redis without persistence", [1.7, 2.0], |book| {
        rate(book, STREAM, 1024, "redis-memory")
    }),
    Goal::higher("uncontended, 64 clients, stream", "Redis `appendfsync always`", [1.5, 2.0], |book| {
        rate(book, STREAM, 64, "redis-always")
    }),
    Goal::higher("uncontended, 256 clients, stream", "Redis `appendfsync always`", [2.0, 3.0], |book| {
        rate(book, STREAM, 256, "redis-always")
    }),
    Goal::higher("uncontended, 64 clients, stream", "etcd's lock call", [12.0, 15.0], |book| {
        rate(book, STREAM, 64, "etcd")
    }),
    Goal::higher("uncontended, 256 clients, stream", "etcd's lock call", [20.0, 30.0], |book| {
        rate(book, STREAM, 256, "etcd")
    }),
    Goal::higher("uncontended, 64 clients, HTTP/JSON", "etcd's lock call", [4.0, 6.0], |book| {
        rate(book, "http", 64, "etcd")
    }),
    Goal::lower("one client alone, p50 of a cycle", "Redis `appendfsync always`", [1.2, 1.0], |book| {
        let ours = ours(book, "uncontended", STREAM, 1, "p50_us")?;
        Some(ours / theirs(book, "uncontended", "redis-always", 1, "p50_us")?.min)
    }),
    Goal::higher("contended, 64 clients, changes of holder", "ZooKeeper's lock recipe", [3.0, 4.0], |book| {
        let ours = ours(book, "contended", STREAM, 64, "changes_per_second")?;
        Some(ours / theirs(book, "contended", "zookeeper", 64, "changes_per_second")?.max)
    }),
    Goal::lower("contended, 64 clients, longest wait", "the median wait", [2.0, 1.5], |book| {
        ours(book, "contended", STREAM, 64, "longest_to_median")
    }),
    Goal::lower("memory per held lock, a million of them, bytes", "", [300.0, 200.0], |book| {
        largest(book, "held", 1_000_000, "memory_each_bytes")
    }),
    Goal::lower("recovery of a million held locks after kill -9, seconds", "", [2.0, 1.0], |book| {
        largest(book, "held", 1_000_000, "recover_s")
    }),
];

fn ours(book: &Book, workload: &'static str, way: &'static str, size: usize, value: &str) -> Option<f64> {
    book.value(&Key { workload, system: "leasehold", way, size }, value)
}

/// Of all ways of a figure.
struct Range {
    min: f64,
    max: f64,
}

/// A value of another system, over all its ways: the better one counts.
fn theirs(book: &Book, workload: &str, system: &str, size: usize, value: &str) -> Option<Range> {
    let ways = book
        .figures()
        .map(|(key, _)| key)
        .filter(|key| (key.workload, key.system, key.size) == (workload, system, size) && key.way != CEILING);
    ways.filter_map(|key| book.value(key, value)).fold(None, |range: Option<Range>, value| {
        let Range { min, max } = range.unwrap_or(Range { min: value, max: value });
        Some(Range { min: min.min(value), max: max.max(value) })
    })
}

/// Our uncontended rate over that of another.
fn rate(book: &Book, way: &'static str, size: usize, system: &str) -> Option<f64> {
    let ours = ours(book, "uncontended", way, size, "per_second")?;
    Some(ours / theirs(book, "uncontended", system, size, "per_second")?.max)
}

/// The largest of our own over all ways.
fn largest(book: &Book, workload: &str, size: usize, value: &str) -> Option<f64> {
    theirs(book, workload, "leasehold", size, value).map(|range| range.max)
}

/// Each goal with what was measured.
pub fn judged(book: &Book) -> impl Iterator<Item = (&'static Goal, Option<f64>)> {
    GOALS.iter().map(|goal| (goal, (goal.measure)(book)))
}

/// All of them, as a Markdown table.
pub fn table(book: &Book) -> String {
    let mut text = String::from(
        "| workload | against | reach | then aim for | measured | |\n| --- | --- | ---: | ---: | ---: | --- |\n",
    );
    for (goal, measured) in judged(book) {
        let bound =
            |limit: f64| format!("{} {}", if goal.lower_is_better { "≤" } else { "≥" }, number(limit));
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} |",
            goal.workload,
            goal.against,
            bound(goal.reach),
            bound(goal.aim),
            measured.map_or_else(|| "–".to_owned(), number),
            goal.verdict(measured),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::Values;

    fn record(book: &mut Book, system: &'static str, way: &'static str, size: usize, per_second: f64) {
        let key = Key { workload: "uncontended", system, way, size };
        book.record(key, Values::from([("per_second", per_second), ("p50_us", 1e6 / per_second)]));
    }

    #[test]
    fn the_better_way_of_another_counts_and_its_ceiling_does_not() {
        let mut book = Book::default();
        record(&mut book, "leasehold", "stream", 64, 70.0);
        record(&mut book, "redis-memory", "connections", 64, 20.0);
        record(&mut book, "redis-memory", "pipeline", 64, 100.0);
        record(&mut book, "redis-memory", "redis-benchmark", 64, 900.0);
        assert_eq!(rate(&book, "stream", 64, "redis-memory"), Some(0.7));
        let (goal, measured) = judged(&book).next().unwrap();
        assert_eq!((goal.workload, measured), ("uncontended, 64 clients, stream", Some(0.7)));
        assert_eq!(goal.verdict(measured), "met");
    }

    #[test]
    fn goals_are_met_from_their_own_side() {
        let higher = Goal::higher("", "", [2.0, 3.0], |_| None);
        let lower = Goal::lower("", "", [2.0, 1.0], |_| None);
        for (measured, high, low) in [
            (0.5, "not met", "met, and what was aimed for"),
            (2.0, "met", "met"),
            (3.5, "met, and what was aimed for", "not met"),
        ] {
            assert_eq!(higher.verdict(Some(measured)), high);
            assert_eq!(lower.verdict(Some(measured)), low);
        }
        assert_eq!(lower.verdict(None), "not measured");
    }

    #[test]
    fn a_lone_clients_ratio_is_one_of_times() {
        let mut book = Book::default();
        record(&mut book, "leasehold", "stream", 1, 1000.0);
        record(&mut book, "redis-always", "connections", 1, 1100.0);
        record(&mut book, "redis-always", "pipeline", 1, 900.0);
        let table = table(&book);
        let row = table.lines().find(|line| line.contains("one client alone")).unwrap();
        assert!(row.contains("| 1.10 | met |"), "{row}");
    }
}
