//! Reads the records of one segment from its bytes, and tells a torn tail from damage. Touches no file and
//! changes nothing.
//!
//! *Torn* is the narrowest thing that a crash in the middle of one write can leave behind: after the last whole
//! record, the only sectors that are not zeros belong, by their stamps, to the one next record; at least one of that
//! record's sectors still reads as zeros; and beyond it there are only zeros. Everything else is damage.

use crate::error::DamageKind;
use crate::limits::SECTOR_BYTES;
use crate::record::{self, Place};
use crate::segment::SegmentHeader;

/// Goes through the records of a segment in order.
pub(crate) struct Walker<'a> {
    image: &'a [u8],
    seed: u32,
    /// Where the next record begins.
    pub end: usize,
    /// The index it has.
    pub next_index: u64,
    /// The checksum it is chained to.
    pub chain: u32,
}

/// What stands at the walker's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// A whole record, which begins here; its batch is in the buffer.
    Record { offset: usize, bytes: usize, index: u64 },
    /// Nothing but zeros up to the end of the segment.
    End,
    /// Part of one record, then nothing but zeros.
    Torn { offset: usize, bytes: usize },
}

/// Damage at an offset of the segment.
pub(crate) type Damaged = (usize, DamageKind);

impl<'a> Walker<'a> {
    /// Starts at the segment's first record. The image is the whole file.
    pub fn new(image: &'a [u8], header: &SegmentHeader) -> Self {
        assert!(image.len() >= SECTOR_BYTES && image.len().is_multiple_of(SECTOR_BYTES), "whole sectors");
        Self {
            image,
            seed: header.seed(),
            end: SECTOR_BYTES,
            next_index: header.first_index,
            chain: header.chain,
        }
    }

    /// Reads what comes next. After [`Step::End`] and [`Step::Torn`] the walker stays where it is.
    pub fn step(&mut self, payload: &mut Vec<u8>) -> Result<Step, Damaged> {
        let (at, index) = (self.end, self.next_index);
        let rest = &self.image[at..];
        let Some(first) = rest.get(..SECTOR_BYTES) else {
            return Ok(Step::End);
        };
        if record::untouched(first) {
            return self.headless();
        }
        if !record::belongs(self.seed, index, 0, first) {
            return Err((at, DamageKind::Sector { index }));
        }
        let header = record::header(first).filter(|header| header.index == index);
        let Some(header) = header.filter(|header| record::record_bytes(header.length) <= rest.len()) else {
            return Err((at, DamageKind::RecordHeader { index }));
        };
        let (whole, beyond) = rest.split_at(record::record_bytes(header.length));
        let mut missing = false;
        for (number, sector) in whole.chunks_exact(SECTOR_BYTES).enumerate() {
            if record::untouched(sector) {
                missing = true;
            } else if !record::belongs(self.seed, index, number, sector) {
                return Err((at + number * SECTOR_BYTES, DamageKind::Sector { index }));
            }
        }
        if missing {
            return match first_touched(beyond) {
                None => Ok(Step::Torn { offset: at, bytes: whole.len() }),
                Some(found) => {
                    Err((at, DamageKind::Hole { index, found: (at + whole.len() + found) as u64 }))
                }
            };
        }
        record::payload(whole, header.length, payload);
        let checksum = record::checksum(Place { seed: self.seed, index, chain: self.chain }, payload);
        if checksum != header.checksum {
            return Err((at, DamageKind::RecordChecksum { index }));
        }
        self.end += whole.len();
        self.next_index += 1;
        self.chain = checksum;
        Ok(Step::Record { offset: at, bytes: whole.len(), index })
    }

    /// The record's first sector was never written: either there is no record, or all that follows is its rest.
    fn headless(&self) -> Result<Step, Damaged> {
        let (at, index) = (self.end, self.next_index);
        let mut bytes = 0;
        for (number, sector) in self.image[at..].chunks_exact(SECTOR_BYTES).enumerate() {
            if record::untouched(sector) {
                continue;
            }
            if !record::belongs(self.seed, index, number, sector) {
                return Err((at, DamageKind::Hole { index, found: (at + number * SECTOR_BYTES) as u64 }));
            }
            bytes = (number + 1) * SECTOR_BYTES;
        }
        Ok(if bytes == 0 { Step::End } else { Step::Torn { offset: at, bytes } })
    }
}

fn first_touched(bytes: &[u8]) -> Option<usize> {
    bytes.chunks_exact(SECTOR_BYTES).position(|sector| !record::untouched(sector)).map(|n| n * SECTOR_BYTES)
}
