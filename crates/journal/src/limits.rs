//! Every bound of the journal, with its reason. Holds numbers and nothing else.

/// The unit that a disk writes whole or not at all; everything torn or damaged is told apart by it.
pub const SECTOR_BYTES: usize = 512;

/// Memory from which whole sectors go past the system's cache begins at a multiple of this: a page, which is enough for
/// every disk.
pub const DIRECT_ALIGN_BYTES: usize = 4096;

/// Default size of a segment: twice the largest batch, and small enough to be zero-filled in the background in a
/// fraction of a second.
pub const SEGMENT_BYTES: u64 = 32 << 20;

/// Largest segment accepted. A segment is read into memory whole at a start.
pub const SEGMENT_BYTES_MAX: u64 = 1 << 30;

/// Smallest segment accepted: a header and a few one-sector records. Only simulations go this low.
pub const SEGMENT_BYTES_MIN: u64 = 4096;

/// Default for the largest batch of the file journal.
pub const BATCH_BYTES_MAX: usize = 16 << 20;

/// Default for the bytes of closed segments that make a snapshot due: two default segments.
pub const SNAPSHOT_AFTER_BYTES: u64 = 64 << 20;

/// Largest chunk of a snapshot. Each chunk has its own checksum, so a reader never hands on unverified bytes and
/// never holds more than this in memory.
pub const SNAPSHOT_CHUNK_BYTES: usize = 256 << 10;

/// Zeros are written to a new segment in pieces of this size: a batch that comes meanwhile waits for one of them at most,
/// which is about as long as for another batch. In a hurry they are as long as what is synced.
pub const ZERO_PIECE_BYTES: usize = 64 << 10;

/// After so many bytes of zeros they are synced, so that where they go by way of the system's cache they never build up a
/// long queue before a batch's own sync. Not after each piece: the file has become longer each time, which the file system
/// writes down too.
pub const ZERO_SYNC_BYTES: usize = 1 << 20;

/// A segment that is read in the background is read in pieces of this size, or of one record if that is longer: small enough
/// to lie in a processor's own cache.
pub const WINDOW_BYTES: usize = 256 << 10;

/// Files are copied in pieces of this size.
pub const COPY_PIECE_BYTES: usize = 1 << 20;

/// Background writing rests so many times as long as each piece of it took: three quarters of the disk's time are left to
/// batches.
pub const REST_TIMES: u32 = 3;

/// But no longer than this, so that a slow disk is not made much slower.
pub const REST_MAX_MS: u64 = 50;

/// Whoever prepares the next segment, or keeps it waiting, has no leisure any more once the active one is filled to one part in this
/// many.
pub const HURRY_AT_PART: u64 = 2;

/// The memory in which records are put together is given back above this size, so that one huge batch does not cost it for
/// ever.
pub const RECORD_KEPT_BYTES: usize = 1 << 20;

/// How often a backup starts over when files are trimmed away while it copies them.
pub const BACKUP_TRIES: u32 = 10;

/// The next segment is prepared when the active one is filled to one part in this many: late enough that a small
/// server never pays for it, early enough that zero-filling is done long before a busy one needs it. Earlier if a snapshot is due,
/// which takes its time and would keep it waiting.
pub const PREPARE_AT_PART: u64 = 8;

/// A snapshot of a state that is there already is cut for when the active segment has less than one part in this many left:
/// room for many batches, so that there is a moment among them in which the state can be had, and little that stays unused.
pub const CUT_AT_PART: u64 = 32;

/// In a small segment, when less than this is left.
pub const CUT_AT_BYTES_MIN: u64 = 4 * SECTOR_BYTES as u64;

/// Files that a disk must be able to take for there to be room on it: more than can be under way between two looks.
pub const FILES_LEFT_MIN: u64 = 32_768;

/// On a small disk one part in this many of all its files does.
pub const FILES_LEFT_PART: u64 = 16;
