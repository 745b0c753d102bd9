//! Very many in line for one lock, over few streams: what a place costs, and how long the lock takes from one to the next. That
//! should not depend on how many there are.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use leasehold_client::{Ask, Client};
use tokio::sync::Notify;

use super::crew::{self, FOREVER};
use super::telling::{Counted, say};
use super::{on_threads, record};
use crate::book::Book;
use crate::compare::Scale;
use crate::drive::Values;
use crate::served::Served;

/// The longest wait that a server takes.
const WAIT: Duration = Duration::from_secs(3_600);
/// How long a line may take to form.
const FORMED_WITHIN: Duration = Duration::from_secs(600);
/// As many as a server lets stand in line for one lock.
const WAITERS_MAX: usize = 100_000;
/// The one lock.
const LOCK: &str = "line";

/// A short line, then a long one.
pub fn measure(scale: Scale, book: &mut Book) -> Result<(), String> {
    let handoffs = if scale.quick { 2_000 } else { 20_000 };
    for waiters in [100, scale.most.min(WAITERS_MAX)] {
        on_threads(one(waiters, handoffs, book))
            .map_err(|problem| format!("{waiters} in line: {problem}"))?;
    }
    Ok(())
}

async fn one(waiters: usize, handoffs: u64, book: &mut Book) -> Result<(), String> {
    let data = tempfile::tempdir().map_err(|error| error.to_string())?;
    let served = Served::start(Some(&data.path().join("data")))?;
    let client = crew::connect(&served).await?;
    let held = client.acquire(Ask { ttl: Some(FOREVER), ..Ask::new(LOCK) }).await.map_err(text)?;
    let empty_bytes = served.process.resident_bytes();

    let going = Arc::new(Going { wanted: handoffs, made: AtomicU64::new(0), enough: Notify::new() });
    let begun = Instant::now();
    for _ in 0..waiters {
        tokio::spawn(go_round(client.clone(), going.clone()));
    }
    let counted = Counted::of("standing in line:", waiters, "callers");
    let mut stood = 0;
    while stood < waiters {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let now = served.metric("lock_waiters")? as usize;
        counted.add(now.saturating_sub(stood));
        stood = now.max(stood);
        if begun.elapsed() > FORMED_WITHIN {
            return Err(format!("only {stood} had a place after {} s", FORMED_WITHIN.as_secs()));
        }
    }
    let formed_s = begun.elapsed().as_secs_f64();
    let place_bytes = served.process.resident_bytes().saturating_sub(empty_bytes) as f64 / waiters as f64;

    say(&format!("handing the lock on {handoffs} times"), true);
    let (begun, before) = (Instant::now(), served.process.cpu_seconds());
    client.release(&held.claim()).await.map_err(text)?;
    going.enough.notified().await;
    let handoff_us = begun.elapsed().as_secs_f64() * 1e6 / handoffs as f64;
    let cpu_us = (served.process.cpu_seconds() - before) * 1e6 / handoffs as f64;
    let values = Values::from([
        ("formed_s", formed_s),
        ("memory_each_bytes", place_bytes),
        ("handoff_us", handoff_us),
        ("server_cpu_us", cpu_us),
    ]);
    record(book, "line", "stream", waiters, values);
    Ok(())
}

struct Going {
    wanted: u64,
    made: AtomicU64,
    enough: Notify,
}

/// Stands in line, gives the lock on, and stands at the end of the line again: so the line stays as long as it is.
async fn go_round(client: Client, going: Arc<Going>) {
    loop {
        // Who cannot have it any more has lost its server: the measurement is over.
        let ask = Ask { ttl: Some(FOREVER), wait: WAIT, ..Ask::new(LOCK) };
        let Ok(grant) = client.acquire(ask).await else { return };
        if going.made.fetch_add(1, Relaxed) + 1 == going.wanted {
            return going.enough.notify_one();
        }
        if client.release(&grant.claim()).await.is_err() {
            return;
        }
    }
}

fn text(error: leasehold_client::Error) -> String {
    error.to_string()
}
