//! A clock that stands still until the test turns it. Whoever sleeps by it is woken in the order of their times, each at
//! exactly its own; between two such moments everything that was woken runs until it rests.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};

use super::tokio_time::{SLICE_US, TokioTime};
use crate::clock::{Clock, Sleep};

/// Where the clock begins: long enough after the boot that nothing counts below zero.
const START_US: u64 = 3_600_000_000;
/// The wall clock then: some day in 2026, in Unix milliseconds.
const START_WALL_MS: u64 = 1_790_000_000_000;

/// After so many rounds in which nobody touched the clock or the wire, everybody rests. In each round the runtime runs
/// dozens of tasks, so that what a program does by itself in between may go over many.
const QUIET_ROUNDS: u32 = 16;
/// Who has not come to rest after so many never will.
const ROUNDS_MAX: u32 = 10_000;
/// What has not happened after so long is not waited for any longer: a day.
const PATIENCE_US: u64 = 86_400_000_000;

/// The time of a test: of the [`Server`](super::Server) and of all its clients. Clones are the same clock.
#[derive(Clone)]
pub struct TestClock {
    state: Arc<Mutex<State>>,
}

struct State {
    now_us: u64,
    /// In the order in which they are to be woken.
    sleepers: BTreeMap<(u64, SleeperId), Waker>,
    next_id: SleeperId,
    /// Servers that go by this clock.
    servers: Vec<Weak<dyn Turned>>,
    /// Grows whenever somebody does something that others may be waiting for.
    stirred: u64,
}

type SleeperId = u64;

/// Time on its way.
#[derive(Clone, Copy)]
struct Walk {
    start_us: u64,
    tokio_time: Option<TokioTime>,
}

/// Something that is turned with the clock and needs no task to run.
pub(super) trait Turned: Send + Sync {
    /// When it next has something to do by itself.
    fn due_us(&self) -> Option<u64>;

    /// Does what is due. Says whether anybody may have heard of it.
    fn turn(&self) -> bool;
}

impl TestClock {
    /// A clock that stands still.
    pub fn new() -> TestClock {
        let state = State {
            now_us: START_US,
            sleepers: BTreeMap::new(),
            next_id: 0,
            servers: Vec::new(),
            stirred: 0,
        };
        TestClock { state: Arc::new(Mutex::new(state)) }
    }

    /// How much time has passed on this clock since it was made.
    pub fn elapsed(&self) -> Duration {
        Duration::from_micros(self.now_us() - START_US)
    }

    /// Lets time pass. Everything happens that happens in this time, and at its own moment: renewals, expiries, hand-overs,
    /// timeouts. Returns when the time is over and everybody has come to rest.
    ///
    /// Whoever simply awaits something that needs time, such as an answer after a broken connection, waits for ever: the
    /// clock stands still. That is what [`TestClock::wait_for`] is for.
    ///
    /// Tokio's own clock is turned along if the test has paused it (`#[tokio::test(start_paused = true)]`), so that code
    /// under test may sleep by either; the two agree to within 10 ms. A clock of tokio's that runs is left alone.
    ///
    /// # Panics
    ///
    /// Outside the current-thread runtime (the one of `#[tokio::test]`): elsewhere nobody can tell when all have come to
    /// rest. And when somebody never rests, such as a loop that takes and releases a lock without a pause.
    pub async fn advance(&self, by: Duration) {
        self.settle().await;
        let walk = self.begin_walk();
        let target_us = walk.start_us + micros(by);
        loop {
            if self.step(walk, target_us).await {
                self.settle().await;
            }
            let more_due = self.next_due_us().is_some_and(|due_us| due_us <= target_us);
            if self.now_us() >= target_us && !more_due {
                return;
            }
        }
    }

