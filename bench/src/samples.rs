//! What is made of many numbers: percentiles of times, medians of repetitions. Pure.

use std::time::Duration;

/// A time in whole microseconds; more than an hour and a bit counts as that.
pub fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

/// The times that so many of all do not exceed, exactly, in the unit of the samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Percentiles {
    /// Half of all.
    pub p50: f64,
    /// Nine of ten.
    pub p90: f64,
    /// 99 of a hundred.
    pub p99: f64,
    /// All.
    pub max: f64,
}

impl Percentiles {
    /// Of these samples; zeros if there are none.
    pub fn of(mut samples: Vec<u32>) -> Percentiles {
        samples.sort_unstable();
        let at = |part: f64| {
            let rank = (samples.len() as f64 * part).ceil() as usize;
            samples.get(rank.saturating_sub(1)).map_or(0.0, |sample| f64::from(*sample))
        };
        Percentiles { p50: at(0.5), p90: at(0.9), p99: at(0.99), max: at(1.0) }
    }
}

/// The middle one; the mean of the middle two of an even number; nothing of none.
pub fn median(numbers: &[f64]) -> Option<f64> {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let high = *sorted.get(middle)?;
    Some(if sorted.len() % 2 == 1 { high } else { (sorted[middle - 1] + high) / 2.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_sorted_samples() {
        let told = Percentiles::of((1..=1000).rev().collect());
        assert_eq!(told, Percentiles { p50: 500.0, p90: 900.0, p99: 990.0, max: 1000.0 });
        assert_eq!(Percentiles::of(vec![7]), Percentiles { p50: 7.0, p90: 7.0, p99: 7.0, max: 7.0 });
        assert_eq!(Percentiles::of(Vec::new()), Percentiles::default());
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }
}
