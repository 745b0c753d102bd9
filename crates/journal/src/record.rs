//! The bytes of one record: a batch cut into sectors, each beginning with a stamp that ties it to its place.
//! Knows nothing of files, and never looks into a batch.
//!
//! A sector that was written is never all zeros, because its stamp is not zero; and a stamp only matches the
//! segment, the record index and the position for which it was made. So a reader can tell *never written* from
//! *written and changed* for every sector by itself.

use crate::limits::SECTOR_BYTES;

/// Bytes of the stamp at the beginning of each sector.
pub(crate) const STAMP_BYTES: usize = 4;
/// Bytes of stamp and record header in a record's first sector.
pub(crate) const HEADER_BYTES: usize = 24;
const MAGIC: [u8; 4] = *b"LHR1";
const FIRST_BYTES: usize = SECTOR_BYTES - HEADER_BYTES;
const OTHER_BYTES: usize = SECTOR_BYTES - STAMP_BYTES;

/// Where a record stands: what its checksum and stamps are seeded with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// The segment's seed.
    pub seed: u32,
    /// The record's index.
    pub index: u64,
    /// The checksum of the record before it.
    pub chain: u32,
}

/// A record's header, as read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header {
    pub length: usize,
    pub checksum: u32,
    pub index: u64,
}

/// Bytes a record takes for a batch of this length: whole sectors.
pub(crate) fn record_bytes(length: usize) -> usize {
    let rest = length.saturating_sub(FIRST_BYTES);
    (1 + rest.div_ceil(OTHER_BYTES)) * SECTOR_BYTES
}

/// Assembles the record in `out`, which is as long and all zeros, and returns its checksum, to which the next record is
/// chained.
pub(crate) fn encode(out: &mut [u8], place: Place, payload: &[u8]) -> u32 {
    assert!(out.len() == record_bytes(payload.len()), "a record is as long as was reckoned");
    let length = u32::try_from(payload.len());
    assert!(length.is_ok(), "a batch is far below 4 GiB");
    let length = length.unwrap_or(0);
    let checksum = checksum(place, payload);

    let (first, rest) = payload.split_at(payload.len().min(FIRST_BYTES));
    out[4..8].copy_from_slice(&MAGIC);
    out[8..12].copy_from_slice(&length.to_le_bytes());
    out[12..16].copy_from_slice(&checksum.to_le_bytes());
    out[16..24].copy_from_slice(&place.index.to_le_bytes());
    out[HEADER_BYTES..HEADER_BYTES + first.len()].copy_from_slice(first);
    for (sector, bytes) in out[SECTOR_BYTES..].chunks_exact_mut(SECTOR_BYTES).zip(rest.chunks(OTHER_BYTES)) {
        sector[STAMP_BYTES..STAMP_BYTES + bytes.len()].copy_from_slice(bytes);
    }
    for (number, sector) in out.chunks_exact_mut(SECTOR_BYTES).enumerate() {
        let stamp = stamp(place.seed, place.index, number, sector);
        sector[..STAMP_BYTES].copy_from_slice(&stamp.to_le_bytes());
    }
    checksum
}

/// The stamp of a record's sector: a checksum of its place and of its other bytes, and never zero.
fn stamp(seed: u32, index: u64, number: usize, sector: &[u8]) -> u32 {
    let mut place = [0; 20];
    place[..4].copy_from_slice(&seed.to_le_bytes());
    place[4..12].copy_from_slice(&index.to_le_bytes());
    place[12..].copy_from_slice(&(number as u64).to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c(&place), &sector[STAMP_BYTES..]).max(1)
}

/// Whether the sector is unchanged since it was written as that part of that record.
pub(crate) fn belongs(seed: u32, index: u64, number: usize, sector: &[u8]) -> bool {
    sector[..STAMP_BYTES] == stamp(seed, index, number, sector).to_le_bytes()
}

/// Whether the sector still reads as the zeros a segment is filled with.
pub(crate) fn untouched(sector: &[u8]) -> bool {
    sector.iter().all(|byte| *byte == 0)
}

/// Reads the header from a record's first sector.
pub(crate) fn header(sector: &[u8]) -> Option<Header> {
    if sector[4..8] != MAGIC {
        return None;
    }
    Some(Header {
        length: usize::try_from(le_u32(sector, 8)).ok()?,
        checksum: le_u32(sector, 12),
        index: le_u64(sector, 16),
    })
}

/// Puts a record's batch together again in `out`.
pub(crate) fn payload(record: &[u8], length: usize, out: &mut Vec<u8>) {
    assert!(record.len() == record_bytes(length), "a record is as long as its header says");
    out.clear();
    for (number, sector) in record.chunks_exact(SECTOR_BYTES).enumerate() {
        let bytes = &sector[if number == 0 { HEADER_BYTES } else { STAMP_BYTES }..];
        out.extend_from_slice(&bytes[..bytes.len().min(length - out.len())]);
    }
    assert!(out.len() == length, "the sectors hold the whole batch");
}

/// The record's checksum: of its segment, the record before it, its index, its length and its batch.
pub(crate) fn checksum(place: Place, payload: &[u8]) -> u32 {
    let mut prefix = [0; 24];
    prefix[..4].copy_from_slice(&place.seed.to_le_bytes());
    prefix[4..8].copy_from_slice(&place.chain.to_le_bytes());
    prefix[8..16].copy_from_slice(&place.index.to_le_bytes());
    prefix[16..].copy_from_slice(&(payload.len() as u64).to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c(&prefix), payload)
}

/// Four bytes at an offset, least significant first.
pub(crate) fn le_u32(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

/// Eight bytes at an offset, least significant first.
pub(crate) fn le_u64(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_comes_back_and_no_written_sector_is_all_zeros() {
        for length in [0, 1, 487, 488, 489, 995, 996, 997, 1504, 5000] {
            for fill in [0, 7] {
                let batch = vec![fill; length];
                let place = Place { seed: 3, index: 9, chain: 5 };
                let (mut bytes, mut back) = (vec![0; record_bytes(length)], Vec::new());
                let sum = encode(&mut bytes, place, &batch);
                let head = header(&bytes).unwrap();
                assert_eq!((head.length, head.checksum, head.index), (length, sum, 9));
                for (number, sector) in bytes.chunks(SECTOR_BYTES).enumerate() {
                    assert!(!untouched(sector));
                    assert!(belongs(3, 9, number, sector));
                    assert!(!belongs(3, 9, number + 1, sector), "a sector in another position");
                    assert!(!belongs(3, 10, number, sector), "a sector of another record");
                    assert!(!belongs(4, 9, number, sector), "a sector of another segment");
                }
                payload(&bytes, length, &mut back);
                assert_eq!(back, batch);
                assert_eq!(checksum(place, &back), sum);
            }
        }
    }

    #[test]
    fn a_batch_fills_its_last_sector_before_it_takes_another() {
        assert_eq!(record_bytes(0), 512);
        assert_eq!(record_bytes(488), 512);
        assert_eq!(record_bytes(489), 1024);
        assert_eq!(record_bytes(488 + 508), 1024);
        assert_eq!(record_bytes(488 + 509), 1536);
    }
}
