//! Every bound of the doors, with its reason. Holds numbers and nothing else.

use std::time::Duration;

use leasehold_files::limits::{READ_HANDLES_MAX, WRITE_HANDLES_MAX};

/// The body of a lock call: the largest sensible one (names, ids, 4 KiB of metadata, all escaped) is half of this.
pub const BODY_BYTES_MAX: usize = 64 * 1024;
/// Request line and headers together. A lock's name is at most 1.5 KiB percent-encoded.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Header lines of one request.
pub const HEADERS_MAX: usize = 64;
/// How long a connection may take to send a request's head. Idle connections are closed after it as well.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a request's body may take to arrive once its head has.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Bodies that have come in part, at once on all connections: a quarter of a gigabyte if each is nearly whole.
pub const UNFINISHED_BODIES_MAX: usize = 4096;
/// What is not counted among them: renewals and releases are smaller, and must get through in pieces too. It is less than
/// the head that came with it.
pub const UNCOUNTED_BODY_BYTES: usize = 4 * 1024;
/// Bytes of writes to files that have come in part, at once on all connections, in room of their own: what is written to
/// files must not keep lock calls out. Writes that have come whole are the engine's to count.
pub const UNFINISHED_WRITE_BYTES_MAX: usize = 128 << 20;
/// A write may be sixteen times as long as other bodies, and may take so many times as long: 1 MiB at 300 kbit/s.
pub const WRITE_BODY_TIMES: u32 = 3;
/// A message that writes to a file is longer than its bytes by at most this: names, ids, and how it is framed.
pub const WRITE_MESSAGE_EXTRA_BYTES: usize = 4 * 1024;
/// How long somebody whose body was one too many is told to wait.
pub const UNFINISHED_BODIES_RETRY_MS: u64 = 1000;
/// How long a connection may leave bytes that it asked for untaken.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of a file that holds tokens, a key or a chain of certificates.
pub const SECRET_FILE_BYTES_MAX: u64 = 1024 * 1024;
/// Tokens at most: each is compared with what is shown, whichever fits.
pub const TOKENS_MAX: usize = 1000;
/// Characters of a token. It must fit into a head among other headers.
pub const TOKEN_BYTES_MAX: usize = 1024;
/// A token with fewer characters is warned of: 16 random ones cannot be guessed.
pub const TOKEN_BYTES_ADVISED: usize = 16;
/// How long a TLS handshake may take.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections at once, unless the operator says otherwise.
pub const CONNECTIONS_MAX: usize = 10_000;
/// Open files that connections leave alone: those of the file store, connections that are being refused, and a few dozen
/// for the journal, a snapshot, a backup and the logs. A segment that could not be opened would be a failed disk.
pub const OTHER_FILES: usize = READ_HANDLES_MAX + WRITE_HANDLES_MAX + REFUSALS_MAX + 64;
/// Requests at once on one HTTP/2 connection: each may be a call that waits in line.
pub const HTTP2_STREAMS_MAX: u32 = 1024;
/// Bytes of bodies that a client may send ahead on one HTTP/2 stream: more than a thousand operations, so that a client with
/// many callers does not wait for room. What all streams of a connection may take together is the next bound.
pub const HTTP2_STREAM_WINDOW_BYTES: u32 = 4 * BODY_BYTES_MAX as u32;
/// Bytes of bodies that a client may send ahead on one HTTP/2 connection.
pub const HTTP2_CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;
/// Bytes that a client may put into one HTTP/2 frame, which is read as a whole: as many as a body of ours has at most, so that a
/// group of operations comes in one piece and wakes whoever reads it once.
pub const HTTP2_FRAME_BYTES_MAX: u32 = BODY_BYTES_MAX as u32;
/// Bytes that one HTTP/2 stream may have ready to be sent.
pub const HTTP2_SEND_BYTES_MAX: usize = 64 * 1024;
/// Streams that a client may open and take back before they are even looked at; beyond it the connection is closed.
pub const HTTP2_RESETS_PENDING_MAX: usize = 20;
/// Streams that may end by the client's own errors; beyond it the connection is closed.
pub const HTTP2_ERRORS_MAX: usize = 256;
/// How often a client on HTTP/2 is asked for a sign of life.
pub const HTTP2_PING_EVERY: Duration = Duration::from_secs(20);
/// How long it may take to give one.
pub const HTTP2_PING_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a silent TCP connection is left alone before the operating system asks whether its peer is still there.
pub const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
/// How often it then asks.
pub const KEEPALIVE_EVERY: Duration = Duration::from_secs(10);
/// And how often in vain before the connection is given up.
pub const KEEPALIVE_TRIES: u32 = 3;
/// Connections at once from one peer, unless the operator says otherwise: many for a machine full of workers, and far
/// fewer than all.
pub const CONNECTIONS_PER_PEER_MAX: usize = 1000;
/// How long a connection may take from its beginning to the end of its first request's head.
pub const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// A connection that was idle for less keeps its place also when all are taken: it may be about to ask.
pub const UNTOUCHED_IDLE: Duration = Duration::from_secs(5);
/// Connections that are looked at to find one that is idle when all places are taken.
pub const PLACES_LOOKED_AT: usize = 64;
/// How often connections are looked at for being idle too long.
pub const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// How long a connection that is asked to leave may take to end in good order.
pub const LEAVE_TIMEOUT: Duration = DRAIN_TIMEOUT;
/// Connections beyond the limit that are told so at once; still more are closed without a word.
pub const REFUSALS_MAX: usize = 64;
/// How long a connection that is refused may take to hear it, and then to close.
pub const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);
/// How long the accept loop rests after the operating system refused it a connection, as when files run out.
pub const ACCEPT_REST: Duration = Duration::from_millis(50);
/// How long a stopping server waits for its connections; the promise is five seconds for everything.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a stopped server waits for its audit trail to be written.
pub const TRAIL_TIMEOUT: Duration = Duration::from_secs(1);
/// Bytes of files that lie in memory for those who read them: 256 reads of the largest pieces at once, or 4,096 small ones.
pub const READ_BYTES_MAX: usize = 256 << 20;
/// A read of at most this is one look at the file, in which each write is seen whole or not at all: as long as a write.
pub const WHOLE_READ_BYTES_MAX: usize = leasehold_state_machine::limits::WRITE_BYTES_MAX as usize;
/// A longer one is many looks at so many bytes: enough that the disk and not the way to it takes the time.
pub const LONG_READ_PIECE_BYTES: usize = 256 * 1024;
/// Bytes that are handed to a connection at once, and that must be taken within [`WRITE_TIMEOUT`].
pub const READ_SLICE_BYTES: usize = 64 * 1024;
/// The smallest of those, for when very many are on their way: still more than what is sent around it.
pub const READ_SLICE_BYTES_MIN: usize = 512;
/// Bytes of files that connections were given and have not sent, on all of them together.
pub const ON_THE_WAY_BYTES_MAX: usize = 512 << 20;
/// The next slice is one part in this many of all that room, shared among as many as there are slices on their way: whole
/// while those are fewer than 512. With so many parts the room is enough for half a million slices of readers who
/// stand still, because what each gets falls as fast as their number grows.
pub const ON_THE_WAY_PARTS: usize = 16;
/// A reader that took something this short a time ago keeps its room also when there is none left.
pub const UNTOUCHED_READER: Duration = Duration::from_secs(5);
/// Looks at the disk at once. Each takes a thread.
pub const DISK_READS_AT_ONCE: usize = 16;
/// How long somebody who was one reader too many is told to wait.
pub const READ_RETRY_MS: u64 = 1000;
/// Watchers at once, unless the operator says otherwise.
pub const WATCHERS_MAX: usize = 10_000;
/// How many events may pass a watcher that does not keep up, before it is cut off: half of what is kept, so that it can
/// still resume.
pub const WATCH_LAG_MAX: usize = leasehold_engine::limits::HISTORY_EVENTS_MAX / 2;
/// How often an event stream carries a comment, so that nobody on the way takes it for dead.
pub const WATCH_COMMENT_MS: u64 = 15_000;
/// The most often that may be set: a comment is a wake-up for each watcher.
pub const WATCH_COMMENT_MS_MIN: u64 = 10;
/// The least often that may be set: an hour is longer than anything on the way waits.
pub const WATCH_COMMENT_MS_MAX: u64 = 3_600_000;
/// An event stream that has been quiet says where it stands when so many events have passed it, so that its reader
/// need not come back with a number that is no longer kept.
pub const WATCH_NUMBERS_QUIET: u64 = 1000;
/// Bytes of events that are written in one piece.
pub const WATCH_PIECE_BYTES: usize = 16 * 1024;
/// How long somebody who was one watcher too many is told to wait.
pub const WATCH_RETRY_MS: u64 = 1000;
/// Events that wait at one watcher's seat, and that it reads from the history at once. Whoever has more to hear reads
/// it later: nothing is lost by a small seat, and ten thousand of them are small together.
pub const SEAT_EVENTS_MAX: usize = 128;
/// Events of the history that somebody who catches up looks through at once, while others wait.
pub const WATCH_SCAN_EVENTS: usize = 4096;
/// Events that the feed passes on at once, while those who begin to watch wait.
pub const FEED_SLICE: usize = 64;
/// Bytes of events that lie unread while nobody watches: twice what the history keeps of ordinary ones. Of longer ones it makes
/// less by reading them.
pub const FEED_UNREAD_BYTES: usize = 16 << 20;
/// Events on their way to the feed at most while somebody watches: what a busy server does in seconds. Beyond it the feed
/// begins anew, and everybody who watches is cut off, because the engine waits for nobody.
pub const FEED_EVENTS_MAX: u64 = 1 << 17;
/// Bytes of events on their way to the feed at most, whether somebody watches or not: four times as many as wake it, for when it
/// gets no processor. Beyond it the feed begins anew too.
pub const FEED_BYTES_MAX: usize = 4 * FEED_UNREAD_BYTES;
/// The detail of a refused call travels as a header, and the strictest of common clients take 8 KiB of headers.
pub const STATUS_DETAIL_BYTES_MAX: usize = 4 * 1024;
/// A group of operations on a stream: as many as may be in flight, at 1 KiB each.
pub const GROUP_BYTES_MAX: usize = 1024 * 1024;
/// Operations that a group may have, for each that may be in flight: what is over is refused one by one, and each refusal takes room...
pub const GROUP_OPERATIONS_PER_IN_FLIGHT: usize = 4;
/// ...and beside those: newer attempts of what is in flight count nowhere.
pub const GROUP_OPERATIONS_MIN: usize = 1024;
/// Room that is made for a group of answers before any is there; more grows as it comes.
pub const TOLD_ROOM_BYTES_MAX: usize = 64 * 1024;
/// A part of a group that is not counted among unfinished bodies: what keeps locks alive fits.
pub const UNCOUNTED_GROUP_BYTES: usize = 64 * 1024;
/// Operations in flight on one stream.
pub const IN_FLIGHT_MAX: usize = 1024;
/// Sessions whose ended leases one stream is told of unasked.
pub const STREAM_SESSIONS_MAX: usize = 16 * 1024;
/// Characters of somebody's own text that an error repeats.
pub const ECHO_CHARS_MAX: usize = 64;
/// The smallest segment: half of it is the largest batch, and must hold the longest event with room to spare.
pub const SEGMENT_BYTES_MIN: u64 = 1 << 20;
