//! The disk by itself: how long it takes to make one write durable, and how even a line would be in which everybody waits for
//! that and for nothing else. It is a measure for what the disk has to do with a figure, and no bound: it is taken at another moment,
//! and by way of the system's cache.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::drive::{self, Values};
use crate::samples::micros;

/// As a system that is compared with others where they wait for each other.
pub const NAME: &str = "disk";
pub const TITLE: &str = "The disk alone, a write and a sync for each change";

/// The room of the file that it is measured with, as large as a segment of the journal may be.
const ROOM_BYTES: u64 = 64 << 20;
/// What is written for a change where nothing else is said.
pub const RECORD_BYTES: usize = 256;

/// How long each of many records took that one thread wrote and synced one after the other, in microseconds, into a file whose
/// room was written before.
pub fn commits(folder: &Path, record_bytes: usize, time: Duration) -> Result<Vec<u32>, String> {
    let measure = || -> std::io::Result<Vec<u32>> {
        let file = File::create(folder.join("alone"))?;
        let (zeros, record) = (vec![0; 1 << 20], vec![7; record_bytes]);
        for at in (0..ROOM_BYTES).step_by(zeros.len()) {
            file.write_all_at(&zeros, at)?;
        }
        file.sync_all()?;
        let (began, mut at, mut samples) = (Instant::now(), 0, Vec::new());
        while began.elapsed() < time {
            let begun = Instant::now();
            file.write_all_at(&record, at)?;
            file.sync_data()?;
            samples.push(micros(begun.elapsed()));
            at = (at + record_bytes as u64) % (ROOM_BYTES - record_bytes as u64);
        }
        std::fs::remove_file(folder.join("alone"))?;
        Ok(samples)
    };
    measure().map_err(|error| format!("cannot write in {}: {error}", folder.display()))
}

/// A line of so many: whoever has had the lock stands at its end again, and has it when each of the others has had it for one
/// commit.
pub fn line(commits_us: &[u32], clients: usize) -> Values {
    let total_us: f64 = commits_us.iter().map(|us| f64::from(*us)).sum();
    let others = clients.saturating_sub(1).max(1);
    let waits_us =
        commits_us.windows(others).map(|commits| commits.iter().copied().fold(0, u32::saturating_add));
    let mut values =
        Values::from([("changes_per_second", commits_us.len() as f64 * 1e6 / total_us.max(1.0))]);
    values.extend(drive::waits(waits_us.collect()));
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_in_line_waits_for_one_commit_of_each_other() {
        let mut commits_us = vec![100; 1000];
        let even = line(&commits_us, 64);
        assert_eq!((even["changes_per_second"], even["wait_p50_us"]), (10_000.0, 6_300.0));
        assert_eq!(even["longest_to_median"], 1.0);
        commits_us[500] = 6_400;
        let hiccup = line(&commits_us, 64);
        assert_eq!((hiccup["wait_max_us"], hiccup["longest_to_median"]), (12_600.0, 2.0));
        assert_eq!(line(&[], 64)["changes_per_second"], 0.0, "a disk that did nothing");
    }
}