    /// Waits for something, and lets time pass meanwhile, from one thing that is due to the next: as long as it takes.
    ///
    /// # Panics
    ///
    /// As [`TestClock::advance`]; and when it has not happened after a day, or nothing is due any more that could bring it
    /// about.
    pub async fn wait_for<F: Future>(&self, what: F) -> F::Output {
        let mut what = pin!(what);
        let walk = self.begin_walk();
        let limit_us = walk.start_us + PATIENCE_US;
        let mut stirred = true;
        loop {
            // Also when nobody had to run: it may be tokio's clock that it waits for.
            let rest = async {
                if stirred {
                    self.settle().await;
                }
            };
            tokio::select! {
                biased;
                happened = &mut what => return happened,
                () = rest => {}
            }
            let something = walk.tokio_time.is_some() || self.next_due_us().is_some();
            assert!(something, "what the test waits for cannot happen: nobody waits for any time to come");
            assert!(self.now_us() < limit_us, "what the test waits for has not happened in a whole day");
            stirred = self.step(walk, limit_us).await;
        }
    }

    fn begin_walk(&self) -> Walk {
        Walk { start_us: self.now_us(), tokio_time: TokioTime::paused() }
    }

    /// Goes to what is due next, but no further than this. Says whether anybody has to run now.
    async fn step(&self, walk: Walk, target_us: u64) -> bool {
        let mut next_us = self.next_due_us().map_or(target_us, |due_us| due_us.min(target_us));
        if let Some(tokio_time) = walk.tokio_time {
            next_us = next_us.min(self.now_us() + SLICE_US);
            tokio_time.reach(next_us.saturating_sub(walk.start_us)).await;
        }
        self.go_to(next_us)
    }

    /// Lets time pass while the program stands still, as a suspended machine or a process stopped with SIGSTOP does. The
    /// server is elsewhere and goes on: leases end and are given to others meanwhile. Nothing of the program runs before
    /// the time is over; what it does first is its first look.
    ///
    /// To stop one client and let the others run, see [`Server::suspend`](super::Server::suspend).
    pub fn jump(&self, by: Duration) {
        let target_us = self.now_us() + micros(by);
        let servers = self.servers();
        let next_us = || servers.iter().filter_map(|server| server.due_us()).min();
        while let Some(due_us) = next_us().filter(|due_us| *due_us <= target_us) {
            self.set(due_us);
            servers.iter().for_each(|server| _ = server.turn());
        }
        self.go_to(target_us);
    }

    /// Lets everybody run until all have come to rest, without letting time pass.
    ///
    /// # Panics
    ///
    /// As [`TestClock::advance`].
    pub async fn settle(&self) {
        assert!(
            Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread,
            "a test clock is turned on the current-thread runtime, the one that `#[tokio::test]` gives by itself"
        );
        let (mut quiet, mut seen) = (0, self.lock().stirred);
        for _ in 0..ROUNDS_MAX {
            tokio::task::yield_now().await;
            let stirred = self.lock().stirred;
            quiet = if stirred == seen { quiet + 1 } else { 0 };
            seen = stirred;
            if quiet == QUIET_ROUNDS {
                return;
            }
        }
        panic!(
            "somebody never comes to rest: a loop under test goes on without ever waiting for time to pass"
        );
    }

    /// Somebody did something that others may be waiting for.
    pub(super) fn stir(&self) {
        self.lock().stirred += 1;
    }

    /// From now on this server is turned with the clock.
    pub(super) fn drive(&self, server: Weak<dyn Turned>) {
        self.lock().servers.push(server);
    }

    /// The wall clock, which goes with it.
    pub(super) fn wall_ms(&self) -> u64 {
        START_WALL_MS + (self.now_us() - START_US) / 1000
    }

    /// A sleep that ends when the clock reaches this, or somebody calls it.
    pub(super) fn sleeper(&self, at_us: u64) -> Sleeper {
        Sleeper { clock: self.clone(), at_us, id: None }
    }

    fn next_due_us(&self) -> Option<u64> {
        let sleeper_us = self.lock().sleepers.first_key_value().map(|((at_us, _), _)| *at_us);
        self.servers().iter().filter_map(|server| server.due_us()).chain(sleeper_us).min()
    }

    /// Sets the time and does what is due. Says whether anybody has to run now.
    fn go_to(&self, now_us: u64) -> bool {
        self.set(now_us);
        let mut anybody = false;
        for server in self.servers() {
            anybody |= server.turn();
        }
        anybody | self.wake()
    }

