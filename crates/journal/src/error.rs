//! What can go wrong, in sentences for the person who has to act on them: each names the file, the offset where
//! there is one, and what to do. Never decides anything.

use std::fmt;
use std::io;

/// A write, a sync or a background job failed. Nothing may be acknowledged after one of these, except after
/// [`StorageError::BatchTooLarge`], which is noticed before anything is written.
#[derive(Debug)]
pub enum StorageError {
    /// The operating system refused an operation.
    Io {
        /// What was being done, as in "cannot {doing}".
        doing: &'static str,
        /// The file or directory.
        path: String,
        /// The refusal.
        source: io::Error,
    },
    /// An earlier call failed; this one did nothing.
    Stopped,
    /// The batch is larger than the journal takes. Nothing was written and the journal goes on.
    BatchTooLarge {
        /// Bytes in the batch.
        bytes: usize,
        /// Bytes the journal takes at most.
        bytes_max: usize,
    },
    /// A background snapshot could not be made because what it read back was wrong.
    Background(Box<OpenError>),
}

impl StorageError {
    /// That the operating system refused something, as in "cannot {doing} {path}".
    pub fn io(doing: &'static str, path: String) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, path, source }
    }
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { doing, path, source } if source.kind() == io::ErrorKind::StorageFull => {
                write!(f, "cannot {doing} {path}: {source}; free some space on that disk and start again")
            }
            Self::Io { doing, path, source } => write!(f, "cannot {doing} {path}: {source}"),
            Self::Stopped => {
                f.write_str("the journal stopped at an earlier storage error; start again to recover")
            }
            Self::BatchTooLarge { bytes, bytes_max } => {
                write!(f, "a batch of {bytes} bytes is larger than the journal takes ({bytes_max} bytes)")
            }
            Self::Background(reason) => write!(f, "the background snapshot failed: {reason}"),
        }
    }
}

impl std::error::Error for StorageError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Background(reason) => Some(reason.as_ref()),
            Self::Stopped | Self::BatchTooLarge { .. } => None,
        }
    }
}

/// Why a journal was not opened or could not be read to its end. Except after [`OpenError::Storage`], nothing on
/// the disk was changed.
#[derive(Debug)]
pub enum OpenError {
    /// The operating system refused an operation.
    Storage(StorageError),
    /// The bytes are not what was written.
    Damaged(Damage),
    /// The file was written by a newer version of the program.
    NewerFormat {
        /// The file.
        path: String,
        /// The format it has.
        version: u32,
        /// The newest format this program reads.
        supported: u32,
    },
    /// The file belongs to another journal.
    Foreign {
        /// The file.
        path: String,
        /// The journal id in the file.
        found: [u8; 16],
        /// The id of the journal being read.
        expected: [u8; 16],
    },
    /// The bytes are sound, but whoever replays them does not accept their content.
    Refused {
        /// The file.
        path: String,
        /// Where the record begins in it; 0 for a snapshot.
        offset: u64,
        /// The record's index, or the one through which the snapshot holds.
        index: u64,
        /// The reason given.
        reason: String,
    },
    /// The options contradict each other.
    Options(&'static str),
}

impl From<StorageError> for OpenError {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Storage(error) => error.fmt(f),
            Self::Damaged(damage) => write!(
                f,
                "{damage}. Nothing was changed. Keep a copy of the directory, check the disk, and put a backup back"
            ),
            Self::NewerFormat { path, version, supported } => write!(
                f,
                "{path} has journal format {version}, this program reads up to {supported}: use a newer version"
            ),
            Self::Foreign { path, found, expected } => write!(
                f,
                "{path} belongs to journal {}, not to {}: files of two journals are mixed in one directory",
                Hex(found),
                Hex(expected)
            ),
            Self::Refused { path, offset, index, reason } => {
                write!(f, "{path} at byte {offset}: record {index} cannot be replayed: {reason}")
            }
            Self::Options(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Storage(error) => Some(error),
            _ => None,
        }
    }
}

/// Bytes that are not what was written, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub path: String,
    /// The byte in the file at which it was noticed.
    pub offset: u64,
    /// What is wrong there.
    pub kind: DamageKind,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is damaged at byte {}: {}", self.path, self.offset, self.kind)
    }
}

/// What is wrong with damaged bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DamageKind {
    /// The file does not begin as such a file does.
    NotOurs,
    /// The file's header does not match its checksum.
    HeaderChecksum,
    /// The file has not the length its header gives.
    Length {
        /// Bytes according to the header.
        expected: u64,
        /// Bytes found.
        found: u64,
    },
    /// The name begins like one of ours, and goes on like none.
    Name,
    /// The file's content belongs under another name.
    Misnamed,
    /// The file is not the next one in the journal's order.
    OutOfOrder,
    /// The file should be there and is not, or its end is gone.
    Missing {
        /// First record that is missing.
        index: u64,
    },
    /// A sector is neither untouched nor part of the record that stands here.
    Sector {
        /// The record.
        index: u64,
    },
    /// Sectors are missing from a record although something was written after it.
    Hole {
        /// The record.
        index: u64,
        /// Where the later bytes are.
        found: u64,
    },
    /// A record's header makes no sense.
    RecordHeader {
        /// The record.
        index: u64,
    },
    /// A record does not match its checksum, which also covers the record before it.
    RecordChecksum {
        /// The record.
        index: u64,
    },
    /// A chunk of a snapshot does not match its checksum.
    SnapshotChunk,
    /// A snapshot ends too early, too late, or with a wrong summary.
    SnapshotEnd,
}

impl fmt::Display for DamageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotOurs => f.write_str("it does not begin like a journal file"),
            Self::HeaderChecksum => f.write_str("the file header does not match its checksum"),
            Self::Length { expected, found } => {
                write!(f, "the file has {found} bytes and should have {expected}")
            }
            Self::Name => f.write_str("no journal file has such a name"),
            Self::Misnamed => f.write_str("the file's name and header do not agree"),
            Self::OutOfOrder => f.write_str("the file does not continue the one before it"),
            Self::Missing { index } => write!(f, "record {index} should follow and is missing"),
            Self::Sector { index } => write!(f, "the sector is not as record {index} was written"),
            Self::Hole { index, found } => {
                write!(f, "record {index} is incomplete although there are later bytes at {found}")
            }
            Self::RecordHeader { index } => write!(f, "the header of record {index} makes no sense"),
            Self::RecordChecksum { index } => write!(f, "record {index} does not match its checksum"),
            Self::SnapshotChunk => f.write_str("a chunk of the snapshot does not match its checksum"),
            Self::SnapshotEnd => f.write_str("the snapshot does not end as it should"),
        }
    }
}

struct Hex<'a>(&'a [u8; 16]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
