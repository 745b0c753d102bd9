//! So many locks held: memory for each, what it takes on the disk, how long acquires take while a snapshot of it all is made,
//! and the time to come back after kill -9.

use std::process::Command;
use std::time::{Duration, Instant};

use leasehold_client::Client;

use super::crew::{self, FOREVER, Rounds, Steady, in_stretch};
use super::snapshots::Snapshots;
use super::{on_threads, record, steps, times};
use crate::book::Book;
use crate::compare::Scale;
use crate::drive::Values;
use crate::served::{Served, folder_bytes, program};

/// Callers that write the journal full, so that a snapshot falls due.
const WRITERS: usize = 64;
/// Bytes that each of their acquires brings along, so that it falls due soon.
const NOTE_BYTES: usize = 1_000;
/// How long nothing is asked until memory that was only used on the way has been given back.
const SETTLE: Duration = Duration::from_secs(15);
/// How long the steady caller is alone, to compare with.
const ALONE: Duration = Duration::from_secs(3);

/// Each size by itself.
pub fn measure(scale: Scale, book: &mut Book) -> Result<(), String> {
    for locks in steps(10_000, scale.most) {
        on_threads(one(locks, scale.quick, book)).map_err(|problem| format!("{locks} locks: {problem}"))?;
    }
    Ok(())
}

async fn one(locks: usize, quick: bool, book: &mut Book) -> Result<(), String> {
    let data = tempfile::tempdir().map_err(|error| error.to_string())?;
    let folder = data.path().join("data");
    // A snapshot falls due after two segments: where time is short they are small.
    let settings: &[&str] = if quick { &["--segment-bytes", "4194304"] } else { &[] };
    let start = || Served::start_by(Command::new(program()?), &folder, settings);
    let served = start()?;
    let empty_bytes = served.process.resident_bytes();
    let client = crew::connect(&served).await?;

    let begun = Instant::now();
    crew::hold(&client, 0..locks, || FOREVER).await?;
    let fill_s = begun.elapsed().as_secs_f64();
    let snapshots = Snapshots::watch(&served);
    snapshots.until_none().await;
    let each = |bytes: u64| bytes.saturating_sub(empty_bytes) as f64 / locks as f64;
    let memory_each = each(served.process.resident_bytes());
    let mut values = Values::from([("fill_s", fill_s), ("memory_each_bytes", memory_each)]);
    if !quick {
        tokio::time::sleep(SETTLE).await;
        values.insert("memory_each_settled_bytes", each(served.process.resident_bytes()));
    }

    meanwhile(&served, &client, locks, &snapshots, book).await?;
    let memory_each_most = each(served.process.resident_bytes_max());
    drop((client, snapshots, served));

    let disk_bytes = folder_bytes(&folder) as f64;
    let served = start()?;
    let held = served.metric("locks_held")?;
    if held as usize != locks {
        return Err(format!("{held} are held after a kill -9"));
    }
    values.extend(Values::from([
        ("memory_each_most_bytes", memory_each_most),
        ("memory_each_recovered_bytes", each(served.process.resident_bytes())),
        ("disk_bytes", disk_bytes),
        ("recover_s", served.ready_after.as_secs_f64()),
    ]));
    record(book, "held", "stream", locks, values);
    Ok(())
}

/// How long a steady caller's acquires take, before and while a snapshot is made: alone, and with many others at work.
async fn meanwhile(
    served: &Served,
    client: &Client,
    locks: usize,
    snapshots: &Snapshots,
    book: &mut Book,
) -> Result<(), String> {
    let steady = Steady::begin(served).await?;
    let alone = Instant::now();
    tokio::time::sleep(ALONE).await;
    let alone = (alone, Instant::now());

    let before = snapshots.begun();
    let rounds = Rounds::begin_with(client, WRITERS, locks, NOTE_BYTES);
    let busy = Instant::now();
    snapshots.until_begun(before + 1).await;
    let busy = (busy, Instant::now());
    snapshots.until_begun(before + 2).await;
    rounds.end().await?;
    snapshots.until_none().await;
    let rounds = steady.end().await?;

    // The filling may have ended beside one of its own, which is over by `before`.
    let stretches = snapshots.stretches();
    let [with_others, .., by_itself] = stretches[before..] else {
        return Err("no two snapshots were seen".into());
    };
    for (way, stretch) in
        [("alone", alone), ("alone, snapshot", by_itself), ("busy", busy), ("busy, snapshot", with_others)]
    {
        let mut values = times(in_stretch(&rounds, stretch).map(|round| round.acquire_us));
        values.insert("lasted_s", (stretch.1 - stretch.0).as_secs_f64());
        record(book, "snapshot", way, locks, values);
    }
    Ok(())
}
