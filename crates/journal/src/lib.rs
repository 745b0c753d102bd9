//! What survives: ordered opaque batches, in files or in memory.
//!
//! A batch is bytes to this crate. Their meaning, and the boot id, boot time and wall time they are stamped with, are
//! inside the bytes and belong to whoever writes them. The format on disk is in `docs/journal-format.md`.
//!
//! The groups of modules below go from low to high: limits and errors; the disk as a seam and a simulated one that
//! fails; the bytes of records, segments and snapshots; a directory and how it is read; what is asked of a journal, and
//! the one in memory; the one in files, its background work and its recovery; looking and copying.

#![forbid(unsafe_code)]

pub mod limits;

mod error;

mod direct;
mod disk;

mod fault;
mod faulty;
mod platter;

mod image;
mod record;
mod segment;
mod snapshot;
mod walk;

mod folder;
mod inventory;
mod scan;

mod journal;
mod leisure;
mod memory;

mod chores;
mod file;
mod recover;

mod backup;
mod check;
mod held;

pub use backup::{BackupError, BackupReport, Beside, backup, backup_beside};
pub use check::{Entry, Report, SegmentReport, SnapshotReport, check, dump};
pub use disk::{Disk, DiskFile};
pub use error::{Damage, DamageKind, OpenError, StorageError};
pub use fault::{Call, Counts, Fault};
pub use faulty::{FaultyDisk, FaultyFile};
pub use file::{FileJournal, Options};
pub use folder::{FILES_FOLDER, Folder, FolderError};
pub use journal::{Chore, ChoreDone, ChoreKind, Extent, Fold, Journal};
pub use memory::MemoryJournal;
pub use recover::Recovery;
pub use scan::Torn;
pub use segment::FORMAT_VERSION;
