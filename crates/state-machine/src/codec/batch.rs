//! What the journal keeps as one record: the boot it was written in, and the turns of the engine that it makes durable,
//! each with its own reading of the clocks.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::event::{decode_event, encode_event};
use super::primitive::*;
use crate::event::{Event, Seq};

/// Which boot of which machine a batch was written in.
pub type BootId = [u8; 16];

/// What the clocks said in a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The boot clock.
    pub raw_us: u64,
    /// The wall clock in Unix milliseconds.
    pub wall_ms: u64,
    /// Whether the wall reading was fit to enter tokens.
    pub wall_trusted: bool,
}

/// The layout of a batch. Raised when it changes; older ones stay readable.
const VERSION: u8 = 1;

/// Room that is kept from one batch to the next.
const ROOM_BYTES: usize = 256 << 10;

/// Gathers turns until the journal is ready for them.
#[derive(Debug)]
pub struct BatchWriter {
    boot_id: BootId,
    bytes: Vec<u8>,
}

impl BatchWriter {
    /// An empty batch of this boot.
    pub fn new(boot_id: BootId) -> Self {
        BatchWriter { boot_id, bytes: Vec::new() }
    }

    /// Adds what one turn decided. The events' numbers follow each other from `first`.
    pub fn turn(&mut self, stamp: &Stamp, first: Seq, events: &[(Seq, Event)]) {
        if self.bytes.is_empty() {
            self.bytes.push(VERSION);
            self.bytes.extend_from_slice(&self.boot_id);
        }
        put_number(&mut self.bytes, stamp.raw_us);
        put_number(&mut self.bytes, stamp.wall_ms);
        put_flag(&mut self.bytes, stamp.wall_trusted);
        put_number(&mut self.bytes, first);
        put_number(&mut self.bytes, events.len() as u64);
        for (index, (seq, event)) in events.iter().enumerate() {
            assert_eq!(*seq, first + index as u64, "events are numbered without gaps");
            encode_event(event, &mut self.bytes);
        }
    }

    /// Whether nothing has been added yet.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The finished payload; a new, empty batch begins.
    pub fn take(&mut self) -> Arc<[u8]> {
        let payload = Arc::from(self.bytes.as_slice());
        self.bytes.clear();
        // The next one will be about as long; after one that was much longer than usual the room is given back.
        self.bytes.shrink_to(ROOM_BYTES);
        payload
    }
}

/// Visits every event of a batch in order.
pub fn read_batch(
    payload: &[u8],
    visit: &mut dyn FnMut(&BootId, &Stamp, Seq, Event),
) -> Result<(), CodecError> {
    let mut from = Reader::new(payload);
    let version = from.byte()?;
    if version != VERSION {
        return Err(CodecError::NewerVersion(version));
    }
    let mut boot_id = [0; 16];
    boot_id.copy_from_slice(from.bytes(16)?);
    while !from.is_empty() {
        let stamp = Stamp { raw_us: from.number()?, wall_ms: from.number()?, wall_trusted: from.flag()? };
        let first = from.number()?;
        for index in 0..from.count()? as u64 {
            let seq = first.checked_add(index).ok_or(CodecError::OutOfBounds("a sequence number"))?;
            visit(&boot_id, &stamp, seq, decode_event(&mut from)?);
        }
    }
    from.finish()
}