    fn set(&self, now_us: u64) {
        let mut state = self.lock();
        state.now_us = state.now_us.max(now_us);
    }

    /// Wakes everybody whose time has come. Says whether there was anybody.
    fn wake(&self) -> bool {
        let mut state = self.lock();
        let after_us = state.now_us + 1;
        let later = state.sleepers.split_off(&(after_us, 0));
        let due = std::mem::replace(&mut state.sleepers, later);
        // Not under the lock: who is woken may be dropped by it, and leaves the list.
        drop(state);
        let anybody = !due.is_empty();
        due.into_values().for_each(Waker::wake);
        anybody
    }

    fn servers(&self) -> Vec<Arc<dyn Turned>> {
        let mut state = self.lock();
        state.servers.retain(|server| server.strong_count() > 0);
        state.servers.iter().filter_map(Weak::upgrade).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for TestClock {
    fn default() -> TestClock {
        TestClock::new()
    }
}

impl fmt::Debug for TestClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TestClock").field(&self.elapsed()).finish()
    }
}

impl Clock for TestClock {
    fn now_us(&self) -> u64 {
        self.lock().now_us
    }

    fn sleep_until(&self, at_us: u64) -> Sleep {
        Box::pin(self.sleeper(at_us))
    }
}

/// Somebody who sleeps until a time.
pub(super) struct Sleeper {
    clock: TestClock,
    at_us: u64,
    /// None before it has been asked for the first time.
    id: Option<SleeperId>,
}

