//! Writing in the background that leaves the disk to others: after each piece it rests for longer than the piece took. A disk
//! that writes much at once lets everybody wait who wants a little made durable meanwhile, and a file that grows keeps the
//! file system itself busy. Whoever needs the result says so, and there is no rest any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::limits::{REST_MAX, REST_TIMES};

/// Whoever writes in the background.
#[derive(Debug)]
pub(crate) struct Leisure {
    hurry: Arc<AtomicBool>,
    since: Instant,
}

/// Whoever may need the result. Dropped, it needs it too: nobody is to wait for one who rests.
#[derive(Debug)]
pub(crate) struct Hurry(Arc<AtomicBool>);

/// Both ends.
pub(crate) fn leisure() -> (Hurry, Leisure) {
    let hurry = Arc::new(AtomicBool::new(false));
    (Hurry(hurry.clone()), Leisure { hurry, since: Instant::now() })
}

impl Leisure {
    /// One who has none.
    pub fn none() -> Leisure {
        leisure().1
    }

    /// Rests, if there is time, after a piece that was written since the last rest.
    pub fn rest(&mut self) {
        if let Some(rest) = self.rest_after(self.since.elapsed()) {
            std::thread::sleep(rest);
        }
        self.since = Instant::now();
    }

    fn rest_after(&self, took: Duration) -> Option<Duration> {
        (!self.hurry.load(Relaxed)).then(|| took.saturating_mul(REST_TIMES).min(REST_MAX))
    }
}

impl Hurry {
    /// It is needed soon.
    pub fn up(&self) {
        self.0.store(true, Relaxed);
    }
}

impl Drop for Hurry {
    fn drop(&mut self) {
        self.up();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_are_longer_than_what_was_done_until_somebody_is_in_a_hurry() {
        let took = Duration::from_millis(2);
        let (hurry, leisure) = leisure();
        assert_eq!(leisure.rest_after(took), Some(took * REST_TIMES));
        assert_eq!(leisure.rest_after(Duration::MAX), Some(REST_MAX));
        hurry.up();
        assert_eq!(leisure.rest_after(took), None);
        assert_eq!(Leisure::none().rest_after(took), None, "nobody is left who could wait");
    }
}
