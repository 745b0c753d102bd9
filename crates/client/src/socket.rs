//! A TCP connection that can be cut from outside, and that remembers the first bytes it was sent: they tell what answers
//! there when it is not what was expected. Knows nothing of what is said.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use futures_util::task::AtomicWaker;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Enough to tell protocols apart, and to read the status of an HTTP/1 answer.
const FIRST_BYTES: usize = 12;

/// What can be known and done about a connection from outside.
#[derive(Default)]
pub(crate) struct Handle {
    cut: AtomicBool,
    reader: AtomicWaker,
    /// How often something was heard.
    heard: AtomicU64,
    first_is_whole: AtomicBool,
    first: Mutex<Vec<u8>>,
}

/// What the first bytes look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Greeting {
    /// There were none.
    Nothing,
    /// A record of TLS.
    Tls,
    /// An answer of HTTP/1, and whether it says that there is no serving now.
    Http1 { unavailable: bool },
    /// A first frame of HTTP/2.
    Http2,
    /// Something else.
    Unknown,
}

impl Handle {
    /// Ends the connection: whatever is said over it fails now.
    pub fn cut(&self) {
        self.cut.store(true, Ordering::Release);
        self.reader.wake();
    }

    pub fn is_cut(&self) -> bool {
        self.cut.load(Ordering::Acquire)
    }

    /// Grows whenever something is heard.
    pub fn heard(&self) -> u64 {
        self.heard.load(Ordering::Relaxed)
    }

    pub fn greeting(&self) -> Greeting {
        match self.first.lock().unwrap_or_else(PoisonError::into_inner).as_slice() {
            [] => Greeting::Nothing,
            // An alert or a handshake, of any version 3.
            [0x15 | 0x16, 0x03, ..] => Greeting::Tls,
            [b'H', b'T', b'T', b'P', b'/', b'1', rest @ ..] => {
                Greeting::Http1 { unavailable: rest.ends_with(b" 503") }
            }
            // Settings, of a length that fits in a packet.
            [0, 0, _, 4, 0, ..] => Greeting::Http2,
            _ => Greeting::Unknown,
        }
    }

    fn take_note(&self, bytes: &[u8]) {
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        let room = FIRST_BYTES - first.len();
        first.extend(bytes.iter().take(room));
        self.first_is_whole.store(first.len() == FIRST_BYTES, Ordering::Relaxed);
    }
}

/// The connection itself.
pub(crate) struct Socket {
    stream: TcpStream,
    handle: Arc<Handle>,
}

impl Socket {
    pub fn new(stream: TcpStream) -> (Socket, Arc<Handle>) {
        let handle = Arc::new(Handle::default());
        (Socket { stream, handle: Arc::clone(&handle) }, handle)
    }
}

fn was_cut() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "it had been silent for too long")
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, into);
        if read.is_pending() {
            self.handle.reader.register(cx.waker());
        }
        if self.handle.is_cut() {
            return Poll::Ready(Err(was_cut()));
        }
        ready!(read)?;
        self.handle.heard.fetch_add(1, Ordering::Relaxed);
        if !self.handle.first_is_whole.load(Ordering::Relaxed) {
            self.handle.take_note(&into.filled()[before..]);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.handle.is_cut() {
            return Poll::Ready(Err(was_cut()));
        }
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.handle.is_cut() {
            return Poll::Ready(Err(was_cut()));
        }
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
