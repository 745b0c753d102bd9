//! The page at `/metrics`: which metric says what. Everything is read here and counted elsewhere.

use std::sync::atomic::Ordering::Relaxed;

use leasehold_engine::{Metrics, Op};

use super::process;
use super::tallies::{Ended, Tallies};
use super::text::Text;
use crate::files::Readers;
use crate::http::pages::VERSION;
use crate::watch::Feed;
use crate::wire::commands::Call;

/// Renders the page. There is no engine while the server starts.
pub fn render(tallies: &Tallies, engine: Option<&Metrics>, readers: &Readers, feed: Option<&Feed>) -> String {
    let mut text = Text::default();
    calls(&mut text, tallies);
    if let Some(metrics) = engine {
        state(&mut text, metrics);
        journal(&mut text, metrics);
        files(&mut text, metrics, readers);
    }
    if let Some(feed) = feed {
        watching(&mut text, feed);
    }
    surroundings(&mut text, tallies);
    text.finish()
}

fn calls(text: &mut Text, tallies: &Tallies) {
    for (name, help, call) in [
        ("lock_acquire_total", "Acquire calls by result.", Call::Acquire),
        ("lock_renew_total", "Renew calls by result.", Call::Renew),
        ("lock_release_total", "Release calls by result.", Call::Release),
        ("file_append_total", "Appends to files by result.", Call::AppendFile),
        ("file_write_total", "Writes to files at an offset by result.", Call::WriteFile),
        ("file_delete_total", "Deletions of files by result.", Call::DeleteFile),
        (
            "file_read_total",
            "Reads of files by result, each counted when its first bytes are there.",
            Call::ReadFile,
        ),
    ] {
        text.family(name, help, "counter");
        for ended in Ended::ALL {
            text.sample(name, &[("result", ended.text())], tallies.count(call, ended));
        }
    }
    let name = "lock_op_latency_ms";
    let help =
        "Time from a request's arrival to its answer; acquire_wait are acquires that were ready to wait.";
    text.family(name, help, "histogram");
    for (op, histogram) in tallies.latencies() {
        text.histogram(name, &[("op", op)], &histogram.read());
    }
}

fn state(text: &mut Text, metrics: &Metrics) {
    text.gauge("locks_held", "Leases that live now.", metrics.locks_held.load(Relaxed));
    text.gauge("lock_waiters", "Requests in line now.", metrics.waiters.load(Relaxed));
    text.gauge(
        "sessions_live",
        "Sessions that live now, those of single leases included.",
        metrics.sessions_live.load(Relaxed),
    );
    text.counter("lock_expired_total", "Leases whose time ran out.", metrics.expired_total.load(Relaxed));
    let stalled_ms = metrics.stall_us_total.load(Relaxed) as f64 / 1000.0;
    text.counter(
        "lock_stall_ms_total",
        "Time in which the server could not answer, left out of its clock.",
        stalled_ms,
    );
    for (name, help, histogram) in [
        ("lock_expiry_lag_ms", "How late expiries were noticed.", &metrics.expiry_lag),
        ("lock_remaining_ms", "What was left of leases when they were released.", &metrics.remaining),
    ] {
        text.family(name, help, "histogram");
        text.histogram(name, &[], &histogram.read());
    }
}

fn journal(text: &mut Text, metrics: &Metrics) {
    for (name, help, histogram) in [
        ("lock_journal_commit_ms", "How long it took to make a batch durable.", &metrics.journal_commit),
        ("lock_journal_batch", "Events per commit.", &metrics.journal_batch),
        (
            "lock_journal_snapshot_ms",
            "How long it took to make a snapshot beside everything else.",
            &metrics.snapshot,
        ),
    ] {
        text.family(name, help, "histogram");
        text.histogram(name, &[], &histogram.read());
    }
    let name = "lock_journal_busy_total";
    text.family(name, "Requests turned away because their queue was full.", "counter");
    for op in Op::ALL {
        text.sample(name, &[("op", op.text())], metrics.busy_total(op));
    }
    text.gauge(
        "lock_journal_snapshot_running",
        "1 while a snapshot is being made.",
        metrics.snapshot_running.load(Relaxed),
    );
    text.gauge("lock_journal_bytes", "Bytes of the journal on disk.", metrics.journal_bytes.load(Relaxed));
    let room_bytes = metrics.room_bytes.load(Relaxed);
    if room_bytes != u64::MAX {
        text.gauge("lock_journal_room_bytes", "Free bytes on the journal's disk.", room_bytes);
    }
}

fn files(text: &mut Text, metrics: &Metrics, readers: &Readers) {
    text.gauge("files_stored", "Files now.", metrics.files.load(Relaxed));
    text.gauge("files_stored_bytes", "Bytes in all files together.", metrics.file_bytes.load(Relaxed));
    text.gauge("file_readers", "Readers for whom bytes lie ready.", readers.waiting());
    for (name, help, value) in [
        (
            "file_changes_total",
            "Writes that were made; a request that is repeated is one.",
            metrics.file_writes_total.load(Relaxed),
        ),
        (
            "file_written_bytes_total",
            "Bytes that were written to files.",
            metrics.file_written_bytes_total.load(Relaxed),
        ),
        ("file_read_bytes_total", "Bytes of files that readers were given.", readers.read_bytes_total()),
        (
            "file_syncs_total",
            "Syncs of files, made for snapshots: a write needs none of its own.",
            metrics.file_syncs_total.load(Relaxed),
        ),
    ] {
        text.counter(name, help, value);
    }
}

fn watching(text: &mut Text, feed: &Feed) {
    text.gauge("lock_watchers", "Watchers now.", feed.watchers());
    text.counter(
        "lock_watchers_cut_off_total",
        "Watchers that were cut off because they did not keep up.",
        feed.cut_off_total(),
    );
}

fn surroundings(text: &mut Text, tallies: &Tallies) {
    let (open, refused) = tallies.connections();
    text.gauge("lock_connections", "Open connections.", open);
    text.counter("lock_connections_refused_total", "Connections beyond the limit.", refused);
    text.family("leasehold_build_info", "The program's version.", "gauge");
    text.sample("leasehold_build_info", &[("version", VERSION)], 1);
    text.gauge(
        "process_start_time_seconds",
        "When the process started, in Unix seconds.",
        process::start_time_seconds(),
    );
    text.counter("process_cpu_seconds_total", "Processor time used.", process::cpu_seconds());
    for (name, help, value) in [
        ("process_resident_memory_bytes", "Memory in use.", process::resident_bytes()),
        ("process_open_fds", "Open files and sockets.", process::open_fds()),
        ("process_max_fds", "Files and sockets that may be open.", process::max_fds()),
    ] {
        if let Some(value) = value {
            text.gauge(name, help, value);
        }
    }
}
