//! Where whoever turns the engine lays down what became durable, for the feed. Never makes it wait and never grows without bound:
//! what does not fit is left out whole, and the hole in the numbers tells the feed so. While nobody watches, chapters lie here
//! unread until somebody wants the history, and those that are too old for it go unread.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use leasehold_engine::Chapter;
use leasehold_engine::limits::HISTORY_EVENTS_MAX;
use leasehold_state_machine::event::Seq;

use crate::limits::{FEED_BYTES_MAX, FEED_EVENTS_MAX, FEED_UNREAD_BYTES};

/// What happened, on its way to the feed.
#[derive(Debug, Default)]
pub struct Intake {
    waiting: Mutex<Waiting>,
    news: Condvar,
}

/// What the feed's thread has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Take what lies here, and pass it on.
    PassOn,
    /// Forget everything up to this event: so much came after it that it is too old for the history.
    Forget(Seq),
}

#[derive(Debug, Default)]
struct Waiting {
    /// In order.
    chapters: VecDeque<Chapter>,
    events: u64,
    public: u64,
    bytes: usize,
    /// Whether all that the feed has read so far is too old for the history.
    all_read_is_too_old: bool,
    /// The last event that became too old unread, until the feed has heard of it.
    too_old: Option<Seq>,
    /// Whether somebody watches. While nobody does, the feed is woken for very much at once only.
    watched: bool,
    ended: bool,
}

impl Intake {
    /// Lays down what has happened. Leaves it out if too much lies here already.
    pub fn put(&self, chapter: Chapter) {
        let mut waiting = self.lock();
        if waiting.is_full() {
            return;
        }
        waiting.add(chapter);
        if !waiting.watched {
            waiting.shed();
        }
        let wake = waiting.work().is_some();
        drop(waiting);
        if wake {
            self.news.notify_one();
        }
    }

    /// Takes everything that lies here.
    pub fn take(&self) -> VecDeque<Chapter> {
        let mut waiting = self.lock();
        (waiting.events, waiting.public, waiting.bytes) = (0, 0, 0);
        waiting.all_read_is_too_old &= waiting.chapters.is_empty();
        std::mem::take(&mut waiting.chapters)
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

    /// Waits until the feed's thread has something to do; none when nothing more will come.
    pub fn wait(&self) -> Option<Work> {
        let waiting = self.lock();
        let waited = self.news.wait_while(waiting, |waiting| waiting.work().is_none() && !waiting.ended);
        let mut waiting = waited.unwrap_or_else(PoisonError::into_inner);
        let work = waiting.work();
        waiting.too_old = None;
        work
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn is_full(&self) -> bool {
        self.bytes > FEED_BYTES_MAX || (self.watched && self.events > FEED_EVENTS_MAX)
    }

    fn add(&mut self, chapter: Chapter) {
        let contents = chapter.contents();
        self.events += contents.events;
        self.public += contents.public;
        self.bytes += chapter.bytes();
        self.chapters.push_back(chapter);
    }

    /// Lets go what the history would not keep, were it read.
    fn shed(&mut self) {
        while let Some(oldest) = self.chapters.front()
            && self.public - oldest.contents().public >= HISTORY_EVENTS_MAX as u64
        {
            let contents = oldest.contents();
            self.events -= contents.events;
            self.public -= contents.public;
            self.bytes -= oldest.bytes();
            // Once is enough until it has read more.
            if !std::mem::replace(&mut self.all_read_is_too_old, true) {
                self.too_old = Some(oldest.last_seq());
            }
            self.chapters.pop_front();
        }
    }

    fn work(&self) -> Option<Work> {
        if let Some(seq) = self.too_old {
            return Some(Work::Forget(seq));
        }
        let much = self.bytes >= FEED_UNREAD_BYTES;
        (much || (self.watched && self.events > 0)).then_some(Work::PassOn)
    }
}

#[cfg(test)]
mod tests {
    use leasehold_state_machine::event::{Event, LeaseName};
    use leasehold_state_machine::resource::Resource;
    use leasehold_state_machine::words::{Mode, Owner};

    use super::*;

    /// So many events from this one on.
    fn chapter(first: Seq, events: usize) -> Chapter {
        let lease = LeaseName {
            slot: 1,
            token: 1,
            resource: Resource::parse("a").unwrap(),
            owner: Owner::parse("w").unwrap(),
            mode: Mode::Exclusive,
        };
        Chapter::of((first..).take(events).map(|seq| (seq, 0, Event::Expired { lease: lease.clone() })))
    }

    fn last_seqs(chapters: VecDeque<Chapter>) -> Vec<Seq> {
        chapters.iter().map(Chapter::last_seq).collect()
    }

    #[test]
    fn the_feed_is_woken_when_somebody_watches_or_very_much_lies_here() {
        let intake = Intake::default();
        intake.put(chapter(1, 1));
        intake.end();
        assert_eq!(intake.wait(), None, "nobody watches");
        intake.set_watched(true);
        assert_eq!(intake.wait(), Some(Work::PassOn));
        assert_eq!(last_seqs(intake.take()), [1]);
        assert_eq!(intake.wait(), None);
        intake.set_watched(false);
        let one = chapter(2, 10_000);
        for _ in 0..=FEED_UNREAD_BYTES / one.bytes() {
            let mut waiting = intake.lock();
            waiting.add(one.clone());
        }
        assert_eq!(intake.wait(), Some(Work::PassOn), "there is much");
    }

    #[test]
    fn while_somebody_watches_one_too_many_is_left_out() {
        let intake = Intake::default();
        intake.set_watched(true);
        intake.put(chapter(1, FEED_EVENTS_MAX as usize + 1));
        intake.put(chapter(FEED_EVENTS_MAX + 2, 1));
        assert_eq!(last_seqs(intake.take()), [FEED_EVENTS_MAX + 1]);
    }

    #[test]
    fn bytes_are_bounded_also_while_nobody_watches() {
        let intake = Intake::default();
        // Many that nobody may hear of: none of them is too old for the history.
        let own = |seq| Chapter::of((seq * 1000..).take(1000).map(|seq| (seq, 0, Event::GrantsResumed)));
        let one = own(0).bytes();
        for seq in 0..=2 * (FEED_BYTES_MAX / one) as Seq {
            intake.put(own(seq));
        }
        let bytes: usize = intake.take().iter().map(Chapter::bytes).sum();
        assert!((FEED_BYTES_MAX..=FEED_BYTES_MAX + one).contains(&bytes), "{bytes}");
        intake.put(own(0));
        assert_eq!(intake.take().len(), 1, "there is room again");
    }

    #[test]
    fn while_nobody_watches_what_is_too_old_goes_unread_and_that_is_said_once() {
        let intake = Intake::default();
        let max = HISTORY_EVENTS_MAX as Seq;
        intake.end();
        intake.put(chapter(1, 10));
        intake.put(chapter(11, HISTORY_EVENTS_MAX - 1));
        assert_eq!(intake.wait(), None, "one less would be too few");
        intake.put(chapter(max + 10, 1));
        assert_eq!(intake.wait(), Some(Work::Forget(10)));
        intake.put(chapter(max + 11, HISTORY_EVENTS_MAX));
        assert_eq!(intake.wait(), None, "the feed has nothing that it could forget");
        assert_eq!(last_seqs(intake.take()), [2 * max + 10]);
        intake.put(chapter(2 * max + 11, 5));
        intake.put(chapter(2 * max + 16, HISTORY_EVENTS_MAX));
        assert_eq!(intake.wait(), Some(Work::Forget(2 * max + 15)), "it has read more meanwhile");
    }
}
