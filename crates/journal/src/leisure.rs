//! Work in the background that leaves the disk and the processors to others. Before each piece of writing it rests for longer
//! than the last one took: a disk that writes much at once lets everybody wait who wants a little made durable meanwhile, and a
//! file that grows keeps the file system itself busy. Between pieces of calculating it gives way: a thread that calculates for
//! long is not interrupted for one that has just been woken, which then waits for milliseconds to do its microseconds. Whoever
//! needs the result says so, and there is none of that any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::limits::{REST_MAX_MS, REST_TIMES};

/// Whoever works in the background.
#[derive(Debug)]
pub(crate) struct Leisure {
    hurry: Arc<AtomicBool>,
    /// How long the last piece took.
    took: Duration,
}

/// Whoever may need the result. Dropped, it needs it too: nobody is to wait for one who rests.
#[derive(Debug)]
pub(crate) struct Hurry(Arc<AtomicBool>);

/// Both ends.
pub(crate) fn leisure() -> (Hurry, Leisure) {
    let hurry = Arc::new(AtomicBool::new(false));
    (Hurry(hurry.clone()), Leisure { hurry, took: Duration::ZERO })
}

impl Leisure {
    /// One who has none.
    pub fn none() -> Leisure {
        leisure().1
    }

    /// Writes a piece, after a rest from the last one if there is time.
    pub fn piece<T>(&mut self, write: impl FnOnce() -> T) -> T {
        if let Some(rest) = self.rest() {
            std::thread::sleep(rest);
        }
        let begun = Instant::now();
        let written = write();
        self.took = begun.elapsed();
        written
    }

    /// Lets others have the processor if they wait for it and there is time.
    pub fn give_way(&self) {
        if !self.hurries() {
            std::thread::yield_now();
        }
    }

    /// Whether there is no time to rest.
    pub fn hurries(&self) -> bool {
        self.hurry.load(Relaxed)
    }

    fn rest(&self) -> Option<Duration> {
        let rest = self.took.saturating_mul(REST_TIMES).min(Duration::from_millis(REST_MAX_MS));
        (!rest.is_zero() && !self.hurries()).then_some(rest)
    }
}

impl Hurry {
    /// It is needed soon.
    pub fn up(&self) {
        self.0.store(true, Relaxed);
    }

    #[cfg(test)]
    pub fn is_up(&self) -> bool {
        self.0.load(Relaxed)
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
        let (hurry, mut leisure) = leisure();
        assert_eq!(leisure.rest(), None, "before the first piece");
        let piece = Duration::from_millis(2);
        assert_eq!(leisure.piece(|| std::thread::sleep(piece)), ());
        assert!(leisure.took >= piece);
        leisure.took = piece;
        assert_eq!(leisure.rest(), Some(piece * REST_TIMES));
        leisure.took = Duration::MAX;
        assert_eq!(leisure.rest(), Some(Duration::from_millis(REST_MAX_MS)));
        assert!(!leisure.hurries());
        hurry.up();
        assert!(leisure.hurries());
        assert_eq!(leisure.rest(), None);
        let left_alone = Leisure { took: piece, ..Leisure::none() };
        assert_eq!(left_alone.rest(), None, "nobody is left who could wait");
    }
}
