//! The plots of a run: which figures stand in which. How they are drawn is `svg`'s business.

use std::collections::BTreeSet;

use super::Taken;
use super::goals::CEILING;
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
    let mut plots = Vec::new();
    let mut add = |file, workload, title, svg: Option<String>| {
        plots.extend(svg.map(|svg| Plot { file, title, workload, svg }));
    };

    let title = "Uncontended acquire + release: cycles per second";
    let axes = ["clients", "cycles per second"];
    add(
        "uncontended-rate.svg",
        "uncontended",
        title,
        over_sizes(taken, title, "uncontended", "per_second", axes),
    );

    let title = "Uncontended acquire + release: 99 of 100 cycles take no longer";
    let axes = ["clients", "microseconds"];
    add("uncontended-p99.svg", "uncontended", title, over_sizes(taken, title, "uncontended", "p99_us", axes));

    let title = "CPU for an uncontended cycle, 64 clients";
    let values = ["server_cpu_us", "client_cpu_us"];
    let svg = at_size(taken, title, "uncontended", TYPICAL, &values, "CPU time per cycle");
    add("uncontended-cpu.svg", "uncontended", title, svg);

    let title = "One lock that 64 clients want: changes of holder per second";
    let svg =
        at_size(taken, title, "contended", TYPICAL, &["changes_per_second"], "changes of holder per second");
    add("contended.svg", "contended", title, svg);

    let title = "Renewals per second, 256 clients";
    let svg = at_size(taken, title, "renewals", 256, &["per_second"], "renewals per second");
    add("renewals.svg", "renewals", title, svg);

    let title = "CPU of the server for a cycle, by how many locks are held";
    let axes = ["locks held", "microseconds of CPU"];
    add("growth.svg", "growth", title, over_sizes(taken, title, "growth", "server_cpu_us", axes));
    plots
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
fn over_sizes(taken: &Taken, title: &str, workload: &str, value: &str, [x, y]: [&str; 2]) -> Option<String> {
    let figures = taken.book.figures().map(|(key, _)| key).filter(|key| key.workload == workload);
    let sizes: BTreeSet<usize> = figures.map(|key| key.size).collect();
    let largest = *sizes.last()?;
    let rate =
        |key: &Key| taken.book.value(&Key { size: largest, ..key.clone() }, "per_second").unwrap_or_default();
    let all = subjects(taken, workload, None);
    let drawn = all.iter().filter(|key| {
        let rivals = all.iter().filter(|other| other.system == key.system && other.way != CEILING);
        let best = rivals.max_by(|a, b| rate(a).total_cmp(&rate(b)));
        key.system == "leasehold" || best == Some(key)
    });
    let drawn: Vec<Line> = drawn
        .map(|key| {
            let points = sizes.iter().filter_map(|&size| {
                let measured = taken.book.value(&Key { size, ..key.clone() }, value)?;
                (measured > 0.0).then_some((size as f64, measured))
            });
            Line { label: label(taken, key), points: points.collect(), first: is_first(key) }
        })
        .filter(|line| !line.points.is_empty())
        .collect();
    let alone = drawn.iter().all(|line| line.label.starts_with("Leasehold"));
    let others = if alone { "" } else { " Other systems by the better of their clients." };
    let about = format!("Logarithmic scales.{others}");
    let frame = Frame { title, about: &about, x, y };
    lines(&frame, &sizes.iter().map(|size| *size as f64).collect::<Vec<_>>(), &drawn)
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
