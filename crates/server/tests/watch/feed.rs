//! The feed by itself, where a test can say exactly what has happened and what has not.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use leasehold_engine::limits::HISTORY_EVENTS_MAX;
use leasehold_engine::{Chapter, History, Told};
use leasehold_server::watch::{Concern, Ending, Feed, FeedLimits, NotWatching, Watching};
use leasehold_state_machine::event::{Event, LeaseName};
use leasehold_state_machine::resource::Resource;
use leasehold_state_machine::words::{Mode, Owner};

const LIMITS: FeedLimits = FeedLimits { watchers_max: 10, lag_max: 1000 };
/// More than a seat takes.
const MANY: u64 = 700;

fn expired(seq: u64, lock: &str) -> Told {
    let lease = LeaseName {
        slot: 1,
        token: seq,
        resource: Resource::parse(lock).unwrap(),
        owner: Owner::parse("w").unwrap(),
        mode: Mode::Exclusive,
    };
    (seq, 0, Event::Expired { lease })
}

/// A feed, and whatever passes events on in place of its thread: somebody who begins to watch.
struct Stage(Arc<Feed>);

impl Stage {
    fn new(history: History) -> Stage {
        Stage(Arc::new(Feed::new(history, LIMITS)))
    }

    fn tell(&self, events: impl IntoIterator<Item = Told>) {
        let mut events = events.into_iter().peekable();
        if events.peek().is_some() {
            self.0.intake().put(Chapter::of(events));
        }
        drop(self.watch("nobody", None));
    }

    fn watch(&self, lock: &str, from: Option<u64>) -> Result<Watching, NotWatching> {
        self.0.watch(Concern::Lock(lock.into()), from)
    }
}

/// Everything there is to hear now; whether the stream has ended.
fn hear(watching: &mut Watching) -> (Vec<u64>, bool) {
    let mut heard = Vec::new();
    let mut quiet = 0;
    loop {
        match watching.poll_next(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Some(event)) => heard.push(event.seq()),
            Poll::Ready(None) => return (heard, true),
            // It may want to be asked again, between two pieces of the history.
            Poll::Pending if quiet == 100 => return (heard, false),
            Poll::Pending => quiet += 1,
        }
    }
}

#[test]
fn the_past_and_the_present_meet_without_a_seam() {
    for split in [0, 1, 50, 127, 128, 129, 500, MANY] {
        let stage = Stage::new(History::new());
        let event = |seq: u64| expired(seq, if seq.is_multiple_of(3) { "b" } else { "a" });
        stage.tell((1..=split).map(event));
        let mut late = stage.watch("a", Some(0)).unwrap();
        let mut live = stage.watch("a", None).unwrap();
        let mut some = hear(&mut late).0;
        stage.tell((split + 1..=MANY).map(event));
        some.extend(hear(&mut late).0);
        let expected: Vec<_> = (1..=MANY).filter(|seq: &u64| !seq.is_multiple_of(3)).collect();
        assert_eq!(some, expected, "{split}");
        let expected: Vec<_> = expected.into_iter().filter(|seq| *seq > split).collect();
        assert_eq!(hear(&mut live), (expected, false), "more than a seat takes, and nothing is lost");
        assert_eq!(live.heard_through(), MANY);
    }
}

#[test]
fn who_is_too_far_behind_is_cut_off_with_its_place_kept() {
    let stage = Stage::new(History::new());
    let mut slow = stage.watch("a", None).unwrap();
    stage.tell((1..=2000).map(|seq| expired(seq, "a")));
    let (heard, ended) = hear(&mut slow);
    assert!(ended && !heard.is_empty());
    assert_eq!(slow.ending(), Some(Ending::CutOff));
    assert_eq!(stage.0.cut_off_total(), 1);
    let last = *heard.last().unwrap();
    let mut again = stage.watch("a", Some(last)).unwrap();
    assert_eq!(hear(&mut again).0, (last + 1..=2000).collect::<Vec<_>>());
}

