//! Which bug is in: one choice for the whole process, because a bug is wherever its code runs, on whichever thread.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Bug;

/// No bug, or one more than the number of the one that is in.
static CHOSEN: AtomicU8 = AtomicU8::new(0);
static HELD: Mutex<()> = Mutex::new(());

/// Whether this bug is in.
pub fn planted(bug: Bug) -> bool {
    CHOSEN.load(Ordering::Relaxed) == bug as u8 + 1
}

/// Puts a bug in, or sees to it that none is, until what this gives is dropped. Whoever plants another waits until then.
pub fn plant(bug: Option<Bug>) -> Planted {
    let held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    CHOSEN.store(bug.map_or(0, |bug| bug as u8 + 1), Ordering::Relaxed);
    Planted { _held: held }
}

/// The choice holds while this lives.
#[must_use = "the bug is taken out when this is dropped"]
pub struct Planted {
    _held: MutexGuard<'static, ()>,
}

impl Drop for Planted {
    fn drop(&mut self) {
        CHOSEN.store(0, Ordering::Relaxed);
    }
}
