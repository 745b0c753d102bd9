//! Real threads, a real clock, and a journal in real files; or one that the test holds by the hand.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod by_hand;

use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use by_hand::{Still, acquire, get, queue, release, renew};
use leasehold_engine::limits::ERRAND_EVENTS;
use leasehold_engine::{
    AdmissionLimits, Clock, DriverOptions, Engine, EngineOptions, Failure, Handle, Heard, LaneLimits,
    MachineClock, Metrics, Notice, OnEvents, Op, Replay, Told, founding_key, start,
};
use leasehold_journal::{
    Chore, ChoreDone, Extent, FileJournal, Folder, Journal, MemoryJournal, Options, StorageError,
};
use leasehold_state_machine::answer::{Answer, LeaseView, Outcome, Refusal};
use leasehold_state_machine::codec::read_batch;
use leasehold_state_machine::event::{Event, Release};
use leasehold_state_machine::limits::Limits;

fn launch(replay: Replay, journal: Box<dyn Journal>, options: DriverOptions) -> Handle {
    launch_by(Arc::new(MachineClock::new().unwrap()), replay, journal, options)
}

fn launch_by(
    clock: Arc<dyn Clock>,
    replay: Replay,
    journal: Box<dyn Journal>,
    options: DriverOptions,
) -> Handle {
    let engine_options = EngineOptions {
        founding_key: founding_key().unwrap(),
        restored: None,
        accept_clock: true,
        batch_bytes_max: journal.batch_bytes_max(),
        metrics: Arc::new(Metrics::default()),
    };
    let (engine, _) = Engine::recover(replay, clock.boot_id(), clock.read(), engine_options);
    start(engine, journal, clock, options).unwrap()
}

fn launch_in_memory(options: DriverOptions) -> Handle {
    launch(Replay::new(Limits::default()), Box::new(MemoryJournal::new()), options)
}

fn lease(outcome: Outcome) -> LeaseView {
    match outcome {
        Ok(Answer::Lease(lease)) => *lease,
        other => panic!("not a lease: {other:?}"),
    }
}

/// Remembers what was told, and lets a test wait for it.
#[derive(Clone, Default)]
struct Trail(Arc<Mutex<Vec<Told>>>, Arc<tokio::sync::Notify>);

impl Trail {
    fn listen(&self) -> OnEvents {
        let Trail(told, news) = self.clone();
        Box::new(move |chapter| {
            told.lock().unwrap().extend(chapter.read());
            news.notify_one();
        })
    }

    async fn until(&self, mut seen: impl FnMut(&Event) -> bool) {
        while !self.0.lock().unwrap().iter().any(|(_, _, event)| seen(event)) {
            self.1.notified().await;
        }
    }

    fn seqs(&self) -> Vec<u64> {
        self.0.lock().unwrap().iter().map(|(seq, _, _)| *seq).collect()
    }
}

type Gate = dyn FnMut(&[u8]) -> Result<(), StorageError> + Send;

/// A memory journal that appends when it is allowed to.
struct Gated {
    inner: MemoryJournal,
    /// Sees a batch before it is appended, and may take its time over it.
    gate: Box<Gate>,
    room: Arc<Mutex<u64>>,
}

impl Gated {
    fn by(gate: impl FnMut(&[u8]) -> Result<(), StorageError> + Send + 'static) -> Gated {
        Gated { inner: MemoryJournal::new(), gate: Box::new(gate), room: Arc::new(Mutex::new(u64::MAX)) }
    }

    /// One word for each batch.
    fn new() -> (Gated, SyncSender<Result<(), StorageError>>, Arc<Mutex<u64>>) {
        let (open, words) = sync_channel(1000);
        let journal = Gated::by(move |_| words.recv().unwrap_or(Err(StorageError::Stopped)));
        let room = journal.room.clone();
        (journal, open, room)
    }
}

impl Journal for Gated {
    fn append(&mut self, payload: &[u8]) -> Result<u64, StorageError> {
        (self.gate)(payload)?;
        self.inner.append(payload)
    }
    fn batch_bytes_max(&self) -> usize {
        self.inner.batch_bytes_max()
    }
    fn room(&self) -> Result<u64, StorageError> {
        Ok(*self.room.lock().unwrap())
    }
    fn chores(&mut self) -> Vec<Chore> {
        Vec::new()
    }
    fn chore_done(&mut self, done: ChoreDone) -> Result<(), StorageError> {
        self.inner.chore_done(done)
    }
    fn extent(&self) -> Extent {
        self.inner.extent()
    }
}

