//! Appends of 1 KiB to fenced files: each writer to its own file, all to one file under one lease, all to one file in turn. What
//! durability costs (beside a server in memory), what the service costs (beside the disk alone), and how many appends share a sync.

use std::time::Duration;

use crate::alone::SYSTEM;
use crate::alone::load::drive;
use crate::book::{Book, Key};
use crate::compare::Scale;
use crate::disk;
use crate::drive::Values;
use crate::samples::Percentiles;
use crate::served::Served;

/// What is appended at once.
const RECORD_BYTES: usize = 1024;

/// Each of the three ways at each number of writers.
pub fn measure(scale: Scale, book: &mut Book) -> Result<(), String> {
    let seconds = if scale.quick { 1 } else { 3 };
    for (way, how) in [("own", None), ("together", Some("--together")), ("turns", Some("--contended"))] {
        let how: Vec<&str> = ["--files", "--protocol", "http"].into_iter().chain(how).collect();
        let sizes: &[usize] = if scale.quick { &[64] } else { &[1, 16, 64] };
        for &writers in sizes {
            let data = tempfile::tempdir().map_err(|error| error.to_string())?;
            let served = Served::start(Some(&data.path().join("data")))?;
            let durable = drive(&served, &how, writers, seconds)?;
            drop(served);
            let alone = Percentiles::of(disk::commits(data.path(), RECORD_BYTES, Duration::from_secs(1))?);
            let memory = drive(&Served::start(None)?, &how, writers, seconds)?;
            let values = Values::from([
                ("per_second", durable.per_second),
                ("p50_us", durable.p50_us),
                ("p99_us", durable.p99_us),
                ("in_memory_per_second", memory.per_second),
                ("disk_alone_per_second", 1e6 / alone.p50),
                (
                    "syncs_per_append",
                    durable.syncs_per_append.ok_or("the server did not tell how often it synced")?,
                ),
            ]);
            book.record(Key { workload: "files", system: SYSTEM, way, size: writers }, values);
        }
    }
    Ok(())
}
