//! What the engine counts: atomics with fixed buckets, cheap to feed from one thread and to read from another. Renders
//! nothing, and has no label that could hold a lock's name or an owner.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::op::Op;

/// Counters are no part of what an engine is, and would be most of what it prints.
impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

/// Everything the engine counts.
pub struct Metrics {
    /// How long commits took: measured in µs, shown in ms.
    pub journal_commit: Histogram,
    /// Events per commit.
    pub journal_batch: Histogram,
    /// How late expiries were noticed: measured in µs, shown in ms.
    pub expiry_lag: Histogram,
    /// What was left of leases when they were released, in ms.
    pub remaining: Histogram,
    /// Leases whose time ran out.
    pub expired_total: AtomicU64,
    /// Time left out of the server's time, in µs.
    pub stall_us_total: AtomicU64,
    /// Leases that live now.
    pub locks_held: AtomicU64,
    /// Waiters in line now.
    pub waiters: AtomicU64,
    /// Sessions that live now, those of single leases included.
    pub sessions_live: AtomicU64,
    /// Fenced files now.
    pub files: AtomicU64,
    /// Bytes in them.
    pub file_bytes: AtomicU64,
    /// Writes to them.
    pub file_writes_total: AtomicU64,
    /// Bytes that those brought.
    pub file_written_bytes_total: AtomicU64,
    /// Syncs of files, made for a snapshot.
    pub file_syncs_total: AtomicU64,
    /// Bytes that can still be written to the journal's disk, as of the last look.
    pub room_bytes: AtomicU64,
    /// Bytes that the journal takes on its disk.
    pub journal_bytes: AtomicU64,
    /// How long snapshots took, from reading the one before to the last file dropped: measured in µs, shown in ms.
    pub snapshot: Histogram,
    /// Whether one is being made now: 1 or 0.
    pub snapshot_running: AtomicU64,
    busy_total: [AtomicU64; Op::ALL.len()],
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics {
            journal_commit: Histogram::of_latencies(),
            journal_batch: Histogram::new(&BATCH_EVENTS, 1),
            expiry_lag: Histogram::of_latencies(),
            remaining: Histogram::new(&REMAINING_MS, 1),
            expired_total: AtomicU64::new(0),
            stall_us_total: AtomicU64::new(0),
            locks_held: AtomicU64::new(0),
            waiters: AtomicU64::new(0),
            sessions_live: AtomicU64::new(0),
            files: AtomicU64::new(0),
            file_bytes: AtomicU64::new(0),
            file_writes_total: AtomicU64::new(0),
            file_written_bytes_total: AtomicU64::new(0),
            file_syncs_total: AtomicU64::new(0),
            room_bytes: AtomicU64::new(u64::MAX),
            journal_bytes: AtomicU64::new(0),
            snapshot: Histogram::of_latencies(),
            snapshot_running: AtomicU64::new(0),
            busy_total: [const { AtomicU64::new(0) }; Op::ALL.len()],
        }
    }
}

impl Metrics {
    /// Counts a request that was turned away because its queue was full.
    pub fn count_busy(&self, op: Op) {
        self.busy_total[op as usize].fetch_add(1, Relaxed);
    }

    /// How many requests of this kind were turned away so.
    pub fn busy_total(&self, op: Op) -> u64 {
        self.busy_total[op as usize].load(Relaxed)
    }
}

/// Upper bounds for latencies, in µs: from a sync on a fast disk to one that hangs.
static LATENCY_US: [u64; 18] = [
    100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000,
    2_000_000, 5_000_000, 10_000_000, 30_000_000, 60_000_000,
];
static BATCH_EVENTS: [u64; 12] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 1024, 4096, 16_384];
static REMAINING_MS: [u64; 14] = [
    10, 100, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 30_000, 60_000, 300_000, 3_600_000, 21_600_000,
    86_400_000,
];

/// Counts values by the bucket they fall into.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [u64],
    scale: u64,
    /// One for each bound, and one for what lies above.
    buckets: Box<[AtomicU64]>,
    sum: AtomicU64,
}

/// A histogram as it was at one moment, in the unit in which it is shown.
#[derive(Clone, Debug, PartialEq)]
pub struct HistogramReading {
    /// Upper bound, and how many values were at most that.
    pub buckets: Vec<(f64, u64)>,
    /// How many values there were.
    pub count: u64,
    /// Their sum.
    pub sum: f64,
}

impl Histogram {
    /// Buckets with these upper bounds, in order; `scale` measured units make one that is shown.
    pub fn new(bounds: &'static [u64], scale: u64) -> Histogram {
        assert!(bounds.is_sorted(), "bounds are in order");
        assert!(scale > 0, "a scale is not zero");
        let buckets = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Histogram { bounds, scale, buckets, sum: AtomicU64::new(0) }
    }

    /// For latencies measured in µs and shown in ms.
    pub fn of_latencies() -> Histogram {
        Histogram::new(&LATENCY_US, 1000)
    }

    /// Counts one value, in the unit of measurement.
    pub fn observe(&self, value: u64) {
        self.observe_times(value, 1);
    }

    /// Counts a value that was there so many times.
    pub fn observe_times(&self, value: u64, times: u64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.buckets[bucket].fetch_add(times, Relaxed);
        self.sum.fetch_add(value.saturating_mul(times), Relaxed);
    }

    /// What it holds now.
    pub fn read(&self) -> HistogramReading {
        let shown = |value: u64| value as f64 / self.scale as f64;
        let mut count = 0;
        let mut buckets = Vec::with_capacity(self.bounds.len());
        for (index, bucket) in self.buckets.iter().enumerate() {
            count += bucket.load(Relaxed);
            buckets.extend(self.bounds.get(index).map(|bound| (shown(*bound), count)));
        }
        HistogramReading { buckets, count, sum: shown(self.sum.load(Relaxed)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_counts_in_every_bucket_that_holds_it() {
        static BOUNDS: [u64; 2] = [1000, 2000];
        let histogram = Histogram::new(&BOUNDS, 1000);
        for value in [1, 1000, 1001, 5000] {
            histogram.observe(value);
        }
        histogram.observe_times(1500, 2);
        let reading = histogram.read();
        assert_eq!(reading.buckets, [(1.0, 2), (2.0, 5)]);
        assert_eq!((reading.count, reading.sum), (6, 10.002));
    }

    #[test]
    fn ops_have_a_counter_each() {
        let metrics = Metrics::default();
        for op in Op::ALL {
            metrics.count_busy(op);
            assert_eq!(metrics.busy_total(op), 1, "{}", op.text());
        }
    }
}