/// A founded server whose disk makes a batch durable for each word through the gate.
async fn launch_gated(
    admission: AdmissionLimits,
    trail: &Trail,
) -> (Handle, SyncSender<Result<(), StorageError>>) {
    let (journal, open, _) = Gated::new();
    let options = DriverOptions { admission, on_events: trail.listen(), ..DriverOptions::default() };
    let handle = launch(Replay::new(Limits::default()), Box::new(journal), options);
    open.send(Ok(())).unwrap();
    trail.until(|event| matches!(event, Event::Founded { .. })).await;
    (handle, open)
}

#[tokio::test]
async fn locks_survive_a_stop_and_a_start_in_files() {
    let directory = tempfile::tempdir().unwrap();
    let open = || {
        let mut replay = Replay::new(Limits::default());
        let folder = Folder::open(directory.path()).unwrap();
        // Small segments, so that snapshots are made behind the engine's back.
        let options = Options {
            segment_bytes: 256 << 10,
            batch_bytes_max: 64 << 10,
            snapshot_after_bytes: 256 << 10,
            ..Options::new([7; 16])
        };
        let (journal, recovery) = FileJournal::open(folder, options, &mut replay).unwrap();
        (replay, journal, recovery)
    };
    let trail = Trail::default();
    let options = || DriverOptions { on_events: trail.listen(), ..DriverOptions::default() };

    let (replay, journal, _) = open();
    let handle = launch(replay, Box::new(journal), options());
    let kept = lease(handle.ask(acquire("kept", "w1", 60_000)).await);
    for n in 0..2_000 {
        let granted = lease(handle.ask(acquire(&format!("lock-{n}"), "w1", 60_000)).await);
        let released = handle.ask(release(&granted)).await;
        assert!(matches!(released, Ok(Answer::Released { .. })), "{released:?}");
    }
    assert!(handle.metrics().journal_commit.read().count >= 2_000);
    handle.stop().await;
    assert!(!handle.is_ready());
    assert!(matches!(handle.ask(get("kept")).await, Err(Refusal::Unavailable { .. })));

    let (replay, journal, recovery) = open();
    assert!(recovery.snapshot_index > 0, "a snapshot was made meanwhile");
    let handle = launch(replay, Box::new(journal), options());
    assert!(matches!(handle.ask(acquire("kept", "w2", 60_000)).await, Err(Refusal::Held(_))));
    assert_eq!(lease(handle.ask(renew(&kept)).await).token, kept.token);
    assert!(lease(handle.ask(acquire("lock-0", "w2", 60_000)).await).token > kept.token);
    handle.stop().await;
    let seqs = trail.seqs();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "every event was told once, in order");
}

#[tokio::test]
async fn a_waiter_is_answered_by_a_release() {
    let handle = launch_in_memory(DriverOptions::default());
    let first = lease(handle.ask(acquire("a", "w1", 60_000)).await);
    let second = handle.ask(queue("a", "w2", 60_000, 60_000, None));
    let third = handle.ask(release(&first));
    let (second, third) = tokio::join!(second, third);
    assert!(third.is_ok());
    assert!(lease(second).token > first.token);
    handle.stop().await;
}

#[tokio::test]
async fn a_waiter_whose_future_is_dropped_leaves_the_line_at_once() {
    let trail = Trail::default();
    let handle = launch_in_memory(DriverOptions { on_events: trail.listen(), ..DriverOptions::default() });
    lease(handle.ask(acquire("a", "w1", 60_000)).await);
    let mut waiting = Box::pin(handle.ask(queue("a", "w2", 60_000, 60_000, None)));
    assert!(matches!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Pending));
    trail.until(|event| matches!(event, Event::Queued { .. })).await;
    drop(waiting);
    trail.until(|event| matches!(event, Event::Dequeued { .. })).await;
    handle.stop().await;
}

