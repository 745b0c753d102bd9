//! The faults a simulated disk can be told to have, and the account of those that took effect. Injects nothing itself.

use std::io;

/// The calls that can be made to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
    /// A write to a file.
    Write,
    /// A sync of a file.
    Sync,
    /// A sync of the folder.
    SyncFolder,
    /// The creation of a file.
    Create,
    /// A renaming.
    Rename,
    /// A removal.
    Remove,
    /// Any of these.
    Any,
}

/// How a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The device reports an error (`EIO`); any part of the work may have been done.
    Error,
    /// The disk is full (`ENOSPC`); a write may have done its beginning.
    Full,
    /// Only the beginning is written.
    Short,
    /// The power goes: this call and all later ones fail until [`crate::FaultyDisk::crash`].
    PowerLoss,
}

/// What has happened on the disk so far, so that a test can tell whether its faults took effect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Writes asked for.
    pub writes: u64,
    /// Syncs of files asked for.
    pub syncs: u64,
    /// Syncs of the folder asked for.
    pub folder_syncs: u64,
    /// Calls of any changing kind.
    pub calls: u64,
    /// Faults that took effect.
    pub faults: u64,
    /// Crashes.
    pub crashes: u64,
    /// Unsynced sectors that crashes kept.
    pub sectors_kept: u64,
    /// Unsynced sectors that crashes lost.
    pub sectors_lost: u64,
    /// Unsynced creations, renamings and removals that crashes undid.
    pub names_lost: u64,
}

pub(crate) fn no_power() -> io::Error {
    io::Error::other("the machine has no power")
}

impl Fault {
    pub(crate) fn error(self) -> io::Error {
        match self {
            Self::Error => io::Error::from_raw_os_error(5),
            Self::Full => io::Error::from(io::ErrorKind::StorageFull),
            Self::Short => io::Error::from(io::ErrorKind::WriteZero),
            Self::PowerLoss => no_power(),
        }
    }
}
