//! The way to a real server: gRPC over one shared connection, made when it is needed and made anew when it is broken or
//! distrusted. Whoever needs more streams than a connection has gets another, and whoever reads files: a reader that stands
//! still must not keep renewals from being answered. Never retries; whoever asks decides that.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt, Stream, StreamExt, stream};
use hyper::Uri;
use hyper::header::HeaderValue;
use leasehold_protocol::v1;
use leasehold_protocol::v1::files_client::FilesClient;
use leasehold_protocol::v1::locks_client::LocksClient;
use leasehold_protocol::v1::sessions_client::SessionsClient;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::rustls::ClientConfig;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Request, Response, Status, Streaming};

use crate::address::Address;
use crate::connect::{FULL_STREAMS_MAX, connect};
use crate::error::Error;
use crate::group::{Group, GroupCodec};
use crate::pipe::{Occupied, Pipe, STREAMS_MAX};
use crate::wire::{Call, CallAnswer, Conversation, Failed, Groups, Trouble, Wire};

/// The longest answer that is taken: a page of locks with long lines.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// The stream of operations.
const OPERATIONS_STREAM: &str = "/leasehold.v1.Operations/Stream";

/// Where the server is, and how to show oneself there.
pub(crate) struct Destination {
    pub address: Address,
    pub tls: Option<Arc<ClientConfig>>,
    /// The header that shows the bearer token.
    pub authorization: Option<HeaderValue>,
    /// How long it may take until the first word of an answer, connecting included.
    pub within: Duration,
}

/// gRPC to one server.
pub(crate) struct Grpc {
    destination: Destination,
    server: String,
    origin: Uri,
    /// Held while a connection is made: whoever comes meanwhile shares it.
    connecting: tokio::sync::Mutex<()>,
    pipes: Mutex<Pipes>,
}

/// The connections that there are: one for words, unless that has no room, and more while files are read.
#[derive(Default)]
struct Pipes {
    /// Connections are counted from 1.
    last_id: u64,
    open: Vec<Open>,
    /// The last attempt that made none, and when it ended.
    failed: Option<(Instant, Trouble)>,
}

/// A connection that is there.
struct Open {
    id: u64,
    load: Load,
    pipe: Pipe,
}

/// What a connection carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    /// Questions and answers, which are always taken as they come.
    Words,
    /// What files hold, which lies there until its reader takes it.
    Files,
}

impl Load {
    /// How many streams have room on one connection.
    fn streams_max(self) -> usize {
        match self {
            Load::Words => STREAMS_MAX,
            Load::Files => FULL_STREAMS_MAX,
        }
    }
}

/// A place for one stream.
struct Seat {
    connection: u64,
    pipe: Pipe,
    occupied: Occupied,
}

impl Pipes {
    fn seat(&mut self, load: Load) -> Option<Seat> {
        self.open.retain(|open| open.pipe.is_open());
        self.open.iter().filter(|open| open.load == load).find_map(|Open { id, pipe, .. }| {
            let occupied = pipe.occupy(load.streams_max())?;
            Some(Seat { connection: *id, pipe: pipe.clone(), occupied })
        })
    }
}

impl fmt::Debug for Grpc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Grpc({})", self.server)
    }
}

impl Grpc {
    /// Nothing is connected yet.
    pub fn new(destination: Destination) -> Result<Grpc, Error> {
        let server = destination.address.to_string();
        let origin = server.parse().map_err(|error| Error::Invalid {
            field: "server".into(),
            detail: format!("{server:?} is not an address: {error}"),
        })?;
        let (connecting, pipes) = (tokio::sync::Mutex::default(), Mutex::default());
        Ok(Grpc { destination, server, origin, connecting, pipes })
    }

