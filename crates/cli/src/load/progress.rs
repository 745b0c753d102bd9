//! How far a run is, for whoever sits at the terminal. Says nothing to anybody else, and leaves nothing behind.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use super::report::{Sample, grouped};
use crate::duration;

const BAR: usize = 30;

/// One line that is written over again and again.
pub struct Progress {
    on: bool,
    whole: Duration,
    done: &'static str,
}

impl Progress {
    /// For a run of this length, in which this is done.
    pub fn new(whole: Duration, done: &'static str) -> Progress {
        Progress { on: io::stderr().is_terminal(), whole, done }
    }

    /// A step of the run, from one sample to the next.
    pub fn show(&self, before: Sample, now: Sample, errors: u64) {
        if self.on {
            // Nobody may be there to see it.
            let _ = write!(io::stderr().lock(), "\r\x1b[K{}", self.line(before, now, errors));
        }
    }

    /// Takes the line away.
    pub fn clear(&self) {
        if self.on {
            let _ = write!(io::stderr().lock(), "\r\x1b[K");
        }
    }

    fn line(&self, before: Sample, now: Sample, errors: u64) -> String {
        let part = now.after.as_secs_f64() / self.whole.as_secs_f64().max(f64::MIN_POSITIVE);
        let full = ((part * BAR as f64) as usize).min(BAR);
        let took = (now.after.saturating_sub(before.after)).as_secs_f64().max(f64::MIN_POSITIVE);
        let rate = (now.cycles - before.cycles) as f64 / took;
        format!(
            "[{}{}] {} of {}  {} {} a second  {} errors",
            "#".repeat(full),
            "-".repeat(BAR - full),
            duration::show(Duration::from_secs(now.after.as_secs())),
            duration::show(self.whole),
            grouped(rate.round() as u64),
            self.done,
            grouped(errors)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_how_far_and_how_fast() {
        let progress = |seconds| Progress { on: false, whole: Duration::from_secs(seconds), done: "cycles" };
        let sample = |ms, cycles| Sample { after: Duration::from_millis(ms), cycles };
        assert_eq!(
            progress(20).line(sample(9_500, 10_000), sample(10_000, 11_250), 3),
            "[###############---------------] 10s of 20s  2,500 cycles a second  3 errors"
        );
        assert!(progress(0).line(sample(0, 0), sample(0, 0), 0).starts_with("[-"), "nothing is no error");
    }
}
