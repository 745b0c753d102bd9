//! The machine's boot-time clock. Sleepers of the whole process stand in one ordered set; one thread waits for the earliest
//! of them with a timer of the same clock, so that a suspended machine wakes them at once when it comes back. (The timers
//! of async runtimes stand still in suspend.) Believes nothing: whoever wakes reads the clock.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

use rustix::time::{ClockId, clock_gettime};

use crate::alarm::Alarm;
use crate::clock::{Clock, Sleep};

/// Wake-ups are put off to the next full millisecond, so that many of them make one.
const GRAIN_US: u64 = 1_000;

/// The clock of this machine that counts from boot, also through suspend.
#[derive(Clone, Copy, Debug, Default)]
pub struct BootClock;

impl Clock for BootClock {
    fn now_us(&self) -> u64 {
        now_us()
    }

    fn sleep_until(&self, at_us: u64) -> Sleep {
        let at_us = at_us.checked_next_multiple_of(GRAIN_US).unwrap_or(u64::MAX);
        Box::pin(Sleeper { at_us, id: None })
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: ClockId = ClockId::Boottime;
/// Where there is none of that name, this one is the nearest; on some systems it counts suspend too.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOCK: ClockId = ClockId::Monotonic;

pub(crate) fn now_us() -> u64 {
    let time = clock_gettime(CLOCK);
    let (seconds, nanoseconds) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
    seconds.unwrap_or(0) * 1_000_000 + nanoseconds.unwrap_or(0) / 1_000
}

/// Somebody who sleeps. It stands in the set from its first look until it wakes or is dropped.
struct Sleeper {
    at_us: u64,
    id: Option<u64>,
}

impl Future for Sleeper {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if now_us() >= self.at_us {
            return Poll::Ready(());
        }
        let mut dormitory = Dormitory::enter();
        let id = *self.id.get_or_insert_with(|| dormitory.next_id());
        dormitory.lie_down(self.at_us, id, cx.waker());
        Poll::Pending
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            let waker = Dormitory::enter().sleepers.remove(&(self.at_us, id));
            // With the door open: it may be the last that keeps a task, and others that sleep in it.
            drop(waker);
        }
    }
}

/// Everybody who sleeps, by the time they want to be woken.
struct Dormitory {
    sleepers: BTreeMap<(u64, u64), Waker>,
    last_id: u64,
    alarm: Arc<Alarm>,
    /// When the alarm goes off; never later than the first sleeper wants.
    set_us: u64,
}

impl Dormitory {
    fn enter() -> MutexGuard<'static, Dormitory> {
        static DORMITORY: OnceLock<Mutex<Dormitory>> = OnceLock::new();
        let dormitory = DORMITORY.get_or_init(|| {
            let alarm = Arc::new(Alarm::new());
            let rung = Arc::clone(&alarm);
            let waking = std::thread::Builder::new().name("leasehold-clock".into()).spawn(move || {
                loop {
                    rung.wait();
                    Dormitory::wake_due();
                }
            });
            assert!(waking.is_ok(), "there is no keeping of leases without a thread that wakes: {waking:?}");
            Mutex::new(Dormitory { sleepers: BTreeMap::new(), last_id: 0, alarm, set_us: u64::MAX })
        });
        // Nothing in here panics half-way through a change.
        dormitory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    fn lie_down(&mut self, at_us: u64, id: u64, waker: &Waker) {
        self.sleepers
            .entry((at_us, id))
            .and_modify(|known| known.clone_from(waker))
            .or_insert_with(|| waker.clone());
        if at_us < self.set_us {
            self.set_us = at_us;
            self.alarm.set(at_us);
        }
    }

    /// Wakes whose time has come, and sets the alarm for the next.
    fn wake_due() {
        let due = {
            let mut dormitory = Dormitory::enter();
            let later = dormitory.sleepers.split_off(&(now_us() + 1, 0));
            let due = std::mem::replace(&mut dormitory.sleepers, later);
            dormitory.set_us = match dormitory.sleepers.first_key_value() {
                Some(((at_us, _), _)) => *at_us,
                None => u64::MAX,
            };
            let set_us = dormitory.set_us;
            dormitory.alarm.set(set_us);
            due
        };
        for waker in due.into_values() {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn wakes_in_order_and_never_early() {
        let begun_us = BootClock.now_us();
        let mut woken = tokio::task::JoinSet::new();
        for sleep_ms in [60, 5, 30, 0, 30, 1] {
            woken.spawn(async move {
                BootClock.sleep_until(begun_us + sleep_ms * 1_000).await;
                assert!(BootClock.now_us() >= begun_us + sleep_ms * 1_000);
                sleep_ms
            });
        }
        let mut slept: Vec<u64> = Vec::new();
        while let Some(sleep_ms) = woken.join_next().await {
            slept.push(sleep_ms.unwrap());
        }
        slept.sort_unstable();
        assert_eq!(slept, [0, 1, 5, 30, 30, 60]);
    }

    #[tokio::test]
    async fn ten_thousand_sleepers_are_ordinary_and_leave_nothing_behind() {
        let far_us = BootClock.now_us() + 3_600_000_000;
        let mut far: Vec<Sleep> = (0..10_000).map(|n| BootClock.sleep_until(far_us + n * 1_000)).collect();
        for sleep in &mut far {
            let polled = std::future::poll_fn(|cx| Poll::Ready(sleep.as_mut().poll(cx))).await;
            assert!(polled.is_pending());
        }
        let near = (0..10_000).map(|n| BootClock.sleep_until(BootClock.now_us() + n % 50 * 1_000));
        let all = futures_util::future::join_all(near);
        tokio::time::timeout(Duration::from_secs(20), all).await.unwrap();
        drop(far);
        let left = Dormitory::enter().sleepers.range((far_us, 0)..).count();
        assert_eq!(left, 0);
    }
}