    fn pipes(&self) -> MutexGuard<'_, Pipes> {
        self.pipes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place on a connection that is there, or on a new one.
    async fn seat(&self, load: Load, by: Instant) -> Result<Seat, Failed> {
        let asked = Instant::now();
        if let Some(seat) = self.pipes().seat(load) {
            return Ok(seat);
        }
        let turn = timeout_at(by, self.connecting.lock()).await;
        let _turn = turn.map_err(|_| Failed::Trouble(Trouble::Silence("no connection in time".into())))?;
        {
            let mut pipes = self.pipes();
            if let Some(seat) = pipes.seat(load) {
                return Ok(seat);
            }
            // Somebody has just tried in vain: trying again at once is for those who come later.
            if let Some((ended, trouble)) = &pipes.failed
                && *ended >= asked
            {
                return Err(Failed::Trouble(trouble.clone()));
            }
        }
        let Destination { address, tls, authorization, .. } = &self.destination;
        let within = by.saturating_duration_since(Instant::now());
        let connected = connect(address, tls.as_ref(), within).await;
        let mut pipes = self.pipes();
        match connected {
            Ok((sender, handle)) => {
                let pipe = Pipe::new(sender, handle, tls.is_some(), authorization.clone());
                pipes.last_id += 1;
                let id = pipes.last_id;
                pipes.open.push(Open { id, load, pipe });
                pipes.seat(load).ok_or_else(|| {
                    Failed::Trouble(Trouble::Broken("the connection closed as soon as it was made".into()))
                })
            }
            Err(trouble) => {
                pipes.failed = Some((Instant::now(), trouble.clone()));
                Err(Failed::Trouble(trouble))
            }
        }
    }

    /// A connection for single calls, made now if there is none.
    pub async fn pipe(&self) -> Result<(u64, Pipe), Failed> {
        let seat = self.seat(Load::Words, self.by()).await?;
        Ok((seat.connection, seat.pipe))
    }

    fn by(&self) -> Instant {
        Instant::now() + self.destination.within
    }

    pub fn locks(&self, pipe: &Pipe) -> LocksClient<Pipe> {
        LocksClient::with_origin(pipe.clone(), self.origin.clone())
            .max_decoding_message_size(ANSWER_BYTES_MAX)
    }

    fn sessions(&self, pipe: &Pipe) -> SessionsClient<Pipe> {
        SessionsClient::with_origin(pipe.clone(), self.origin.clone())
            .max_decoding_message_size(ANSWER_BYTES_MAX)
    }

    pub fn files(&self, pipe: &Pipe) -> FilesClient<Pipe> {
        FilesClient::with_origin(pipe.clone(), self.origin.clone())
            .max_decoding_message_size(ANSWER_BYTES_MAX)
    }

    /// Not the generated client, which would encode every operation anew.
    fn operations(&self, pipe: &Pipe) -> tonic::client::Grpc<Pipe> {
        tonic::client::Grpc::with_origin(pipe.clone(), self.origin.clone())
            .max_decoding_message_size(ANSWER_BYTES_MAX)
    }
}

/// Waits for an answer until then. A connection on which nothing at all was heard meanwhile is ended.
async fn answered<T>(
    pipe: &Pipe,
    by: Instant,
    answer: impl Future<Output = Result<Response<T>, Status>> + Send,
) -> Result<T, Failed> {
    let heard = pipe.heard();
    match timeout_at(by, answer).await {
        Ok(Ok(answer)) => Ok(answer.into_inner()),
        Ok(Err(status)) => Err(pipe.failed(&status)),
        Err(_) => {
            if pipe.heard() == heard {
                pipe.cut();
            }
            Err(pipe.silent())
        }
    }
}

/// Everything that is told, up to the first failure, which the end of the stream is too.
fn until_failure<T: Send + 'static>(seat: Seat, told: Streaming<T>) -> BoxStream<'static, Result<T, Failed>> {
    stream::unfold(Some((seat, told)), |state| async {
        let (seat, mut told) = state?;
        match told.message().await {
            Ok(Some(message)) => Some((Ok(message), Some((seat, told)))),
            Ok(None) => {
                let ended = Trouble::Broken("the server ended the stream".into());
                Some((Err(Failed::Trouble(ended)), None))
            }
            Err(status) => Some((Err(seat.pipe.failed(&status)), None)),
        }
    })
    .boxed()
}

/// Everything that is told, up to the end or the first failure.
fn until_end<T: Send + 'static>(seat: Seat, told: Streaming<T>) -> BoxStream<'static, Result<T, Failed>> {
    stream::unfold(Some((seat, told)), |state| async {
        let (seat, mut told) = state?;
        match told.message().await {
            Ok(message) => message.map(|message| (Ok(message), Some((seat, told)))),
            Err(status) => Some((Err(seat.pipe.failed(&status)), None)),
        }
    })
    .boxed()
}

