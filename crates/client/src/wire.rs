//! The way to a server: what everything above needs of it, and nothing of how it is done. The real one is gRPC; the one of
//! `testing` is in memory. Speaks the messages of the protocol, never retries, and never waits longer than it is told.

use std::fmt;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use leasehold_protocol::v1;

use crate::group::Group;
use crate::outcome::OutcomeGroup;

/// Why an answer did not come.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trouble {
    /// The address names nobody.
    NoSuchHost(String),
    /// Nobody listens there.
    Refused(String),
    /// Nothing came back in time.
    Silence(String),
    /// The connection broke.
    Broken(String),
    /// The two do not agree on encryption, or the certificate is not to be trusted.
    Tls(String),
    /// What answers is not a Leasehold server, or not one of this version.
    NotLeasehold(String),
    /// The server cannot serve now: it starts, stops, or its disk is nearly full.
    NotServing(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::NoSuchHost(detail) => write!(f, "there is no such host: {detail}; check the address"),
            Trouble::Refused(detail) => write!(f, "nobody listens there: {detail}; does the server run?"),
            Trouble::Silence(detail) => write!(f, "nothing came back in time: {detail}"),
            Trouble::Broken(detail) => write!(f, "the connection broke: {detail}"),
            Trouble::Tls(detail) => write!(f, "no agreement on TLS: {detail}"),
            Trouble::NotLeasehold(detail) => {
                write!(f, "what answers there is not a Leasehold server: {detail}")
            }
            Trouble::NotServing(detail) => write!(f, "it cannot serve now: {detail}"),
        }
    }
}

impl std::error::Error for Trouble {}

/// Either the server's refusal, in its own words, or none.
#[derive(Clone, Debug)]
pub(crate) enum Failed {
    /// The server said no.
    Refused(Box<v1::Error>),
    /// The server said nothing.
    Trouble(Trouble),
}

/// Groups of operations. Whoever carries them asks for the next group when it can send it at once: what waits meanwhile
/// goes together, and is stamped as late as it can be. Ends when nothing more is to be said.
pub(crate) type Groups = BoxStream<'static, Group>;

/// An open stream of operations. Dropping it ends it.
pub(crate) struct Conversation {
    /// Which connection it runs over; see [`Wire::distrust`].
    pub connection: u64,
    /// What is told; ends after its first failure.
    pub told: BoxStream<'static, Result<OutcomeGroup, Failed>>,
}

/// A call that is not an operation of the stream.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    /// A page of locks.
    List(v1::ListRequest),
    /// Breaks leases.
    Break(v1::BreakRequest),
    /// A page of sessions.
    ListSessions(v1::ListSessionsRequest),
    /// Takes a request back that was named by a chosen id.
    Cancel(v1::CancelRequest),
    /// Acquires under a chosen request id.
    Acquire(v1::AcquireRequest),
    /// Writes to the end of a file.
    AppendFile(v1::AppendFileRequest),
    /// Writes to a file at an offset.
    WriteFile(v1::WriteFileRequest),
    /// Deletes a file.
    DeleteFile(v1::DeleteFileRequest),
    /// Looks at one file.
    StatFile(v1::StatFileRequest),
    /// A page of files.
    ListFiles(v1::ListFilesRequest),
}

impl Call {
    /// What the call may take by itself, beyond what every answer may take: time in line, or the way of many bytes.
    pub fn extra(&self) -> Duration {
        let data = match self {
            Call::Acquire(asked) => return Duration::from_millis(asked.wait_ms),
            Call::AppendFile(asked) => &asked.data,
            Call::WriteFile(asked) => &asked.data,
            _ => return Duration::ZERO,
        };
        Duration::from_millis(data.len() as u64 / SLOWEST_BYTES_PER_MS)
    }
}

/// Whoever sends slower than a megabit a second is taken for silent.
const SLOWEST_BYTES_PER_MS: u64 = 125;

/// Its answer.
#[derive(Clone, Debug)]
pub(crate) enum CallAnswer {
    List(v1::ListResponse),
    Break(v1::BreakResponse),
    ListSessions(v1::ListSessionsResponse),
    Cancel(v1::CancelResponse),
    Acquire(v1::Lease),
    /// Of both ways to write.
    WriteFile(v1::WriteFileResponse),
    DeleteFile(v1::DeleteFileResponse),
    StatFile(v1::File),
    ListFiles(v1::ListFilesResponse),
}

/// A way to one server. It gives up by itself what takes too long, but for calls that wait in line; dropping a future ends it.
pub(crate) trait Wire: Send + Sync + 'static {
    /// The server's address, for people.
    fn server(&self) -> &str;

    /// Opens a stream over the connection that is there, or a new one, and begins to send these groups, of which the first
    /// begins with the hello.
    fn converse(&self, groups: Groups) -> BoxFuture<'_, Result<Conversation, Failed>>;

    /// Makes one call.
    fn call(&self, call: Call) -> BoxFuture<'_, Result<CallAnswer, Failed>>;

    /// Watches; ends after its first failure.
    fn watch(
        &self,
        request: v1::WatchRequest,
    ) -> BoxFuture<'_, Result<BoxStream<'static, Result<v1::Event, Failed>>, Failed>>;

    /// Reads a file; ends with it, or after the first failure.
    fn read_file(
        &self,
        request: v1::ReadFileRequest,
    ) -> BoxFuture<'_, Result<BoxStream<'static, Result<v1::ReadFileResponse, Failed>>, Failed>>;

    /// This connection has been silent when it should not: the next stream or call goes over a new one.
    fn distrust(&self, connection: u64);
}
