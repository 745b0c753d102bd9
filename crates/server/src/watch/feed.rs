//! The feed: the last public events and everybody who watches. Fed by whoever turns the engine through the intake, worked
//! by a thread of its own. Whoever begins to watch is taken in at one place in the order of events: nothing between
//! what it reads of the past and what it then hears is missing or comes twice.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasehold_engine::{Chapter, History, Told};
use leasehold_state_machine::answer::Refusal;
use leasehold_state_machine::event::Seq;
use leasehold_state_machine::invalid::Invalid;

use super::concern::Concern;
use super::index::{Index, WatcherId};
use super::intake::{Intake, Work};
use super::seat::{Seat, Standing};
use super::shown::Shown;
use super::watching::Watching;
use crate::limits::{FEED_SLICE, SEAT_EVENTS_MAX, WATCH_RETRY_MS, WATCH_SCAN_EVENTS};
use crate::wire::problem::Denial;

/// The bounds of watching.
#[derive(Clone, Copy, Debug)]
pub struct FeedLimits {
    /// Watchers at once.
    pub watchers_max: usize,
    /// How many events may pass a watcher that does not keep up, before it is cut off.
    pub lag_max: usize,
}

/// Why somebody does not watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotWatching {
    /// It asks for events that are no longer kept.
    Gone {
        /// All that are newer than this one are kept.
        kept_after: Seq,
    },
    /// It asks for what comes after an event that has not happened.
    Ahead {
        /// The newest there is.
        newest: Seq,
    },
    /// There are too many watchers.
    Full,
    /// The server stops.
    Closed,
}

impl From<NotWatching> for Denial {
    fn from(not_watching: NotWatching) -> Self {
        match not_watching {
            NotWatching::Gone { kept_after } => Denial::Gone { kept_after },
            NotWatching::Ahead { newest } => {
                Invalid::new("from", format!("the newest event is number {newest}")).into()
            }
            NotWatching::Full => Refusal::Busy { what: "watchers", retry_ms: WATCH_RETRY_MS }.into(),
            NotWatching::Closed => {
                Refusal::Unavailable { why: "the server is stopping", retry_ms: WATCH_RETRY_MS }.into()
            }
        }
    }
}

/// The last events, and who watches.
#[derive(Debug)]
pub struct Feed {
    limits: FeedLimits,
    intake: Intake,
    hall: Mutex<Hall>,
    /// Every event up to here has been passed on.
    through: AtomicU64,
    watchers: AtomicUsize,
    cut_off_total: AtomicU64,
}

/// What is only touched with the lock held.
#[derive(Debug)]
struct Hall {
    history: History,
    index: Index,
    next_id: WatcherId,
    closed: bool,
    /// Taken from the intake and not yet read.
    unread: VecDeque<Chapter>,
    /// Read and not yet passed on.
    pending: VecDeque<Told>,
}

impl Feed {
    /// A feed that goes on from what the journal remembers.
    pub fn new(history: History, limits: FeedLimits) -> Feed {
        Feed {
            limits,
            intake: Intake::default(),
            through: AtomicU64::new(history.through()),
            hall: Mutex::new(Hall {
                history,
                index: Index::default(),
                next_id: 0,
                closed: false,
                unread: VecDeque::new(),
                pending: VecDeque::new(),
            }),
            watchers: AtomicUsize::new(0),
            cut_off_total: AtomicU64::new(0),
        }
    }

    /// Where durable events are laid down.
    pub fn intake(&self) -> &Intake {
        &self.intake
    }

    /// Passes events on until the intake ends. For a thread of its own.
    pub fn follow(&self) {
        while let Some(work) = self.intake.wait() {
            match work {
                Work::PassOn => self.pass_all_on(),
                Work::Forget(seq) => self.forget(seq),
            }
        }
    }

    /// Passes on everything that lies in the intake.
    pub fn pass_all_on(&self) {
        // In slices, so that whoever begins to watch meanwhile does not wait for all of it; and as it may be very much,
        // whoever is on the way of a request and has just been woken goes first.
        while self.pass_on(FEED_SLICE) {
            std::thread::yield_now();
        }
    }

