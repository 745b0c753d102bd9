//! What all clients of a run have met, in a few places that they share: one for each client would be megabytes, of which every
//! client finds its own gone from the processor's cache by its next turn.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::histogram::Histogram;

/// Few enough to stay at hand, and enough that two threads seldom meet.
const PARTS: usize = 16;

/// What was met.
#[derive(Debug)]
pub struct Tally {
    parts: [Mutex<Part>; PARTS],
}

/// Far enough from the next that threads do not take the same line of memory from each other.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Part {
    latency: Histogram,
    wait: Histogram,
}

impl Tally {
    pub fn new() -> Tally {
        Tally { parts: std::array::from_fn(|_| Mutex::default()) }
    }

    fn part(part: &Mutex<Part>) -> MutexGuard<'_, Part> {
        part.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client has done its work once, and took so long.
    pub fn done(&self, client: usize, took_us: u64) {
        Tally::part(&self.parts[client % PARTS]).latency.record(took_us);
    }

    /// A client holds what it asked for so long before.
    pub fn waited(&self, client: usize, waited_us: u64) {
        Tally::part(&self.parts[client % PARTS]).wait.record(waited_us);
    }

    /// How often the work was done so far.
    pub fn count(&self) -> u64 {
        self.parts.iter().map(|part| Tally::part(part).latency.count()).sum()
    }

    /// How long the work took, all clients together.
    pub fn latency(&self) -> Histogram {
        self.sum(|part| &part.latency)
    }

    /// From asking to holding, all clients together.
    pub fn wait(&self) -> Histogram {
        self.sum(|part| &part.wait)
    }

    fn sum(&self, of: impl Fn(&Part) -> &Histogram) -> Histogram {
        let mut sum = Histogram::default();
        self.parts.iter().for_each(|part| sum.add(of(&Tally::part(part))));
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_clients_are_counted_together() {
        let tally = Tally::new();
        for client in 0..100 {
            tally.done(client, 5);
            tally.waited(client, client as u64);
            tally.done(client, 7);
        }
        assert_eq!((tally.count(), tally.latency().count(), tally.latency().max_us()), (200, 200, 7));
        assert_eq!((tally.wait().count(), tally.wait().max_us()), (100, 99));
    }
}
