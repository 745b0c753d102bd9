//! A queue of things remembered for a while: each gets a number when it is set aside, and the oldest are forgotten
//! first, by number, so that a journal can say how far. Ages count from a recovery at the earliest.

use alloc::collections::VecDeque;

use crate::limits::SLICE;

/// Keys in the order in which they were set aside.
#[derive(Debug)]
pub(crate) struct Remembered<K> {
    queue: VecDeque<(K, u64)>,
    /// The number of the oldest.
    first: u64,
    /// Everything numbered below this was set aside before the last recovery, at this time.
    recovered: (u64, u64),
}

impl<K: Copy> Remembered<K> {
    pub(crate) fn new() -> Self {
        Remembered { queue: VecDeque::new(), first: 0, recovered: (0, 0) }
    }

    pub(crate) fn push(&mut self, key: K, now_us: u64) {
        self.queue.push_back((key, now_us));
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// The number that the next one gets.
    pub(crate) fn end(&self) -> u64 {
        self.first + self.queue.len() as u64
    }

    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// Begins to count at this number; only when nothing is remembered.
    pub(crate) fn start_at(&mut self, first: u64) {
        assert!(self.queue.is_empty(), "numbers are set before anything is remembered");
        self.first = first;
    }

    /// All ages begin anew.
    pub(crate) fn recover(&mut self, now_us: u64) {
        self.recovered = (self.end(), now_us);
    }

    /// When the oldest was set aside.
    pub(crate) fn oldest_us(&self) -> Option<u64> {
        self.queue.front().map(|(_, at_us)| self.aged(self.first, *at_us))
    }

    fn aged(&self, number: u64, at_us: u64) -> u64 {
        if number < self.recovered.0 { self.recovered.1 } else { at_us }
    }

    /// The number up to which everything was set aside at `until_us` or before, at most a slice further than now.
    pub(crate) fn older_than(&self, until_us: u64) -> u64 {
        let mut number = self.first;
        for (_, at_us) in self.queue.iter().take(SLICE) {
            if self.aged(number, *at_us) > until_us {
                break;
            }
            number += 1;
        }
        number
    }

    /// Takes out the oldest if its number is below `before`.
    pub(crate) fn pop_before(&mut self, before: u64) -> Option<K> {
        if self.first >= before {
            return None;
        }
        let (key, _) = self.queue.pop_front()?;
        self.first += 1;
        Some(key)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> {
        self.queue.iter().map(|(key, _)| key)
    }
}