    /// Forgets everything up to this event.
    fn forget(&self, seq: Seq) {
        let mut hall = self.lock();
        let is_reading = !(hall.unread.is_empty() && hall.pending.is_empty());
        if is_reading || hall.history.through() > seq {
            // Somebody reads on: what is too old goes with the hole that is met then.
            return;
        }
        let emptied = hall.history.emptied(seq);
        let forgotten = std::mem::replace(&mut hall.history, emptied);
        drop(hall);
        // It is long, and nobody needs to wait for its end.
        drop(forgotten);
    }

    /// Reads what nobody has read while nobody watched, and what there is before this event, a little at a time. Whoever is about
    /// to watch does that first, because others are waiting for its thread.
    pub async fn read_on(&self, from: Option<Seq>) {
        while self.is_behind(from) && self.pass_on(FEED_SLICE) {
            tokio::task::yield_now().await;
        }
    }

    /// Whether somebody who begins to watch from here has to read on first. Everything that was answered before lies in the
    /// intake at least.
    fn is_behind(&self, from: Option<Seq>) -> bool {
        self.watchers() == 0 || from.is_none_or(|from| from > self.through())
    }

    /// Begins to watch: after the event `from`, or with what happens next.
    pub fn watch(self: &Arc<Self>, concern: Concern, from: Option<Seq>) -> Result<Watching, NotWatching> {
        if self.is_behind(from) {
            self.pass_all_on();
        }
        let mut hall = self.lock();
        if hall.closed {
            return Err(NotWatching::Closed);
        }
        let (after, newest) = (hall.history.after(), hall.history.through());
        let (position, standing) = match from {
            None => (newest, Standing::Live),
            Some(from) if from > newest => return Err(NotWatching::Ahead { newest }),
            Some(from) if from < after => return Err(NotWatching::Gone { kept_after: after }),
            Some(from) => (from, Standing::Behind),
        };
        if self.watchers.load(Ordering::Relaxed) >= self.limits.watchers_max {
            return Err(NotWatching::Full);
        }
        if self.watchers.fetch_add(1, Ordering::Relaxed) == 0 {
            self.intake.set_watched(true);
        }
        let id = hall.next_id;
        hall.next_id += 1;
        let seat = Arc::new(Seat::new(standing));
        hall.index.add(id, &concern, Arc::clone(&seat));
        // Who comes back from far away is not cut off for that.
        let lag_max = self.limits.lag_max.max(hall.history.count_since(position));
        drop(hall);
        Ok(Watching::new(Arc::clone(self), id, concern, seat, position, lag_max))
    }

    /// Ends all watching: what lies at the seats is still delivered, then the streams end.
    pub fn close(&self) {
        let mut hall = self.lock();
        hall.closed = true;
        hall.index.all().for_each(|seat| seat.close());
    }

    /// What was known when this event was the newest; see [`History::up_to`]. It must have been laid down.
    pub fn history_up_to(&self, seq: Seq) -> Option<History> {
        self.pass_all_on();
        self.lock().history.up_to(seq)
    }

    /// How many watch now.
    pub fn watchers(&self) -> usize {
        self.watchers.load(Ordering::Relaxed)
    }

    /// How many were cut off because they did not keep up.
    pub fn cut_off_total(&self) -> u64 {
        self.cut_off_total.load(Ordering::Relaxed)
    }

    /// Every event up to here has been passed on.
    pub(super) fn through(&self) -> Seq {
        self.through.load(Ordering::Acquire)
    }

    /// Reads on from `position` what concerns somebody who is behind, a piece at a time. At the end of the history it
    /// hears the rest at its seat, from exactly there. None: it is too far behind.
    pub(super) fn catch_up(
        &self,
        concern: &Concern,
        seat: &Seat,
        position: Seq,
        lag_max: usize,
    ) -> Option<(Vec<Arc<Shown>>, Seq)> {
        let hall = self.lock();
        let history = &hall.history;
        if position < history.after() || history.count_since(position) > lag_max {
            self.cut_off_total.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let mut reached = position;
        let mut found = Vec::new();
        let mut moments = history.since(position);
        for moment in moments.by_ref().take(WATCH_SCAN_EVENTS) {
            reached = moment.seq();
            if concern.fits(moment.lock()) {
                found.push(Arc::new(Shown::new(moment.clone())));
                if found.len() == SEAT_EVENTS_MAX {
                    break;
                }
            }
        }
        if moments.next().is_none() {
            reached = history.through();
            seat.go_live();
        }
        Some((found, reached))
    }

    /// Somebody found that what it missed is not known any more.
    pub(super) fn count_lost(&self) {
        self.cut_off_total.fetch_add(1, Ordering::Relaxed);
    }

    /// Somebody watches no more.
    pub(super) fn leave(&self, id: WatcherId, concern: &Concern) {
        let mut hall = self.lock();
        hall.index.remove(id, concern);
        if self.watchers.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.intake.set_watched(false);
        }
    }

