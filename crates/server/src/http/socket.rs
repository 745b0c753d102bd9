//! A connection with two habits that plain sockets lack. Who asks and then never takes the answer is cut off. And who
//! hangs up is noticed at once, also behind requests that it sent ahead and that nobody has read yet: a place in line
//! must not outlive the connection it was asked for on.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

/// A TCP stream with a bound on how long a write may make no progress.
#[derive(Debug)]
pub struct Socket {
    stream: Shared,
    timeout: Duration,
    /// Counts from the write that first found no room; kept for the next time.
    patience: Pin<Box<Sleep>>,
    stuck: bool,
}

/// Looks at a socket beside whoever reads from it. Both are polled by the same task, so nobody ever waits for the lock.
#[derive(Debug)]
pub struct HangUp(Shared);

#[derive(Clone, Debug)]
struct Shared(Arc<Mutex<TcpStream>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, TcpStream> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Socket {
    /// Bounds the writes of `stream`.
    pub fn new(stream: TcpStream, timeout: Duration) -> Socket {
        let stream = Shared(Arc::new(Mutex::new(stream)));
        Socket { stream, timeout, patience: Box::pin(sleep(timeout)), stuck: false }
    }

    /// Tells when the other side has hung up.
    pub fn hang_up(&self) -> HangUp {
        HangUp(self.stream.clone())
    }

    /// Passes a write's result on, unless it has found no room for too long.
    fn bounded<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stuck = false;
            return written;
        }
        if !self.stuck {
            self.stuck = true;
            self.patience.as_mut().reset(Instant::now() + self.timeout);
        }
        ready!(self.patience.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not take its answer")))
    }
}

impl HangUp {
    /// Ready when the other side has closed its half and nothing of what it sent is left to be read.
    pub fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut byte = [0];
        match self.0.lock().poll_peek(cx, &mut ReadBuf::new(&mut byte)) {
            Poll::Ready(Ok(0) | Err(_)) => Poll::Ready(()),
            // Unread bytes hide what comes after them. Whoever reads them is woken for them.
            Poll::Ready(Ok(_)) | Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream.lock()).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut *self.stream.lock()).poll_write(cx, bytes);
        self.bounded(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut *self.stream.lock()).poll_write_vectored(cx, slices);
        self.bounded(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.lock().is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream.lock()).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream.lock()).poll_shutdown(cx)
    }
}
