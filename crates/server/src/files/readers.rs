//! Everybody who reads a file now, and the bytes that lie in memory for them. When there is no room for one more, whoever
//! has not taken anything for longest makes room, so that readers who stand still keep nobody from reading. Knows nothing
//! of files.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use leasehold_state_machine::answer::Refusal;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use super::on_the_way::OnTheWay;
use crate::limits::{
    DISK_READS_AT_ONCE, ON_THE_WAY_BYTES_MAX, READ_BYTES_MAX, READ_RETRY_MS, READ_SLICE_BYTES,
    UNTOUCHED_READER,
};

/// All readers of a server.
#[derive(Debug)]
pub struct Readers {
    /// In slices.
    room: Arc<Semaphore>,
    line: Mutex<Line>,
    /// What has left here and is not sent.
    on_the_way: OnTheWay,
    /// Turns at the disk.
    disk: Semaphore,
    untouched: Duration,
    read_bytes_total: AtomicU64,
}

/// Those for whom something lies ready, by when they last took something.
#[derive(Debug, Default)]
struct Line {
    ready: BTreeMap<u64, Ready>,
    stamps: u64,
}

#[derive(Debug)]
struct Ready {
    piece: Piece,
    since: Instant,
}

/// Bytes of a file in memory, and the room that they take.
#[derive(Debug)]
pub struct Piece {
    /// The bytes; those before `given` have been handed out.
    pub bytes: Vec<u8>,
    /// How many have been handed out.
    pub given: usize,
    _room: OwnedSemaphorePermit,
}

impl Piece {
    /// What has not been handed out.
    pub fn rest(&self) -> &[u8] {
        &self.bytes[self.given..]
    }
}

/// Where a piece lies ready. Good for one look.
#[derive(Debug)]
pub struct Stamp(u64);

impl Default for Readers {
    fn default() -> Self {
        Readers::new(READ_BYTES_MAX, ON_THE_WAY_BYTES_MAX, UNTOUCHED_READER)
    }
}

impl Readers {
    /// Room for so many bytes here, and for so many that have left and are not sent. Who has taken something within
    /// `untouched` is left alone.
    pub fn new(bytes_max: usize, on_the_way_bytes_max: usize, untouched: Duration) -> Readers {
        Readers {
            room: Arc::new(Semaphore::new(bytes_max / READ_SLICE_BYTES)),
            line: Mutex::default(),
            on_the_way: OnTheWay::new(on_the_way_bytes_max),
            disk: Semaphore::new(DISK_READS_AT_ONCE),
            untouched,
            read_bytes_total: AtomicU64::new(0),
        }
    }

    /// Room for one more reader, whose pieces have at most so many bytes.
    pub fn enter(&self, piece_bytes: usize) -> Result<Piece, Refusal> {
        let slices = u32::try_from(piece_bytes.div_ceil(READ_SLICE_BYTES)).unwrap_or(u32::MAX);
        self.on_the_way.check()?;
        loop {
            if let Ok(room) = Arc::clone(&self.room).try_acquire_many_owned(slices) {
                return Ok(Piece { bytes: Vec::new(), given: 0, _room: room });
            }
            if !self.turn_out_the_slowest() {
                let what = "bytes of files that lie ready to be read";
                return Err(Refusal::Busy { what, retry_ms: READ_RETRY_MS });
            }
        }
    }

    /// What has left here and is not sent.
    pub fn on_the_way(&self) -> &OnTheWay {
        &self.on_the_way
    }

    /// Lays a piece ready until its reader takes the next slice of it.
    pub fn put(&self, piece: Piece) -> Stamp {
        let mut line = self.line();
        line.stamps += 1;
        let stamp = line.stamps;
        line.ready.insert(stamp, Ready { piece, since: Instant::now() });
        Stamp(stamp)
    }

    /// What lies ready there; none if it had to make room.
    pub fn take(&self, stamp: Stamp) -> Option<Piece> {
        self.line().ready.remove(&stamp.0).map(|ready| ready.piece)
    }

    /// A turn at the disk. A disk gives no more by being asked more at once.
    pub async fn turn_at_the_disk(&self) -> Option<SemaphorePermit<'_>> {
        self.disk.acquire().await.ok()
    }

    /// Bytes are on their way to a reader.
    pub fn count(&self, bytes: usize) {
        self.read_bytes_total.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes that readers were given.
    pub fn read_bytes_total(&self) -> u64 {
        self.read_bytes_total.load(Ordering::Relaxed)
    }

    /// Readers for whom something lies ready.
    pub fn waiting(&self) -> u64 {
        self.line().ready.len() as u64
    }

    fn turn_out_the_slowest(&self) -> bool {
        let mut line = self.line();
        let slowest = line.ready.first_entry();
        let stale = slowest.filter(|entry| entry.get().since.elapsed() >= self.untouched);
        stale.map(|entry| entry.remove()).is_some()
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: usize = 2 * READ_SLICE_BYTES;

    #[test]
    fn there_is_room_for_so_many_bytes() {
        let readers = Readers::new(4 * READ_SLICE_BYTES, ON_THE_WAY_BYTES_MAX, Duration::from_secs(600));
        let first = readers.enter(TWO).unwrap();
        let _second = readers.enter(TWO - 1).unwrap();
        assert!(matches!(readers.enter(1), Err(Refusal::Busy { retry_ms: READ_RETRY_MS, .. })));
        assert!(readers.enter(0).is_ok(), "who reads nothing needs no room");
        let stamp = readers.put(first);
        assert!(readers.enter(1).is_err(), "who took something just now is left alone");
        drop(readers.take(stamp));
        assert!(readers.enter(1).is_ok());
    }

    #[test]
    fn the_slowest_makes_room() {
        let readers = Readers::new(2 * TWO, ON_THE_WAY_BYTES_MAX, Duration::ZERO);
        let slowest = readers.put(readers.enter(TWO).unwrap());
        let slow = readers.put(readers.enter(TWO).unwrap());
        let slow = readers.put(readers.take(slow).unwrap());
        let fast = readers.enter(TWO).unwrap();
        assert!(readers.take(slowest).is_none());
        let slow = readers.take(slow).unwrap();
        assert!(readers.enter(1).is_err(), "nobody stands in line");
        drop((fast, slow));
        assert_eq!(readers.waiting(), 0);
    }
}