    /// Passes on so many events at most; whether it stopped for that.
    fn pass_on(&self, events_max: usize) -> bool {
        let mut hall = self.lock();
        let Hall { unread, pending, history, index, .. } = &mut *hall;
        for _ in 0..events_max {
            if unread.is_empty() && pending.is_empty() {
                // Not before: what is taken is not bounded here any more. And under the lock, so that two who do this keep the order.
                *unread = self.intake.take();
            }
            if pending.is_empty()
                && let Some(chapter) = unread.pop_front()
            {
                pending.extend(chapter.read());
            }
            let Some(told) = pending.pop_front() else { return false };
            pass(history, index, &told);
            // Only now: whoever has taken everything from its seat may say that it has heard all up to here.
            self.through.store(history.through(), Ordering::Release);
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, Hall> {
        self.hall.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Notes one event and gives it to those concerned.
fn pass(history: &mut History, index: &Index, (seq, wall_ms, event): &Told) {
    if *seq != history.through() + 1 {
        // The intake had to leave something out. Nobody may go on as if nothing had happened.
        index.all().for_each(|seat| seat.lose());
    }
    let Some(moment) = history.note(*seq, *wall_ms, event) else { return };
    if index.is_empty() {
        return;
    }
    let mut shown = None;
    for seat in index.concerned(moment.lock()) {
        seat.give(shown.get_or_insert_with(|| Arc::new(Shown::new(moment.clone()))));
    }
}

#[cfg(test)]
mod tests {
    use leasehold_state_machine::event::Event;

    use super::*;
    use crate::limits::FEED_EVENTS_MAX;

    #[test]
    fn what_waits_for_a_slow_feed_is_bounded() {
        let feed = Arc::new(Feed::new(History::new(), FeedLimits { watchers_max: 1, lag_max: 1 }));
        let _watching = feed.watch(Concern::prefix("").unwrap(), None).unwrap();
        let (mut last, mut laid_down) = (0, 0);
        for _ in 0..64 {
            let events = FEED_EVENTS_MAX / 8;
            feed.intake()
                .put(Chapter::of((last + 1..=last + events).map(|seq| (seq, 0, Event::GrantsResumed))));
            (last, laid_down) = (last + events, laid_down + events);
            assert!(feed.pass_on(FEED_SLICE), "it does not keep up");
        }
        let hall = feed.lock();
        let taken: u64 = hall.unread.iter().map(|chapter| chapter.contents().events).sum();
        let lies: u64 = feed.intake.take().iter().map(|chapter| chapter.contents().events).sum();
        let waits = taken + lies + hall.pending.len() as u64;
        assert!(waits <= 2 * FEED_EVENTS_MAX && laid_down > 3 * FEED_EVENTS_MAX, "{waits} of {laid_down}");
    }

    #[test]
    fn nothing_is_forgotten_over_the_head_of_whoever_reads() {
        let feed = Feed::new(History::new(), FeedLimits { watchers_max: 1, lag_max: 1 });
        let chapter =
            |seqs: std::ops::RangeInclusive<Seq>| Chapter::of(seqs.map(|seq| (seq, 0, Event::GrantsResumed)));
        feed.intake().put(chapter(1..=10));
        assert!(feed.pass_on(1), "there is more");
        feed.forget(50);
        feed.intake().put(chapter(51..=60));
        feed.pass_all_on();
        assert_eq!((feed.lock().history.after(), feed.through()), (50, 60));
        feed.forget(70);
        assert_eq!(feed.lock().history.through(), 70);
    }
}
