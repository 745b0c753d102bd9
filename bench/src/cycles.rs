//! Uncontended acquire and release, durable beside in memory: what the disk costs at each number of clients, and what a
//! protocol does.

use std::fmt::Write as _;

use crate::Report;
use crate::load::{Loaded, drive};
use crate::served::Served;

/// What one measurement gave.
struct Figure {
    loaded: Loaded,
    cpu_us_per_cycle: f64,
    events_per_commit: f64,
}

/// The table of one protocol: `http`, `grpc` or `stream`.
pub fn report(protocol: &str, quick: bool) -> Report {
    let (seconds, rounds) = if quick { (1, 1) } else { (4, 3) };
    let over = match protocol {
        "http" => "HTTP/1.1",
        "grpc" => "unary gRPC",
        _ => "the gRPC stream",
    };
    let mut text = format!(
        "## Uncontended acquire + release over {over}, durable beside in memory\n\n\
         | clients | durable, cycles/s | in memory, cycles/s | ratio | p50 | p99 | server CPU per cycle | events per commit |\n\
         | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for clients in [1, 16, 64, 256] {
        let (mut durable, mut memory) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            let data = tempfile::tempdir().map_err(|error| error.to_string())?;
            eprintln!("cycles over {over}: {clients} clients");
            let served = Served::start(Some(&data.path().join("data")))?;
            durable.push(measure(&served, protocol, clients, seconds)?);
            memory.push(measure(&Served::start(None)?, protocol, clients, seconds)?);
        }
        let durable = median(durable);
        let memory = median(memory);
        let _ = writeln!(
            text,
            "| {clients} | {:.0} | {:.0} | {:.2} | {:.2} ms | {:.2} ms | {:.1} µs | {:.1} |",
            durable.loaded.per_second,
            memory.loaded.per_second,
            durable.loaded.per_second / memory.loaded.per_second,
            durable.loaded.p50_ms,
            durable.loaded.p99_ms,
            durable.cpu_us_per_cycle,
            durable.events_per_commit,
        );
    }
    Ok(text)
}

fn median(mut figures: Vec<Figure>) -> Figure {
    figures.sort_by(|a, b| a.loaded.per_second.total_cmp(&b.loaded.per_second));
    figures.swap_remove(figures.len() / 2)
}

fn measure(served: &Served, protocol: &str, clients: usize, seconds: u64) -> Result<Figure, String> {
    let (cpu, events, commits) = (
        served.cpu_seconds(),
        served.metric("lock_journal_batch_sum")?,
        served.metric("lock_journal_batch_count")?,
    );
    let loaded = drive(served, &["--protocol", protocol], clients, seconds)?;
    let commits = served.metric("lock_journal_batch_count")? - commits;
    Ok(Figure {
        cpu_us_per_cycle: (served.cpu_seconds() - cpu) * 1e6 / loaded.done.max(1.0),
        events_per_commit: (served.metric("lock_journal_batch_sum")? - events) / commits.max(1.0),
        loaded,
    })
}
