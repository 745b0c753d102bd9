//! Where whoever turns the engine lays down durable events for the feed. Never makes it wait and never grows without bound:
//! what does not fit is left out whole, and the hole in the numbers tells the feed so.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use leasehold_state_machine::event::{Event, Seq};

use crate::limits::{FEED_EVENTS_MAX, FEED_IDLE_EVENTS};

/// Events of one release of the engine, in order.
pub type Batch = std::sync::Arc<Vec<(Seq, u64, Event)>>;

/// Events on their way to the feed.
#[derive(Debug, Default)]
pub struct Intake {
    waiting: Mutex<Waiting>,
    news: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    batches: Vec<Batch>,
    events: usize,
    /// Whether somebody watches. While nobody does, the feed is woken for many events at once only.
    watched: bool,
    ended: bool,
}

impl Intake {
    /// Lays down what has happened. Leaves it out if too much lies here already.
    pub fn put(&self, batch: Batch) {
        let mut waiting = self.lock();
        if waiting.events > FEED_EVENTS_MAX {
            return;
        }
        waiting.events += batch.len();
        waiting.batches.push(batch);
        let wake = waiting.wants_the_feed();
        drop(waiting);
        if wake {
            self.news.notify_one();
        }
    }

    /// Takes everything that lies here.
    pub fn take(&self) -> Vec<Batch> {
        let mut waiting = self.lock();
        waiting.events = 0;
        std::mem::take(&mut waiting.batches)
    }

    /// Whether somebody watches.
    pub fn set_watched(&self, watched: bool) {
        self.lock().watched = watched;
        self.news.notify_one();
    }

    /// Nothing more will come.
    pub fn end(&self) {
        self.lock().ended = true;
        self.news.notify_one();
    }

    /// Waits until the feed has something to do; false when nothing more will come.
    pub fn wait(&self) -> bool {
        let waiting = self.lock();
        let waited = self.news.wait_while(waiting, |waiting| !waiting.wants_the_feed() && !waiting.ended);
        let waiting = waited.unwrap_or_else(PoisonError::into_inner);
        waiting.wants_the_feed()
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn wants_the_feed(&self) -> bool {
        self.events >= FEED_IDLE_EVENTS || (self.watched && self.events > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(events: usize) -> Batch {
        Batch::new(vec![(1, 0, Event::GrantsResumed); events])
    }

    #[test]
    fn is_bounded_and_wakes_only_when_it_matters() {
        let intake = Intake::default();
        intake.put(batch(1));
        intake.end();
        assert!(!intake.wait(), "nobody watches");
        intake.set_watched(true);
        assert!(intake.wait());
        assert_eq!(intake.take().len(), 1);
        intake.set_watched(false);
        intake.put(batch(FEED_IDLE_EVENTS));
        assert!(intake.wait(), "there are many");
        intake.put(batch(FEED_EVENTS_MAX));
        intake.put(batch(1));
        assert_eq!(intake.take().len(), 2, "one too many is left out");
    }
}
