//! How the cost of an acquire and release grows with what is held already. It should not.

use std::time::Duration;

use super::crew::{self, FOREVER, Rounds, Steady};
use super::{on_threads, record, steps, times};
use crate::book::Book;
use crate::compare::Scale;
use crate::drive::Values;
use crate::served::Served;

/// Callers that go round among what is held.
const CALLERS: usize = 64;

/// One server, filled further and further.
pub fn measure(scale: Scale, book: &mut Book) -> Result<(), String> {
    on_threads(all(scale, book))
}

async fn all(scale: Scale, book: &mut Book) -> Result<(), String> {
    let data = tempfile::tempdir().map_err(|error| error.to_string())?;
    let served = Served::start(Some(&data.path().join("data")))?;
    let client = crew::connect(&served).await?;
    let long = Duration::from_secs(if scale.quick { 1 } else { 8 });
    let (mut filled, mut first) = (0, None);
    for held in steps(1_000, scale.most) {
        crew::hold(&client, filled..held, || FOREVER).await?;
        filled = held;

        let steady = Steady::begin(&served).await?;
        tokio::time::sleep(long / 2).await;
        let alone = steady.end().await?;
        record(book, "growth", "alone", held, times(alone.iter().map(|round| round.cycle_us)));

        let before = served.process.cpu_seconds();
        let rounds = Rounds::begin(&client, CALLERS, held);
        tokio::time::sleep(long).await;
        let cycles = rounds.end().await? as f64;
        let cpu_us = (served.process.cpu_seconds() - before) * 1e6 / cycles;
        let values = Values::from([
            ("per_second", cycles / long.as_secs_f64()),
            ("server_cpu_us", cpu_us),
            ("cpu_against_first", cpu_us / *first.get_or_insert(cpu_us)),
        ]);
        record(book, "growth", "64 callers", held, values);
    }
    Ok(())
}
