//! One connection, from its first byte to its last: encrypted or not, HTTP/1.1 or HTTP/2, until it ends by itself, the
//! client hangs up, or it is asked to leave. Knows nothing of what is asked.

use std::convert::Infallible;
use std::error::Error;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::Request;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tracing::debug;

use super::accept::ConnectionLimits;
use super::door::Door;
use super::places::{Busy, Guest};
use super::socket::{HangUp, Socket};
use crate::doors;
use crate::limits::{
    HEAD_BYTES_MAX, HEADERS_MAX, HTTP2_CONNECTION_WINDOW_BYTES, HTTP2_ERRORS_MAX, HTTP2_FRAME_BYTES_MAX,
    HTTP2_PING_EVERY, HTTP2_PING_TIMEOUT, HTTP2_RESETS_PENDING_MAX, HTTP2_SEND_BYTES_MAX,
    HTTP2_STREAM_WINDOW_BYTES, HTTP2_STREAMS_MAX, LEAVE_TIMEOUT, REFUSAL_TIMEOUT,
};

/// Serves a connection. When the client closes it, the calls in flight are dropped, and with them places in line
/// detach.
pub async fn serve(
    stream: TcpStream,
    guest: Guest,
    tls: Option<TlsAcceptor>,
    door: Arc<Door>,
    limits: ConnectionLimits,
) {
    let open = door.metrics().connection_opened();
    let socket = Socket::new(stream, limits.write_timeout);
    let hang_up = socket.hang_up();
    let ended = match tls {
        None => drive(socket, hang_up, &guest, door, limits).await,
        Some(acceptor) => match shake_hands(acceptor, socket, &guest, limits).await {
            Ok(socket) => drive(socket, hang_up, &guest, door, limits).await,
            Err(error) => Err(error.into()),
        },
    };
    if let Err(error) = ended {
        debug!(error, "a connection ended badly");
    }
    drop(open);
}

async fn shake_hands(
    acceptor: TlsAcceptor,
    socket: Socket,
    guest: &Guest,
    limits: ConnectionLimits,
) -> io::Result<impl AsyncRead + AsyncWrite + Unpin + Send + 'static> {
    let late = || io::Error::new(io::ErrorKind::TimedOut, "the TLS handshake took too long");
    let shaken = async {
        match acceptor.accept(socket).into_fallible().await {
            Ok(secured) => Ok(secured),
            Err((error, socket)) => {
                part(socket).await;
                Err(error)
            }
        }
    };
    tokio::select! {
        done = timeout(limits.handshake_timeout, shaken) => done.unwrap_or_else(|_| Err(late())),
        () = guest.asked_to_leave() => Err(late()),
    }
}

/// Lets what was said last arrive: a connection that is closed before everything was read is reset, and what was said may
/// then never be read.
pub(super) async fn part(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let parted = async {
        stream.shutdown().await?;
        let mut unread = [0; 1024];
        while stream.read(&mut unread).await? > 0 {}
        Ok::<(), io::Error>(())
    };
    let _ = timeout(REFUSAL_TIMEOUT, parted).await;
}

async fn drive(
    socket: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    hang_up: HangUp,
    guest: &Guest,
    door: Arc<Door>,
    limits: ConnectionLimits,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let desk = guest.desk();
    let service = service_fn(move |request: Request<Incoming>| {
        let door = Arc::clone(&door);
        let mut busy = desk.request();
        async move {
            let reply = doors::answer(door, request, limits.body_timeout).await;
            if reply.body().size_hint().exact().is_some() {
                busy.answered();
            }
            Ok::<_, Infallible>(reply.map(|body| Sending { body, busy }))
        }
    });
    let builder = builder(limits);
    let mut connection = Box::pin(builder.serve_connection(TokioIo::new(socket), service));
    let mut asked = pin!(guest.asked_to_leave());
    let mut leaving = None;
    poll_fn(|cx| {
        if let Poll::Ready(ended) = connection.as_mut().poll(cx) {
            return Poll::Ready(ended);
        }
        if hang_up.poll(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        if leaving.is_none() && asked.as_mut().poll(cx).is_ready() {
            connection.as_mut().graceful_shutdown();
            leaving = Some(Box::pin(tokio::time::sleep(LEAVE_TIMEOUT)));
            if let Poll::Ready(ended) = connection.as_mut().poll(cx) {
                return Poll::Ready(ended);
            }
        }
        while let Some(patience) = &mut leaving
            && patience.as_mut().poll(cx).is_ready()
        {
            if guest.is_idle() {
                return Poll::Ready(Ok(()));
            }
            patience.as_mut().reset(tokio::time::Instant::now() + LEAVE_TIMEOUT);
        }
        Poll::Pending
    })
    .await
}

/// Both protocols, within their bounds.
fn builder(limits: ConnectionLimits) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_timeout)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(HTTP2_STREAMS_MAX)
        .max_header_list_size(HEAD_BYTES_MAX as u32)
        .initial_stream_window_size(HTTP2_STREAM_WINDOW_BYTES)
        .initial_connection_window_size(HTTP2_CONNECTION_WINDOW_BYTES)
        .max_frame_size(HTTP2_FRAME_BYTES_MAX)
        .max_send_buf_size(HTTP2_SEND_BYTES_MAX)
        .max_pending_accept_reset_streams(HTTP2_RESETS_PENDING_MAX)
        .max_local_error_reset_streams(HTTP2_ERRORS_MAX)
        .keep_alive_interval(HTTP2_PING_EVERY)
        .keep_alive_timeout(HTTP2_PING_TIMEOUT);
    builder
}

/// An answer's body. While it is there, the connection is not idle.
struct Sending<B> {
    body: B,
    busy: Busy,
}

impl<B: Body<Data = Bytes> + Unpin> Body for Sending<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if frame.is_ready() {
            self.busy.progressed();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
