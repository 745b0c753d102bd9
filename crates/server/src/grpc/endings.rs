//! How the operations of one group of answers ended, to be counted together: most of them came together, and ask for one of two
//! things. Three numbers that everybody shares would have to be fetched for each otherwise.

use std::time::Instant;

use crate::metrics::tallies::{Ended, Tallies};
use crate::wire::commands::Call;

/// So many kinds are looked at for one that is alike.
const LOOKED_AT: usize = 8;

/// Endings, most of those that are alike once.
#[derive(Debug, Default)]
pub struct Endings {
    kinds: Vec<(Ending, u64)>,
}

/// What is counted of an operation that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// What it asked for.
    pub call: Call,
    /// Whether it was ready to stand in line.
    pub waits: bool,
    /// When it came.
    pub since: Instant,
    /// What came of it.
    pub ended: Ended,
}

impl Endings {
    /// One more.
    pub fn add(&mut self, ending: Ending) {
        // Where each is of its own kind, as after waiting in line, looking at all would take longer than counting.
        let mut latest = self.kinds.iter_mut().rev().take(LOOKED_AT);
        match latest.find(|(kind, _)| *kind == ending) {
            Some((_, times)) => *times += 1,
            None => self.kinds.push((ending, 1)),
        }
    }

    /// Counts them all as over at this moment.
    pub fn tally(&mut self, tallies: &Tallies, now: Instant) {
        for (Ending { call, waits, since, ended }, times) in self.kinds.drain(..) {
            tallies.called_times(call, waits, now.saturating_duration_since(since), ended, times);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_is_counted_once_for_what_it_was() {
        let (tallies, mut endings, since) = (Tallies::default(), Endings::default(), Instant::now());
        let ending = |call, ended| Ending { call, waits: false, since, ended };
        for (call, ended) in [
            (Call::Acquire, Ended::Success),
            (Call::Release, Ended::Success),
            (Call::Acquire, Ended::Success),
            (Call::Acquire, Ended::Busy),
        ] {
            endings.add(ending(call, ended));
        }
        endings.add(Ending { waits: true, ..ending(Call::Acquire, Ended::Success) });
        assert_eq!(endings.kinds.len(), 4);
        endings
            .add(Ending { since: since + Duration::from_secs(1), ..ending(Call::Release, Ended::Success) });
        endings.tally(&tallies, since + Duration::from_secs(2));
        endings.tally(&tallies, since + Duration::from_secs(2));
        assert_eq!(tallies.count(Call::Acquire, Ended::Success), 3);
        assert_eq!(tallies.count(Call::Acquire, Ended::Busy), 1);
        assert_eq!(tallies.count(Call::Release, Ended::Success), 2);
        let sums = tallies.latencies().map(|(op, histogram)| (op, histogram.read()));
        let sums: Vec<_> = sums.filter(|(_, read)| read.count > 0).collect();
        let seen: Vec<_> = sums.iter().map(|(op, read)| (*op, read.count, read.sum)).collect();
        assert_eq!(seen, [("acquire", 3, 6000.0), ("release", 2, 3000.0), ("acquire_wait", 1, 2000.0)]);
    }
}
