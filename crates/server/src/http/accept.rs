//! The accept loop: connections within their number, each with timeouts from its first byte, all of them drained when
//! the server stops. Knows nothing of what is asked.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use super::door::Door;
use super::socket::Socket;
use crate::limits::{
    ACCEPT_REST, BODY_TIMEOUT, CONNECTIONS_MAX, DRAIN_TIMEOUT, HEAD_BYTES_MAX, HEAD_TIMEOUT, HEADERS_MAX,
    REFUSAL_TIMEOUT, REFUSALS_MAX, WRITE_TIMEOUT,
};

/// The bounds of connections.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// Connections at once.
    pub connections_max: usize,
    /// How long a request's head may take to arrive, and how long a connection may be idle.
    pub head_timeout: Duration,
    /// How long a request's body may take to arrive.
    pub body_timeout: Duration,
    /// How long an answer may find no room on its way out.
    pub write_timeout: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        ConnectionLimits {
            connections_max: CONNECTIONS_MAX,
            head_timeout: HEAD_TIMEOUT,
            body_timeout: BODY_TIMEOUT,
            write_timeout: WRITE_TIMEOUT,
        }
    }
}

/// Connections that are still being served after the listener has closed.
pub struct Draining(GracefulShutdown);

impl Draining {
    /// Lets requests in flight finish and closes idle connections; gives up after a while.
    pub async fn finish(self) {
        if timeout(DRAIN_TIMEOUT, self.0.shutdown()).await.is_err() {
            debug!("some connections did not end in time and are cut off");
        }
    }
}

/// Accepts and serves connections until `stop` resolves; then closes the listener and hands back what is in flight.
pub async fn accept(
    listener: TcpListener,
    door: Arc<Door>,
    limits: ConnectionLimits,
    stop: impl Future<Output = ()>,
) -> Draining {
    let connections = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(limits.connections_max));
    let refusals = Arc::new(Semaphore::new(REFUSALS_MAX));
    let mut stop = pin!(stop);
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut stop => return Draining(connections),
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Most often out of file descriptors. Connections that end give some back.
                warn!(%error, "cannot accept a connection");
                sleep(ACCEPT_REST).await;
                continue;
            }
        };
        match Arc::clone(&places).try_acquire_owned() {
            Ok(place) => {
                let served = serve(stream, Arc::clone(&door), limits, &connections);
                tokio::spawn(async move {
                    served.await;
                    drop(place);
                });
            }
            Err(_) => {
                door.metrics().connection_refused();
                if let Ok(turn) = Arc::clone(&refusals).try_acquire_owned() {
                    tokio::spawn(async move {
                        refuse(stream).await;
                        drop(turn);
                    });
                }
            }
        }
    }
}

/// One connection from its first byte to its last. When the client closes it, the call in flight is dropped, and
/// with it a place in line detaches.
fn serve(
    stream: TcpStream,
    door: Arc<Door>,
    limits: ConnectionLimits,
    connections: &GracefulShutdown,
) -> impl Future<Output = ()> + use<> {
    // Answers are small and whole: waiting to fill a packet would only delay them.
    let _ = stream.set_nodelay(true);
    let open = door.metrics().connection_opened();
    let service = service_fn(move |request| {
        let door = Arc::clone(&door);
        async move { Ok::<_, Infallible>(door.answer(request, limits.body_timeout).await) }
    });
    let socket = Socket::new(stream, limits.write_timeout);
    let hang_up = socket.hang_up();
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_timeout)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(socket), service);
    let mut connection = Box::pin(connections.watch(connection));
    async move {
        // Dropped with the call in flight when the client hangs up.
        let ended = poll_fn(|cx| match connection.as_mut().poll(cx) {
            Poll::Pending => hang_up.poll(cx).map(Ok),
            ended => ended,
        });
        if let Err(error) = ended.await {
            debug!(%error, "a connection ended badly");
        }
        drop(open);
    }
}

/// Tells a connection beyond the limit that it is one. Waits for the client to close, so that the answer is not
/// destroyed by bytes that nobody read.
async fn refuse(mut stream: TcpStream) {
    const BODY: &str = r#"{"status":503,"title":"Busy","detail":"too many connections","code":"busy","recommended_retry_ms":1000}"#;
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{BODY}",
        BODY.len()
    );
    let told = async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await?;
        let mut unread = [0; 1024];
        while stream.read(&mut unread).await? > 0 {}
        Ok::<(), std::io::Error>(())
    };
    let _ = timeout(REFUSAL_TIMEOUT, told).await;
}
