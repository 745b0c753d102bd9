//! Snapshot files: a header, chunks with a checksum each, and a footer. Written aside, read as a stream of verified
//! bytes. Never looks into what it carries, and never falls back to an older snapshot.

use std::io::{self, Read, Write};

use crate::disk::DiskFile;
use crate::error::DamageKind;
use crate::leisure::Leisure;
use crate::limits::SNAPSHOT_CHUNK_BYTES;
use crate::record::{le_u32, le_u64};
use crate::segment::{FORMAT_VERSION, HeaderError, SegmentHeader, check_header};

const MAGIC: [u8; 8] = *b"LHSNAPSH";
const HEADER_BYTES: usize = 64;
const CHUNK_HEADER_BYTES: usize = 8;
const FOOTER_BYTES: usize = 32;

/// What a snapshot says of itself: the place in the journal at which it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SnapshotHeader {
    pub journal_id: [u8; 16],
    /// The last record it holds.
    pub index: u64,
    /// The number of the segment that begins with the next record.
    pub next_segment: u64,
    /// The checksum of the last record it holds.
    pub chain: u32,
}

impl SnapshotHeader {
    /// Of everything before a segment.
    pub fn before(next: &SegmentHeader) -> SnapshotHeader {
        assert!(next.first_index > 0, "records are counted from 1");
        SnapshotHeader {
            journal_id: next.journal_id,
            index: next.first_index - 1,
            next_segment: next.number,
            chain: next.chain,
        }
    }

    fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[..8].copy_from_slice(&MAGIC);
        out[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        out[16..32].copy_from_slice(&self.journal_id);
        out[32..40].copy_from_slice(&self.index.to_le_bytes());
        out[40..48].copy_from_slice(&self.next_segment.to_le_bytes());
        out[48..52].copy_from_slice(&self.chain.to_le_bytes());
        let checksum = crc32c::crc32c(&out[..60]);
        out[60..].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, HeaderError> {
        check_header(bytes, &MAGIC)?;
        let mut journal_id = [0; 16];
        journal_id.copy_from_slice(&bytes[16..32]);
        Ok(Self {
            journal_id,
            index: le_u64(bytes, 32),
            next_segment: le_u64(bytes, 40),
            chain: le_u32(bytes, 48),
        })
    }
}

/// The name of the snapshot that holds everything through this record.
pub(crate) fn snapshot_name(index: u64) -> String {
    format!("snapshot-{index:020}")
}

/// A chunk's checksum: of the snapshot, the chunk's number, its length and its bytes.
fn chunk_checksum(seed: u32, number: u64, bytes: &[u8]) -> u32 {
    let mut prefix = [0; 16];
    prefix[..4].copy_from_slice(&seed.to_le_bytes());
    prefix[4..12].copy_from_slice(&number.to_le_bytes());
    prefix[12..].copy_from_slice(&chunk_length(bytes).to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c(&prefix), bytes)
}

fn chunk_length(bytes: &[u8]) -> u32 {
    assert!(bytes.len() <= SNAPSHOT_CHUNK_BYTES, "chunks are cut to size");
    u32::try_from(bytes.len()).unwrap_or(0)
}

/// The end of the file: a chunk length of zero, then what the chunks add up to.
fn footer(seed: u32, chunks: u64, bytes: u64, checksum: u32) -> [u8; FOOTER_BYTES] {
    let mut out = [0; FOOTER_BYTES];
    out[4..8].copy_from_slice(&seed.to_le_bytes());
    out[8..16].copy_from_slice(&chunks.to_le_bytes());
    out[16..24].copy_from_slice(&bytes.to_le_bytes());
    out[24..28].copy_from_slice(&checksum.to_le_bytes());
    let sum = crc32c::crc32c(&out[..28]);
    out[28..].copy_from_slice(&sum.to_le_bytes());
    out
}

/// Writes a snapshot, chunk by chunk, from whatever is written to it.
pub(crate) struct SnapshotWriter<'a, F> {
    file: &'a mut F,
    at: u64,
    /// Room for a chunk's header, then its bytes.
    chunk: Vec<u8>,
    seed: u32,
    chunks: u64,
    bytes: u64,
    checksum: u32,
    leisure: Leisure,
}

impl<'a, F: DiskFile> SnapshotWriter<'a, F> {
    pub fn new(file: &'a mut F, header: &SnapshotHeader, leisure: Leisure) -> io::Result<Self> {
        let bytes = header.encode();
        file.write_at(0, &bytes)?;
        let mut chunk = Vec::with_capacity(CHUNK_HEADER_BYTES + SNAPSHOT_CHUNK_BYTES);
        chunk.resize(CHUNK_HEADER_BYTES, 0);
        let seed = le_u32(&bytes, 60);
        Ok(Self { file, at: HEADER_BYTES as u64, chunk, seed, chunks: 0, bytes: 0, checksum: 0, leisure })
    }

    fn write_chunk(&mut self) -> io::Result<()> {
        let bytes = &self.chunk[CHUNK_HEADER_BYTES..];
        if bytes.is_empty() {
            return Ok(());
        }
        let (length, sum) = (chunk_length(bytes), chunk_checksum(self.seed, self.chunks, bytes));
        self.checksum = crc32c::crc32c_append(self.checksum, bytes);
        self.bytes += bytes.len() as u64;
        self.chunks += 1;
        self.chunk[..4].copy_from_slice(&length.to_le_bytes());
        self.chunk[4..8].copy_from_slice(&sum.to_le_bytes());
        // Synced as it goes, so that no batch waits behind a whole snapshot of dirty pages.
        self.leisure.piece(|| {
            self.file.write_at(self.at, &self.chunk)?;
            self.file.sync()
        })?;
        self.at += self.chunk.len() as u64;
        self.chunk.truncate(CHUNK_HEADER_BYTES);
        Ok(())
    }

