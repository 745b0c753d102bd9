//! Reads the records of one segment from its bytes, and tells a torn tail from damage. Changes nothing.
//!
//! *Torn* is the narrowest thing that a crash in the middle of one write can leave behind: after the last whole
//! record, the only sectors that are not zeros belong, by their stamps, to the one next record; at least one of that
//! record's sectors still reads as zeros; and beyond it there are only zeros. Everything else is damage.

use std::io;

use crate::error::DamageKind;
use crate::image::Image;
use crate::limits::SECTOR_BYTES;
use crate::record::{self, Place};
use crate::segment::SegmentHeader;

/// Goes through the records of a segment in order.
pub(crate) struct Walker<I> {
    image: I,
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

/// Why there is no next step.
#[derive(Debug)]
pub(crate) enum Stopped {
    /// Damage at an offset of the segment.
    Damaged(usize, DamageKind),
    /// The bytes could not be read.
    Unread(io::Error),
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Stopped {
        Stopped::Unread(error)
    }
}

impl<I: Image> Walker<I> {
    /// Starts at the segment's first record. The image is that of the whole file.
    pub fn new(image: I, header: &SegmentHeader) -> Self {
        let length = image.length();
        assert!(length >= SECTOR_BYTES && length.is_multiple_of(SECTOR_BYTES), "whole sectors");
        Self {
            image,
            seed: header.seed(),
            end: SECTOR_BYTES,
            next_index: header.first_index,
            chain: header.chain,
        }
    }

    /// Reads what comes next. After [`Step::End`] and [`Step::Torn`] the walker stays where it is.
    pub fn step(&mut self, payload: &mut Vec<u8>) -> Result<Step, Stopped> {
        let (at, index) = (self.end, self.next_index);
        let left = self.image.length() - at;
        if left == 0 {
            return Ok(Step::End);
        }
        let first = self.image.look(at, SECTOR_BYTES)?;
        if record::untouched(first) {
            return self.headless();
        }
        if !record::belongs(self.seed, index, 0, first) {
            return Err(Stopped::Damaged(at, DamageKind::Sector { index }));
        }
        let header = record::header(first).filter(|header| header.index == index);
        let Some(header) = header.filter(|header| record::record_bytes(header.length) <= left) else {
            return Err(Stopped::Damaged(at, DamageKind::RecordHeader { index }));
        };
        let bytes = record::record_bytes(header.length);
        let whole = self.image.look(at, bytes)?;
        let mut missing = false;
        for (number, sector) in whole.chunks_exact(SECTOR_BYTES).enumerate() {
            if record::untouched(sector) {
                missing = true;
            } else if !record::belongs(self.seed, index, number, sector) {
                return Err(Stopped::Damaged(at + number * SECTOR_BYTES, DamageKind::Sector { index }));
            }
        }
        if missing {
            return match self.first_touched(at + bytes)? {
                None => Ok(Step::Torn { offset: at, bytes }),
                Some(found) => Err(Stopped::Damaged(at, DamageKind::Hole { index, found: found as u64 })),
            };
        }
        record::payload(whole, header.length, payload);
        let checksum = record::checksum(Place { seed: self.seed, index, chain: self.chain }, payload);
        if checksum != header.checksum {
            return Err(Stopped::Damaged(at, DamageKind::RecordChecksum { index }));
        }
        self.end += bytes;
        self.next_index += 1;
        self.chain = checksum;
        Ok(Step::Record { offset: at, bytes, index })
    }

    /// The record's first sector was never written: either there is no record, or all that follows is its rest.
    fn headless(&mut self) -> Result<Step, Stopped> {
        let (at, index, seed) = (self.end, self.next_index, self.seed);
        let mut bytes = 0;
        while let Some(touched) = self.first_touched(at + bytes)? {
            let number = (touched - at) / SECTOR_BYTES;
            if !record::belongs(seed, index, number, self.image.look(touched, SECTOR_BYTES)?) {
                return Err(Stopped::Damaged(at, DamageKind::Hole { index, found: touched as u64 }));
            }
            bytes = touched - at + SECTOR_BYTES;
        }
        Ok(if bytes == 0 { Step::End } else { Step::Torn { offset: at, bytes } })
    }

    /// Where the first sector from here on is that was written.
    fn first_touched(&mut self, mut at: usize) -> io::Result<Option<usize>> {
        while at < self.image.length() {
            if !record::untouched(self.image.look(at, SECTOR_BYTES)?) {
                return Ok(Some(at));
            }
            at += SECTOR_BYTES;
        }
        Ok(None)
    }
}
