//! What is said into a conversation and not yet heard. Saying something wakes nobody: whoever says it gets the waker of the
//! one who listens, and wakes it when everything has been said. Woken at the first word, it would take the
//! processor from the speaker, hear that word, sleep, and be woken for the next.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// The end that says. Clones speak into the same conversation.
pub(crate) struct Voice<T>(Arc<Mutex<State<T>>>);

/// The end that hears.
pub(crate) struct Ear<T>(Arc<Mutex<State<T>>>);

struct State<T> {
    said: VecDeque<T>,
    /// What was written beside it.
    written: Vec<u8>,
    /// Whoever waits for the next word.
    sleeper: Option<Waker>,
    /// Nobody will hear anything any more.
    deaf: bool,
}

/// What is said or heard at once.
pub(crate) struct Earful<T> {
    /// In order.
    pub said: VecDeque<T>,
    /// What was written beside it, one after the other.
    pub written: Vec<u8>,
}

impl<T> Earful<T> {
    /// Whether there is not much more room than is used.
    fn fills_its_rooms(&self) -> bool {
        let fills = |used: usize, room: usize| room <= SPARE_ROOM + ROOM_TO_USED_MAX * used;
        fills(self.said.len(), self.said.capacity()) && fills(self.written.len(), self.written.capacity())
    }
}

/// Room for what is written that is kept however little is in it.
const KEPT_ROOM_BYTES: usize = 64 << 10;
/// Room for so much is little, whatever is in it...
const SPARE_ROOM: usize = 64;
/// ...and for so many times what is in it.
const ROOM_TO_USED_MAX: usize = 4;

impl<T> Default for Earful<T> {
    fn default() -> Self {
        Earful { said: VecDeque::new(), written: Vec::new() }
    }
}

/// Who is to be woken when everything has been said.
#[derive(Default)]
pub(crate) struct Sleepers(Vec<Waker>);

impl Sleepers {
    /// Wakes all of them.
    pub fn wake(&mut self) {
        self.0.drain(..).for_each(Waker::wake);
    }
}

/// The two ends of a conversation.
pub(crate) fn voice<T>() -> (Voice<T>, Ear<T>) {
    let state = State { said: VecDeque::new(), written: Vec::new(), sleeper: None, deaf: false };
    let state = Arc::new(Mutex::new(state));
    (Voice(Arc::clone(&state)), Ear(state))
}

impl<T> Voice<T> {
    /// Says something, and leaves to the caller to wake whoever listens. Says whether anybody will hear it.
    pub fn say(&self, what: T, sleepers: &mut Sleepers) -> bool {
        let mut state = lock(&self.0);
        if !state.deaf {
            state.said.push_back(what);
            sleepers.0.extend(state.sleeper.take());
        }
        !state.deaf
    }

    /// Says all of this at once, with what was written beside it. Where nothing waits to be heard it is exchanged, so that
    /// nothing is copied while somebody may wait to hear it. Little in large rooms is copied: else the rooms would go from those who
    /// hear much to those who hear little, and stay with them. What nobody will hear stays where it is.
    pub fn say_all(&self, all: &mut Earful<T>, sleepers: &mut Sleepers) -> bool {
        let mut state = lock(&self.0);
        if !state.deaf && !all.said.is_empty() {
            let State { said, written, .. } = &mut *state;
            if said.is_empty() && all.fills_its_rooms() {
                assert!(written.is_empty(), "what was written is heard with what it stands beside");
                std::mem::swap(said, &mut all.said);
                std::mem::swap(written, &mut all.written);
            } else {
                said.append(&mut all.said);
                written.append(&mut all.written);
                if all.written.capacity() > KEPT_ROOM_BYTES {
                    all.written.shrink_to(all.written.capacity() / 2);
                }
            }
            sleepers.0.extend(state.sleeper.take());
        }
        !state.deaf
    }

    /// Whether nobody will hear anything.
    pub fn is_unheard(&self) -> bool {
        lock(&self.0).deaf
    }

    /// Whether both speak into the same conversation.
    pub fn is_same(&self, other: &Voice<T>) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<T> Clone for Voice<T> {
    fn clone(&self) -> Self {
        Voice(Arc::clone(&self.0))
    }
}

impl<T> Ear<T> {
    /// Waits until something was said, and takes up to so much of it, with what was written beside each, which is as long as
    /// `length` says. Nothing is lost when the future is dropped. What was heard before must have been dealt with: where all is
    /// taken it is exchanged, so that nothing is copied while somebody may wait to say more.
    pub async fn hear(&mut self, into: &mut Earful<T>, max: usize, length: impl Fn(&T) -> usize) {
        assert!(into.said.is_empty(), "what was heard before has been dealt with");
        poll_fn(|cx| {
            let mut state = lock(&self.0);
            if state.said.is_empty() {
                state.sleeper = Some(cx.waker().clone());
                return Poll::Pending;
            }
            into.written.clear();
            let State { said, written, .. } = &mut *state;
            if said.len() <= max {
                std::mem::swap(said, &mut into.said);
                std::mem::swap(written, &mut into.written);
            } else {
                into.said.extend(said.drain(..max));
                let taken = into.said.iter().map(&length).sum();
                into.written.extend_from_slice(&written[..taken]);
                written.drain(..taken);
            }
            Poll::Ready(())
        })
        .await;
    }

