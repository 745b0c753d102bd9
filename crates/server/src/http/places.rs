//! The connections there are: within their number, in all and per peer, and none of them idle for ever. When every place
//! is taken, whoever has been idle longest makes room, so that silent sockets keep nobody out. Knows nothing of what is
//! asked, only whether something is.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::peers::{Peer, Peers};
use crate::limits::{PLACES_LOOKED_AT, UNTOUCHED_IDLE};

/// The bounds of places.
#[derive(Clone, Copy, Debug)]
pub struct PlaceLimits {
    /// Connections at once.
    pub connections_max: usize,
    /// Of them from one peer.
    pub per_peer_max: usize,
    /// Of them from this machine; usually without a bound of its own, so that its idle ones make room for each other.
    pub per_loopback_peer_max: usize,
    /// How long a connection may take to its first request.
    pub first_request_timeout: Duration,
    /// How long a connection may be idle between requests.
    pub idle_timeout: Duration,
    /// How long a whole answer may lie ready without being taken.
    pub answer_timeout: Duration,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// All are taken, and nobody is idle.
    All,
    /// This peer has as many as it may.
    Peer,
}

/// All the places of a server.
#[derive(Debug)]
pub struct Places {
    limits: PlaceLimits,
    began: Instant,
    house: Mutex<House>,
    /// Rung when the last guest has gone.
    empty: Notify,
}

#[derive(Debug)]
struct House {
    guests: Vec<Arc<Place>>,
    peers: Peers,
    /// Where the next look for somebody idle begins.
    hand: usize,
    closed: bool,
}

/// What is known of one connection. Times are in milliseconds since the places began.
#[derive(Debug)]
struct Place {
    /// Where it stands among the guests; changed only under their lock.
    index: AtomicU64,
    peer: Peer,
    spoken: AtomicBool,
    requests: AtomicU32,
    idle_since_ms: AtomicU64,
    answers: AtomicU32,
    answers_since_ms: AtomicU64,
    leave: Leave,
}

#[derive(Debug, Default)]
struct Leave {
    asked: AtomicBool,
    bell: Notify,
}

impl Leave {
    fn ask(&self) {
        if !self.asked.swap(true, Ordering::Relaxed) {
            self.bell.notify_one();
        }
    }
}

/// A connection's place, given back when it is dropped.
#[derive(Debug)]
pub struct Guest {
    places: Arc<Places>,
    place: Arc<Place>,
}

/// A request that is being worked on, and then its answer until it is sent. While there is one, nobody is idle.
#[derive(Debug)]
pub struct Busy {
    places: Arc<Places>,
    place: Arc<Place>,
    answering: bool,
}

impl Places {
    /// All free.
    pub fn new(limits: PlaceLimits) -> Arc<Places> {
        let house = House {
            guests: Vec::new(),
            peers: Peers::new(limits.per_peer_max, limits.per_loopback_peer_max),
            hand: 0,
            closed: false,
        };
        Arc::new(Places { limits, began: Instant::now(), house: Mutex::new(house), empty: Notify::new() })
    }

    /// Takes a place, or says why there is none. If somebody idle is asked to leave for it, the newcomer does not wait
    /// until that has happened: for a moment there is one guest too many.
    pub fn take(self: &Arc<Self>, address: IpAddr) -> Result<Guest, Full> {
        let now_ms = self.now_ms();
        let peer = Peer::of(address);
        let mut house = self.house();
        if !house.peers.enter(peer) {
            return Err(Full::Peer);
        }
        if house.guests.len() >= self.limits.connections_max && !house.make_room(now_ms) {
            house.peers.leave(peer);
            return Err(Full::All);
        }
        let place = Arc::new(Place {
            index: AtomicU64::new(house.guests.len() as u64),
            peer,
            spoken: AtomicBool::new(false),
            requests: AtomicU32::new(0),
            idle_since_ms: AtomicU64::new(now_ms),
            answers: AtomicU32::new(0),
            answers_since_ms: AtomicU64::new(now_ms),
            leave: Leave::default(),
        });
        if house.closed {
            place.leave.ask();
        }
        house.guests.push(Arc::clone(&place));
        Ok(Guest { places: Arc::clone(self), place })
    }

    /// Asks those to leave whose time is up.
    pub fn sweep(&self) {
        let now_ms = self.now_ms();
        for place in &self.house().guests {
            if place.is_overdue(now_ms, &self.limits) {
                place.leave.ask();
            }
        }
    }

    /// Asks somebody idle to leave, because something else than places has run out.
    pub fn relieve(&self) {
        let now_ms = self.now_ms();
        self.house().make_room(now_ms);
    }

    /// Asks everybody to leave, now and later.
    pub fn close(&self) {
        let mut house = self.house();
        house.closed = true;
        for place in &house.guests {
            place.leave.ask();
        }
    }

