//! A run as a page of Markdown: goals, the machine, the systems, and a table for everything that was measured.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::goals::{spread, tally};
use super::plots::Plot;
use super::units::{heading, number, show, whole};
use super::{FIGURES, Taken};
use crate::book::Key;
use crate::compare::Met;
use crate::disk;
use crate::peers::Skipped;

/// What is said of a workload.
struct Section {
    workload: &'static str,
    title: &'static str,
    about: &'static str,
    /// What the sizes count.
    sizes: &'static str,
}

/// In the order of the page; workloads without a section follow with their bare tables.
const SECTIONS: &[Section] = &[
    Section {
        workload: "uncontended",
        title: "Uncontended: acquire and release of names that nobody else wants",
        about: "Each client takes and gives back eight names of its own in turn, as fast as it can. A cycle is both calls.",
        sizes: "clients",
    },
    Section {
        workload: "contended",
        title: "Contended: one lock that all want",
        about: "Each client waits for the lock, gives it back at once, and asks again. Only true changes of holder count, not a \
                holder that gets it once more. `longest to median` is of waits in the time that is counted (two seconds, in a quick look a third of one); `least to most` compares how often the unluckiest \
                client had the lock with the luckiest. Leasehold, etcd and ZooKeeper have a line to stand in; with Redis clients \
                try again after a random pause of up to 10 ms. The disk alone is a line in which each change of holder is one \
                write and one sync by a thread that does nothing else, to see what of it is the disk's.",
        sizes: "clients",
    },
    Section {
        workload: "renewals",
        title: "Renewals",
        about: "Each client keeps one lease of its own alive, as fast as it can. What a renewal promises differs: Leasehold and etcd answer \
                it from memory and write nothing, and after a crash no lease ends earlier than was told; Redis with `appendfsync \
                always` and PostgreSQL write and sync each one.",
        sizes: "clients",
    },
    Section {
        workload: "held",
        title: "Many locks held",
        about: "Names of 11 bytes by 64 owners, taken over the stream. Memory is resident memory above that of the empty server: \
                as soon as all are held, at most (while a snapshot was made), after a `kill -9` and recovery, and settled: when all \
                had been held for 15 s. Recovery counts from the start of the process to its first ready answer.",
        sizes: "locks",
    },
    Section {
        workload: "snapshot",
        title: "Acquires while a snapshot is made",
        about: "So many locks are held, and one client acquires and releases another all the time: alone, and beside 64 others that \
                do the same with 1,000 bytes of metadata, which fill the journal. The server says when a snapshot is under way.",
        sizes: "locks",
    },
    Section {
        workload: "growth",
        title: "What a cycle costs when much is held",
        about: "Cycles on names that lie among those that are held: of one client alone, and of 64. Processor time should not grow.",
        sizes: "locks",
    },
    Section {
        workload: "line",
        title: "A long line for one lock",
        about: "All stand in line over few streams; whoever is given the lock gives it back at once and stands at the end of the \
                line again. The time from one to the next should not depend on the length of the line.",
        sizes: "in line",
    },
    Section {
        workload: "expiry",
        title: "Leases that fall due at one instant",
        about: "The cycles of a client that has nothing to do with them, before that instant and from then until all are ended.",
        sizes: "leases",
    },
    Section {
        workload: "slow-disk",
        title: "A disk with slow syncs",
        about: "`strace` holds up every sync for 1 ms; what tracing costs without that is beside it.",
        sizes: "clients",
    },
    Section {
        workload: "refusals",
        title: "Attempts on a held lock",
        about: "What is refused is not written to the disk: the few commits are those of the horizon, about one a second.",
        sizes: "attempts",
    },
    Section {
        workload: "files",
        title: "Appends of 1 KiB to fenced files",
        about: "Each writer to a file of its own, all together to one file under one lease, and all to one file in turns (acquire, \
                append, release); beside a server in memory, and beside a disk on which a file is written and synced record by record.",
        sizes: "writers",
    },
    Section {
        workload: "churn",
        title: "Churn",
        about: "256 clients acquire and release any of a million names over the stream. Growth is that of the second half.",
        sizes: "minutes",
    },
];

/// Values that make the wide tables of a comparison, in this order; others are shown in the order of their names.
const FIRST: &[&str] = &[
    "changes_per_second",
    "per_second",
    "p50_us",
    "p90_us",
    "p99_us",
    "max_us",
    "wait_p50_us",
    "wait_p99_us",
    "wait_max_us",
    "longest_to_median",
    "least_to_most",
    "server_cpu_us",
    "client_cpu_us",
];

