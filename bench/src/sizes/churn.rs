//! Acquire and release for a long time: do memory and the data directory stay as they are?

use std::time::{Duration, Instant};

use super::crew::{self, Rounds};
use super::telling::say;
use super::{on_threads, record};
use crate::book::Book;
use crate::compare::Scale;
use crate::drive::Values;
use crate::served::{Served, folder_bytes};

/// Callers that share one client.
const CALLERS: usize = 256;
/// Names that they go round.
const NAMES: usize = 1_000_000;

/// What was there at one moment.
struct Sample {
    at_h: f64,
    memory_bytes: f64,
    disk_bytes: f64,
}

/// For as many minutes as were asked for.
pub fn measure(scale: Scale, book: &mut Book) -> Result<(), String> {
    match scale.minutes {
        0 => Ok(()),
        minutes => on_threads(all(minutes, book)),
    }
}

async fn all(minutes: u64, book: &mut Book) -> Result<(), String> {
    let data = tempfile::tempdir().map_err(|error| error.to_string())?;
    let folder = data.path().join("data");
    let served = Served::start(Some(&folder))?;
    let client = crew::connect(&served).await?;
    let long = Duration::from_secs(minutes * 60);
    let every = (long / 100).clamp(Duration::from_secs(1), Duration::from_secs(5));

    let (begun, cpu_before) = (Instant::now(), served.process.cpu_seconds());
    let rounds = Rounds::begin(&client, CALLERS, NAMES);
    let mut samples = Vec::new();
    while begun.elapsed() < long {
        tokio::time::sleep(every).await;
        let sample = Sample {
            at_h: begun.elapsed().as_secs_f64() / 3600.0,
            memory_bytes: served.process.resident_bytes() as f64,
            disk_bytes: folder_bytes(&folder) as f64,
        };
        let (done, at_min) = (rounds.done(), sample.at_h * 60.0);
        let mib = |bytes: f64| bytes / 1048576.0;
        let (memory, disk) = (mib(sample.memory_bytes), mib(sample.disk_bytes));
        say(
            &format!(
                "churn, {at_min:.1} of {minutes} min: {done} cycles, {memory:.0} MiB memory, {disk:.0} MiB data"
            ),
            false,
        );
        samples.push(sample);
    }
    let seconds = begun.elapsed().as_secs_f64();
    let cycles = rounds.end().await? as f64;
    let cpu_us = (served.process.cpu_seconds() - cpu_before) * 1e6 / cycles;
    let snapshots = served.metric("lock_journal_snapshot_ms_count")?;
    let half = &samples[samples.len() / 2..];
    let memory = |sample: &Sample| sample.memory_bytes;
    let disk = |sample: &Sample| sample.disk_bytes;
    let values = Values::from([
        ("cycles", cycles),
        ("per_second", cycles / seconds),
        ("server_cpu_us", cpu_us),
        ("snapshots", snapshots),
        ("memory_most_bytes", samples.iter().map(memory).fold(0.0, f64::max)),
        ("memory_last_bytes", samples.last().map_or(0.0, memory)),
        ("memory_growth_per_hour_bytes", slope(half.iter().map(|sample| (sample.at_h, memory(sample))))),
        ("disk_most_bytes", samples.iter().map(disk).fold(0.0, f64::max)),
        ("disk_last_bytes", samples.last().map_or(0.0, disk)),
        ("disk_growth_per_hour_bytes", slope(half.iter().map(|sample| (sample.at_h, disk(sample))))),
    ]);
    record(book, "churn", "stream", minutes as usize, values);
    Ok(())
}

/// Of the straight line that is nearest to these points.
fn slope(points: impl Iterator<Item = (f64, f64)> + Clone) -> f64 {
    let count = points.clone().count().max(1) as f64;
    let mean = points.clone().fold((0.0, 0.0), |(x, y), point| (x + point.0 / count, y + point.1 / count));
    let (both, square) = points.fold((0.0, 0.0), |(both, square), (x, y)| {
        (both + (x - mean.0) * (y - mean.1), square + (x - mean.0) * (x - mean.0))
    });
    if square == 0.0 { 0.0 } else { both / square }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slope_is_that_of_the_nearest_line() {
        assert_eq!(slope([(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)].into_iter()), 2.0);
        assert_eq!(slope([(0.0, 1.0), (1.0, 0.0), (2.0, 1.0)].into_iter()), 0.0);
        assert_eq!(slope([(4.0, 9.0)].into_iter()), 0.0);
    }
}
