//! A watcher's place: a short queue that the feed fills and the watcher empties. When it is full nobody waits: the
//! watcher is behind from then on, and reads what it missed from the feed's history when it comes to it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

use super::shown::Shown;
use crate::limits::SEAT_EVENTS_MAX;

/// Where one watcher's events wait for it.
#[derive(Debug)]
pub struct Seat(Mutex<Queue>);

#[derive(Debug)]
struct Queue {
    events: VecDeque<Arc<Shown>>,
    standing: Standing,
    closed: bool,
    waker: Option<Waker>,
}

/// How a watcher stands to the feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It gets every event that concerns it, as it comes.
    Live,
    /// It missed something, and has to read the history from where it was.
    Behind,
    /// It missed something that nobody knows any more.
    Lost,
}

/// What the watcher finds at its seat.
#[derive(Debug)]
pub enum Found {
    /// The next event.
    Event(Arc<Shown>),
    /// The queue is empty, and what follows has to be read from the history.
    Behind,
    /// The queue is empty; the watcher will be woken.
    Nothing,
    /// The queue is empty, and nothing more will come because something is missing.
    Lost,
    /// The queue is empty, and nothing more will come because the server stops.
    Closed,
}

impl Seat {
    /// A seat for somebody who begins to watch.
    pub fn new(standing: Standing) -> Seat {
        Seat(Mutex::new(Queue { events: VecDeque::new(), standing, closed: false, waker: None }))
    }

    /// Lays an event down. Never waits for the watcher.
    pub fn give(&self, event: &Arc<Shown>) {
        let mut queue = self.lock();
        if queue.standing != Standing::Live {
            return;
        }
        if queue.events.len() >= SEAT_EVENTS_MAX {
            queue.standing = Standing::Behind;
            return;
        }
        queue.events.push_back(Arc::clone(event));
        queue.wake();
    }

    /// The next event, or why there is none. Whoever finds nothing is woken when that changes.
    pub fn take(&self, cx: &mut Context<'_>) -> Found {
        let mut queue = self.lock();
        if let Some(event) = queue.events.pop_front() {
            return Found::Event(event);
        }
        // A burst need not be remembered by its memory.
        queue.events = VecDeque::new();
        match (queue.standing, queue.closed) {
            (Standing::Lost, _) => Found::Lost,
            (_, true) => Found::Closed,
            (Standing::Behind, false) => Found::Behind,
            (Standing::Live, false) => {
                queue.waker = Some(cx.waker().clone());
                Found::Nothing
            }
        }
    }

    /// Whether everything that was told so far has been taken.
    pub fn is_up_to_date(&self) -> bool {
        let queue = self.lock();
        queue.standing == Standing::Live && queue.events.is_empty()
    }

    /// The watcher has read the history to its end, and nothing has been told since.
    pub fn go_live(&self) {
        let mut queue = self.lock();
        if queue.standing == Standing::Behind {
            queue.standing = Standing::Live;
        }
    }

    /// Something is missing that nobody knows any more.
    pub fn lose(&self) {
        let mut queue = self.lock();
        queue.standing = Standing::Lost;
        queue.wake();
    }

    /// The server stops.
    pub fn close(&self) {
        let mut queue = self.lock();
        queue.closed = true;
        queue.wake();
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}
