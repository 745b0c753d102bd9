//! What the server itself counts of its syncs and of writes to files, read from its metrics page before and after a run.

use leasehold_client::ClientBuilder;

use super::super::http;

/// What a server has counted so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counters {
    /// Commits of the journal, each of which is one sync, and syncs of files.
    pub syncs: f64,
    /// Writes that were made to files.
    pub writes: f64,
    /// When the server began to count.
    pub started: f64,
}

impl Counters {
    /// Reads them; none where the page cannot be had or does not tell.
    pub async fn read(builder: &ClientBuilder) -> Option<Counters> {
        Counters::told(&http::page(builder, "/metrics").await.ok()?)
    }

    fn told(page: &str) -> Option<Counters> {
        let number = |name: &str| {
            let lines = page.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            lines.filter_map(|value| value.trim().parse::<f64>().ok()).next()
        };
        Some(Counters {
            syncs: number("lock_journal_commit_ms_count")? + number("file_syncs_total")?,
            writes: number("file_changes_total")?,
            started: number("process_start_time_seconds")?,
        })
    }

    /// Syncs for each write since then, unless nothing was written, or the server was started anew and counts from zero.
    pub fn syncs_per_write_since(self, before: Counters) -> Option<f64> {
        let (syncs, writes) = (self.syncs - before.syncs, self.writes - before.writes);
        (self.started == before.started && writes > 0.0).then(|| syncs / writes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_is_counted_and_nothing_from_a_page_that_does_not_tell() {
        let page = "# HELP file_syncs_total Syncs.\nfile_syncs_total 2\nfile_changes_total 100\n\
                    lock_journal_commit_ms_bucket{le=\"1\"} 9\nlock_journal_commit_ms_count 10\n\
                    process_start_time_seconds 1700000000.5\n";
        let counters = Counters::told(page).unwrap();
        assert_eq!(counters, Counters { syncs: 12.0, writes: 100.0, started: 1_700_000_000.5 });
        assert_eq!(Counters::told("file_syncs_total 2\n"), None);
        assert_eq!(Counters::told("<html>"), None);
    }

    #[test]
    fn what_was_counted_before_is_left_out_and_a_new_server_says_nothing() {
        let before = Counters { syncs: 2.0, writes: 60.0, started: 5.0 };
        let after = Counters { syncs: 12.0, writes: 100.0, started: 5.0 };
        assert_eq!(after.syncs_per_write_since(before), Some(0.25));
        assert_eq!(before.syncs_per_write_since(before), None);
        assert_eq!(Counters { started: 6.0, ..after }.syncs_per_write_since(before), None);
    }
}