    /// Writes the footer, syncs the file and returns its length.
    pub fn finish(mut self) -> io::Result<u64> {
        self.write_chunk()?;
        let footer = footer(self.seed, self.chunks, self.bytes, self.checksum);
        self.file.write_at(self.at, &footer)?;
        self.file.sync()?;
        Ok(self.at + FOOTER_BYTES as u64)
    }
}

impl<F: DiskFile> Write for SnapshotWriter<'_, F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = CHUNK_HEADER_BYTES + SNAPSHOT_CHUNK_BYTES - self.chunk.len();
        let taken = bytes.len().min(room);
        self.chunk.extend_from_slice(&bytes[..taken]);
        if taken == room {
            self.write_chunk()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Why a snapshot could not be read.
pub(crate) enum SnapshotError {
    Io(io::Error),
    Damaged(u64, DamageKind),
    Newer(u32),
}

impl From<io::Error> for SnapshotError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Gives out a snapshot's content. Every byte is verified before it is given out.
pub(crate) struct SnapshotReader<F> {
    file: F,
    length: u64,
    at: u64,
    seed: u32,
    chunk: Vec<u8>,
    given: usize,
    chunks: u64,
    bytes: u64,
    checksum: u32,
    ended: bool,
    failure: Option<SnapshotError>,
}

impl<F: DiskFile> SnapshotReader<F> {
    /// Reads and verifies the header.
    pub fn open(file: F) -> Result<(SnapshotHeader, Self), SnapshotError> {
        let length = file.len()?;
        let mut bytes = [0; HEADER_BYTES];
        if length < HEADER_BYTES as u64 {
            return Err(SnapshotError::Damaged(length, DamageKind::SnapshotEnd));
        }
        file.read_at(0, &mut bytes)?;
        let header = SnapshotHeader::decode(&bytes).map_err(|error| match error {
            HeaderError::Damaged(kind) => SnapshotError::Damaged(0, kind),
            HeaderError::Newer(version) => SnapshotError::Newer(version),
        })?;
        let reader = Self {
            file,
            length,
            at: HEADER_BYTES as u64,
            seed: le_u32(&bytes, 60),
            chunk: Vec::new(),
            given: 0,
            chunks: 0,
            bytes: 0,
            checksum: 0,
            ended: false,
            failure: None,
        };
        Ok((header, reader))
    }

    /// Verifies what nobody has read yet, down to the footer, and returns the file's length.
    pub fn finish(mut self) -> Result<u64, SnapshotError> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        while !self.ended {
            self.next_chunk()?;
        }
        Ok(self.length)
    }

    fn next_chunk(&mut self) -> Result<(), SnapshotError> {
        let left = self.length - self.at;
        let mut head = [0; CHUNK_HEADER_BYTES];
        if left < FOOTER_BYTES as u64 {
            return Err(SnapshotError::Damaged(self.at, DamageKind::SnapshotEnd));
        }
        self.file.read_at(self.at, &mut head)?;
        let length = le_u32(&head, 0) as usize;
        if length == 0 {
            return self.check_footer(left);
        }
        let whole = (CHUNK_HEADER_BYTES + length) as u64;
        if length > SNAPSHOT_CHUNK_BYTES || whole > left {
            return Err(SnapshotError::Damaged(self.at, DamageKind::SnapshotChunk));
        }
        self.chunk.resize(length, 0);
        self.given = 0;
        self.file.read_at(self.at + CHUNK_HEADER_BYTES as u64, &mut self.chunk)?;
        if chunk_checksum(self.seed, self.chunks, &self.chunk) != le_u32(&head, 4) {
            self.chunk.clear();
            return Err(SnapshotError::Damaged(self.at, DamageKind::SnapshotChunk));
        }
        self.checksum = crc32c::crc32c_append(self.checksum, &self.chunk);
        self.bytes += length as u64;
        self.chunks += 1;
        self.at += whole;
        Ok(())
    }

    fn check_footer(&mut self, left: u64) -> Result<(), SnapshotError> {
        let mut found = [0; FOOTER_BYTES];
        self.file.read_at(self.at, &mut found)?;
        let expected = footer(self.seed, self.chunks, self.bytes, self.checksum);
        if left != FOOTER_BYTES as u64 || found != expected {
            return Err(SnapshotError::Damaged(self.at, DamageKind::SnapshotEnd));
        }
        self.ended = true;
        Ok(())
    }
}

impl<F: DiskFile> Read for SnapshotReader<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.failure.is_some() {
            return Err(io::Error::other("the snapshot could not be read"));
        }
        while self.given == self.chunk.len() && !self.ended {
            if let Err(failure) = self.next_chunk() {
                self.chunk.clear();
                self.given = 0;
                self.failure = Some(failure);
                return Err(io::Error::other("the snapshot could not be read"));
            }
        }
        let taken = buffer.len().min(self.chunk.len() - self.given);
        buffer[..taken].copy_from_slice(&self.chunk[self.given..self.given + taken]);
        self.given += taken;
        Ok(taken)
    }
}
