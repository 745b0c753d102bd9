//! How far a run of many seeds is: a bar on a terminal, a line now and then everywhere else. Goes to standard error, so that
//! the account alone is on standard output.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::account::{Account, span};

/// How often a terminal is drawn anew.
const DRAW_EVERY: Duration = Duration::from_millis(100);
/// How often a line is written elsewhere.
const WRITE_EVERY: Duration = Duration::from_secs(30);
const BAR_WIDTH: u64 = 30;

/// Says how far it is.
#[derive(Debug)]
pub struct Progress {
    /// How many seeds there are, if that is known.
    seeds: Option<u64>,
    /// How long it may take, if that is what ends it.
    within: Option<Duration>,
    begun: Instant,
    told: Option<Instant>,
    terminal: bool,
}

impl Progress {
    /// It begins.
    pub fn new(seeds: Option<u64>, within: Option<Duration>) -> Progress {
        Progress {
            seeds,
            within,
            begun: Instant::now(),
            told: None,
            terminal: std::io::stderr().is_terminal(),
        }
    }

    /// Whether its time is over.
    pub fn is_over(&self) -> bool {
        self.within.is_some_and(|within| self.begun.elapsed() >= within)
    }

    /// A seed more is done.
    pub fn tell(&mut self, account: &Account) {
        let every = if self.terminal { DRAW_EVERY } else { WRITE_EVERY };
        if self.told.unwrap_or(self.begun).elapsed() < every {
            return;
        }
        self.told = Some(Instant::now());
        let line = self.line(account, self.begun.elapsed());
        let mut stderr = std::io::stderr().lock();
        // Nobody may be there to read it.
        let _ = if self.terminal { write!(stderr, "\r\x1b[K{line}") } else { writeln!(stderr, "{line}") };
        let _ = stderr.flush();
    }

    /// It is over.
    pub fn end(&self) {
        if self.terminal && self.told.is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }

    fn line(&self, account: &Account, elapsed: Duration) -> String {
        let done = account.seeds;
        let rate = done as f64 / elapsed.as_secs_f64().max(0.001);
        let share = match (self.seeds, self.within) {
            (Some(seeds), None) => done as f64 / seeds.max(1) as f64,
            (Some(seeds), Some(within)) => {
                (done as f64 / seeds.max(1) as f64).max(elapsed.as_secs_f64() / within.as_secs_f64())
            }
            (None, Some(within)) => elapsed.as_secs_f64() / within.as_secs_f64(),
            (None, None) => 0.0,
        };
        let share = share.clamp(0.0, 1.0);
        let left = Duration::from_secs_f64(elapsed.as_secs_f64() * (1.0 - share) / share.max(0.000_1));
        let of = self.seeds.map_or(String::new(), |seeds| format!("/{seeds}"));
        let simulated = span(account.tally.simulated_us);
        let told = format!(
            "{done}{of} seeds, {rate:.0}/s, {simulated} simulated, about {} left",
            span(u64::try_from(left.as_micros()).unwrap_or(u64::MAX))
        );
        if !self.terminal {
            return told;
        }
        let full = usize::try_from((share * BAR_WIDTH as f64) as u64).unwrap_or(0);
        let empty = usize::try_from(BAR_WIDTH).unwrap_or(0).saturating_sub(full);
        format!("[{}{}] {told}", "#".repeat(full), "-".repeat(empty))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_how_far_it_is() {
        let account = Account { seeds: 25, ..Account::default() };
        let mut progress = Progress::new(Some(100), None);
        progress.terminal = true;
        let line = progress.line(&account, Duration::from_secs(5));
        assert!(line.starts_with("[#######-"), "{line}");
        assert!(line.ends_with("25/100 seeds, 5/s, 0 s simulated, about 15 s left"), "{line}");
        let progress = Progress::new(None, Some(Duration::from_secs(60)));
        assert!(!progress.is_over());
        let line = progress.line(&account, Duration::from_secs(30));
        assert!(line.contains("25 seeds") && line.ends_with("about 30 s left"), "{line}");
    }
}
