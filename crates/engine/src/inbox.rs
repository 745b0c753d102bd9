//! Where everything that concerns the engine comes in: requests, the storage threads' word, the wish to stop. Whoever turns
//! the engine takes all of it at once, which is what makes batches. Two may take: one that is woken first, and a stand-in
//! for while that one is away. Or the stand-in goes in its place: it is sent on an errand. Never refuses for want of room:
//! admission comes before.

use std::collections::VecDeque;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use crate::sync::{Condvar, Mutex, MutexGuard};

/// A queue with a taker and its stand-in, whom it can send on errands.
#[derive(Debug)]
pub struct Inbox<T, E, B> {
    state: Mutex<State<T, E, B>>,
    /// The taker waits here...
    arrived: Condvar,
    /// ...and its stand-in here.
    wanted: Condvar,
}

#[derive(Debug)]
struct State<T, E, B> {
    messages: VecDeque<T>,
    /// Waits for the stand-in to run it.
    errand: Option<E>,
    /// What it brought back from its last one. Before everything else: who is answered by it asks again meanwhile.
    returned: Option<B>,
    /// Whether the taker sleeps: only then is there somebody to wake.
    asleep: bool,
    /// Whether the taker is away, and since how many absences.
    away: bool,
    absences: u64,
    /// Whether what comes while the taker is away goes to the stand-in at once.
    at_once: bool,
    /// Whether the stand-in sleeps, and how.
    stand_in: Sleep,
    closed: bool,
}

/// How the stand-in sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sleep {
    Awake,
    /// Until something arrives for it, or its next look.
    Light,
    /// Until the taker goes away, or sends it on an errand.
    Deep,
}

/// What the stand-in is wanted for.
#[derive(Debug, PartialEq, Eq)]
pub enum Wanted<E> {
    /// To take in the taker's place.
    InItsPlace,
    /// To run an errand.
    For(E),
}

impl<T, E, B> Default for Inbox<T, E, B> {
    fn default() -> Self {
        let state = State {
            messages: VecDeque::new(),
            errand: None,
            returned: None,
            asleep: false,
            away: false,
            absences: 0,
            at_once: false,
            stand_in: Sleep::Awake,
            closed: false,
        };
        Inbox { state: Mutex::new(state), arrived: Condvar::new(), wanted: Condvar::new() }
    }
}

impl<T, E, B> Inbox<T, E, B> {
    /// Puts a message in; gives it back when nobody will take it any more.
    pub fn put(&self, message: T) -> Result<(), T> {
        let mut state = self.lock();
        if state.closed {
            return Err(message);
        }
        state.messages.push_back(message);
        self.tell_of_arrivals(state);
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
        self.tell_of_arrivals(state);
    }

    /// The stand-in is back from its errand, and brings this; given back when nobody will take it any more.
    pub fn bring(&self, returned: B) -> Result<(), B> {
        let mut state = self.lock();
        if state.closed {
            return Err(returned);
        }
        assert!(state.returned.is_none(), "one errand is run at a time");
        state.returned = Some(returned);
        self.wake_taker(state);
        Ok(())
    }

    /// What the stand-in has brought back.
    pub fn take_returned(&self) -> Option<B> {
        self.lock().returned.take()
    }

    /// Wakes the taker if it sleeps; or else its stand-in, if it is for that one.
    fn tell_of_arrivals(&self, mut state: MutexGuard<'_, State<T, E, B>>) {
        if state.messages.is_empty() {
            return;
        }
        if !state.asleep && state.away && state.at_once && state.stand_in != Sleep::Awake {
            state.stand_in = Sleep::Awake;
            drop(state);
            self.wanted.notify_one();
        } else {
            self.wake_taker(state);
        }
    }

    fn wake_taker(&self, mut state: MutexGuard<'_, State<T, E, B>>) {
        if std::mem::take(&mut state.asleep) {
            drop(state);
            self.arrived.notify_one();
        }
    }