/// The same groups, each formed after whoever else is ready to run has had its turn: answers come in groups too, and those who
/// hear them and ask for the next thing are to share one.
struct Gathered {
    groups: Groups,
    /// Whether others have had their turn since there was nothing to send.
    waited: bool,
}

impl Stream for Gathered {
    type Item = Group;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Group>> {
        if !std::mem::replace(&mut self.waited, true) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let next = self.groups.poll_next_unpin(cx);
        self.waited = next.is_ready();
        next
    }
}

impl Wire for Grpc {
    fn server(&self) -> &str {
        &self.server
    }

    fn converse(&self, groups: Groups) -> BoxFuture<'_, Result<Conversation, Failed>> {
        async move {
            let by = self.by();
            let seat = self.seat(Load::Words, by).await?;
            let mut operations = self.operations(&seat.pipe);
            let opening = async {
                let ready = operations.ready().await;
                ready.map_err(Status::from_error)?;
                let path = PathAndQuery::from_static(OPERATIONS_STREAM);
                operations.streaming(Request::new(Gathered { groups, waited: false }), path, GroupCodec).await
            };
            let told = answered(&seat.pipe, by, opening).await?;
            Ok(Conversation { connection: seat.connection, told: until_failure(seat, told) })
        }
        .boxed()
    }

    fn call(&self, call: Call) -> BoxFuture<'_, Result<CallAnswer, Failed>> {
        async move {
            let by = self.by();
            let Seat { pipe, occupied: _occupied, .. } = self.seat(Load::Words, by).await?;
            let by = by + call.extra();
            let (mut locks, mut sessions, mut files) =
                (self.locks(&pipe), self.sessions(&pipe), self.files(&pipe));
            Ok(match call {
                Call::List(asked) => CallAnswer::List(answered(&pipe, by, locks.list(asked)).await?),
                Call::Break(asked) => CallAnswer::Break(answered(&pipe, by, locks.r#break(asked)).await?),
                Call::Cancel(asked) => CallAnswer::Cancel(answered(&pipe, by, locks.cancel(asked)).await?),
                Call::Acquire(asked) => CallAnswer::Acquire(answered(&pipe, by, locks.acquire(asked)).await?),
                Call::ListSessions(asked) => {
                    CallAnswer::ListSessions(answered(&pipe, by, sessions.list(asked)).await?)
                }
                Call::AppendFile(asked) => {
                    CallAnswer::WriteFile(answered(&pipe, by, files.append(asked)).await?)
                }
                Call::WriteFile(asked) => {
                    CallAnswer::WriteFile(answered(&pipe, by, files.write(asked)).await?)
                }
                Call::DeleteFile(asked) => {
                    CallAnswer::DeleteFile(answered(&pipe, by, files.delete(asked)).await?)
                }
                Call::StatFile(asked) => CallAnswer::StatFile(answered(&pipe, by, files.stat(asked)).await?),
                Call::ListFiles(asked) => {
                    CallAnswer::ListFiles(answered(&pipe, by, files.list(asked)).await?)
                }
            })
        }
        .boxed()
    }

    fn watch(
        &self,
        request: v1::WatchRequest,
    ) -> BoxFuture<'_, Result<BoxStream<'static, Result<v1::Event, Failed>>, Failed>> {
        async move {
            let by = self.by();
            let seat = self.seat(Load::Words, by).await?;
            let mut locks = self.locks(&seat.pipe);
            let told = answered(&seat.pipe, by, locks.watch(request)).await?;
            Ok(until_failure(seat, told))
        }
        .boxed()
    }

    fn read_file(
        &self,
        request: v1::ReadFileRequest,
    ) -> BoxFuture<'_, Result<BoxStream<'static, Result<v1::ReadFileResponse, Failed>>, Failed>> {
        async move {
            let by = self.by();
            let seat = self.seat(Load::Files, by).await?;
            let mut files = self.files(&seat.pipe);
            let told = answered(&seat.pipe, by, files.read(request)).await?;
            Ok(until_end(seat, told))
        }
        .boxed()
    }

    fn distrust(&self, connection: u64) {
        let mut pipes = self.pipes();
        for open in pipes.open.extract_if(.., |open| open.id == connection) {
            open.pipe.cut();
        }
    }
}