#[tokio::test]
async fn a_grant_that_nobody_hears_is_given_back() {
    // Once when the answer lies ready and is not read, once when the engine finds that nobody hears it.
    for answered in [true, false] {
        let trail = Trail::default();
        let (handle, open) = launch_gated(AdmissionLimits::default(), &trail).await;
        let mut asking = Box::pin(handle.ask(acquire("a", "w1", 60_000)));
        assert!(asking.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        if !answered {
            drop(std::mem::replace(&mut asking, Box::pin(handle.ask(get("b")))));
        }
        for _ in 0..1000 {
            open.send(Ok(())).unwrap();
        }
        trail.until(|event| matches!(event, Event::Granted { .. })).await;
        drop(asking);
        trail.until(|event| matches!(event, Event::Released { why: Release::Gone, .. })).await;
        handle.stop().await;
    }
}

#[tokio::test]
async fn a_conversation_hears_nothing_before_the_disk_and_what_it_does_not_hear_is_given_back() {
    for hears in [true, false] {
        let trail = Trail::default();
        let (handle, open) = launch_gated(AdmissionLimits::default(), &trail).await;
        let mut stream = handle.stream();
        for (number, lock) in [(1, "a"), (2, "b")] {
            stream.ask(number, (), acquire(lock, "w1", 60_000)).unwrap();
        }
        stream.send();
        while handle.metrics().locks_held.load(Relaxed) < 2 {
            tokio::task::yield_now().await;
        }
        // Decided and packed, and not on the disk.
        let early = Box::pin(stream.hear()).as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(early.is_pending());
        let mut listening = Some(stream).filter(|_| hears);
        for _ in 0..1000 {
            open.send(Ok(())).unwrap();
        }
        if let Some(stream) = &mut listening {
            let mut granted = Vec::new();
            while stream.in_flight() > 0 {
                stream.hear().await;
                while let Some(Heard::Outcome { number, outcome, .. }) = stream.heard() {
                    granted.push((number, lease(outcome).resource.to_string()));
                }
            }
            assert_eq!(granted, [(1, "a".to_owned()), (2, "b".to_owned())]);
        } else {
            trail.until(|event| matches!(event, Event::Granted { .. })).await;
            trail.until(|event| matches!(event, Event::Released { why: Release::Gone, .. })).await;
        }
        handle.stop().await;
    }
}

#[tokio::test]
async fn stopping_answers_who_waits_and_makes_everything_durable() {
    let handle = launch_in_memory(DriverOptions::default());
    lease(handle.ask(acquire("a", "w1", 60_000)).await);
    let other = handle.clone();
    let waiting = tokio::spawn(async move { other.ask(queue("a", "w2", 60_000, 60_000, None)).await });
    while handle.metrics().waiters.load(Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
    handle.stop().await;
    let outcome = waiting.await.unwrap();
    assert!(matches!(outcome, Err(Refusal::Unavailable { .. })), "{outcome:?}");
    handle.stop().await;
}

#[tokio::test]
async fn a_storage_error_acknowledges_nothing_and_is_reported() {
    let (handle, open) = launch_gated(AdmissionLimits::default(), &Trail::default()).await;
    open.send(Ok(())).unwrap();
    let source = std::io::Error::other("a broken disk");
    let first = handle.ask(acquire("a", "w1", 60_000)).await;
    assert!(first.is_ok(), "{first:?}");
    open.send(Err(StorageError::Io { doing: "sync", path: "x".into(), source })).unwrap();
    let mut stream = handle.stream();
    stream.ask(1, (), acquire("c", "w1", 60_000)).unwrap();
    stream.send();
    let asked = handle.ask(acquire("b", "w1", 60_000));
    let (second, (), failure) = tokio::join!(asked, stream.hear(), handle.failed());
    assert!(matches!(second, Err(Refusal::Unavailable { .. })), "{second:?}");
    let heard = stream.heard();
    assert!(
        matches!(heard, Some(Heard::Outcome { outcome: Err(Refusal::Unavailable { .. }), .. })),
        "{heard:?}"
    );
    assert!(matches!(&failure, Failure::Storage(_)));
    assert!(failure.to_string().contains("a broken disk"));
    assert!(!handle.is_ready());
    assert!(handle.ask(get("a")).await.is_err());
}

#[tokio::test]
async fn a_full_lane_is_busy_and_renewals_still_get_in() {
    let ordinary = LaneLimits { requests_max: 3, bytes_max: usize::MAX };
    let admission = AdmissionLimits { ordinary, ..AdmissionLimits::default() };
    let (handle, open) = launch_gated(admission, &Trail::default()).await;
    open.send(Ok(())).unwrap();
    let mine = lease(handle.ask(acquire("mine", "w0", 60_000)).await);
    let mut stuck: Vec<_> =
        (0..3).map(|n| Box::pin(handle.ask(acquire(&format!("l{n}"), "w1", 60_000)))).collect();
    for asking in &mut stuck {
        assert!(asking.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    let busy = handle.ask(acquire("one-more", "w1", 60_000)).await;
    assert!(matches!(busy, Err(Refusal::Busy { retry_ms: 1.., .. })), "{busy:?}");
    assert_eq!(handle.metrics().busy_total(Op::Acquire), 1);
    let mut renewal = Box::pin(handle.ask(renew(&mine)));
    let renewed = renewal.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    for _ in 0..100 {
        open.send(Ok(())).unwrap();
    }
    let renewed = match renewed {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => renewal.await,
    };
    assert_eq!(lease(renewed).token, mine.token);
    for asking in stuck {
        lease(asking.await);
    }
    lease(handle.ask(acquire("one-more", "w1", 60_000)).await);
    handle.stop().await;
}

#[tokio::test]
async fn waiters_in_line_do_not_count_as_in_flight() {
    let ordinary = LaneLimits { requests_max: 2, bytes_max: usize::MAX };
    let admission = AdmissionLimits { ordinary, ..AdmissionLimits::default() };
    let handle = launch_in_memory(DriverOptions { admission, ..DriverOptions::default() });
    lease(handle.ask(acquire("a", "w1", 60_000)).await);
    let mut waiting = Vec::new();
    for n in 0..5 {
        let mut asking = Box::pin(handle.ask(queue("a", "w2", 60_000, 60_000, None)));
        assert!(asking.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        waiting.push(asking);
        while handle.metrics().waiters.load(Relaxed) <= n {
            tokio::task::yield_now().await;
        }
    }
    // The permit of the last one comes back right after its turn.
    while matches!(handle.ask(acquire("a", "w3", 60_000)).await, Err(Refusal::Busy { .. })) {
        tokio::task::yield_now().await;
    }
    handle.stop().await;
}

#[tokio::test]
async fn a_nearly_full_disk_begins_nothing_and_goes_on_with_the_rest() {
    let (journal, open, room) = Gated::new();
    for _ in 0..1000 {
        open.send(Ok(())).unwrap();
    }
    let notices = Arc::new(Mutex::new(Vec::new()));
    let news = Arc::new(tokio::sync::Notify::new());
    let on_notice = {
        let (notices, news) = (notices.clone(), news.clone());
        Box::new(move |notice: &Notice| {
            notices.lock().unwrap().push(*notice);
            news.notify_one();
        })
    };
    let options = DriverOptions { on_notice, ..DriverOptions::default() };
    let handle = launch(Replay::new(Limits::default()), Box::new(journal), options);
    let mine = lease(handle.ask(acquire("a", "w1", 60_000)).await);
    *room.lock().unwrap() = 1 << 20;
    while !notices.lock().unwrap().iter().any(|notice| matches!(notice, Notice::Room { short: true, .. })) {
        news.notified().await;
    }
    let refused = handle.ask(acquire("b", "w1", 60_000)).await;
    assert!(matches!(refused, Err(Refusal::Unavailable { .. })), "{refused:?}");
    assert!(handle.ask(renew(&mine)).await.is_ok());
    assert!(handle.ask(release(&mine)).await.is_ok());
    handle.stop().await;
}

/// A journal with a bug.
struct Buggy;

impl Journal for Buggy {
    fn append(&mut self, _payload: &[u8]) -> Result<u64, StorageError> {
        panic!("a bug, as this test wants it");
    }
    fn batch_bytes_max(&self) -> usize {
        16 << 20
    }
    fn room(&self) -> Result<u64, StorageError> {
        Ok(u64::MAX)
    }
    fn chores(&mut self) -> Vec<Chore> {
        Vec::new()
    }
    fn chore_done(&mut self, _done: ChoreDone) -> Result<(), StorageError> {
        Ok(())
    }
    fn extent(&self) -> Extent {
        Extent::default()
    }
}

#[tokio::test]
async fn a_thread_that_panics_does_not_leave_a_silent_server() {
    let handle = launch(Replay::new(Limits::default()), Box::new(Buggy), DriverOptions::default());
    let (outcome, failure) = tokio::join!(handle.ask(acquire("a", "w1", 60_000)), handle.failed());
    assert!(matches!(outcome, Err(Refusal::Unavailable { .. })), "{outcome:?}");
    assert!(matches!(failure, Failure::Panicked));
}

#[tokio::test]
async fn a_place_in_line_goes_to_the_disk_with_what_comes_next() {
    let commits = Arc::new(Mutex::new(Vec::new()));
    let on_events: OnEvents = {
        let commits = commits.clone();
        Box::new(move |chapter| commits.lock().unwrap().push(chapter.read()))
    };
    let commit_of = |wanted: fn(&Event) -> bool| {
        let commits = commits.lock().unwrap();
        commits.iter().position(|events: &Vec<Told>| events.iter().any(|(_, _, event)| wanted(event)))
    };
    let is_queued = |event: &Event| matches!(event, Event::Queued { .. });
    let options = DriverOptions { on_events, ..DriverOptions::default() };
    let journal = Box::new(MemoryJournal::new());
    let handle = launch_by(Arc::new(Still), Replay::new(Limits::default()), journal, options);

    let first = lease(handle.ask(acquire("a", "w1", 60_000)).await);
    let mut waiting = std::pin::pin!(handle.ask(queue("a", "w2", 60_000, 60_000, None)));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(waiting.as_mut().poll(&mut cx).is_pending());
    // Needs no disk, and is answered in a turn after that of the place in line.
    lease(handle.ask(renew(&first)).await);
    assert_eq!(commit_of(is_queued), None, "nobody waits for it to be on the disk");

    handle.ask(release(&first)).await.unwrap();
    lease(waiting.await);
    let commit = commit_of(is_queued);
    assert!(commit.is_some());
    assert_eq!(commit, commit_of(|event| matches!(event, Event::Released { .. })));
    handle.stop().await;
}

#[tokio::test]
async fn the_stand_in_takes_small_batches_to_the_disk_and_the_other_thread_all_others() {
    // Who came with how many events, to a disk that takes a millisecond.
    let visits = Arc::new(Mutex::new(Vec::new()));
    let visited = visits.clone();
    let journal = Gated::by(move |payload| {
        let mut events = 0;
        read_batch(payload, &mut |_, _, _, _| events += 1).unwrap();
        visited.lock().unwrap().push((std::thread::current().name().unwrap().to_owned(), events));
        std::thread::sleep(Duration::from_millis(1));
        Ok(())
    });
    let handle = launch(Replay::new(Limits::default()), Box::new(journal), DriverOptions::default());
    let mut stream = handle.stream();
    let mut number = 0;
    // At once 1, 8 and 300, each round several times.
    for together in [1, 8, 300].repeat(5) {
        for _ in 0..together {
            number += 1;
            stream.ask(number, (), acquire(&format!("lock-{number}"), "w1", 60_000)).unwrap();
        }
        let mut answered = 0;
        while stream.in_flight() > 0 {
            stream.hear().await;
            answered += std::iter::from_fn(|| stream.heard()).count();
        }
        assert_eq!(answered, together, "everybody is answered");
    }
    handle.stop().await;
    let visits = visits.lock().unwrap();
    let one_core = std::thread::available_parallelism().unwrap().get() == 1;
    let mut errands = 0;
    // With the first nobody knows yet how long this disk takes.
    for (visitor, events) in visits.iter().skip(1) {
        let errand = ERRAND_EVENTS.contains(events) && !one_core;
        assert_eq!(visitor == "stand-in", errand, "{events} events came with {visitor}");
        errands += u64::from(errand);
    }
    assert!(one_core || (errands >= 5 && errands < visits.len() as u64), "{visits:?}");
}

#[tokio::test]
async fn what_arrives_while_the_stand_in_is_at_the_disk_is_decided_meanwhile() {
    let (journal, open, _) = Gated::new();
    let handle = launch(Replay::new(Limits::default()), Box::new(journal), DriverOptions::default());
    // A disk that takes its time from the first batch on.
    tokio::time::sleep(Duration::from_millis(1)).await;
    open.send(Ok(())).unwrap();
    let held = {
        let asked = handle.ask(acquire("held", "w1", 60_000));
        open.send(Ok(())).unwrap();
        lease(asked.await)
    };
    let mut stream = handle.stream();
    for number in 1..=8 {
        stream.ask(number, (), acquire(&format!("lock-{number}"), "w1", 60_000)).unwrap();
    }
    stream.send();
    // Nobody lets the eight onto the disk, and yet a renewal is answered, again and again.
    for _ in 0..50 {
        let renewed = lease(handle.ask(renew(&held)).await);
        assert_eq!(renewed.token, held.token);
    }
    assert_eq!(stream.in_flight(), 8, "nothing is told before it is durable");
    drop(open);
    handle.failed().await;
}
