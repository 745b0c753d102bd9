//! Who is woken, and when: the link by itself, without its task.

use std::task::{Wake, Waker};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use leasehold_protocol::v1;
use leasehold_protocol::v1::operation::What;
use prost::Message;

use super::super::asking::Asking;
use super::super::entry::Stance;
use super::*;
use crate::boot_clock::BootClock;
use crate::error::Error;
use crate::outcome::{Outcome, OutcomeGroup, Told};
use crate::view::Ask;
use crate::wire::{Call, CallAnswer};

/// A way that leads nowhere.
struct Nowhere;

impl Wire for Nowhere {
    fn server(&self) -> &str {
        "nowhere"
    }

    fn converse(&self, _: crate::wire::Groups) -> BoxFuture<'_, Result<Conversation, Failed>> {
        std::future::pending().boxed()
    }

    fn call(&self, _: Call) -> BoxFuture<'_, Result<CallAnswer, Failed>> {
        std::future::pending().boxed()
    }

    fn watch(
        &self,
        _: v1::WatchRequest,
    ) -> BoxFuture<'_, Result<BoxStream<'static, Result<v1::Event, Failed>>, Failed>> {
        std::future::pending().boxed()
    }

    fn read_file(
        &self,
        _: v1::ReadFileRequest,
    ) -> BoxFuture<'_, Result<BoxStream<'static, Result<v1::ReadFileResponse, Failed>>, Failed>> {
        std::future::pending().boxed()
    }

    fn distrust(&self, _: u64) {}
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn link() -> Arc<Link> {
    let (random, notices) = (Random::from_seed(1), Arc::new(Notices::default()));
    Link::new(Arc::new(Nowhere), Arc::new(BootClock), RetryPolicy::default(), random, notices, false)
}

fn stream(link: &Arc<Link>) -> Groups {
    let stream = link.book().begin_stream(link.clock.now_us());
    Groups { link: Arc::clone(link), stream }
}

fn looking() -> Entry {
    Entry::new(What::Get(v1::GetRequest::default()).into(), Stance::Policy { attempts: 5 })
}

/// Takes everything that is to be sent now; who carries it waits then.
fn carry(groups: &mut Groups, woken: &Arc<Woken>) -> Vec<Group> {
    woken.0.store(false, Ordering::Relaxed);
    let waker = Waker::from(Arc::clone(woken));
    let mut cx = Context::from_waker(&waker);
    let next = || match groups.poll_next_unpin(&mut cx) {
        Poll::Ready(group) => group,
        Poll::Pending => None,
    };
    std::iter::from_fn(next).collect()
}

#[test]
fn a_stream_that_is_over_does_not_take_the_place_of_the_next_one() {
    let link = link();
    let (old, new) = (Arc::new(Woken::default()), Arc::new(Woken::default()));
    let mut first = stream(&link);
    assert_eq!(carry(&mut first, &old).len(), 1, "the hello");
    let broken = Failed::Trouble(Trouble::Broken("cut".into()));
    link.with_book(|book, now_us, effects| book.fell(broken, now_us, effects));
    let mut second = stream(&link);
    assert_eq!(carry(&mut second, &new).len(), 1);
    // Whoever carried the old stream looks once more, late.
    assert!(carry(&mut first, &old).is_empty());
    link.ask(looking());
    assert!(new.0.load(Ordering::Relaxed) && !old.0.load(Ordering::Relaxed));
    assert_eq!(carry(&mut second, &new).len(), 1);
}

#[test]
fn what_is_due_before_the_alarm_was_set_is_not_slept_through() {
    let link = link();
    let woken = Arc::new(Woken::default());
    let mut groups = stream(&link);
    carry(&mut groups, &woken);
    // The task has read that nothing is due, and its last alarm has just gone off...
    let due_us = link.book().due_us();
    link.armed_us.store(link.clock.now_us(), Ordering::Relaxed);
    // ...when something is sent that must be answered in time.
    link.ask(looking());
    assert_eq!(carry(&mut groups, &woken).len(), 1);
    let earlier_us = link.book().due_us();
    assert!(earlier_us < due_us);
    let mut look = Look::default();
    assert!(look.next(&link, due_us).now_or_never().is_some(), "it looks again");
    assert!(look.next(&link, earlier_us).now_or_never().is_none(), "and then sleeps");
}