/// The page.
pub fn markdown(taken: &Taken, plots: &[Plot]) -> String {
    let mut text = String::from("# Measured side by side\n\n");
    let _ = write!(
        text,
        "Written by `scripts/bench` out of [{FIGURES}]({FIGURES}); run it to get the same page for your machine. \
         The comparison with others was taken in one run on one machine, {}; clients share its cores with the server. What \
         Leasehold does alone was taken part by part, each by itself. So the ratios mean something, and the absolute figures describe that machine on that day. How it is measured is told in `bench/README.md`.\n\n",
        if taken.quick {
            "once and for a moment each, **as a quick look**"
        } else {
            "interleaved and several times; shown is the median of each value"
        },
    );
    let _ = write!(text, "## Goals\n\n{}\n{}", taken.goals(), tally(&taken.book));
    text.push_str(
        "Ratios are of rates, or of times where lower is better. Of each system the better of its clients counts. \
         Redis is judged twice. `Redis, multiplexed` is library against library: our SDK beside the better of redis-rs' multiplexed \
         connection and a connection for each client. The last column counts the fastest of all, which is a pipeline that was written for \
         this benchmark and does nothing but this. In rows without that column all clients count anyway. \
         Single repetitions are the least and the greatest ratio within one repetition.\n\n",
    );
    evenness(&mut text, taken);
    machine(&mut text, taken);
    let workloads: Vec<&'static str> = workloads(taken);
    for workload in workloads {
        let section = SECTIONS.iter().find(|section| section.workload == workload);
        let _ = write!(text, "## {}\n\n", section.map_or(workload, |section| section.title));
        if let Some(about) = section.map(|section| section.about).filter(|about| !about.is_empty()) {
            let _ = write!(text, "{about}\n\n");
        }
        for plot in plots.iter().filter(|plot| plot.workload == workload) {
            let _ = write!(text, "![{}]({})\n\n", plot.title, plot.file);
        }
        tables(&mut text, taken, workload, section.map_or("size", |section| section.sizes));
    }
    if !taken.book.failures().is_empty() {
        text.push_str("## What could not be measured\n\n");
        taken.book.failures().iter().for_each(|failure| {
            let _ = writeln!(text, "- {failure}");
        });
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

/// Those of the sections, then all others.
fn workloads(taken: &Taken) -> Vec<&'static str> {
    let mut all: Vec<&'static str> = Vec::new();
    for (key, _) in taken.book.figures() {
        if !all.contains(&key.workload) {
            all.push(key.workload);
        }
    }
    let place = |workload: &&str| SECTIONS.iter().position(|section| section.workload == *workload);
    all.sort_by_key(|workload| place(workload).unwrap_or(usize::MAX));
    all
}

/// What the disk left of the goal for the longest wait.
fn evenness(text: &mut String, taken: &Taken) {
    let key = Key { workload: "contended", system: disk::NAME, way: "", size: 64 };
    let Some(ratio) = taken.book.value(&key, "longest_to_median") else { return };
    let rounds = taken.book.rounds();
    let mut single: Vec<f64> = rounds.filter_map(|round| round.value(&key, "longest_to_median")).collect();
    single.sort_by(f64::total_cmp);
    let _ = write!(
        text,
        "A hiccup of the disk makes everybody wait. In a line of 64 on the disk alone, measured beside the others, the longest wait \
         was {} times the median (single repetitions: {}). It writes through the system's cache, as most programs do; Leasehold writes \
         past it.\n\n",
        number(ratio),
        spread(&single),
    );
}

fn machine(text: &mut String, taken: &Taken) {
    text.push_str("## The machine and the systems\n\n| | |\n| --- | --- |\n");
    for (name, value) in &taken.machine {
        let _ = writeln!(text, "| {name} | {value} |");
    }
    text.push_str("\n| system | version | started with |\n| --- | --- | --- |\n");
    for Met { title, what, .. } in &taken.met {
        let _ = match what {
            Ok((version, settings)) => {
                let settings: Vec<String> = settings.iter().map(|line| format!("`{line}`")).collect();
                writeln!(text, "| {title} | {version} | {} |", settings.join("<br>"))
            }
            Err(Skipped(why)) => {
                let why = why.lines().next().unwrap_or_default();
                writeln!(text, "| {title} | skipped: {why} | |")
            }
        };
    }
    text.push('\n');
}

/// A table of rates over all sizes if several systems are compared, and one of all values for each size; or one of everything.
fn tables(text: &mut String, taken: &Taken, workload: &str, sizes: &str) {
    let keys: Vec<&Key> =
        taken.book.figures().map(|(key, _)| key).filter(|key| key.workload == workload).collect();
    let all_sizes: BTreeSet<usize> = keys.iter().map(|key| key.size).collect();
    let systems: BTreeSet<&str> = keys.iter().map(|key| key.system).collect();
    let subject = |key: &Key| label(taken, key);
    if systems.len() == 1 {
        let rows: Vec<(String, &Key)> =
            keys.iter().map(|key| (format!("{} | {}", whole(key.size as f64), key.way), *key)).collect();
        return values_table(text, taken, &format!("{sizes} | way"), "---: | ---", &rows);
    }
    let rate = if workload == "contended" { "changes_per_second" } else { "per_second" };
    let _ = write!(text, "{}, by {sizes}:\n\n| |", heading(rate));
    all_sizes.iter().for_each(|size| {
        let _ = write!(text, " {} |", whole(*size as f64));
    });
    let _ = writeln!(text, "\n| --- |{}", " ---: |".repeat(all_sizes.len()));
    let mut seen = BTreeSet::new();
    for key in &keys {
        if !seen.insert((key.system, key.way)) {
            continue;
        }
        let _ = write!(text, "| {} |", subject(key));
        for &size in &all_sizes {
            let value = taken.book.value(&Key { size, ..(*key).clone() }, rate);
            let _ = write!(text, " {} |", value.map_or_else(|| "–".to_owned(), number));
        }
        text.push('\n');
    }
    text.push('\n');
    for &size in &all_sizes {
        let _ =
            write!(text, "{} {}:\n\n", whole(size as f64), if size == 1 { "client alone" } else { sizes });
        let of_size = keys.iter().filter(|key| key.size == size);
        let rows: Vec<(String, &Key)> = of_size.map(|key| (subject(key), *key)).collect();
        values_table(text, taken, "", "---", &rows);
    }
}

/// All values of these figures, one row each.
fn values_table(text: &mut String, taken: &Taken, first: &str, align: &str, rows: &[(String, &Key)]) {
    let values = |key: &Key| taken.book.figures().find(|(other, _)| *other == key).map(|(_, rounds)| rounds);
    let names: BTreeSet<&str> = rows
        .iter()
        .filter_map(|(_, key)| values(key)?.first())
        .flat_map(|values| values.keys().copied())
        .collect();
    let mut names: Vec<&str> = names.into_iter().collect();
    names.sort_by_key(|name| FIRST.iter().position(|first| first == name).unwrap_or(usize::MAX));
    let headings: Vec<String> = names.iter().map(|name| heading(name)).collect();
    let _ = writeln!(text, "| {first} | {} |", headings.join(" | "));
    let _ = writeln!(text, "| {align} |{}", " ---: |".repeat(names.len()));
    for (label, key) in rows {
        let cells = names.iter().map(|name| {
            taken.book.value(key, name).map_or_else(|| "–".to_owned(), |value| show(name, value))
        });
        let _ = writeln!(text, "| {label} | {} |", cells.collect::<Vec<_>>().join(" | "));
    }
    text.push('\n');
}

/// A system and its way, for a row or a line.
pub fn label(taken: &Taken, key: &Key) -> String {
    let title = taken.met.iter().find(|met| met.name == key.system).map_or(key.system, |met| met.title);
    let way = match key.way {
        "connections" => "a connection each",
        "multiplexed" => "redis-rs, multiplexed",
        "pipeline" => "one pipeline",
        "grpc" => "unary gRPC",
        "http" => "HTTP/JSON",
        other => other,
    };
    if way.is_empty() { title.to_owned() } else { format!("{title}: {way}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::book::Book;
    use crate::drive::Values;

    #[test]
    fn a_page_has_every_figure_and_names_what_was_skipped() {
        let mut book = Book::default();
        for (system, way, size, rate) in [
            ("leasehold", "stream", 1, 1000.0),
            ("leasehold", "stream", 64, 64_000.0),
            ("redis", "pipeline", 64, 7.0),
        ] {
            let key = Key { workload: "uncontended", system, way, size };
            book.record(key, Values::from([("per_second", rate), ("p50_us", 1500.0)]));
        }
        let key = Key { workload: "held", system: "leasehold", way: "stream", size: 1_000_000 };
        book.record(key, Values::from([("memory_each_bytes", 250.0)]));
        let key = Key { workload: "contended", system: disk::NAME, way: "", size: 64 };
        for ratio in [1.2, 4.0, 1.5] {
            book.record(key.clone(), Values::from([("longest_to_median", ratio)]));
        }
        let met = |name, what| Met { name, title: name, what };
        let taken = Taken {
            quick: false,
            machine: vec![("cores".to_owned(), "2".to_owned())],
            met: vec![
                met("leasehold", Ok(("1.0".to_owned(), vec!["serve".to_owned()]))),
                met("etcd", Err(Skipped("it is not installed".to_owned()))),
            ],
            book,
        };
        let page = markdown(&taken, &[]);
        for line in [
            "| cores | 2 |",
            "| leasehold | 1.0 | `serve` |",
            "| etcd | skipped: it is not installed | |",
            "| leasehold: stream | 1,000 | 64,000 |",
            "| redis: one pipeline | – | 7 |",
            "| leasehold: stream | 64,000 | 1.50 ms |",
            "| locks | way | memory each |",
            "| 1,000,000 | stream | 250 bytes |",
        ] {
            assert!(page.lines().any(|found| found == line), "{line} is not in\n{page}");
        }
        let disk = "the longest wait was 1.50 times the median (single repetitions: 1.20 to 4).";
        assert!(page.contains(disk), "{disk} is not in\n{page}");
    }
}
