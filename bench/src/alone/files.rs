//! Appends of 1 KiB to fenced files: each writer to its own file, all to one file under one lease, all to one file in turn. What
//! durability costs (beside a server in memory), what the service costs (beside the disk alone), and how many appends share a sync.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::alone::SYSTEM;
use crate::alone::load::drive;
use crate::book::{Book, Key};
use crate::compare::Scale;
use crate::drive::Values;
use crate::served::Served;

const RECORD: [u8; 1024] = [7; 1024];
/// The room of the file that the disk alone is measured with, as large as a segment of the journal may be.
const ROOM_BYTES: u64 = 64 << 20;

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
            let alone = disk_alone(data.path(), Duration::from_secs(1))?;
            let memory = drive(&Served::start(None)?, &how, writers, seconds)?;
            let values = Values::from([
                ("per_second", durable.per_second),
                ("p50_us", durable.p50_us),
                ("p99_us", durable.p99_us),
                ("in_memory_per_second", memory.per_second),
                ("disk_alone_per_second", alone),
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

/// Records a second that one thread writes and syncs one by one, into a file whose room was written before: no service can make
/// single writes durable faster on this disk.
fn disk_alone(folder: &Path, time: Duration) -> Result<f64, String> {
    let measure = || -> std::io::Result<f64> {
        let file = File::create(folder.join("alone"))?;
        let zeros = vec![0; 1 << 20];
        for at in (0..ROOM_BYTES).step_by(zeros.len()) {
            file.write_all_at(&zeros, at)?;
        }
        file.sync_all()?;
        let (began, mut written) = (Instant::now(), 0);
        while began.elapsed() < time {
            let at = written * RECORD.len() as u64 % ROOM_BYTES;
            file.write_all_at(&RECORD, at)?;
            file.sync_data()?;
            written += 1;
        }
        Ok(written as f64 / began.elapsed().as_secs_f64())
    };
    measure().map_err(|error| format!("cannot write in {}: {error}", folder.display()))
}
