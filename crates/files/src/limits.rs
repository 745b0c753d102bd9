//! Every bound of the file store, with its reason. Holds numbers and nothing else.

/// Files that are kept open to be written to, in all: what many systems allow a process is 1,024, and connections need
/// most of it.
pub const WRITE_HANDLES_MAX: usize = 128;
/// Files that are kept open to be read.
pub const READ_HANDLES_MAX: usize = 128;
/// Parts of the store that do not wait for each other: a few for each thread that writes.
pub const SHELVES: usize = 16;
/// How often a read is begun anew because a write came between, before it waits for its turn.
pub const READ_TRIES: usize = 8;
/// Groups of files whose reads notice each other's writes. Sharing one costs a second look, nothing more.
pub const STRIPES: usize = 256;
/// Bytes copied at a time.
pub const COPY_BYTES: usize = 1 << 20;
/// Bytes of a copy after which it is synced, so that no sync takes long: whoever copies must look up often.
pub const COPY_SYNC_BYTES: u64 = 16 << 20;
