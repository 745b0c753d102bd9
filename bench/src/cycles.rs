//! Uncontended acquire and release over HTTP, durable beside in memory: what the disk costs at each number of clients.

use std::fmt::Write as _;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use crate::Report;
use crate::http::{Connection, field};
use crate::served::Served;

/// What one measurement gave.
struct Figure {
    per_second: f64,
    p50: Duration,
    p99: Duration,
    cpu_us_per_cycle: f64,
    events_per_commit: f64,
}

/// The table.
pub fn report(quick: bool) -> Report {
    let (seconds, rounds) = if quick { (1.0, 1) } else { (4.0, 3) };
    let mut text = String::from(
        "## Uncontended acquire + release over HTTP/1.1, durable beside in memory\n\n\
         | clients | durable, cycles/s | in memory, cycles/s | ratio | p50 | p99 | server CPU per cycle | events per commit |\n\
         | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for clients in [1, 16, 64, 256] {
        let (mut durable, mut memory) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            let data = tempfile::tempdir().map_err(|error| error.to_string())?;
            eprintln!("cycles: {clients} clients");
            durable.push(measure(&Served::start(Some(&data.path().join("data")))?, clients, seconds)?);
            memory.push(measure(&Served::start(None)?, clients, seconds)?);
        }
        let durable = median(durable);
        let memory = median(memory);
        let _ = writeln!(
            text,
            "| {clients} | {:.0} | {:.0} | {:.2} | {:.2} ms | {:.2} ms | {:.1} µs | {:.1} |",
            durable.per_second,
            memory.per_second,
            durable.per_second / memory.per_second,
            durable.p50.as_secs_f64() * 1e3,
            durable.p99.as_secs_f64() * 1e3,
            durable.cpu_us_per_cycle,
            durable.events_per_commit,
        );
    }
    Ok(text)
}

fn median(mut figures: Vec<Figure>) -> Figure {
    figures.sort_by(|a, b| a.per_second.total_cmp(&b.per_second));
    figures.swap_remove(figures.len() / 2)
}

fn measure(served: &Served, clients: usize, seconds: f64) -> Result<Figure, String> {
    let start = Barrier::new(clients + 1);
    let (cpu, events, commits) = (
        served.cpu_seconds(),
        served.metric("lock_journal_batch_sum")?,
        served.metric("lock_journal_batch_count")?,
    );
    let (began, all) = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..clients)
            .map(|client| {
                let start = &start;
                scope.spawn(move || -> Result<Vec<Duration>, String> {
                    let connection = Connection::open(served.address);
                    start.wait();
                    let mut connection = connection?;
                    let until = Instant::now() + Duration::from_secs_f64(seconds);
                    let mut took = Vec::new();
                    while Instant::now() < until {
                        let began = Instant::now();
                        cycle(&mut connection, client)?;
                        took.push(began.elapsed());
                    }
                    Ok(took)
                })
            })
            .collect();
        start.wait();
        let began = Instant::now();
        let all: Vec<_> = workers.into_iter().filter_map(|worker| worker.join().ok()).collect();
        (began, all)
    });
    let elapsed = began.elapsed().as_secs_f64();
    let mut took = Vec::new();
    for worker in all {
        took.extend(worker?);
    }
    took.sort_unstable();
    let at = |part: f64| took.get((took.len() as f64 * part) as usize).copied().unwrap_or_default();
    let cycles = took.len().max(1) as f64;
    let commits = served.metric("lock_journal_batch_count")? - commits;
    Ok(Figure {
        per_second: cycles / elapsed,
        p50: at(0.5),
        p99: at(0.99),
        cpu_us_per_cycle: (served.cpu_seconds() - cpu) * 1e6 / cycles,
        events_per_commit: (served.metric("lock_journal_batch_sum")? - events) / commits.max(1.0),
    })
}

fn cycle(connection: &mut Connection, client: usize) -> Result<(), String> {
    let lock = format!("/v1/locks/bench-{client}");
    let owner = format!("worker-{client}");
    let body = format!("{{\"owner_id\":\"{owner}\",\"ttl_ms\":10000}}");
    let (status, lease) = connection.call("POST", &format!("{lock}/acquire"), &body)?;
    if status != 200 {
        return Err(format!("acquire was answered {status}: {lease}"));
    }
    let body = format!(
        "{{\"owner_id\":\"{owner}\",\"lease_id\":\"{}\",\"fencing_token\":{}}}",
        field(&lease, "lease_id")?,
        field(&lease, "fencing_token")?
    );
    let (status, answer) = connection.call("POST", &format!("{lock}/release"), &body)?;
    if status != 200 {
        return Err(format!("release was answered {status}: {answer}"));
    }
    Ok(())
}
