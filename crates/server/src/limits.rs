//! Every bound of the doors, with its reason. Holds numbers and nothing else.

use std::time::Duration;

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
/// How long a connection may leave bytes that it asked for untaken.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Connections at once, unless the operator says otherwise.
pub const CONNECTIONS_MAX: usize = 10_000;
/// Connections beyond the limit that are told so at once; still more are closed without a word.
pub const REFUSALS_MAX: usize = 64;
/// How long a connection beyond the limit may take to hear that it is one.
pub const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);
/// How long the accept loop rests after the operating system refused it a connection, as when files run out.
pub const ACCEPT_REST: Duration = Duration::from_millis(50);
/// How long a stopping server waits for its connections; the promise is five seconds for everything.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a stopped server waits for its audit trail to be written.
pub const TRAIL_TIMEOUT: Duration = Duration::from_secs(1);
/// Characters of somebody's own text that an error repeats.
pub const ECHO_CHARS_MAX: usize = 64;
