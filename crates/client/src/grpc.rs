//! The way to a real server: gRPC over one shared connection, made when it is needed and made anew when it is broken or
//! distrusted. Never retries; whoever asks decides about that.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt, Stream, StreamExt, stream};
use hyper::Uri;
use hyper::header::HeaderValue;
use leasehold_protocol::v1;
use leasehold_protocol::v1::locks_client::LocksClient;
use leasehold_protocol::v1::operations_client::OperationsClient;
use leasehold_protocol::v1::sessions_client::SessionsClient;
use tokio::time::{Instant, timeout};
use tokio_rustls::rustls::ClientConfig;
use tonic::{Response, Status, Streaming};

use crate::address::Address;
use crate::connect::connect;
use crate::error::Error;
use crate::pipe::Pipe;
use crate::wire::{Call, CallAnswer, Conversation, Failed, Groups, Trouble, Wire};

/// The longest answer that is taken: a page of locks with long lines.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Where the server is, and how to show oneself there.
pub(crate) struct Destination {
    pub address: Address,
    pub tls: Option<Arc<ClientConfig>>,
    /// The header that shows the bearer token.
    pub authorization: Option<HeaderValue>,
    /// How long connecting may take, and opening a stream.
    pub within: Duration,
}

/// gRPC to one server.
pub(crate) struct Grpc {
    destination: Destination,
    server: String,
    origin: Uri,
    /// Held while a connection is made: whoever comes meanwhile shares it.
    connecting: tokio::sync::Mutex<()>,
    current: Mutex<Current>,
}

#[derive(Default)]
struct Current {
    /// Connections are counted from 1.
    last_id: u64,
    pipe: Option<Pipe>,
    /// The last attempt that made none, and when it ended.
    failed: Option<(Instant, Trouble)>,
}

impl fmt::Debug for Grpc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Grpc({})", self.server)
    }
}

impl Grpc {
    pub fn new(destination: Destination) -> Result<Grpc, Error> {
        let server = destination.address.to_string();
        let origin = server.parse().map_err(|error| Error::Invalid {
            field: "server".into(),
            detail: format!("{server:?} is not an address: {error}"),
        })?;
        let (connecting, current) = (tokio::sync::Mutex::default(), Mutex::default());
        Ok(Grpc { destination, server, origin, connecting, current })
    }

    fn current(&self) -> std::sync::MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open_pipe(&self) -> Option<(u64, Pipe)> {
        let current = self.current();
        let pipe = current.pipe.as_ref().filter(|pipe| pipe.is_open())?;
        Some((current.last_id, pipe.clone()))
    }

    /// The connection that is there, or a new one.
    pub async fn pipe(&self) -> Result<(u64, Pipe), Failed> {
        if let Some(open) = self.open_pipe() {
            return Ok(open);
        }
        let asked = Instant::now();
        let _turn = self.connecting.lock().await;
        if let Some(open) = self.open_pipe() {
            return Ok(open);
        }
        if let Some((ended, trouble)) = &self.current().failed
            && *ended >= asked
        {
            return Err(Failed::Trouble(trouble.clone()));
        }
        let Destination { address, tls, authorization, within } = &self.destination;
        let connected = connect(address, tls.as_ref(), *within).await;
        let mut current = self.current();
        match connected {
            Ok((sender, handle)) => {
                let pipe = Pipe::new(sender, handle, tls.is_some(), authorization.clone());
                current.last_id += 1;
                current.pipe = Some(pipe.clone());
                Ok((current.last_id, pipe))
            }
            Err(trouble) => {
                current.failed = Some((Instant::now(), trouble.clone()));
                Err(Failed::Trouble(trouble))
            }
        }
    }

    pub fn locks(&self, pipe: &Pipe) -> LocksClient<Pipe> {
        LocksClient::with_origin(pipe.clone(), self.origin.clone())
            .max_decoding_message_size(ANSWER_BYTES_MAX)
    }

    fn sessions(&self, pipe: &Pipe) -> SessionsClient<Pipe> {
        SessionsClient::with_origin(pipe.clone(), self.origin.clone())
            .max_decoding_message_size(ANSWER_BYTES_MAX)
    }
}

