//! Every bound of the engine, with its reason. Holds numbers and nothing else.

/// A gap between two turns beyond this is time in which nobody could be answered: the server stood still.
pub const TURN_GAP_US_MAX: u64 = 200_000;
/// While sessions live, the engine wants a turn at least this often, so that a longer gap means something.
pub const TURN_EVERY_US: u64 = 100_000;
/// Time that stands still after a stall, so that renewals that queued up outside can be read before anything ends.
pub const REST_US: u64 = 250_000;
/// Two such rests begin at least this far apart, so that a server that stalls all the time still lets leases end.
pub const REST_EVERY_US: u64 = 2_000_000;

/// The shortest horizon: one that is renewed about once a second.
pub const HORIZON_US_MIN: u64 = 2_000_000;
/// The longest horizon: what a crash on another boot adds to every lease.
pub const HORIZON_US_MAX: u64 = 30_000_000;
/// How far the boot clock and the wall clock may disagree on how long the server was away.
pub const AWAY_DISAGREEMENT_US_MAX: u64 = 1_000_000;

/// Decided bytes at which the engine stops deciding what would add more. A sync of this much is still short.
pub const BACKLOG_BYTES: usize = 4 << 20;
/// Events decided at a time: after each such piece the backlog is measured.
pub const PIECE_EVENTS: usize = 256;
/// A write of this many bytes is such a piece by itself.
pub const PIECE_BYTES: u64 = 16 << 10;
/// No single event is longer than this, lists of numbers and bytes of files apart: metadata, name, owner, reason and their lengths.
pub const EVENT_BYTES_MAX: usize = 8 << 10;
/// A write to a file is no longer than this beside its bytes: name, lock, owner, request id.
pub const WRITE_EVENT_BYTES_MAX: usize = 2 << 10;
/// A number in a list is no longer than this.
pub const NUMBER_BYTES_MAX: usize = 10;

/// Public events that are kept for watchers that come back, across restarts too: the contract's number.
pub const HISTORY_EVENTS_MAX: usize = 100_000;

/// Requests of the ordinary lane that are admitted and not yet answered or in line.
pub const ORDINARY_REQUESTS_MAX: usize = 16_384;
/// Bytes of those requests.
pub const ORDINARY_BYTES_MAX: usize = 32 << 20;
/// Renewals, releases, cancels, keep-alives, closes: four times as many, so that they outlast everything else.
pub const UPKEEP_REQUESTS_MAX: usize = 65_536;
/// Bytes of those.
pub const UPKEEP_BYTES_MAX: usize = 64 << 20;
/// Writes to files that are admitted and whose bytes are not yet in the file.
pub const WRITE_LANE_REQUESTS_MAX: usize = 16_384;
/// Bytes of those: as many of the largest writes as keep a disk busy, and what memory may hold of them.
pub const WRITE_LANE_BYTES_MAX: usize = 64 << 20;
/// Reads: fewer, because an answer may name ten thousand holders and waits in memory for the disk.
pub const READ_REQUESTS_MAX: usize = 2048;
/// Bytes of those.
pub const READ_BYTES_MAX: usize = 8 << 20;
/// The shortest time after which somebody who was told `busy` should come back; up to twice this with the jitter.
pub const BUSY_RETRY_MS: u64 = 50;
/// The same for somebody who was told that the server is stopping or its disk nearly full.
pub const UNAVAILABLE_RETRY_MS: u64 = 1000;

/// Free disk space below which nothing is begun that needs room. Renewals, releases and snapshots live on it.
pub const ROOM_RESERVE_BYTES: u64 = 256 << 20;
/// How often free disk space is looked at.
pub const ROOM_LOOK_EVERY_MS: u64 = 1000;
/// Bytes written since the last look after which it is looked at again: a small part of the reserve, so that no rate of
/// writing outruns it.
pub const ROOM_LOOK_EVERY_BYTES: u64 = 16 << 20;
/// Writes to files are reckoned to take this much at least: a new file takes a block, however few bytes it has.
pub const WRITE_ROOM_BYTES_MIN: usize = 4096;

