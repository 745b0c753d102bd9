//! Where everything that concerns the engine thread comes in: requests, the journal's word, the wish to stop. The thread
//! takes all of it at once, which is what makes batches. Never refuses for want of room: admission comes before.

use std::collections::VecDeque;
use std::sync::PoisonError;
use std::time::Duration;

use crate::sync::{Condvar, Mutex, MutexGuard};

/// A queue with one taker.
#[derive(Debug)]
pub struct Inbox<T> {
    state: Mutex<State<T>>,
    arrived: Condvar,
}

#[derive(Debug)]
struct State<T> {
    messages: VecDeque<T>,
    /// Whether the taker sleeps: only then is there somebody to wake.
    asleep: bool,
    closed: bool,
}

impl<T> Default for Inbox<T> {
    fn default() -> Self {
        let state = State { messages: VecDeque::new(), asleep: false, closed: false };
        Inbox { state: Mutex::new(state), arrived: Condvar::new() }
    }
}

impl<T> Inbox<T> {
    /// Puts a message in; gives it back when nobody will take it any more.
    pub fn put(&self, message: T) -> Result<(), T> {
        let mut state = self.lock();
        if state.closed {
            return Err(message);
        }
        state.messages.push_back(message);
        if std::mem::take(&mut state.asleep) {
            drop(state);
            self.arrived.notify_one();
        }
        Ok(())
    }

    /// Puts many messages in at once, with one lock and one wake-up; when nobody will take them any more they are dropped.
    pub fn put_all(&self, messages: &mut Vec<T>) {
        let mut state = self.lock();
        if state.closed {
            // Not under the lock: whoever is dropped may have something to say.
            drop(state);
            messages.clear();
            return;
        }
        state.messages.extend(messages.drain(..));
        if !state.messages.is_empty() && std::mem::take(&mut state.asleep) {
            drop(state);
            self.arrived.notify_one();
        }
    }

    /// Takes everything that is there, after waiting for something up to `patience` (for ever without one). `into`
    /// must be empty: it is exchanged, so that neither side allocates in the long run.
    pub fn take(&self, patience: Option<Duration>, into: &mut VecDeque<T>) {
        assert!(into.is_empty(), "what was taken before has been dealt with");
        let mut state = self.lock();
        if state.messages.is_empty() && patience != Some(Duration::ZERO) {
            state.asleep = true;
            let quiet = |state: &mut State<T>| state.messages.is_empty();
            state = match patience {
                None => self.arrived.wait_while(state, quiet).unwrap_or_else(PoisonError::into_inner),
                Some(patience) => {
                    let waited = self.arrived.wait_timeout_while(state, patience, quiet);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
            state.asleep = false;
        }
        std::mem::swap(&mut state.messages, into);
    }

    /// Whether nothing waits to be taken.
    pub fn is_empty(&self) -> bool {
        self.lock().messages.is_empty()
    }

    /// Lets nothing more in; gives what is still there.
    pub fn close(&self) -> VecDeque<T> {
        let mut state = self.lock();
        state.closed = true;
        std::mem::take(&mut state.messages)
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // No code that can panic runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn everything_is_taken_at_once_and_in_order() {
        let inbox = Inbox::default();
        let mut taken = VecDeque::new();
        inbox.take(Some(Duration::ZERO), &mut taken);
        assert!(taken.is_empty());
        for n in 0..3 {
            inbox.put(n).unwrap();
        }
        inbox.take(None, &mut taken);
        assert_eq!(taken, [0, 1, 2]);
        inbox.put(3).unwrap();
        inbox.put_all(&mut vec![4, 5]);
        assert_eq!(inbox.close(), [3, 4, 5]);
        assert_eq!(inbox.put(6), Err(6));
        let mut late = vec![7];
        inbox.put_all(&mut late);
        assert!(late.is_empty() && inbox.close().is_empty());
    }

    #[test]
    fn no_wake_up_is_lost() {
        const COUNT: u64 = 20_000;
        let inbox = Arc::new(Inbox::default());
        let putters: Vec<_> = (0..4)
            .map(|_| {
                let inbox = inbox.clone();
                std::thread::spawn(move || {
                    for n in (0..COUNT).step_by(2) {
                        inbox.put(n).unwrap();
                        inbox.put_all(&mut vec![n + 1]);
                    }
                })
            })
            .collect();
        let (mut taken, mut count) = (VecDeque::new(), 0);
        while count < 4 * COUNT {
            inbox.take(None, &mut taken);
            count += taken.drain(..).count() as u64;
        }
        putters.into_iter().for_each(|putter| putter.join().unwrap());
    }
}
