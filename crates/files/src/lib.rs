//! Where the bytes of fenced files live: under numbers, so that no name, encoding, symlink, case or length of a client's
//! reaches the file system. Writes at an offset, reads ranges, syncs what was written. Knows no names, no leases and no
//! journal: what the bytes mean, and in which order they come, is for whoever calls.
//!
//! Modules in reading order, low to high.

#![forbid(unsafe_code)]

pub mod limits;

mod handles;
mod memory;
mod stripes;

mod store;

mod copy;
mod disk_store;

pub use copy::copy;
pub use disk_store::DiskStore;
pub use memory::{MemoryDisk, MemoryFile};
pub use store::FileStore;