    /// Whether something was said that has not been heard.
    pub fn has_more(&self) -> bool {
        !lock(&self.0).said.is_empty()
    }
}

impl<T> Drop for Ear<T> {
    fn drop(&mut self) {
        let mut state = lock(&self.0);
        state.deaf = true;
        let unheard = std::mem::take(&mut state.said);
        state.written = Vec::new();
        drop(state);
        // Not under the lock: whoever is dropped may have something to say.
        drop(unheard);
    }
}

fn lock<T>(state: &Mutex<State<T>>) -> MutexGuard<'_, State<T>> {
    // Nothing panics under this lock but our own bugs, which end the server.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Wake};

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn whoever_listens_is_woken_once_and_when_everything_was_said() {
        let (voice, mut ear) = voice();
        let (woken, mut sleepers) = (Arc::new(Woken::default()), Sleepers::default());
        let waker = Waker::from(Arc::clone(&woken));
        let cx = &mut Context::from_waker(&waker);
        let mut heard = Earful::default();
        // Beside each word stand as many bytes as it says.
        let length = |word: &usize| *word;
        assert!(pin!(ear.hear(&mut heard, 2, length)).poll(cx).is_pending());
        for word in 1..=3 {
            let mut earful = Earful { said: VecDeque::from([word]), written: vec![word as u8; word] };
            assert!(voice.say_all(&mut earful, &mut sleepers));
            assert!(earful.said.is_empty() && earful.written.is_empty());
        }
        assert_eq!(woken.0.load(Ordering::Relaxed), 0);
        sleepers.wake();
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
        assert!(pin!(ear.hear(&mut heard, 2, length)).poll(cx).is_ready());
        assert_eq!((&heard.said, heard.written.as_slice()), (&VecDeque::from([1, 2]), [1, 2, 2].as_slice()));
        assert!(ear.has_more());
        heard.said.clear();
        assert!(pin!(ear.hear(&mut heard, 2, length)).poll(cx).is_ready());
        assert_eq!((&heard.said, heard.written.as_slice()), (&VecDeque::from([3]), [3, 3, 3].as_slice()));
        assert!(!ear.has_more());
        sleepers.wake();
        assert_eq!(woken.0.load(Ordering::Relaxed), 1, "nobody waits");
        drop(ear);
        assert!(voice.is_unheard());
        assert!(!voice.clone().say(4, &mut sleepers));
        let mut earful = Earful { said: VecDeque::from([1]), written: vec![1] };
        assert!(!voice.say_all(&mut earful, &mut sleepers));
        assert_eq!((earful.said.len(), earful.written.len()), (1, 1), "given back");
    }

    #[test]
    fn who_hears_little_is_not_left_with_the_rooms_of_those_who_hear_much() {
        let cx = &mut Context::from_waker(Waker::noop());
        let mut hears =
            |voice: &Voice<usize>, ear: &mut Ear<usize>, all: &mut Earful<usize>, words: usize| {
                all.said.extend((0..words).map(|_| 100));
                all.written.resize(100 * words, 7);
                assert!(voice.say_all(all, &mut Sleepers::default()));
                let mut heard = Earful::default();
                assert!(pin!(ear.hear(&mut heard, usize::MAX, |word| *word)).poll(cx).is_ready());
                assert_eq!((heard.said.len(), heard.written.len()), (words, 100 * words));
                heard.written.capacity()
            };
        let ((much, mut much_ear), (little, mut little_ear)) = (voice(), voice());
        let mut all = Earful::default();
        assert!(hears(&much, &mut much_ear, &mut all, 500) >= 50_000);
        assert!(all.written.capacity() < 1_000, "it was exchanged");
        all.written.reserve_exact(50_000);
        assert!(hears(&little, &mut little_ear, &mut all, 2) < 1_000);
        assert!(all.written.capacity() >= 50_000 && all.written.is_empty(), "it was copied");
        all.written.reserve_exact(100 * KEPT_ROOM_BYTES);
        (0..10).for_each(|_| assert!(hears(&little, &mut little_ear, &mut all, 2) < 1_000));
        assert!(all.written.capacity() <= KEPT_ROOM_BYTES, "what was needed once is given back");
    }
}
