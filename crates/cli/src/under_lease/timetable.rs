//! When a command that runs under a lease is asked to end, and when it is ended: half and three quarters of the TTL after
//! the last confirmed renewal was sent. Plain arithmetic on the boot-time clock, the client's own.

use rustix::time::{ClockId, clock_gettime};

/// By when a command must be dead, in microseconds of the boot-time clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// SIGTERM.
    pub term_us: u64,
    /// SIGKILL.
    pub kill_us: u64,
}

impl Times {
    /// For a lease with this TTL that is believed until then, which is half a TTL after its last confirmed sending.
    pub fn of(until_us: u64, ttl_us: u64) -> Times {
        Times { term_us: until_us, kill_us: until_us.saturating_add(ttl_us / 4) }
    }

    /// The lease is known to be over: SIGTERM as soon as this. What was promised to others has not changed.
    pub fn brought_forward(self, now_us: u64) -> Times {
        Times { term_us: self.term_us.min(now_us), ..self }
    }
}

/// The boot-time clock: it also runs while the machine is suspended.
pub fn now_us() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    let (seconds, nanoseconds) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
    seconds.unwrap_or(0) * 1_000_000 + nanoseconds.unwrap_or(0) / 1_000
}
