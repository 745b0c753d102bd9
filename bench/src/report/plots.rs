//! The plots of a run: which figures stand in which. How they are drawn is `svg`'s business.

use super::Taken;
use super::page::label;
use super::svg::{Bar, Frame, Line, bars, lines};
use super::units::show;
use crate::book::Key;

/// A plot.
pub struct Plot {
    /// Its name in the folder of the report.
    pub file: &'static str,
    /// What it says above.
    pub title: &'static str,
    /// Under which workload it stands.
    pub workload: &'static str,
    /// The drawing.
    pub svg: String,
}

/// Of these sizes a comparison is drawn as bars.
const TYPICAL: usize = 64;

/// All plots that there are figures for.
pub fn all(taken: &Taken) -> Vec<Plot> {
    let rates = "Uncontended acquire + release: cycles per second";
    let times = "Uncontended acquire + release: 99 of 100 cycles take no longer";
    let cpu = "CPU for an uncontended cycle, 64 clients";
    let changes = "One lock that 64 clients want: changes of holder per second";
    let renewals = "Renewals per second, 256 clients";
    let plots = [
        (
            "uncontended-rate.svg",
            rates,
            "uncontended",
            over_clients(taken, rates, "per_second", "cycles per second"),
        ),
        ("uncontended-p99.svg", times, "uncontended", over_clients(taken, times, "p99_us", "microseconds")),
        (
            "uncontended-cpu.svg",
            cpu,
            "uncontended",
            at_size(
                taken,
                cpu,
                "uncontended",
                TYPICAL,
                &["server_cpu_us", "client_cpu_us"],
                "CPU time per cycle",
            ),
        ),
        (
            "contended.svg",
            changes,
            "contended",
            at_size(
                taken,
                changes,
                "contended",
                TYPICAL,
                &["changes_per_second"],
                "changes of holder per second",
            ),
        ),
        (
            "renewals.svg",
            renewals,
            "renewals",
            at_size(taken, renewals, "renewals", 256, &["per_second"], "renewals per second"),
        ),
    ];
    let plots = plots.into_iter();
    plots.filter_map(|(file, title, workload, svg)| Some(Plot { file, title, workload, svg: svg? })).collect()
}

/// What is our own stands out.
fn is_first(key: &Key) -> bool {
    key.system == "leasehold" && key.way == "stream"
}

/// One figure of each system and way at a size, or at any.
fn subjects(taken: &Taken, workload: &str, size: Option<usize>) -> Vec<Key> {
    let mut found: Vec<Key> = Vec::new();
    for (key, _) in taken.book.figures().filter(|(key, _)| key.workload == workload) {
        let known = found.iter().any(|other| (other.system, other.way) == (key.system, key.way));
        if !known && size.is_none_or(|size| size == key.size) {
            found.push(key.clone());
        }
    }
    found
}

/// A line for each system, by the better of its ways, and for each way of our own.
fn over_clients(taken: &Taken, title: &str, value: &str, unit: &str) -> Option<String> {
    let sizes: std::collections::BTreeSet<usize> = taken
        .book
        .figures()
        .filter(|(key, _)| key.workload == "uncontended")
        .map(|(key, _)| key.size)
        .collect();
    let largest = *sizes.last()?;
    let rate =
        |key: &Key| taken.book.value(&Key { size: largest, ..key.clone() }, "per_second").unwrap_or_default();
    let all = subjects(taken, "uncontended", None);
    let drawn = all.iter().filter(|key| {
        let rivals = all.iter().filter(|other| other.system == key.system && other.way != "redis-benchmark");
        let best = rivals.max_by(|a, b| rate(a).total_cmp(&rate(b)));
        key.system == "leasehold" || best == Some(key)
    });
    let lines_of: Vec<Line> = drawn
        .map(|key| {
            let points = sizes.iter().filter_map(|&size| {
                let measured = taken.book.value(&Key { size, ..key.clone() }, value)?;
                (measured > 0.0).then_some((size as f64, measured))
            });
            Line { label: label(taken, key), points: points.collect(), first: is_first(key) }
        })
        .filter(|line| !line.points.is_empty())
        .collect();
    let frame = Frame {
        title,
        about: "Logarithmic scales. Other systems by the better of their clients.",
        x: "clients",
        y: unit,
    };
    lines(&frame, &sizes.iter().map(|size| *size as f64).collect::<Vec<_>>(), &lines_of)
}

/// A bar for everything that was measured at a size.
fn at_size(
    taken: &Taken,
    title: &str,
    workload: &str,
    size: usize,
    values: &[&str],
    unit: &str,
) -> Option<String> {
    let mut measured: Vec<(Key, Vec<f64>)> = subjects(taken, workload, Some(size))
        .into_iter()
        .filter_map(|key| {
            let parts = values.iter().map(|value| taken.book.value(&key, value)).collect::<Option<Vec<_>>>();
            Some((key, parts?))
        })
        .collect();
    let sum = |parts: &[f64]| parts.iter().sum::<f64>();
    measured.sort_by(|(_, a), (_, b)| sum(b).total_cmp(&sum(a)));
    let bars_of: Vec<Bar> = measured
        .iter()
        .map(|(key, parts)| Bar {
            label: label(taken, key),
            parts: parts.clone(),
            value: parts.iter().map(|part| show(values[0], *part)).collect::<Vec<_>>().join(" + "),
            first: is_first(key),
        })
        .collect();
    let legend: Vec<&str> = values.iter().map(|value| value.split('_').next().unwrap_or(value)).collect();
    bars(&Frame { title, about: "", x: "", y: unit }, &legend, &bars_of)
}
