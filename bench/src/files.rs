//! Appends of 1 KiB to fenced files: each writer to its own file, all to one file under one lease, all to one file in turn. What
//! durability costs (beside a server in memory), what the service costs (beside the disk alone), and how many appends share a sync.

use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::Report;
use crate::load::{Loaded, drive};
use crate::served::Served;

const RECORD: [u8; 1024] = [7; 1024];
/// The room of the file that the disk alone is measured with, as large as a segment of the journal may be.
const ROOM_BYTES: u64 = 64 << 20;

/// The three tables.
pub fn report(quick: bool) -> Report {
    let (seconds, rounds) = if quick { (1, 1) } else { (4, 3) };
    let mut text = String::from(
        "## Appends of 1 KiB to fenced files over HTTP/1.1, durable beside in memory and the disk alone\n",
    );
    for (title, how) in [
        ("Each writer to a file of its own", None),
        ("All to one file, under one lease", Some("--together")),
        ("All to one file in turn: acquire, append, release", Some("--contended")),
    ] {
        let _ = writeln!(
            text,
            "\n{title}:\n\n\
             | writers | durable, appends/s | in memory, appends/s | ratio | disk alone, writes + syncs/s | ratio | p50 | p99 | syncs per append |\n\
             | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
        );
        let how: Vec<&str> = ["--files", "--protocol", "http"].into_iter().chain(how).collect();
        for writers in [1, 16, 64] {
            eprintln!("files: {title}: {writers} writers");
            let (mut durable, mut memory, mut alone) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..rounds {
                let data = tempfile::tempdir().map_err(|error| error.to_string())?;
                let served = Served::start(Some(&data.path().join("data")))?;
                durable.push(drive(&served, &how, writers, seconds)?);
                drop(served);
                alone.push(disk_alone(data.path(), Duration::from_secs(1))?);
                memory.push(drive(&Served::start(None)?, &how, writers, seconds)?);
            }
            let (durable, memory) = (median(durable), median(memory));
            alone.sort_by(f64::total_cmp);
            let alone = alone[alone.len() / 2];
            let syncs = durable.syncs_per_append.ok_or("the server did not tell how often it synced")?;
            let _ = writeln!(
                text,
                "| {writers} | {:.0} | {:.0} | {:.2} | {alone:.0} | {:.2} | {:.2} ms | {:.2} ms | {syncs:.3} |",
                durable.per_second,
                memory.per_second,
                durable.per_second / memory.per_second,
                durable.per_second / alone,
                durable.p50_ms,
                durable.p99_ms,
            );
        }
    }
    Ok(text)
}

fn median(mut loaded: Vec<Loaded>) -> Loaded {
    loaded.sort_by(|a, b| a.per_second.total_cmp(&b.per_second));
    loaded.swap_remove(loaded.len() / 2)
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
