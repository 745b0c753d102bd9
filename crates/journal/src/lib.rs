//! What survives: ordered opaque batches, in files or in memory.
//!
//! A batch is bytes to this crate. Their meaning, and the boot id, boot time and wall time they are stamped with, are
//! inside the bytes and belong to whoever writes them. The format on disk is in `docs/journal-format.md`.
//!
//! The modules, low to high.

#![forbid(unsafe_code)]

pub mod limits;

mod error;

mod disk;
mod folder;

mod faulty;
mod platter;

mod record;
mod segment;
mod snapshot;
mod walk;

mod inventory;
mod scan;

mod journal;
mod memory;

mod chores;
mod file;
mod recover;

mod backup;
mod check;

pub use backup::{BackupError, BackupReport, backup};
pub use check::{Entry, Report, SegmentReport, SnapshotReport, check, dump};
pub use disk::{Disk, DiskFile};
pub use error::{Damage, DamageKind, OpenError, StorageError};
pub use faulty::{Call, Counts, Fault, FaultyDisk, FaultyFile};
pub use file::{FileJournal, Options};
pub use folder::{Folder, FolderError};
pub use journal::{Chore, ChoreDone, ChoreKind, Extent, Fold, Journal};
pub use memory::MemoryJournal;
pub use recover::Recovery;
pub use scan::Torn;
pub use segment::FORMAT_VERSION;
