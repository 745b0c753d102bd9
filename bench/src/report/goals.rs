//! The goals: what Leasehold should reach, as ratios between figures of one run, and whether it does. Pure.

use std::fmt::Write as _;

use super::units::number;
use crate::book::{Book, Key};

/// The way of our own that the goals are about, unless they say otherwise.
const STREAM: &str = "stream";
/// What is no client, and counts for nobody.
pub const CEILING: &str = "redis-benchmark";
/// Redis through the client library that programs have for it.
const LIBRARY: &str = "multiplexed";
/// Redis through a client that was made for this benchmark and does nothing else.
const HAND_MADE: &str = "pipeline";

/// Which clients of another system count. Of those that do, the better one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Clients {
    /// Those that its users have.
    Usual,
    /// The hand-made one, too.
    All,
}

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
    measure: fn(&Book, Clients) -> Option<f64>,
}

impl Goal {
    const fn higher(
        workload: &'static str,
        against: &'static str,
        [reach, aim]: [f64; 2],
        measure: fn(&Book, Clients) -> Option<f64>,
    ) -> Goal {
        Goal { workload, against, reach, aim, lower_is_better: false, measure }
    }

    const fn lower(
        workload: &'static str,
        against: &'static str,
        [reach, aim]: [f64; 2],
        measure: fn(&Book, Clients) -> Option<f64>,
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
    Goal::higher(
        "uncontended, 64 clients, stream",
        "Redis without persistence, multiplexed",
        [0.6, 0.8],
        |book, clients| rate(book, STREAM, 64, "redis-memory", clients),
    ),
    Goal::higher(
        "uncontended, 256 clients, stream",
        "Redis without persistence, multiplexed",
        [1.1, 1.5],
        |book, clients| rate(book, STREAM, 256, "redis-memory", clients),
    ),
    Goal::higher(
        "uncontended, 1024 clients, stream",
        "Redis without persistence, multiplexed",
        [1.7, 2.0],
        |book, clients| rate(book, STREAM, 1024, "redis-memory", clients),
    ),
    Goal::higher(
        "uncontended, 64 clients, stream",
        "Redis `appendfsync always`, multiplexed",
        [1.5, 2.0],
        |book, clients| rate(book, STREAM, 64, "redis-always", clients),
    ),
    Goal::higher(
        "uncontended, 256 clients, stream",
        "Redis `appendfsync always`, multiplexed",
        [2.0, 3.0],
        |book, clients| rate(book, STREAM, 256, "redis-always", clients),
    ),
    Goal::higher("uncontended, 64 clients, stream", "etcd's lock call", [12.0, 15.0], |book, clients| {
        rate(book, STREAM, 64, "etcd", clients)
    }),
    Goal::higher("uncontended, 256 clients, stream", "etcd's lock call", [20.0, 30.0], |book, clients| {
        rate(book, STREAM, 256, "etcd", clients)
    }),
    Goal::higher("uncontended, 64 clients, HTTP/JSON", "etcd's lock call", [4.0, 6.0], |book, clients| {
        rate(book, "http", 64, "etcd", clients)
    }),
    Goal::lower("one client alone, p50 of a cycle", "Redis `appendfsync always`", [1.2, 1.0], |book, _| {
        let ours = ours(book, "uncontended", STREAM, 1, "p50_us")?;
        Some(ours / theirs(book, "uncontended", "redis-always", 1, "p50_us", Clients::All)?.min)
    }),
    Goal::higher(
        "contended, 64 clients, changes of holder",
        "ZooKeeper's lock recipe",
        [3.0, 4.0],
        |book, clients| {
            let ours = ours(book, "contended", STREAM, 64, "changes_per_second")?;
            Some(ours / theirs(book, "contended", "zookeeper", 64, "changes_per_second", clients)?.max)
        },
    ),
    Goal::lower("contended, 64 clients, longest wait", "the median wait", [2.0, 1.5], |book, _| {
        ours(book, "contended", STREAM, 64, "longest_to_median")
    }),
    Goal::lower("memory per held lock, a million of them, bytes", "", [300.0, 200.0], |book, _| {
        largest(book, "held", 1_000_000, "memory_each_bytes")
    }),
    Goal::lower("recovery of a million held locks after kill -9, seconds", "", [2.0, 1.0], |book, _| {
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

/// A value of another system, over all ways of the clients that count.
fn theirs(
    book: &Book,
    workload: &str,
    system: &str,
    size: usize,
    value: &str,
    clients: Clients,
) -> Option<Range> {
    let figures = book.figures().map(|(key, _)| key);
    let mut ways: Vec<&Key> = figures
        .filter(|key| (key.workload, key.system, key.size) == (workload, system, size) && key.way != CEILING)
        .collect();
    if clients == Clients::Usual && ways.iter().any(|key| key.way == HAND_MADE) {
        // Without the library there is nothing to take the place of the hand-made client.
        ways.iter().find(|key| key.way == LIBRARY)?;
        ways.retain(|key| key.way != HAND_MADE);
    }
    ways.into_iter().filter_map(|key| book.value(key, value)).fold(None, |range: Option<Range>, value| {
        let Range { min, max } = range.unwrap_or(Range { min: value, max: value });
        Some(Range { min: min.min(value), max: max.max(value) })
    })
}

/// Our uncontended rate over that of another.
fn rate(book: &Book, way: &'static str, size: usize, system: &str, clients: Clients) -> Option<f64> {
    let ours = ours(book, "uncontended", way, size, "per_second")?;
    Some(ours / theirs(book, "uncontended", system, size, "per_second", clients)?.max)
}

/// The largest of our own over all ways.
fn largest(book: &Book, workload: &str, size: usize, value: &str) -> Option<f64> {
    theirs(book, workload, "leasehold", size, value, Clients::All).map(|range| range.max)
}

/// A goal with what was measured.
pub struct Judged {
    /// The goal.
    pub goal: &'static Goal,
    /// Beside the clients that others' users have.
    pub measured: Option<f64>,
    /// The same in each repetition by itself, the least first.
    pub single: Vec<f64>,
    /// Beside the fastest client of all, where the goal names another.
    pub fastest: Option<f64>,
}

impl Judged {
    /// Whether it is reached; none where it was not measured.
    pub fn is_reached(&self, clients: Clients) -> Option<bool> {
        let measured = match clients {
            Clients::Usual => self.measured,
            Clients::All => self.fastest.or(self.measured),
        };
        measured.map(|measured| self.goal.verdict(Some(measured)) != "not met")
    }
}

/// How many goals are reached: beside the clients that others' users have, and beside the fastest of all.
pub fn tally(book: &Book) -> String {
    let judged: Vec<Judged> = judged(book).collect();
    let reached = |clients| judged.iter().filter(|judged| judged.is_reached(clients) == Some(true)).count();
    let not_measured = judged.iter().filter(|judged| judged.is_reached(Clients::Usual).is_none()).count();
    let measured = if not_measured == 0 { String::new() } else { format!(", {not_measured} not measured") };
    format!(
        "Reached: {} of {}{measured}. Where the fastest client of all counts for Redis: {}.\n\n",
        reached(Clients::Usual),
        judged.len(),
        reached(Clients::All),
    )
}

/// Each goal.
pub fn judged(book: &Book) -> impl Iterator<Item = Judged> {
    let rounds: Vec<Book> = book.rounds().collect();
    GOALS.iter().map(move |goal| {
        let measured = (goal.measure)(book, Clients::Usual);
        let mut single: Vec<f64> =
            rounds.iter().filter_map(|round| (goal.measure)(round, Clients::Usual)).collect();
        single.sort_by(f64::total_cmp);
        let fastest = (goal.measure)(book, Clients::All).filter(|_| goal.against.ends_with(LIBRARY));
        Judged { goal, measured, single, fastest }
    })
}

/// All of them, as a Markdown table.
pub fn table(book: &Book) -> String {
    let mut text = String::from(
        "| workload | against | reach | then aim for | measured | | single repetitions | against its fastest client of all |\n\
         | --- | --- | ---: | ---: | ---: | --- | --- | --- |\n",
    );
    for Judged { goal, measured, single, fastest } in judged(book) {
        let bound =
            |limit: f64| format!("{} {}", if goal.lower_is_better { "≤" } else { "≥" }, number(limit));
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            goal.workload,
            goal.against,
            bound(goal.reach),
            bound(goal.aim),
            measured.map_or_else(|| "–".to_owned(), number),
            goal.verdict(measured),
            spread(&single),
            fastest.map_or_else(String::new, |ratio| format!("{}: {}", number(ratio), goal.verdict(fastest))),
        );
    }
    text
}

/// From the least to the greatest; nothing of one alone.
pub fn spread(single: &[f64]) -> String {
    match single {
        [least, .., greatest] => format!("{} to {}", number(*least), number(*greatest)),
        _ => String::new(),
    }
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
    fn the_better_of_their_users_clients_counts_and_the_fastest_of_all_stands_beside_it() {
        let mut book = Book::default();
        let first = |book: &Book| {
            let Judged { goal, measured, fastest, .. } = judged(book).next().unwrap();
            (measured, goal.verdict(measured), fastest, goal.verdict(fastest))
        };
        record(&mut book, "leasehold", "stream", 64, 70.0);
        record(&mut book, "redis-memory", "connections", 64, 50.0);
        record(&mut book, "redis-memory", "pipeline", 64, 140.0);
        record(&mut book, "redis-memory", "redis-benchmark", 64, 900.0);
        assert_eq!(first(&book), (None, "not measured", Some(0.5), "not met"), "there is no library");
        record(&mut book, "redis-memory", "multiplexed", 64, 100.0);
        assert_eq!(first(&book), (Some(0.7), "met", Some(0.5), "not met"));
        let reached =
            "Reached: 1 of 13, 12 not measured. Where the fastest client of all counts for Redis: 0.";
        assert_eq!(tally(&book).trim_end(), reached);
        let row = "| ≥ 0.60 | ≥ 0.80 | 0.70 | met |  | 0.50: not met |";
        assert!(table(&book).contains(row), "{row} is not in\n{}", table(&book));
        record(&mut book, "redis-memory", "connections", 64, 150.0);
        record(&mut book, "redis-memory", "connections", 64, 150.0);
        let both = 70.0 / 150.0;
        assert_eq!(first(&book), (Some(both), "not met", Some(both), "not met"));
    }

    #[test]
    fn single_repetitions_stand_beside_the_median() {
        let mut book = Book::default();
        for (ours, theirs) in [(70.0, 100.0), (50.0, 50.0), (90.0, 100.0)] {
            record(&mut book, "leasehold", "stream", 64, ours);
            record(&mut book, "redis-memory", "multiplexed", 64, theirs);
        }
        let row = "| 0.70 | met | 0.70 to 1 | 0.70: met |";
        assert!(table(&book).contains(row), "{row} is not in\n{}", table(&book));
    }

    #[test]
    fn goals_are_met_from_their_own_side() {
        let higher = Goal::higher("", "", [2.0, 3.0], |_, _| None);
        let lower = Goal::lower("", "", [2.0, 1.0], |_, _| None);
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
        assert!(row.ends_with("| 1.10 | met |  |  |"), "{row}");
    }
}
