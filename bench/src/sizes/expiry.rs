//! Very many leases that fall due at one instant: how long until all are ended, and how long others' cycles take meanwhile.

use std::time::{Duration, Instant};

use super::crew::{self, Rounds, Steady, in_stretch};
use super::telling::say;
use super::{on_threads, record, times};
use crate::book::Book;
use crate::compare::Scale;
use crate::drive::Values;
use crate::served::Served;

/// How long the steady caller is alone before, to compare with.
const ALONE: Duration = Duration::from_secs(3);
/// How long it is tried how fast leases can be taken.
const TRIAL: Duration = Duration::from_secs(1);

/// All of it.
pub fn measure(scale: Scale, book: &mut Book) -> Result<(), String> {
    on_threads(all(scale.most, book))
}

async fn all(leases: usize, book: &mut Book) -> Result<(), String> {
    let data = tempfile::tempdir().map_err(|error| error.to_string())?;
    let served = Served::start(Some(&data.path().join("data")))?;
    let client = crew::connect(&served).await?;

    // How fast it goes decides how far ahead the instant must be: filling takes less than as many cycles would.
    let rounds = Rounds::begin(&client, 256, 10_000);
    tokio::time::sleep(TRIAL).await;
    let per_second = rounds.end().await? as f64 / TRIAL.as_secs_f64();
    let instant = Instant::now() + Duration::from_secs_f64(leases as f64 / per_second + 2.0) + ALONE;
    crew::hold(&client, 0..leases, move || instant.saturating_duration_since(Instant::now())).await?;
    if Instant::now() + ALONE > instant {
        return Err("the leases could not be taken in time: is the machine busy with something else?".into());
    }
    tokio::time::sleep_until((instant - ALONE).into()).await;

    let steady = Steady::begin(&served).await?;
    tokio::time::sleep_until(instant.into()).await;
    let cpu_before = served.process.cpu_seconds();
    let (mut ended, mut said) = (0, instant);
    while ended < leases {
        tokio::time::sleep(Duration::from_millis(20)).await;
        ended = served.metric("lock_expired_total")? as usize;
        if said.elapsed() > Duration::from_secs(1) {
            said = Instant::now();
            say(&format!("{ended} of {leases} leases have ended"), ended == leases);
        }
    }
    let over = Instant::now();
    let cpu_us = (served.process.cpu_seconds() - cpu_before) * 1e6 / leases as f64;
    let rounds = steady.end().await?;

    let (count, sum) = (served.metric("lock_expiry_lag_ms_count")?, served.metric("lock_expiry_lag_ms_sum")?);
    let cycles = |stretch| times(in_stretch(&rounds, stretch).map(|round| round.cycle_us));
    record(book, "expiry", "before", leases, cycles((instant - ALONE, instant)));
    let mut values = cycles((instant, over));
    values.extend(Values::from([
        ("ended_s", (over - instant).as_secs_f64()),
        ("lag_mean_us", sum / count * 1e3),
        ("server_cpu_us", cpu_us),
    ]));
    record(book, "expiry", "meanwhile", leases, values);
    Ok(())
}