/// Threads that put bytes into files. Each file has its own among them, so that its writes keep their order; and a disk
/// that is slow with one file is not so with all.
pub const APPLIERS: usize = 4;
/// Changes that such a thread makes before it says so, if there are so many.
pub const APPLIED_AT_ONCE: usize = 64;

/// Where commits take this long, what arrives during one is decided meanwhile; where they are shorter it waits for
/// the end of it, because waking a thread would cost more than it gains.
pub const STAND_IN_AT_ONCE_US: u64 = 500;
/// How often it is looked whether a commit takes longer than those before: so late at most, twice, are renewals answered
/// when a disk begins to be slow. While nothing is written nobody looks.
pub const STAND_IN_LOOK_EVERY_MS: u64 = 20;

/// Batches of up to so many events are small: whoever takes them to the disk waits for it more than for a processor. It is no more
/// than half of 64 clients ask for, and some more.
pub const SMALL_BATCH_EVENTS: u64 = 48;
/// A batch of so many events is taken to the disk by the stand-in while the other thread stays at the engine: more than one client
/// alone asks for at a time, or a lock leaves behind that goes from one to the next, where there is nothing else to be decided
/// meanwhile; and a small one.
pub const ERRAND_EVENTS: std::ops::RangeInclusive<u64> = 5..=SMALL_BATCH_EVENTS;
/// A commit that takes less is not worth sending somebody: that takes some microseconds itself.
pub const ERRAND_COMMIT_US_MIN: u64 = 20;
/// Messages that are taken in at a time while the stand-in is at the disk: it needs the processor for a moment between writing
/// and syncing, and must not wait long for it.
pub const ERRAND_MESSAGES_AT_ONCE: usize = 16;

/// Rooms that are kept for what is said into conversations at once. More conversations than a few are answered by the same batch only
/// where each asks little.
pub const PARCELS_KEPT: usize = 16;

/// So long a batch of nothing but places in line waits for company: nobody is answered by it, and whoever wants to be would
/// have to wait for it to be on the disk. Long against a commit on a fast disk, short for everybody else.
pub const LINGER_US: u64 = 1_000;

/// So long the engine's thread looks out for the next request before it sleeps, if the last one came within this time: about
/// what a client on the same machine takes from an answer to its next question. Falling asleep and being woken takes longer
/// than a third of that, and a processor that has nothing to do meanwhile goes to sleep too. To the doors who asks within this time
/// is one of the few who were told something before.
pub const LOOK_OUT_US: u64 = 150;
/// So long the doors look out for an answer that is under way, if the one before took less: longer than a commit on a fast disk.
/// Whoever falls asleep right before it comes has to be woken, and what is asked then is answered later still.
pub const LOOK_OUT_FOR_ANSWER_US: u64 = 400;
/// So long the doors look out for the next question where no more than [`ONE_BY_ONE_MAX`] are told something at once: longer than
/// it takes where everybody on its way has to be woken, the doors twice. Were it shorter, doors that once fell asleep would find each
/// question too late to stay awake for the next.
pub const LOOK_OUT_ONE_BY_ONE_US: u64 = 400;
/// Those who are told something when a lock goes from one to the next, and some more.
pub const ONE_BY_ONE_MAX: usize = 4;
/// When no more than so many are told something at once, the doors look out for the answer to what they ask then: it is some
/// moments away, and until it is there nobody has work for their processor. They do not look out for the questions: those who were
/// told have the processor then, and leave it for another where somebody keeps looking beside them. It is half of 64 clients,
/// which is what is told at once there, and some more; with 128 a twentieth is gained for a quarter more CPU, with 256 nothing.
pub const FEW_TOLD_MAX: usize = 40;

/// A commit that takes this long is worth a line in the log.
pub const SLOW_COMMIT_MS: u64 = 500;
/// An expiry that is noticed this late is worth a line in the log.
pub const SWEEP_LAG_MS: u64 = 500;
