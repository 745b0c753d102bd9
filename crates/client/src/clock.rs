//! The clock that leases are counted on: time since boot, which never jumps and also runs while the machine is suspended. It
//! is read at every look; nothing in this crate believes in a timer.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;

/// Something that happens later.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Tells the time, and wakes at a time.
pub trait Clock: Debug + Send + Sync + 'static {
    /// Microseconds since some fixed moment, never going back, counting suspend.
    fn now_us(&self) -> u64;

    /// Resolves once [`Clock::now_us`] has reached this. It may be late, never early.
    fn sleep_until(&self, at_us: u64) -> Sleep;
}