    /// Resolves when nobody is left.
    pub async fn emptied(&self) {
        loop {
            let rung = self.empty.notified();
            if self.house().guests.is_empty() {
                return;
            }
            rung.await;
        }
    }

    fn now_ms(&self) -> u64 {
        ms(self.began.elapsed())
    }

    fn house(&self) -> MutexGuard<'_, House> {
        self.house.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl House {
    /// Asks the one to leave that has been idle longest among the next few. Looking at all of them for each newcomer
    /// would be work that a flood could cause.
    fn make_room(&mut self, now_ms: u64) -> bool {
        let count = self.guests.len();
        let looked_at = count.min(PLACES_LOOKED_AT);
        let longest = (self.hand..self.hand + looked_at)
            .map(|at| &self.guests[at % count])
            .filter(|place| !place.leave.asked.load(Ordering::Relaxed))
            .map(|place| (place.idle_ms(now_ms), place))
            .max_by_key(|(idle_ms, _)| *idle_ms);
        self.hand = (self.hand + looked_at) % count.max(1);
        match longest {
            Some((Some(idle_ms), place)) if idle_ms >= ms(UNTOUCHED_IDLE) => {
                place.leave.ask();
                true
            }
            _ => false,
        }
    }
}

impl Place {
    /// How long it has been idle, if it is.
    fn idle_ms(&self, now_ms: u64) -> Option<u64> {
        let idle = self.requests.load(Ordering::Acquire) == 0;
        idle.then(|| now_ms.saturating_sub(self.idle_since_ms.load(Ordering::Relaxed)))
    }

    fn is_overdue(&self, now_ms: u64, limits: &PlaceLimits) -> bool {
        let patience = match self.spoken.load(Ordering::Relaxed) {
            true => limits.idle_timeout,
            false => limits.first_request_timeout,
        };
        let answers_ms = now_ms.saturating_sub(self.answers_since_ms.load(Ordering::Relaxed));
        self.idle_ms(now_ms).is_some_and(|idle_ms| idle_ms > ms(patience))
            || (self.answers.load(Ordering::Acquire) > 0 && answers_ms > ms(limits.answer_timeout))
    }
}

impl Guest {
    /// Resolves when the connection should end.
    pub async fn asked_to_leave(&self) {
        self.place.leave.bell.notified().await;
    }

    /// Whether nothing is being worked on: whatever is left is an answer that the client does not take.
    pub fn is_idle(&self) -> bool {
        self.place.requests.load(Ordering::Acquire) <= self.place.answers.load(Ordering::Acquire)
    }

    /// What its requests are told by.
    pub fn desk(&self) -> Desk {
        Desk { places: Arc::clone(&self.places), place: Arc::clone(&self.place) }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let mut house = self.places.house();
        let index = index(&self.place);
        house.guests.swap_remove(index);
        if let Some(moved) = house.guests.get(index) {
            moved.index.store(index as u64, Ordering::Relaxed);
        }
        house.peers.leave(self.place.peer);
        if house.guests.is_empty() {
            self.places.empty.notify_waiters();
        }
    }
}

/// Where a connection's requests say that they have begun.
#[derive(Clone, Debug)]
pub struct Desk {
    places: Arc<Places>,
    place: Arc<Place>,
}

impl Desk {
    /// A request has arrived. It lasts until what is returned is dropped.
    pub fn request(&self) -> Busy {
        self.place.spoken.store(true, Ordering::Relaxed);
        self.place.requests.fetch_add(1, Ordering::Relaxed);
        Busy { places: Arc::clone(&self.places), place: Arc::clone(&self.place), answering: false }
    }
}

impl Busy {
    /// A whole answer lies ready, and from now on it is the client's turn to take it.
    pub fn answered(&mut self) {
        assert!(!self.answering, "a request has one answer");
        self.answering = true;
        if self.place.answers.fetch_add(1, Ordering::Relaxed) == 0 {
            self.place.answers_since_ms.store(self.places.now_ms(), Ordering::Release);
        }
    }