/// The same groups, as a type that the compiler can tell to be [`Send`].
struct Named(Groups);

impl Stream for Named {
    type Item = v1::OperationGroup;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<v1::OperationGroup>> {
        self.0.poll_next_unpin(cx)
    }
}

/// A stream whose head must come in time, and everything that is told on it.
async fn opened<T: Send + 'static>(
    pipe: Pipe,
    within: Duration,
    opening: impl Future<Output = Result<Response<Streaming<T>>, Status>> + Send,
) -> Result<BoxStream<'static, Result<T, Failed>>, Failed> {
    match timeout(within, opening).await {
        Ok(Ok(answer)) => Ok(until_failure(pipe, answer.into_inner()).boxed()),
        Ok(Err(status)) => Err(pipe.failed(&status)),
        Err(_) => {
            // Whoever takes a connection and then says nothing has it for nothing.
            pipe.cut();
            let detail = format!("the connection was taken, but no answer came in {within:?}");
            Err(Failed::Trouble(Trouble::Silence(detail)))
        }
    }
}

/// Everything that is told, up to the first failure, which the end of the stream is too.
fn until_failure<T: Send + 'static>(
    pipe: Pipe,
    told: Streaming<T>,
) -> impl Stream<Item = Result<T, Failed>> + Send + 'static {
    stream::unfold(Some((pipe, told)), |state| async {
        let (pipe, mut told) = state?;
        match told.message().await {
            Ok(Some(message)) => Some((Ok(message), Some((pipe, told)))),
            Ok(None) => {
                let ended = Trouble::Broken("the server ended the stream".into());
                Some((Err(Failed::Trouble(ended)), None))
            }
            Err(status) => Some((Err(pipe.failed(&status)), None)),
        }
    })
}

impl Wire for Grpc {
    fn server(&self) -> &str {
        &self.server
    }

    fn converse(&self, groups: Groups) -> BoxFuture<'_, Result<Conversation, Failed>> {
        async move {
            let (connection, pipe) = self.pipe().await?;
            let mut operations = OperationsClient::with_origin(pipe.clone(), self.origin.clone())
                .max_decoding_message_size(ANSWER_BYTES_MAX);
            let told = opened(pipe, self.destination.within, operations.stream(Named(groups))).await?;
            Ok(Conversation { connection, told })
        }
        .boxed()
    }

    fn call(&self, call: Call) -> BoxFuture<'_, Result<CallAnswer, Failed>> {
        async move {
            let (_, pipe) = self.pipe().await?;
            let (mut locks, mut sessions) = (self.locks(&pipe), self.sessions(&pipe));
            let answer = match call {
                Call::List(asked) => locks.list(asked).await.map(|told| CallAnswer::List(told.into_inner())),
                Call::Break(asked) => {
                    locks.r#break(asked).await.map(|told| CallAnswer::Break(told.into_inner()))
                }
                Call::Cancel(asked) => {
                    locks.cancel(asked).await.map(|told| CallAnswer::Cancel(told.into_inner()))
                }
                Call::Acquire(asked) => {
                    locks.acquire(asked).await.map(|told| CallAnswer::Acquire(told.into_inner()))
                }
                Call::ListSessions(asked) => {
                    sessions.list(asked).await.map(|told| CallAnswer::ListSessions(told.into_inner()))
                }
            };
            answer.map_err(|status| pipe.failed(&status))
        }
        .boxed()
    }

    fn watch(
        &self,
        request: v1::WatchRequest,
    ) -> BoxFuture<'_, Result<BoxStream<'static, Result<v1::Event, Failed>>, Failed>> {
        async move {
            let (_, pipe) = self.pipe().await?;
            let mut locks = self.locks(&pipe);
            opened(pipe, self.destination.within, locks.watch(request)).await
        }
        .boxed()
    }

    fn distrust(&self, connection: u64) {
        let mut current = self.current();
        if current.last_id == connection
            && let Some(pipe) = current.pipe.take()
        {
            pipe.cut();
        }
    }
}