impl Future for Sleeper {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let clock = self.clock.clone();
        let mut state = clock.lock();
        if state.now_us >= self.at_us {
            return Poll::Ready(());
        }
        let id = match self.id {
            Some(id) => id,
            None => {
                let id = state.next_id;
                state.next_id += 1;
                state.stirred += 1;
                self.id = Some(id);
                id
            }
        };
        state.sleepers.insert((self.at_us, id), cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let Some(id) = self.id else { return };
        let mut state = self.clock.lock();
        state.stirred += 1;
        let waker = state.sleepers.remove(&(self.at_us, id));
        drop(state);
        drop(waker);
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was done and when, in milliseconds.
    type Log = Arc<Mutex<Vec<(u64, &'static str)>>>;

    fn sleep(clock: &TestClock, log: &Log, who: &'static str, naps_ms: &'static [u64]) {
        let (clock, log) = (clock.clone(), log.clone());
        tokio::spawn(async move {
            for nap_ms in naps_ms {
                clock.sleep_until(clock.now_us() + nap_ms * 1000).await;
                let at_ms = clock.elapsed().as_millis();
                log.lock().unwrap().push((u64::try_from(at_ms).unwrap(), who));
            }
        });
    }

    #[tokio::test]
    async fn wakes_everybody_at_exactly_their_time_and_in_order() {
        let clock = TestClock::new();
        let log = Log::default();
        sleep(&clock, &log, "a", &[100, 100, 100, 0, 100]);
        sleep(&clock, &log, "b", &[250, 1]);
        sleep(&clock, &log, "c", &[100]);
        clock.advance(Duration::from_millis(350)).await;
        let expected = [(100, "a"), (100, "c"), (200, "a"), (250, "b"), (251, "b"), (300, "a"), (300, "a")];
        assert_eq!(*log.lock().unwrap(), expected);
        clock.advance(Duration::from_millis(50)).await;
        assert_eq!(log.lock().unwrap().last(), Some(&(400, "a")));
        assert_eq!(clock.elapsed(), Duration::from_millis(400));
    }

    #[tokio::test]
    async fn nothing_runs_while_it_jumps() {
        let clock = TestClock::new();
        let log = Log::default();
        sleep(&clock, &log, "a", &[100, 100]);
        clock.settle().await;
        clock.jump(Duration::from_secs(1));
        assert!(log.lock().unwrap().is_empty());
        clock.settle().await;
        assert_eq!(*log.lock().unwrap(), [(1000, "a")]);
        clock.advance(Duration::from_secs(1)).await;
        assert_eq!(*log.lock().unwrap(), [(1000, "a"), (1100, "a")]);
    }

    #[tokio::test]
    async fn waits_for_long_chains_of_tasks() {
        let clock = TestClock::new();
        let (first, mut last) = tokio::sync::mpsc::unbounded_channel();
        let mut end = first;
        for _ in 0..500 {
            let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
            let next = std::mem::replace(&mut end, sender);
            tokio::spawn(async move {
                while let Some(word) = receiver.recv().await {
                    let _ = next.send(word);
                }
            });
        }
        let waker = clock.clone();
        tokio::spawn(async move {
            waker.sleep_until(waker.now_us() + 5).await;
            let _ = end.send("through");
        });
        clock.advance(Duration::from_micros(5)).await;
        assert_eq!(last.try_recv(), Ok("through"));
    }

    #[tokio::test]
    async fn a_dropped_sleep_is_not_waited_for() {
        let clock = TestClock::new();
        let mut sleep = clock.sleep_until(clock.now_us() + 5_000_000);
        assert!(sleep.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!(clock.next_due_us(), Some(clock.now_us() + 5_000_000));
        drop(sleep);
        assert_eq!(clock.next_due_us(), None);
    }

    #[tokio::test]
    async fn waits_for_something_in_no_more_time_than_it_takes() {
        let clock = TestClock::new();
        let log = Log::default();
        sleep(&clock, &log, "a", &[100, 100, 100]);
        let asleep = clock.sleep_until(clock.now_us() + 200_000);
        assert_eq!(
            clock
                .wait_for(async {
                    asleep.await;
                    "slept"
                })
                .await,
            "slept"
        );
        assert_eq!(clock.elapsed(), Duration::from_millis(200));
        clock.settle().await;
        assert_eq!(*log.lock().unwrap(), [(100, "a"), (200, "a")]);
        assert_eq!(clock.wait_for(std::future::ready(5)).await, 5);
        assert_eq!(clock.elapsed(), Duration::from_millis(200));
    }

    #[tokio::test]
    #[should_panic(expected = "cannot happen")]
    async fn says_when_it_waits_in_vain() {
        TestClock::new().wait_for(std::future::pending::<()>()).await;
    }

    #[tokio::test(start_paused = true)]
    async fn turns_tokios_clock_along_when_it_is_paused() {
        let clock = TestClock::new();
        let log = Log::default();
        sleep(&clock, &log, "ours", &[25, 1000]);
        let (ours, theirs) = (clock.clone(), log.clone());
        tokio::spawn(async move {
            for _ in 0..3 {
                tokio::time::sleep(Duration::from_millis(20)).await;
                let at_ms = ours.elapsed().as_millis();
                theirs.lock().unwrap().push((u64::try_from(at_ms).unwrap(), "tokio's"));
            }
        });
        let (began, real) = (tokio::time::Instant::now(), std::time::Instant::now());
        clock.advance(Duration::from_secs(100)).await;
        assert!(began.elapsed().abs_diff(Duration::from_secs(100)) <= Duration::from_millis(10));
        assert!(real.elapsed() < Duration::from_secs(60), "nobody slept in earnest");
        let log: Vec<_> = log.lock().unwrap().iter().map(|(at_ms, who)| (at_ms.div_ceil(10), *who)).collect();
        assert_eq!(log, [(2, "tokio's"), (3, "ours"), (4, "tokio's"), (6, "tokio's"), (103, "ours")]);
    }

    #[tokio::test]
    async fn leaves_tokios_clock_alone_when_it_runs() {
        assert!(TokioTime::paused().is_none());
        let clock = TestClock::new();
        let real = tokio::time::Instant::now();
        clock.advance(Duration::from_secs(3600)).await;
        assert!(real.elapsed() < Duration::from_secs(3600));
    }

    #[tokio::test(flavor = "multi_thread")]
    #[should_panic(expected = "current-thread runtime")]
    async fn says_so_on_another_runtime() {
        TestClock::new().advance(Duration::ZERO).await;
    }
}
