//! Where answers lie until whoever asked takes them: each who waits has a seat, and seats are used again, so that no answer
//! takes memory of its own. Plain data. Wakes nobody, and lets go of nobody's waker: both may run the code of others, and are
//! for whoever has closed the book.

use std::task::{Poll, Waker};

use super::Answered;
use crate::error::Error;

/// What came of an operation.
pub(super) type Come = Result<Answered, Error>;

/// The seat of somebody who waits for the answer to one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seat {
    place: u32,
    /// The operation's number: no other is ever answered here while this one has the seat.
    number: u64,
}

impl Seat {
    /// The number of the operation.
    pub fn number(self) -> u64 {
        self.number
    }
}

/// All seats.
#[derive(Default)]
pub(super) struct Answers {
    places: Vec<Place>,
    free: Vec<u32>,
}

struct Place {
    /// Of the operation, as long as somebody has the seat.
    number: u64,
    state: State,
}

enum State {
    Free,
    /// Somebody waits, and is woken like this.
    Awaited(Option<Waker>),
    /// The operation goes on, though nobody waits for it.
    Left,
    Here(Come),
}

impl Answers {
    /// A seat for somebody who waits for this operation.
    #[inline]
    pub fn sit_down(&mut self, number: u64, waker: Option<Waker>) -> Seat {
        let taken = Place { number, state: State::Awaited(waker) };
        let place = match self.free.pop() {
            Some(place) => {
                self.places[place as usize] = taken;
                place
            }
            None => {
                let place = self.places.len() as u32;
                self.places.push(taken);
                place
            }
        };
        Seat { place, number }
    }

    #[inline]
    fn place(&mut self, seat: Seat) -> &mut Place {
        let place = &mut self.places[seat.place as usize];
        assert!(place.number == seat.number, "a seat is one operation's, from asking to taking the answer");
        place
    }

    /// Makes it anybody's. Gives what was there.
    #[inline]
    fn vacate(&mut self, seat: Seat) -> State {
        let state = std::mem::replace(&mut self.place(seat).state, State::Free);
        assert!(!matches!(state, State::Free), "a seat is left once");
        self.free.push(seat.place);
        state
    }

    /// Whether somebody sits there.
    pub fn is_awaited(&mut self, seat: Seat) -> bool {
        matches!(self.place(seat).state, State::Awaited(_))
    }

    /// The operation is over. Gives who is to be woken for it.
    #[inline]
    pub fn put(&mut self, seat: Seat, come: Come) -> Option<Waker> {
        let place = self.place(seat);
        match &mut place.state {
            State::Awaited(waker) => {
                let waker = waker.take();
                place.state = State::Here(come);
                waker
            }
            State::Free | State::Left | State::Here(_) => {
                assert!(matches!(place.state, State::Left), "an operation is answered once");
                self.vacate(seat);
                None
            }
        }
    }

    /// Takes the answer, and leaves the seat with it. While there is none, this is whom to wake; gives who was to be woken
    /// before.
    pub fn poll(&mut self, seat: Seat, waker: &Waker) -> (Poll<Come>, Option<Waker>) {
        let waiting = match &mut self.place(seat).state {
            State::Awaited(waiting) => waiting,
            State::Here(_) | State::Free | State::Left => {
                return match self.vacate(seat) {
                    State::Here(come) => (Poll::Ready(come), None),
                    State::Free | State::Left | State::Awaited(_) => (Poll::Pending, None),
                };
            }
        };
        let known = waiting.as_ref().is_some_and(|known| known.will_wake(waker));
        (Poll::Pending, if known { None } else { waiting.replace(waker.clone()) })
    }

    /// Leaves the seat. Gives the answer if it has come, else whoever was to be woken: then the operation must be made to
    /// forget the seat.
    pub fn leave(&mut self, seat: Seat) -> Result<Come, Option<Waker>> {
        match self.vacate(seat) {
            State::Here(come) => Ok(come),
            State::Awaited(waker) => Err(waker),
            State::Free | State::Left => Err(None),
        }
    }

    /// Leaves the seat to the operation, which goes on as if somebody waited. Gives who was to be woken.
    pub fn leave_it_to_go_on(&mut self, seat: Seat) -> Option<Waker> {
        match std::mem::replace(&mut self.place(seat).state, State::Left) {
            State::Awaited(waker) => waker,
            State::Here(_) | State::Free | State::Left => {
                self.vacate(seat);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn come(seat: Seat) -> Come {
        Err(Error::Unexpected { detail: seat.number().to_string() })
    }

    #[test]
    fn everybody_gets_their_own_answer_however_often_seats_are_used_again() {
        let mut answers = Answers::default();
        let (mut waiting, mut here) = (Vec::new(), Vec::new());
        let mut chance: u64 = 1;
        for number in 1..=5_000 {
            waiting.push(answers.sit_down(number, None));
            chance = chance.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(number);
            let which = (chance >> 33) as usize;
            let seat = waiting[which % waiting.len()];
            match chance >> 61 {
                // Waits for long.
                0..=1 => continue,
                2 => assert!(answers.leave(seat).is_err(), "nothing has come"),
                3 => {
                    assert!(answers.leave_it_to_go_on(seat).is_none());
                    assert!(!answers.is_awaited(seat));
                    assert!(answers.put(seat, come(seat)).is_none());
                }
                _ => {
                    assert!(answers.is_awaited(seat));
                    assert!(answers.put(seat, come(seat)).is_none());
                    here.push(seat);
                }
            }
            waiting.retain(|other| *other != seat);
            if chance >> 60 & 1 == 1 {
                for seat in here.drain(..) {
                    assert_eq!(said(answers.poll(seat, Waker::noop()).0), seat.number().to_string());
                }
            }
        }
        assert!(answers.places.len() < 2_500, "{} seats", answers.places.len());
        assert_eq!(answers.places.len() - answers.free.len(), waiting.len() + here.len());
        for seat in waiting.drain(..) {
            assert!(answers.poll(seat, Waker::noop()).0.is_pending());
            assert!(answers.put(seat, come(seat)).is_some_and(|waker| waker.will_wake(Waker::noop())));
            assert_eq!(
                said(answers.leave(seat).map_or(Poll::Pending, Poll::Ready)),
                seat.number().to_string()
            );
        }
    }

    fn said(come: Poll<Come>) -> String {
        match come {
            Poll::Ready(Err(Error::Unexpected { detail })) => detail,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn who_looked_last_is_woken_and_nobody_is_let_go_of_in_here() {
        let (first, second) = (Arc::new(Woken::default()), Arc::new(Woken::default()));
        let mut answers = Answers::default();
        let seat = answers.sit_down(7, Some(Waker::from(Arc::clone(&first))));
        let (pending, before) = answers.poll(seat, &Waker::from(Arc::clone(&second)));
        assert!(pending.is_pending() && Arc::strong_count(&first) == 2 && before.is_some());
        let (_, same) = answers.poll(seat, &Waker::from(Arc::clone(&second)));
        assert!(same.is_none());
        answers.put(seat, come(seat)).expect("somebody waits").wake();
        let woken = [first, second].map(|woken| woken.0.load(Ordering::Relaxed));
        assert_eq!(woken, [0, 1]);
    }

    #[test]
    #[should_panic(expected = "a seat is one operation's")]
    fn a_seat_that_was_left_is_not_answered_to_the_next_one() {
        let mut answers = Answers::default();
        let left = answers.sit_down(7, None);
        assert!(answers.leave(left).is_err());
        let next = answers.sit_down(8, None);
        assert_eq!(next.place, left.place);
        answers.put(left, come(left));
    }
}
