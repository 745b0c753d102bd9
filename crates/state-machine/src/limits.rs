//! Every bound of the state machine, with its reason. What can be set is in [`Limits`]; the rest is the contract.

/// A name is 1 to this many bytes.
pub const NAME_BYTES_MAX: usize = 512;
/// A path is a leading slash and what a file's name may hold, so that every fenced file's path can be locked.
pub const PATH_BYTES_MAX: usize = NAME_BYTES_MAX + 1;
/// Inode numbers and offsets stay below this, so that signed 64-bit clients keep them exact.
pub const NUMBER_END: u64 = 1 << 63;
/// An owner is 1 to this many bytes.
pub const OWNER_BYTES_MAX: usize = 256;
/// Entries of one metadata map.
pub const METADATA_ENTRIES_MAX: usize = 16;
/// Bytes of all keys and values of one metadata map.
pub const METADATA_BYTES_MAX: usize = 4096;
/// A request id is 1 to this many visible ASCII characters.
pub const REQUEST_ID_BYTES_MAX: usize = 128;
/// Numbers below the highest answered one that a client of a stream may still have open.
pub const OPEN_NUMBERS_MAX: usize = 1024;
/// Numbers of one client that are remembered because it has not yet said that it has their answers: those it may have
/// open, and as many again in flight on each of a few streams.
pub const CLIENT_NUMBERS_MAX: usize = 8 * OPEN_NUMBERS_MAX;
/// Clients of streams whose marks are remembered.
pub const CLIENTS_MAX: usize = 100_000;
/// A lease or session id is at most this long on the wire.
pub const ID_TEXT_BYTES_MAX: usize = 64;
/// The reason of a break is 1 to this many bytes: it is kept in the journal and in the audit trail.
pub const REASON_BYTES_MAX: usize = 1024;
/// The shortest lease: below this a network's ordinary delay would end it.
pub const TTL_MS_MIN: u64 = 100;
/// The longest lease: what nobody renews for a day is abandoned.
pub const TTL_MS_MAX: u64 = 24 * 3600 * 1000;
/// The lease of somebody who did not say.
pub const TTL_MS_DEFAULT: u64 = 30_000;
/// The longest wait of one attempt; who wants longer asks again and keeps the place.
pub const WAIT_MS_MAX: u64 = 3600 * 1000;
/// How long a detached waiter keeps its place.
pub const GRACE_US: u64 = 5_000_000;
/// How many leases are ended, waiters looked at or answers forgotten in one turn, so that others get their turn.
pub const SLICE: usize = 4096;
/// The same of what nobody has asked for: how many things that are due are done between two looks at what was asked. A lone
/// caller's request waits for some three of these while a million leases end.
pub const SLICE_UNASKED: usize = 1024;
/// Holders and waiters named in one snapshot of a lock: enough for a person, and bounded work for the engine.
pub const SNAPSHOT_ENTRIES_MAX: usize = 10_000;
/// Holders and waiters named in one refusal or one row of a list.
pub const REFUSAL_ENTRIES_MAX: usize = 100;
/// Rows of one page of a list.
pub const PAGE_ROWS_MAX: usize = 1000;
/// Rows of a page when the caller does not say.
pub const PAGE_ROWS_DEFAULT: usize = 100;
/// Holders and waiters in all that one page of locks may name before it hands back a cursor.
pub const PAGE_ENTRIES_MAX: usize = 5_000;
/// Records that one page of a filtered list may look at before it hands back a cursor.
pub const PAGE_LOOKS_MAX: usize = 10_000;
/// Ended leases that a session's owner may leave unseen before it is given new ones.
pub const ENDED_UNSEEN_MAX: usize = 10_000;
/// Leases that one break breaks, oldest first: its answer is one event of the journal. Who has more asks again.
pub const BREAK_LEASES_MAX: usize = 10_000;
/// Tokens that the remembered answers of breaks have together: some tens of megabytes.
pub const BREAK_TOKENS_MAX: usize = 4_000_000;
/// How long an answered request id, or an ended lease's id, is remembered.
pub const REMEMBER_US: u64 = 600_000_000;
/// A request id younger than this is never forgotten, whatever the pressure.
pub const REMEMBER_US_MIN: u64 = 120_000_000;
/// Ended leases and sessions that can still be told how they ended.
pub const TOMBSTONES_MAX: usize = 1_000_000;
/// Records, and empty slots between them, of which a picture is taken at once: a few milliseconds in which nothing else is
/// decided. Ended leases are not counted.
pub const PICTURE_RECORDS_MAX: usize = 16_384;
/// Owners kept though nothing is theirs at the moment: about 100 bytes each.
pub const OWNERS_UNUSED_MAX: usize = 4096;
/// First inode number of the server's own fenced files.
pub const FILE_INODE_FIRST: u64 = 1 << 52;
/// One past the last inode number of the server's own fenced files.
pub const FILE_INODE_END: u64 = (1 << 52) + (1 << 32);
/// One write to a file: its bytes travel through memory and through the journal whole.
pub const WRITE_BYTES_MAX: u64 = 1 << 20;

/// Slots of leases or sessions: a table is as long as its highest slot, and more than this fit into no machine.
pub const SLOTS_MAX: usize = 1 << 26;

/// The bounds that an operator may set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Slots that a snapshot may name. Not an operator's to set; less than [`SLOTS_MAX`] only in tests.
    pub slots_max: usize,
    /// Live leases in all.
    pub leases_max: usize,
    /// Waiters in all.
    pub waiters_max: usize,
    /// Waiters on exactly one resource.
    pub waiters_per_lock_max: usize,
    /// Sessions opened by name; a lease's own session counts as its lease.
    pub sessions_max: usize,
    /// Request ids remembered after their lease, session or place has gone.
    pub request_ids_max: usize,
    /// Fenced files: each is a record in memory and in every snapshot.
    pub files_max: usize,
    /// Bytes of one file.
    pub file_bytes_max: u64,
    /// Bytes of all files together.
    pub files_bytes_max: u64,
    /// Bytes of one write. Less than [`WRITE_BYTES_MAX`] only where the journal takes no such batch.
    pub write_bytes_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            slots_max: SLOTS_MAX,
            leases_max: 10_000_000,
            waiters_max: 1_000_000,
            waiters_per_lock_max: 100_000,
            sessions_max: 1_000_000,
            request_ids_max: 8_000_000,
            files_max: 1_000_000,
            file_bytes_max: 1 << 30,
            files_bytes_max: 10 << 30,
            write_bytes_max: WRITE_BYTES_MAX,
        }
    }
}
