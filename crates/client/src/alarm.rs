//! What wakes one thread at a time of the boot-time clock: the kernel's timer for that clock where there is one, else short
//! naps. Knows nothing of who is to be woken.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::boot_clock::now_us;

/// An alarm. One thread waits for it; everybody may set it, also while that thread waits.
pub(crate) enum Alarm {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    Timer(rustix::fd::OwnedFd),
    Naps(Naps),
}

impl Alarm {
    /// One that is not set.
    pub fn new() -> Alarm {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        {
            use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
            if let Ok(timer) = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC) {
                return Alarm::Timer(timer);
            }
        }
        Alarm::Naps(Naps::default())
    }

    /// Goes off at this time, at once if it has passed, and never for the end of time.
    pub fn set(&self, at_us: u64) {
        match self {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Alarm::Timer(timer) => set_timer(timer, at_us),
            Alarm::Naps(naps) => naps.set(at_us),
        }
    }

    /// Waits until it goes off.
    pub fn wait(&self) {
        match self {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Alarm::Timer(timer) => {
                let mut times = [0; 8];
                // Interrupted or not: whoever wakes looks at the clock.
                let _ = rustix::io::read(timer, &mut times);
            }
            Alarm::Naps(naps) => naps.wait(),
        }
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn set_timer(timer: &rustix::fd::OwnedFd, at_us: u64) {
    use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};
    // All zeros stop a timer.
    let at_us = if at_us == u64::MAX { 0 } else { at_us.max(1) };
    let nothing = Timespec { tv_sec: 0, tv_nsec: 0 };
    let (seconds, rest_us) = (at_us / 1_000_000, at_us % 1_000_000);
    let at = Timespec {
        tv_sec: seconds.try_into().unwrap_or(i64::MAX),
        tv_nsec: (rest_us * 1_000).try_into().unwrap_or_default(),
    };
    let set = timerfd_settime(
        timer,
        TimerfdTimerFlags::ABSTIME,
        &Itimerspec { it_interval: nothing, it_value: at },
    );
    assert!(set.is_ok(), "a timer of ours takes every time: {set:?}");
}

/// Sleeps by another clock, never for long, and looks at the right one in between.
#[derive(Default)]
pub(crate) struct Naps {
    at_us: Mutex<Option<u64>>,
    changed: Condvar,
}

/// The longest nap: so late may the alarm be after a suspend.
const NAP_MAX: Duration = Duration::from_millis(250);

impl Naps {
    fn set(&self, at_us: u64) {
        *self.at_us.lock().unwrap_or_else(PoisonError::into_inner) = (at_us != u64::MAX).then_some(at_us);
        self.changed.notify_all();
    }

    fn wait(&self) {
        let mut at_us = self.at_us.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            at_us = match *at_us {
                None => self.changed.wait(at_us).unwrap_or_else(PoisonError::into_inner),
                Some(time_us) => {
                    let left = Duration::from_micros(time_us.saturating_sub(now_us()));
                    if left.is_zero() {
                        *at_us = None;
                        return;
                    }
                    let napped = self.changed.wait_timeout(at_us, left.min(NAP_MAX));
                    napped.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn naps_and_timers_go_off_when_set_and_not_before() {
        for alarm in [Alarm::new(), Alarm::Naps(Naps::default())] {
            let alarm = Arc::new(alarm);
            let waiting = Arc::clone(&alarm);
            let woken = std::thread::spawn(move || {
                waiting.wait();
                now_us()
            });
            let begun_us = now_us();
            alarm.set(begun_us + 3_600_000_000);
            alarm.set(begun_us + 20_000);
            assert!(woken.join().unwrap() >= begun_us + 20_000);
            alarm.set(1);
            alarm.wait();
        }
    }
}