    /// The taker waits until there is something to take, up to `patience` (for ever without one), or until it is closed.
    pub fn wait(&self, patience: Option<Duration>) {
        if patience == Some(Duration::ZERO) {
            return;
        }
        let mut state = self.lock();
        if state.has_news() {
            return;
        }
        state.asleep = true;
        let quiet = |state: &mut State<T, E, B>| !state.has_news();
        state = match patience {
            None => self.arrived.wait_while(state, quiet).unwrap_or_else(PoisonError::into_inner),
            Some(patience) => {
                let waited = self.arrived.wait_timeout_while(state, patience, quiet);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        state.asleep = false;
    }

    /// The taker looks again and again, giving way to other threads, until there is something to take or the time is over.
    /// Whoever puts something in need not wake it then, and it is there at once.
    pub fn look_out(&self, patience: Duration) {
        let begun = Instant::now();
        while !self.has_news() && begun.elapsed() < patience {
            crate::sync::thread::yield_now();
        }
    }

    /// Whether there is anything for the taker.
    pub fn has_news(&self) -> bool {
        self.lock().has_news()
    }

    /// Takes everything that is there. `into` must be empty: it is exchanged, so that neither side allocates in the long
    /// run.
    pub fn take(&self, into: &mut VecDeque<T>) {
        assert!(into.is_empty(), "what was taken before has been dealt with");
        std::mem::swap(&mut self.lock().messages, into);
    }

    /// The taker is away from now on, for what may take long. What comes meanwhile lies here until it is back; with
    /// `at_once` the stand-in is woken for it.
    pub fn leave(&self, at_once: bool) {
        let mut state = self.lock();
        state.away = true;
        state.absences += 1;
        state.at_once = at_once;
        let has_mail = at_once && !state.messages.is_empty();
        if state.stand_in == Sleep::Deep || (has_mail && state.stand_in == Sleep::Light) {
            state.stand_in = Sleep::Awake;
            drop(state);
            self.wanted.notify_one();
        }
    }

    /// The taker stays, and sends its stand-in, who has come back from the errand before.
    pub fn send(&self, errand: E) {
        let mut state = self.lock();
        assert!(!state.away && state.errand.is_none(), "one goes at a time");
        state.errand = Some(errand);
        if state.stand_in != Sleep::Awake {
            state.stand_in = Sleep::Awake;
            drop(state);
            self.wanted.notify_one();
        }
    }

    /// An errand that nobody will run any more.
    pub fn take_errand(&self) -> Option<E> {
        self.lock().errand.take()
    }

    /// The taker is back.
    pub fn back(&self) {
        self.lock().away = false;
    }

    /// Whether the taker is away.
    pub fn is_away(&self) -> bool {
        self.lock().away
    }

    /// The stand-in waits until it is wanted: it is sent on an errand, or something has come that goes to it at once, or the
    /// taker has been away from one of its looks to the next. After that it is wanted for everything, and at each of its
    /// looks, until the taker is back. Gives none when it is closed.
    pub fn stand_in(&self, look_every: Duration, standing_in: &mut StandingIn) -> Option<Wanted<E>> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(errand) = state.errand.take() {
                return Some(Wanted::For(errand));
            }
            let same = standing_in.absence == state.absences;
            state.at_once |= same && standing_in.has_begun;
            if !same {
                *standing_in = StandingIn { absence: state.absences, has_begun: false };
            }
            if state.away && state.at_once && !state.messages.is_empty() {
                standing_in.has_begun = true;
                return Some(Wanted::InItsPlace);
            }
            // While nothing goes on there is nothing to look at.
            if !state.away && same {
                state.stand_in = Sleep::Deep;
                let asleep = |state: &mut State<T, E, B>| state.stand_in == Sleep::Deep && !state.closed;
                state = self.wanted.wait_while(state, asleep).unwrap_or_else(PoisonError::into_inner);
            } else {
                state.stand_in = Sleep::Light;
                let asleep = |state: &mut State<T, E, B>| state.stand_in == Sleep::Light && !state.closed;
                let waited = self.wanted.wait_timeout_while(state, look_every, asleep);
                let (after, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
                state = after;
                if timeout.timed_out() && state.away && standing_in.absence == state.absences {
                    state.stand_in = Sleep::Awake;
                    standing_in.has_begun = true;
                    return Some(Wanted::InItsPlace);
                }
            }
            state.stand_in = Sleep::Awake;
        }
    }

    /// Whether nothing waits to be taken.
    pub fn is_empty(&self) -> bool {
        self.lock().messages.is_empty()
    }

    /// Lets nothing more in, and wakes whoever waits; gives what is still there.
    pub fn close(&self) -> VecDeque<T> {
        let mut state = self.lock();
        state.closed = true;
        let left = std::mem::take(&mut state.messages);
        drop(state);
        self.arrived.notify_all();
        self.wanted.notify_all();
        left
    }

    fn lock(&self) -> MutexGuard<'_, State<T, E, B>> {
        // Nothing panics under this lock but our own bugs, which end the server.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T, E, B> State<T, E, B> {
    /// Whether there is anything for the taker.
    fn has_news(&self) -> bool {
        !self.messages.is_empty() || self.returned.is_some() || self.closed
    }
}

/// What a stand-in remembers.
#[derive(Debug, Default)]
pub struct StandingIn {
    /// Which absence it saw last.
    absence: u64,
    /// Whether it stands in during that one.
    has_begun: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn everything_is_taken_at_once_and_in_order() {
        let inbox = Inbox::<_, (), ()>::default();
        let mut taken = VecDeque::new();
        inbox.wait(Some(Duration::ZERO));
        inbox.take(&mut taken);
        assert!(taken.is_empty());
        for n in 0..3 {
            inbox.put(n).unwrap();
        }
        inbox.wait(None);
        inbox.take(&mut taken);
        assert_eq!(taken, [0, 1, 2]);
        inbox.put(3).unwrap();
        inbox.put_all(&mut vec![4, 5]);
        assert_eq!(inbox.close(), [3, 4, 5]);
        assert_eq!(inbox.put(6), Err(6));
        let mut late = vec![7];
        inbox.put_all(&mut late);
        assert!(late.is_empty() && inbox.close().is_empty());
        inbox.wait(None);
        assert_eq!(inbox.stand_in(Duration::ZERO, &mut StandingIn::default()), None, "nobody waits for ever");
    }

