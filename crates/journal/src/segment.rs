//! Segment files: their names, their header sector, and how one comes into being. Never writes a record.
//!
//! A segment is filled with zeros and synced under a temporary name. Only when it is needed does it get its header,
//! another sync, and its real name. So a file with a segment's name is always whole, and a crash before that leaves
//! nothing but a temporary file, which holds no record and is removed at the next start.

use leasehold_planted::{Bug, planted};

use crate::direct::Aligned;
use crate::disk::{Disk, DiskFile};
use crate::error::{DamageKind, StorageError};
use crate::leisure::Leisure;
use crate::limits::{COPY_PIECE_BYTES, SECTOR_BYTES, ZERO_PIECE_BYTES, ZERO_SYNC_BYTES};
use crate::record::{le_u32, le_u64};

/// The newest format this program writes and reads, of segments and snapshots alike.
pub const FORMAT_VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"LHSEGMNT";
const CHECKSUM_AT: usize = SECTOR_BYTES - 4;

/// What a segment says of itself in its first sector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub journal_id: [u8; 16],
    /// 1 for the journal's first segment, then one more each.
    pub number: u64,
    /// Index of the first record in it.
    pub first_index: u64,
    /// Length of the whole file.
    pub bytes: u64,
    /// Checksum of the record before the first one; 0 at the very beginning.
    pub chain: u32,
}

/// Why a header was not accepted.
pub(crate) enum HeaderError {
    Damaged(DamageKind),
    Newer(u32),
}

impl SegmentHeader {
    /// What the checksums and stamps in this segment are seeded with.
    pub fn seed(&self) -> u32 {
        crc32c::crc32c_append(crc32c::crc32c(&self.journal_id), &self.number.to_le_bytes())
    }

    pub fn encode(&self) -> [u8; SECTOR_BYTES] {
        let mut out = [0; SECTOR_BYTES];
        out[..8].copy_from_slice(&MAGIC);
        out[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        out[16..32].copy_from_slice(&self.journal_id);
        out[32..40].copy_from_slice(&self.number.to_le_bytes());
        out[40..48].copy_from_slice(&self.first_index.to_le_bytes());
        out[48..56].copy_from_slice(&self.bytes.to_le_bytes());
        out[56..60].copy_from_slice(&self.chain.to_le_bytes());
        let checksum = crc32c::crc32c(&out[..CHECKSUM_AT]);
        out[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    pub fn decode(sector: &[u8]) -> Result<Self, HeaderError> {
        assert!(sector.len() == SECTOR_BYTES, "a header is one sector");
        check_header(sector, &MAGIC)?;
        let mut journal_id = [0; 16];
        journal_id.copy_from_slice(&sector[16..32]);
        Ok(Self {
            journal_id,
            number: le_u64(sector, 32),
            first_index: le_u64(sector, 40),
            bytes: le_u64(sector, 48),
            chain: le_u32(sector, 56),
        })
    }
}

/// What every version of every file of ours has in common: magic first, version next, checksum last.
pub(crate) fn check_header(header: &[u8], magic: &[u8; 8]) -> Result<(), HeaderError> {
    let checksum_at = header.len() - 4;
    if header[..8] != *magic {
        return Err(HeaderError::Damaged(DamageKind::NotOurs));
    }
    if crc32c::crc32c(&header[..checksum_at]) != le_u32(header, checksum_at) {
        return Err(HeaderError::Damaged(DamageKind::HeaderChecksum));
    }
    match le_u32(header, 8) {
        FORMAT_VERSION => Ok(()),
        0 => Err(HeaderError::Damaged(DamageKind::NotOurs)),
        newer => Err(HeaderError::Newer(newer)),
    }
}

/// The name of the segment that begins with this record.
pub(crate) fn segment_name(first_index: u64) -> String {
    format!("segment-{first_index:020}")
}

/// Creates a file of zeros, synced, under a temporary name. Its folder entry is synced when it gets its real name.
pub(crate) fn prepare<D: Disk>(
    disk: &D,
    name: &str,
    bytes: u64,
    leisure: Leisure,
) -> Result<(), StorageError> {
    drop(disk.create(name).map_err(StorageError::io("create", disk.path(name)))?);
    fill(&mut open(disk, name)?, 0, bytes, leisure).map_err(StorageError::io("fill", disk.path(name)))
}

/// Writes zeros over a stretch of the file and syncs it, piece by piece.
fn fill<F: DiskFile>(file: &mut F, from: u64, to: u64, mut leisure: Leisure) -> std::io::Result<()> {
    let mut memory = Aligned::default();
    let zeros = &*memory.zeros(usize::try_from(to - from).unwrap_or(usize::MAX).min(ZERO_SYNC_BYTES));
    let (mut at, mut synced) = (from, from);
    while at < to {
        let most = if leisure.hurries() { ZERO_SYNC_BYTES } else { ZERO_PIECE_BYTES };
        let piece = usize::try_from(to - at).unwrap_or(usize::MAX).min(most);
        leisure.piece(|| {
            file.write_at(at, &zeros[..piece])?;
            at += piece as u64;
            if at < to && at - synced < ZERO_SYNC_BYTES as u64 {
                return Ok(());
            }
            synced = at;
            file.sync()
        })?;
    }
    Ok(())
}

/// Writes a segment that has the header and the records of another one up to `end`, then zeros; and syncs it.
pub(crate) fn write_copy<F: DiskFile>(file: &mut F, end: u64, image: &[u8]) -> std::io::Result<()> {
    let mut at = 0;
    for piece in image[..usize::try_from(end).unwrap_or(image.len())].chunks(COPY_PIECE_BYTES) {
        file.write_at(at, piece)?;
        at += piece.len() as u64;
    }
    fill(file, at, image.len() as u64, Leisure::none())?;
    file.sync()
}

/// Turns a prepared file into a segment: header, sync, name, folder sync. After this the first record may be written, into
/// the file that this gives.
pub(crate) fn adopt<D: Disk>(
    disk: &D,
    prepared: &str,
    header: &SegmentHeader,
) -> Result<D::File, StorageError> {
    let name = segment_name(header.first_index);
    let mut file = disk.open(prepared).map_err(StorageError::io("open", disk.path(prepared)))?;
    file.write_at(0, &header.encode())
        .map_err(StorageError::io("write the header of", disk.path(prepared)))?;
    file.sync().map_err(StorageError::io("sync", disk.path(prepared)))?;
    disk.rename(prepared, &name).map_err(StorageError::io("name", disk.path(&name)))?;
    if !planted(Bug::FolderNotSynced) {
        disk.sync_folder().map_err(StorageError::io("sync the directory", disk.path("")))?;
    }
    drop(file);
    open(disk, &name)
}

/// Opens a segment for its next record.
pub(crate) fn open<D: Disk>(disk: &D, name: &str) -> Result<D::File, StorageError> {
    disk.open_direct(name).map_err(StorageError::io("open", disk.path(name)))
}
