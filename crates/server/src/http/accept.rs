//! The accept loop: connections within their number, each with timeouts from its first byte, all of them drained when
//! the server stops. Knows nothing of what is asked.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::sockopt;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{interval, sleep, timeout};
use tracing::{debug, warn};

use super::connection;
use super::door::Door;
use super::places::{Full, PlaceLimits, Places};
use crate::limits::{
    ACCEPT_REST, BODY_TIMEOUT, CONNECTIONS_MAX, CONNECTIONS_PER_PEER_MAX, DRAIN_TIMEOUT,
    FIRST_REQUEST_TIMEOUT, HANDSHAKE_TIMEOUT, HEAD_TIMEOUT, KEEPALIVE_EVERY, KEEPALIVE_IDLE, KEEPALIVE_TRIES,
    REFUSAL_TIMEOUT, REFUSALS_MAX, SWEEP_EVERY, WRITE_TIMEOUT,
};
use crate::tls::Tls;

/// The bounds of connections.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// Connections at once.
    pub connections_max: usize,
    /// Of them from one peer.
    pub per_peer_max: usize,
    /// Of them from this machine.
    pub per_loopback_peer_max: usize,
    /// How long a TLS handshake may take.
    pub handshake_timeout: Duration,
    /// How long a connection may take to its first request.
    pub first_request_timeout: Duration,
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
            per_peer_max: CONNECTIONS_PER_PEER_MAX,
            // A proxy on this machine speaks for many, and idle connections make room among themselves.
            per_loopback_peer_max: usize::MAX,
            handshake_timeout: HANDSHAKE_TIMEOUT,
            first_request_timeout: FIRST_REQUEST_TIMEOUT,
            head_timeout: HEAD_TIMEOUT,
            body_timeout: BODY_TIMEOUT,
            write_timeout: WRITE_TIMEOUT,
        }
    }
}

impl ConnectionLimits {
    fn of_places(&self) -> PlaceLimits {
        PlaceLimits {
            connections_max: self.connections_max,
            per_peer_max: self.per_peer_max,
            per_loopback_peer_max: self.per_loopback_peer_max,
            first_request_timeout: self.first_request_timeout,
            idle_timeout: self.head_timeout,
            answer_timeout: self.write_timeout,
        }
    }
}

/// Connections that are still being served after the listener has closed.
pub struct Draining(Arc<Places>);

impl Draining {
    /// Lets requests in flight finish and closes idle connections; gives up after a while.
    pub async fn finish(self) {
        self.0.close();
        if timeout(DRAIN_TIMEOUT, self.0.emptied()).await.is_err() {
            debug!("some connections did not end in time and are cut off");
        }
    }
}

/// Accepts and serves connections until `stop` resolves; then closes the listener and hands back what is in flight.
pub async fn accept(
    listener: TcpListener,
    door: Arc<Door>,
    tls: Option<Arc<Tls>>,
    limits: ConnectionLimits,
    stop: impl Future<Output = ()>,
) -> Draining {
    let places = Places::new(limits.of_places());
    let refusals = Arc::new(Semaphore::new(REFUSALS_MAX));
    let mut sweep = interval(SWEEP_EVERY);
    let mut stop = pin!(stop);
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut stop => return Draining(places),
            _ = sweep.tick() => {
                places.sweep();
                continue;
            }
            accepted = listener.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok((stream, address)) => (stream, address.ip()),
            Err(error) => {
                // Most often out of file descriptors. Connections that end give some back.
                warn!(%error, "cannot accept a connection");
                places.relieve();
                sleep(ACCEPT_REST).await;
                continue;
            }
        };
        match places.take(peer) {
            Ok(guest) => {
                if let Err(error) = prepare(&stream) {
                    debug!(%error, "a connection ended before it began");
                    continue;
                }
                let acceptor = tls.as_ref().map(|tls| tls.acceptor());
                tokio::spawn(connection::serve(stream, guest, acceptor, Arc::clone(&door), limits));
            }
            Err(full) => {
                door.metrics().connection_refused();
                debug!(%peer, ?full, "a connection too many");
                // Nobody could read plain words where a handshake is expected.
                if tls.is_none()
                    && let Ok(turn) = Arc::clone(&refusals).try_acquire_owned()
                {
                    tokio::spawn(async move {
                        refuse(stream, full).await;
                        drop(turn);
                    });
                }
            }
        }
    }
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    // Answers are small and whole: waiting to fill a packet would only delay them.
    stream.set_nodelay(true)?;
    // A machine that vanished without a word must not hold a place in line for long.
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(stream, KEEPALIVE_EVERY)?;
    sockopt::set_tcp_keepcnt(stream, KEEPALIVE_TRIES)?;
    Ok(())
}

/// Tells a connection beyond the limit that it is one.
async fn refuse(mut stream: TcpStream, full: Full) {
    let detail = match full {
        Full::All => "too many connections",
        Full::Peer => "too many connections from your address",
    };
    let body = format!(
        r#"{{"status":503,"title":"Busy","detail":"{detail}","code":"busy","recommended_retry_ms":1000}}"#
    );
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    if let Ok(Ok(())) = timeout(REFUSAL_TIMEOUT, stream.write_all(answer.as_bytes())).await {
        connection::part(stream).await;
    }
}