    #[test]
    fn looking_out_ends_with_what_comes_or_with_the_time() {
        let inbox = Arc::new(Inbox::<_, (), ()>::default());
        inbox.look_out(Duration::from_millis(1));
        let taker = {
            let inbox = inbox.clone();
            std::thread::spawn(move || inbox.look_out(Duration::MAX))
        };
        inbox.put(1).unwrap();
        taker.join().unwrap();
        inbox.close();
        inbox.look_out(Duration::MAX);
    }

    #[test]
    fn no_wake_up_is_lost() {
        const COUNT: u64 = 20_000;
        let inbox = Arc::new(Inbox::<_, (), ()>::default());
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
            inbox.wait(None);
            inbox.take(&mut taken);
            count += taken.drain(..).count() as u64;
        }
        putters.into_iter().for_each(|putter| putter.join().unwrap());
    }

    #[test]
    fn the_stand_in_is_wanted_for_what_goes_to_it_at_once_and_for_long_absences() {
        let inbox = Arc::new(Inbox::<_, (), ()>::default());
        let (wanted, wants) = std::sync::mpsc::channel();
        let stand_in = {
            let inbox = inbox.clone();
            std::thread::spawn(move || {
                let (mut standing_in, mut taken) = (StandingIn::default(), VecDeque::new());
                while let Some(wanted_for) = inbox.stand_in(Duration::from_millis(1), &mut standing_in) {
                    assert_eq!(wanted_for, Wanted::InItsPlace);
                    inbox.take(&mut taken);
                    wanted.send(taken.drain(..).collect::<Vec<_>>()).unwrap();
                }
            })
        };
        let next_mail = || wants.iter().find(|mail| !mail.is_empty());
        inbox.leave(true);
        inbox.put(1).unwrap();
        assert_eq!(next_mail(), Some(vec![1]));
        inbox.back();
        inbox.put(2).unwrap();
        inbox.leave(true);
        assert_eq!(next_mail(), Some(vec![2]), "also what came before the absence");
        inbox.back();
        inbox.leave(false);
        inbox.put(3).unwrap();
        assert_eq!(next_mail(), Some(vec![3]), "a long absence");
        inbox.put(4).unwrap();
        assert_eq!(next_mail(), Some(vec![4]));
        assert!(inbox.is_away());
        inbox.back();
        inbox.put(5).unwrap();
        assert_eq!(inbox.close(), [5], "the taker is there");
        stand_in.join().unwrap();
    }
    #[test]
    fn the_stand_in_runs_every_errand_and_none_after_the_end() {
        let inbox = Arc::new(Inbox::<u64, u64, u64>::default());
        let stand_in = {
            let inbox = inbox.clone();
            std::thread::spawn(move || {
                let mut standing_in = StandingIn::default();
                while let Some(wanted) = inbox.stand_in(Duration::from_secs(60), &mut standing_in) {
                    let Wanted::For(errand) = wanted else { panic!("the taker is there") };
                    inbox.bring(errand + 1).unwrap();
                }
            })
        };
        let mut taken = VecDeque::new();
        for errand in 0..10_000 {
            inbox.send(errand);
            inbox.put(errand).unwrap();
            let mut returned = None;
            while taken.is_empty() || returned.is_none() {
                inbox.wait(None);
                let mut more = VecDeque::new();
                inbox.take(&mut more);
                taken.append(&mut more);
                returned = inbox.take_returned().or(returned);
            }
            assert_eq!((taken.pop_front(), taken.len(), returned), (Some(errand), 0, Some(errand + 1)));
        }
        inbox.close();
        stand_in.join().unwrap();
        inbox.send(7);
        assert_eq!(inbox.stand_in(Duration::ZERO, &mut StandingIn::default()), None);
        assert_eq!(inbox.take_errand(), Some(7));
        assert_eq!(inbox.bring(8), Err(8));
    }
}