    /// The client takes an answer that lies ready: its time for the rest begins anew.
    pub fn progressed(&self) {
        if self.answering {
            self.place.answers_since_ms.store(self.places.now_ms(), Ordering::Relaxed);
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let now_ms = self.places.now_ms();
        if self.answering {
            self.place.answers_since_ms.store(now_ms, Ordering::Relaxed);
            self.place.answers.fetch_sub(1, Ordering::Release);
        }
        // First the time, then the count: whoever sees it idle sees since when.
        self.place.idle_since_ms.store(now_ms, Ordering::Relaxed);
        self.place.requests.fetch_sub(1, Ordering::Release);
    }
}

fn index(place: &Place) -> usize {
    let index = usize::try_from(place.index.load(Ordering::Relaxed));
    assert!(index.is_ok(), "it was the length of a list");
    index.unwrap_or_default()
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    const PATIENT: PlaceLimits = PlaceLimits {
        connections_max: 3,
        per_peer_max: 2,
        per_loopback_peer_max: 3,
        first_request_timeout: Duration::from_secs(600),
        idle_timeout: Duration::from_secs(600),
        answer_timeout: Duration::from_secs(600),
    };
    const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn is_asked(guest: &Guest) -> bool {
        guest.place.leave.asked.load(Ordering::Relaxed)
    }

    /// Makes a guest idle since long ago.
    fn age(guest: &Guest, by_ms: u64) {
        let since = &guest.place.idle_since_ms;
        since.store(since.load(Ordering::Relaxed).saturating_sub(by_ms), Ordering::Relaxed);
    }

    /// Places that have been there for a while.
    fn places(limits: PlaceLimits) -> Arc<Places> {
        let mut places = Places::new(limits);
        Arc::get_mut(&mut places).unwrap().began -= Duration::from_secs(60);
        places
    }

    #[test]
    fn places_are_bounded_and_given_back() {
        let places = places(PATIENT);
        let mut guests: Vec<_> = (0..3).map(|_| places.take(LOOPBACK).unwrap()).collect();
        assert_eq!(places.take(LOOPBACK).unwrap_err(), Full::Peer);
        let other: IpAddr = "10.0.0.1".parse().unwrap();
        assert_eq!(places.take(other).unwrap_err(), Full::All);
        for at in [1, 0, 0] {
            guests.remove(at);
            guests.push(places.take(LOOPBACK).unwrap());
            assert_eq!(places.take(other).unwrap_err(), Full::All);
        }
        assert!(!guests.iter().any(is_asked));
        guests.clear();
        let kept = [places.take(other).unwrap(), places.take(other).unwrap()];
        assert_eq!(places.take(other).unwrap_err(), Full::Peer);
        drop(kept);
        assert!(places.house().guests.is_empty());
    }

    #[test]
    fn who_has_been_idle_longest_makes_room() {
        let places = places(PATIENT);
        let guests = [(); 3].map(|()| places.take(LOOPBACK).unwrap());
        age(&guests[0], 20_000);
        age(&guests[1], 50_000);
        age(&guests[2], 30_000);
        let busy = guests[1].desk().request();
        let other: IpAddr = "10.0.0.1".parse().unwrap();
        let first = places.take(other).unwrap();
        assert_eq!(guests.each_ref().map(is_asked), [false, false, true], "the longest that is idle");
        let second = places.take(other).unwrap();
        assert_eq!(guests.each_ref().map(is_asked), [true, false, true]);
        drop(second);
        drop(busy);
        // The request has just ended.
        assert_eq!(places.take(other).unwrap_err(), Full::All);
        drop(first);
    }

    #[test]
    fn whose_time_is_up_is_asked_to_leave() {
        let limits = PlaceLimits {
            first_request_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(30),
            answer_timeout: Duration::from_secs(20),
            ..PATIENT
        };
        let places = places(limits);
        let [silent, spoken, answered] = [(); 3].map(|()| places.take(LOOPBACK).unwrap());
        drop(spoken.desk().request());
        let mut answer = answered.desk().request();
        places.sweep();
        for guest in [&silent, &spoken, &answered] {
            age(guest, 15_000);
        }
        answer.answered();
        places.sweep();
        assert_eq!([&silent, &spoken, &answered].map(is_asked), [true, false, false]);
        age(&spoken, 20_000);
        answered.place.answers_since_ms.store(0, Ordering::Relaxed);
        places.sweep();
        assert_eq!([&silent, &spoken, &answered].map(is_asked), [true, true, true]);
        let mut rung = pin!(silent.asked_to_leave());
        assert!(rung.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
    }

    #[test]
    fn who_goes_on_taking_a_long_answer_is_left_alone() {
        let places = places(PlaceLimits { answer_timeout: Duration::from_secs(20), ..PATIENT });
        let [taking, standing] = [(); 2].map(|()| places.take(LOOPBACK).unwrap());
        let mut answers = [&taking, &standing].map(|guest| guest.desk().request());
        for (answer, guest) in answers.iter_mut().zip([&taking, &standing]) {
            answer.answered();
            guest.place.answers_since_ms.store(0, Ordering::Relaxed);
        }
        answers[0].progressed();
        places.sweep();
        assert_eq!([&taking, &standing].map(is_asked), [false, true]);
    }

    #[test]
    fn closing_asks_everybody_and_waits_for_them() {
        let places = places(PATIENT);
        let guest = places.take(LOOPBACK).unwrap();
        places.close();
        let late = places.take(LOOPBACK).unwrap();
        assert!(is_asked(&guest) && is_asked(&late));
        let mut emptied = pin!(places.emptied());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(emptied.as_mut().poll(&mut cx).is_pending());
        drop(guest);
        assert!(emptied.as_mut().poll(&mut cx).is_pending());
        drop(late);
        assert!(emptied.as_mut().poll(&mut cx).is_ready());
    }
}
