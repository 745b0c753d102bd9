//! How often each length of time was met, to within two per cent, in a few kilobytes: buckets grow with what they hold. Knows
//! nothing of what was timed.

/// Buckets for each doubling; below that, one for each microsecond.
const PARTS: u64 = 64;
const PARTS_BITS: u32 = PARTS.ilog2();
/// What is longer than an hour and a bit is counted as that.
const LONGEST_US: u64 = (1 << 32) - 1;

/// Lengths of time, and how often each was met.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    max_us: u64,
}

/// The times from `from_us` up to, not including, `to_us`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    pub from_us: u64,
    pub to_us: u64,
    pub count: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: vec![0; bucket_of(LONGEST_US) + 1], count: 0, max_us: 0 }
    }
}

/// The bucket of a time. The first two doublings beyond the single microseconds are as fine as those.
fn bucket_of(us: u64) -> usize {
    let us = us.min(LONGEST_US);
    let doublings = u64::from(us.max(PARTS).ilog2() - PARTS_BITS);
    usize::try_from(doublings * PARTS + (us >> doublings)).unwrap_or(usize::MAX)
}

/// Where a bucket begins.
fn begin_us(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let doublings = (bucket / PARTS).saturating_sub(1);
    (bucket - doublings * PARTS) << doublings
}

impl Histogram {
    /// Takes in one time.
    pub fn record(&mut self, us: u64) {
        self.counts[bucket_of(us)] += 1;
        self.count += 1;
        self.max_us = self.max_us.max(us);
    }

    /// Takes in all of another's.
    pub fn add(&mut self, other: &Histogram) {
        for (sum, more) in self.counts.iter_mut().zip(&other.counts) {
            *sum += more;
        }
        self.count += other.count;
        self.max_us = self.max_us.max(other.max_us);
    }

    /// How many times there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The longest, exactly; 0 when there is none.
    pub fn max_us(&self) -> u64 {
        self.max_us
    }

    /// The time that this part of all does not exceed, rounded up to its bucket's end.
    pub fn quantile_us(&self, part: f64) -> u64 {
        let rank = ((self.count as f64 * part).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for bucket in self.buckets() {
            seen += bucket.count;
            if seen >= rank {
                return (bucket.to_us - 1).min(self.max_us);
            }
        }
        self.max_us
    }

    /// Everything that was met, in order.
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> {
        let met = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        met.map(|(at, count)| Bucket { from_us: begin_us(at), to_us: begin_us(at + 1), count: *count })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_without_gap_and_are_fine_enough() {
        for bucket in 0..bucket_of(LONGEST_US) {
            let (from_us, to_us) = (begin_us(bucket), begin_us(bucket + 1));
            assert_eq!(bucket_of(from_us), bucket);
            assert_eq!(bucket_of(to_us - 1), bucket);
            assert_eq!(bucket_of(to_us), bucket + 1);
            assert!((to_us - from_us - 1) * 50 <= from_us, "{from_us} to {to_us}");
        }
        assert_eq!(bucket_of(u64::MAX), bucket_of(LONGEST_US));
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_times() {
        let mut sorted: Vec<u64> = (0..10_000).map(|n: u64| n * n * 7919 % 3_000_017).collect();
        let mut histogram = Histogram::default();
        let mut halves = [Histogram::default(), Histogram::default()];
        for (at, us) in sorted.iter().enumerate() {
            halves[at % 2].record(*us);
        }
        halves.iter().for_each(|half| histogram.add(half));
        sorted.sort_unstable();
        for part in [0.5, 0.9, 0.99, 0.999] {
            let exact = sorted[(10_000.0 * part) as usize - 1];
            let told = histogram.quantile_us(part);
            assert!(told >= exact && told <= exact + exact / 50, "{part}: {told}, exactly {exact}");
        }
        assert_eq!(histogram.quantile_us(1.0), histogram.max_us());
        assert_eq!((histogram.count(), histogram.max_us()), (10_000, sorted[9_999]));
        assert_eq!(histogram.buckets().map(|bucket| bucket.count).sum::<u64>(), 10_000);
    }

    #[test]
    fn nothing_has_no_times() {
        let histogram = Histogram::default();
        assert_eq!((histogram.quantile_us(0.5), histogram.max_us(), histogram.buckets().count()), (0, 0, 0));
    }
}
