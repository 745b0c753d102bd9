//! One watcher's side: every event that concerns it, once, in order, from the history or from its seat, whichever it
//! has come to. Ends when it cannot keep up or the server stops; it can then begin again after what it heard last.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};

use leasehold_state_machine::answer::Refusal;
use leasehold_state_machine::event::Seq;

use super::concern::Concern;
use super::feed::Feed;
use super::index::WatcherId;
use super::seat::{Found, Seat};
use super::shown::Shown;
use crate::limits::WATCH_RETRY_MS;

/// Somebody who watches. Dropping it ends that.
#[derive(Debug)]
pub struct Watching {
    feed: Arc<Feed>,
    id: WatcherId,
    concern: Concern,
    seat: Arc<Seat>,
    /// Everything that concerns it up to here has been heard or lies in `read`.
    position: Seq,
    /// Read from the history and not yet heard.
    read: VecDeque<Arc<Shown>>,
    /// The newest event that was heard, or where it began.
    heard: Seq,
    lag_max: usize,
    ended: Option<Ending>,
}

/// Why a stream of events has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The watcher did not keep up. It can resume after what it heard last.
    CutOff,
    /// The server stops.
    Stopping,
}

impl From<Ending> for Refusal {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::CutOff => Refusal::Busy {
                what: "this watcher did not keep up; it can resume after the last event it heard",
                retry_ms: WATCH_RETRY_MS,
            },
            Ending::Stopping => {
                Refusal::Unavailable { why: "the server is stopping", retry_ms: WATCH_RETRY_MS }
            }
        }
    }
}

impl Watching {
    pub(super) fn new(
        feed: Arc<Feed>,
        id: WatcherId,
        concern: Concern,
        seat: Arc<Seat>,
        position: Seq,
        lag_max: usize,
    ) -> Watching {
        let read = VecDeque::new();
        Watching { feed, id, concern, seat, position, read, heard: position, lag_max, ended: None }
    }

    /// The next event; none when the stream has ended.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Arc<Shown>>> {
        if let Some(event) = self.read.pop_front() {
            return self.hear(event);
        }
        if self.ended.is_some() {
            return Poll::Ready(None);
        }
        match self.seat.take(cx) {
            Found::Event(event) => {
                self.position = event.seq();
                self.hear(event)
            }
            Found::Nothing => Poll::Pending,
            Found::Behind => self.read_on(cx),
            Found::Lost => {
                self.feed.count_lost();
                self.end(Ending::CutOff)
            }
            Found::Closed => self.end(Ending::Stopping),
        }
    }

    /// The next event; none when the stream has ended.
    pub async fn next(&mut self) -> Option<Arc<Shown>> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Why the stream has ended, once it has.
    pub fn ending(&self) -> Option<Ending> {
        self.ended
    }

    /// The number after which it began, or up to which it has heard everything that concerns it: whoever comes back
    /// with this number misses nothing. It also grows while only others are concerned.
    pub fn heard_through(&self) -> Seq {
        // In this order: what was passed on before `through` lies at the seat, if it was not taken yet.
        let through = self.feed.through();
        match self.read.is_empty() && self.seat.is_up_to_date() {
            true => through.max(self.position),
            false => self.heard,
        }
    }

    /// One piece of the history.
    fn read_on(&mut self, cx: &mut Context<'_>) -> Poll<Option<Arc<Shown>>> {
        match self.feed.catch_up(&self.concern, &self.seat, self.position, self.lag_max) {
            None => self.end(Ending::CutOff),
            Some((found, reached)) => {
                self.position = reached;
                self.read = found.into();
                match self.read.pop_front() {
                    Some(event) => self.hear(event),
                    None => {
                        // Others have their turn before the next piece.
                        cx.waker().wake_by_ref();
                        Poll::Pending
                    }
                }
            }
        }
    }

    fn hear(&mut self, event: Arc<Shown>) -> Poll<Option<Arc<Shown>>> {
        assert!(event.seq() > self.heard, "events are heard in order, once");
        self.heard = event.seq();
        Poll::Ready(Some(event))
    }

    fn end(&mut self, ending: Ending) -> Poll<Option<Arc<Shown>>> {
        self.ended = Some(ending);
        Poll::Ready(None)
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.feed.leave(self.id, &self.concern);
    }
}
