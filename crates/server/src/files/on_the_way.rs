//! Bytes of files that connections were given and have not sent yet. Nothing can be taken back from a connection, and one of
//! HTTP/2 takes a slice for each of its streams whether or not their windows are open: so all of it is counted until it
//! is sent, and the more slices are on their way, the smaller the next one is. That way those who stand still cannot use
//! up the room of those who read. Knows nothing of files.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use bytes::Bytes;
use leasehold_state_machine::answer::Refusal;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::{ON_THE_WAY_PARTS, READ_RETRY_MS, READ_SLICE_BYTES, READ_SLICE_BYTES_MIN};

/// All slices that were handed out and are not sent.
#[derive(Debug)]
pub struct OnTheWay {
    bytes_max: usize,
    /// In bytes.
    room: Arc<Semaphore>,
    slices: Arc<AtomicUsize>,
}

/// The room of one slice, until it is sent or given up.
#[derive(Debug)]
pub struct Share {
    bytes: usize,
    slices: Arc<AtomicUsize>,
    _room: OwnedSemaphorePermit,
}

impl OnTheWay {
    /// Room for so many bytes.
    pub fn new(bytes_max: usize) -> OnTheWay {
        OnTheWay { bytes_max, room: Arc::new(Semaphore::new(bytes_max)), slices: Arc::default() }
    }

    /// Whether there is room for another reader's slice, however small.
    pub fn check(&self) -> Result<(), Refusal> {
        if self.room.available_permits() < READ_SLICE_BYTES_MIN { Err(FULL) } else { Ok(()) }
    }

    /// Room for the next slice of somebody who wants so many bytes.
    pub fn share(&self, wanted: usize) -> Result<Share, Refusal> {
        let fair = self.bytes_max / ON_THE_WAY_PARTS / (self.slices.load(Relaxed) + 1);
        let bytes = wanted.min(fair.clamp(READ_SLICE_BYTES_MIN, READ_SLICE_BYTES));
        // A slice fits into the number.
        let permits = u32::try_from(bytes).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room).try_acquire_many_owned(permits).map_err(|_| FULL)?;
        self.slices.fetch_add(1, Relaxed);
        Ok(Share { bytes, slices: Arc::clone(&self.slices), _room: room })
    }
}

impl Share {
    /// How many bytes the slice may have.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// What is sent of it, which takes its room for as long as anybody has it.
    pub fn hold(self, sent: impl AsRef<[u8]> + Send + 'static) -> Bytes {
        Bytes::from_owner(Held { sent, _share: self })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.slices.fetch_sub(1, Relaxed);
    }
}

struct Held<T> {
    sent: T,
    _share: Share,
}

impl<T: AsRef<[u8]>> AsRef<[u8]> for Held<T> {
    fn as_ref(&self) -> &[u8] {
        self.sent.as_ref()
    }
}

const FULL: Refusal =
    Refusal::Busy { what: "bytes of files on their way to their readers", retry_ms: READ_RETRY_MS };

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::ON_THE_WAY_BYTES_MAX;

    #[test]
    fn who_stands_still_gets_less_and_less() {
        let on_the_way = OnTheWay::new(ON_THE_WAY_BYTES_MAX);
        let mut stuck = Vec::new();
        let mut take = |count: usize| {
            stuck.extend((0..count).map(|_| on_the_way.share(usize::MAX).unwrap()));
            stuck.last().unwrap().bytes()
        };
        assert_eq!(take(500), READ_SLICE_BYTES, "a few hundred do not notice");
        assert!((2048..4096).contains(&take(9_500)));
        // All streams of hundreds of connections.
        assert_eq!(take(400_000), READ_SLICE_BYTES_MIN);
        on_the_way.check().unwrap();
        drop(stuck);
        assert_eq!(on_the_way.share(usize::MAX).unwrap().bytes(), READ_SLICE_BYTES);
        assert_eq!(on_the_way.room.available_permits(), ON_THE_WAY_BYTES_MAX);
    }

    #[test]
    fn it_is_full_at_last_and_what_is_sent_makes_room() {
        let on_the_way = OnTheWay::new(3 * READ_SLICE_BYTES_MIN);
        let sent = on_the_way.share(10).unwrap();
        assert_eq!(sent.bytes(), 10);
        let sent = sent.hold(*b"0123456789");
        let others: Vec<_> = (0..2).map(|_| on_the_way.share(READ_SLICE_BYTES).unwrap()).collect();
        assert!(matches!(on_the_way.check(), Err(Refusal::Busy { .. })));
        assert!(matches!(on_the_way.share(READ_SLICE_BYTES_MIN), Err(Refusal::Busy { .. })));
        // A part of it is all of it, as far as memory goes.
        let part = sent.slice(3..5);
        drop(sent);
        assert!(on_the_way.check().is_err());
        assert_eq!(part, &b"34"[..]);
        drop(part);
        on_the_way.check().unwrap();
        drop(others);
        assert_eq!(on_the_way.room.available_permits(), 3 * READ_SLICE_BYTES_MIN);
    }
}