#[test]
fn those_who_are_told_first_ask_again_before_the_others_are_told() {
    let link = link();
    let woken = Arc::new(Woken::default());
    let mut groups = stream(&link);
    carry(&mut groups, &woken);
    let welcome = Outcome { number: 0, told: Some(Told::Welcome(v1::Welcome { in_flight_max: 1000 })) };
    let welcome = OutcomeGroup { outcomes: vec![welcome] };
    link.with_book(|book, now_us, effects| book.hear(welcome, now_us, effects));
    let mut askings: Vec<Asking> =
        (0..2 * TOLD_MANY).map(|_| Asking::begin(Arc::clone(&link), looking())).collect();
    carry(&mut groups, &woken);
    let group = |askings: &[Asking]| {
        let told = || Some(Told::Snapshot(Box::default()));
        let outcomes = askings.iter().map(|asking| Outcome { number: asking.number(), told: told() });
        Ok(OutcomeGroup { outcomes: outcomes.collect() })
    };
    let (first, second) = askings.split_at(TOLD_MANY);
    // Both have come when the client looks.
    let told = futures_util::stream::iter([group(first), group(second)]);
    let told = told.chain(futures_util::stream::pending()).boxed();
    let mut look = Look::default();
    let mut listening = pin!(link.listen(Conversation { connection: 1, told }, &mut look));
    let answered = |askings: &mut [Asking]| {
        askings.iter_mut().filter_map(|asking| asking.now_or_never()).filter(Result::is_ok).count()
    };
    let (first, second) = askings.split_at_mut(TOLD_MANY);
    assert!(listening.as_mut().now_or_never().is_none());
    assert_eq!((answered(first), answered(second)), (TOLD_MANY, 0));
    link.ask(looking());
    assert_eq!(carry(&mut groups, &woken).len(), 1, "on its way");
    assert!(listening.as_mut().now_or_never().is_none());
    assert_eq!(answered(second), TOLD_MANY);
}

/// A link with a stream on which it is welcome.
fn welcome(woken: &Arc<Woken>) -> (Arc<Link>, Groups) {
    let link = link();
    let mut groups = stream(&link);
    carry(&mut groups, woken);
    hear(&link, 0, Told::Welcome(v1::Welcome { in_flight_max: 1000 }));
    (link, groups)
}

fn hear(link: &Link, number: u64, told: Told) {
    let group = OutcomeGroup { outcomes: vec![Outcome { number, told: Some(told) }] };
    link.with_book(|book, now_us, effects| book.hear(group, now_us, effects));
}

fn sent(groups: &mut Groups, woken: &Arc<Woken>) -> Vec<What> {
    let groups = carry(groups, woken);
    let operations = groups.iter().flat_map(|group| group.read().operations);
    operations.filter_map(|operation| operation.what).collect()
}

fn acquiring() -> Entry {
    let acquire = v1::AcquireRequest { lock: "a".into(), ..Default::default() };
    Entry::new(What::Acquire(acquire).into(), Stance::Policy { attempts: 5 })
}

#[test]
fn a_lease_that_has_come_and_is_not_taken_is_given_back() {
    let woken = Arc::new(Woken::default());
    let (link, mut groups) = welcome(&woken);
    let asking = Asking::begin(&*link, acquiring());
    sent(&mut groups, &woken);
    let lease = v1::Lease { lock: "a".into(), lease_id: "secret".into(), ..Default::default() };
    hear(&link, asking.number(), Told::Lease(lease.encode_to_vec().into()));
    assert!(link.book().is_empty());
    drop(asking);
    let lock = "a".to_owned();
    let release = v1::ReleaseRequest { lock, lease_id: "secret".into(), ..Default::default() };
    assert_eq!(sent(&mut groups, &woken), [What::Release(release)]);
}

#[test]
fn an_acquire_that_was_sent_and_is_not_waited_for_is_cancelled() {
    let woken = Arc::new(Woken::default());
    let (link, mut groups) = welcome(&woken);
    let asking = Asking::begin(&*link, acquiring());
    let number = asking.number();
    sent(&mut groups, &woken);
    drop(asking);
    assert_eq!(sent(&mut groups, &woken), [What::Cancel(number)]);
}

#[test]
fn who_insists_and_goes_leaves_the_operation_to_go_on() {
    let woken = Arc::new(Woken::default());
    let (link, mut groups) = welcome(&woken);
    let entry = Entry::new(What::Release(Default::default()).into(), Stance::Policy { attempts: 5 });
    let asking = Asking::begin(&*link, entry).insist();
    let number = asking.number();
    drop(asking);
    assert_eq!(sent(&mut groups, &woken), [What::Release(Default::default())]);
    assert!(!link.book().is_empty());
    hear(&link, number, Told::Released(v1::ReleaseResponse { released: true }));
    assert!(link.book().is_empty() && sent(&mut groups, &woken).is_empty());
}

#[test]
fn who_waits_when_the_task_ends_is_woken_and_told() {
    let woken = Arc::new(Woken::default());
    let (link, _groups) = welcome(&woken);
    woken.0.store(false, Ordering::Relaxed);
    let waker = Waker::from(Arc::clone(&woken));
    let (ask, stance) = (Ask::new("a"), Stance::Policy { attempts: 5 });
    let mut asking = Asking::begin_for(&*link, &ask.usual("me"), stance, &waker);
    drop(LastWords(Arc::clone(&link)));
    assert!(woken.0.load(Ordering::Relaxed));
    assert!(matches!((&mut asking).now_or_never(), Some(Err(Error::ServerUnavailable(_)))));
    let mut late = Asking::begin_for(&*link, &ask.usual("me"), stance, &waker);
    assert!(matches!((&mut late).now_or_never(), Some(Err(Error::ServerUnavailable(_)))));
}
