//! One connection to a server: the name looked up, TCP, TLS if wanted, HTTP/2 on top; all of it within a time, and every way
//! in which it can fail told apart. Says nothing to the server but greetings, and tries nothing twice.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{AlertDescription, ClientConfig, Error as TlsError};

use crate::address::Address;
use crate::socket::{Greeting, Handle, Socket};
use crate::wire::Trouble;

/// A connection on which nothing was heard for so long is asked for a sign of life...
const PING_EVERY: Duration = Duration::from_secs(5);
/// ...and given up when none comes within this time.
const PING_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes that a server may send ahead, on one stream and on all: an answer with a long line of waiters fits.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 4 << 20;
/// Bytes that a server may put into one frame, which is read as a whole: a group of answers comes in one piece, and wakes whoever
/// reads it once.
const FRAME_BYTES_MAX: u32 = 64 << 10;
/// Streams on one connection of which none stands in another's way even when nobody takes what they bring.
pub(crate) const FULL_STREAMS_MAX: usize = (CONNECTION_WINDOW_BYTES / STREAM_WINDOW_BYTES) as usize;

/// Sends requests over one connection.
pub(crate) type Sender = http2::SendRequest<tonic::body::Body>;

/// Connects within this time.
pub(crate) async fn connect(
    address: &Address,
    tls: Option<&Arc<ClientConfig>>,
    within: Duration,
) -> Result<(Sender, Arc<Handle>), Trouble> {
    let (stream, handle) = dial(address, tls, within).await?;
    Ok((converse(stream).await?, handle))
}

/// Bytes in both directions.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// Connects within this time, and says nothing but what TLS needs.
pub(crate) async fn dial(
    address: &Address,
    tls: Option<&Arc<ClientConfig>>,
    within: Duration,
) -> Result<(Box<dyn Stream>, Arc<Handle>), Trouble> {
    let by = Instant::now() + within;
    let stream = reach(address, by, within).await?;
    // Groups are whole when they are sent: waiting to fill a packet would only delay them.
    stream.set_nodelay(true).map_err(|error| Trouble::Broken(error.to_string()))?;
    let (socket, handle) = Socket::new(stream);
    let stream: Box<dyn Stream> = match tls {
        None => Box::new(socket),
        Some(config) => {
            let secured = secure(socket, &handle, address, config);
            let secured = timeout_at(by, secured).await.unwrap_or_else(|_| {
                let detail =
                    format!("{} did not answer the TLS handshake in {within:?}", address.authority());
                Err(Trouble::Silence(detail))
            });
            Box::new(secured?)
        }
    };
    Ok((stream, handle))
}

/// A TCP connection to one of the host's addresses, tried in turn, each with its share of the time.
async fn reach(address: &Address, by: Instant, within: Duration) -> Result<TcpStream, Trouble> {
    let Address { host, port, .. } = address;
    let found = match timeout_at(by, lookup_host((host.as_str(), *port))).await {
        Ok(Ok(found)) => Vec::from_iter(found),
        Ok(Err(error)) => return Err(Trouble::NoSuchHost(format!("{host}: {error}"))),
        Err(_) => return Err(Trouble::Silence(format!("the name {host} was not found in {within:?}"))),
    };
    let mut trouble = Trouble::NoSuchHost(format!("{host} has no address"));
    for (at, peer) in found.iter().enumerate() {
        let left = by.saturating_duration_since(Instant::now());
        let share = left / u32::try_from(found.len() - at).unwrap_or(u32::MAX);
        trouble = match timeout(share, TcpStream::connect(peer)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => unreachable_because(*peer, &error),
            Err(_) => Trouble::Silence(format!("no connection to {peer} in {within:?}")),
        };
    }
    Err(trouble)
}

fn unreachable_because(peer: SocketAddr, error: &io::Error) -> Trouble {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Trouble::Refused(format!("{peer} refused the connection")),
        io::ErrorKind::TimedOut => Trouble::Silence(format!("no connection to {peer}: {error}")),
        _ => Trouble::Refused(format!("cannot connect to {peer}: {error}")),
    }
}

async fn secure(
    socket: Socket,
    handle: &Handle,
    address: &Address,
    config: &Arc<ClientConfig>,
) -> Result<impl AsyncRead + AsyncWrite + Unpin + Send + use<>, Trouble> {
    let peer = address.authority();
    let name = ServerName::try_from(address.host.clone())
        .map_err(|_| Trouble::Tls(format!("no certificate can be for a host called {:?}", address.host)))?;
    let secured = TlsConnector::from(Arc::clone(config)).connect(name, socket).await;
    secured.map_err(|error| match (handle.greeting(), tls_error(&error)) {
        (Greeting::Http1 { .. } | Greeting::Http2, _) => {
            Trouble::Tls(format!("{peer} does not speak TLS but plain HTTP: write http:// instead of https://"))
        }
        (Greeting::Tls, Some(TlsError::InvalidCertificate(why))) => Trouble::Tls(format!(
            "the certificate of {peer} is not to be trusted ({why}): give the certificate of the authority that \
             signed it, and call the server by a name that is in it"
        )),
        (
            Greeting::Tls,
            Some(
                TlsError::NoApplicationProtocol
                | TlsError::AlertReceived(AlertDescription::NoApplicationProtocol),
            ),
        ) => Trouble::NotLeasehold(format!("{peer} speaks TLS, but not HTTP/2 inside")),
        (Greeting::Tls, _) => Trouble::Tls(format!("the handshake with {peer} failed: {error}")),
        (Greeting::Nothing, _) => {
            Trouble::Tls(format!("{peer} closed the connection at the TLS handshake: does it speak TLS at all?"))
        }
        (Greeting::Unknown, _) => Trouble::NotLeasehold(format!("{peer} speaks neither TLS nor HTTP")),
    })
}

fn tls_error(error: &io::Error) -> Option<&TlsError> {
    error.get_ref()?.downcast_ref()
}

/// HTTP/2 over what is there. Nothing is heard yet: the first answer tells whether the other side understands.
async fn converse(socket: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Result<Sender, Trouble> {
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_frame_size(FRAME_BYTES_MAX)
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_TIMEOUT)
        .handshake(TokioIo::new(socket))
        .await
        .map_err(|error| Trouble::Broken(cause(&error)))?;
    // Whoever has a request on it hears of its end himself.
    tokio::spawn(async {
        let _ = connection.await;
    });
    Ok(sender)
}

/// The innermost reason of an error, which says most.
pub(crate) fn cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