#[test]
fn what_is_not_kept_is_gone_and_what_has_not_happened_is_ahead() {
    let stage = Stage::new(History::from(40).keeping(10));
    stage.tell((41..=60).map(|seq| expired(seq, "a")));
    assert_eq!(stage.watch("a", Some(49)).unwrap_err(), NotWatching::Gone { kept_after: 50 });
    assert_eq!(hear(&mut stage.watch("a", Some(50)).unwrap()).0, (51..=60).collect::<Vec<_>>());
    assert_eq!(stage.watch("a", Some(61)).unwrap_err(), NotWatching::Ahead { newest: 60 });
    assert_eq!(hear(&mut stage.watch("a", Some(60)).unwrap()), (vec![], false));
}

#[test]
fn a_hole_is_never_passed_over_in_silence() {
    let stage = Stage::new(History::new());
    let mut live = stage.watch("a", None).unwrap();
    let mut other = stage.watch("other", None).unwrap();
    stage.tell((1..=5).map(|seq| expired(seq, "a")));
    // Six and seven were left out: the intake was full.
    stage.tell((8..=9).map(|seq| expired(seq, "a")));
    assert_eq!(hear(&mut live), ((1..=5).collect(), true));
    assert_eq!(hear(&mut other), (vec![], true), "who can say that it was not concerned?");
    assert_eq!(stage.0.cut_off_total(), 2);
    assert_eq!(stage.watch("a", Some(5)).unwrap_err(), NotWatching::Gone { kept_after: 7 });
    assert_eq!(hear(&mut stage.watch("a", Some(7)).unwrap()).0, [8, 9]);
}

#[test]
fn places_are_counted_and_given_back() {
    let stage = Stage::new(History::new());
    let mut watching: Vec<_> = (0..10).map(|_| stage.watch("a", None).unwrap()).collect();
    assert_eq!(stage.watch("a", None).unwrap_err(), NotWatching::Full);
    watching.pop();
    watching.push(stage.watch("b", Some(0)).unwrap());
    assert_eq!(stage.0.watchers(), 10);
    stage.0.close();
    assert!(watching.iter_mut().all(|watching| hear(watching) == (vec![], true)));
    assert!(watching.iter().all(|watching| watching.ending() == Some(Ending::Stopping)));
    assert_eq!(stage.watch("a", None).unwrap_err(), NotWatching::Closed);
    drop(watching);
    assert_eq!(stage.0.watchers(), 0);
    assert_eq!(stage.0.cut_off_total(), 0, "an end is not a cut");
}

#[test]
fn what_nobody_read_is_there_for_whoever_comes_as_far_as_it_is_kept() {
    const CHAPTER: u64 = 10_000;
    let kept = HISTORY_EVENTS_MAX as u64;
    let stage = Stage::new(History::new());
    stage.tell((1..=CHAPTER).map(|seq| expired(seq, "a")));
    let follower = {
        let feed = Arc::clone(&stage.0);
        std::thread::spawn(move || feed.follow())
    };
    let newest = 3 * kept + 5;
    for first in (CHAPTER + 1..=newest).step_by(CHAPTER as usize) {
        let events = (first..=newest).take(CHAPTER as usize).map(|seq| expired(seq, "a"));
        stage.0.intake().put(Chapter::of(events));
    }
    let Err(NotWatching::Gone { kept_after }) = stage.watch("a", Some(1)) else { panic!("it was long ago") };
    assert_eq!(kept_after, newest - kept, "all that is promised, and no more than the history keeps");
    let mut late = stage.watch("a", Some(newest - kept)).unwrap();
    let expected: Vec<_> = (newest - kept + 1..=newest).collect();
    assert!(hear_until(&mut late, newest) == expected, "without a gap and without a repeat");
    assert_eq!(stage.watch("a", Some(newest + 1)).err(), Some(NotWatching::Ahead { newest }));
    stage.0.intake().end();
    follower.join().unwrap();
}

/// Everything up to this event.
fn hear_until(watching: &mut Watching, last: u64) -> Vec<u64> {
    let mut heard = Vec::new();
    while heard.last() != Some(&last) {
        heard.extend(hear(watching).0);
    }
    heard
}
