//! One read of a file, in pieces from the disk and in slices to the reader. Small reads are one piece, in which each write
//! is seen whole or not at all. Reads no further ahead than the reader takes.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use leasehold_engine::{OpenFile, ReadError};
use leasehold_state_machine::answer::{FileView, Refusal};
use tracing::error;

use super::on_the_way::Share;
use super::readers::{Piece, Readers, Stamp};
use crate::limits::{LONG_READ_PIECE_BYTES, READ_RETRY_MS, WHOLE_READ_BYTES_MAX};

/// Bytes of a file on their way to a reader.
pub struct Reading {
    file: OpenFile,
    readers: Arc<Readers>,
    piece_bytes: usize,
    /// The next byte to be read from the disk.
    at: u64,
    /// One past the last byte that is wanted.
    end: u64,
    /// Bytes that the reader has not taken yet.
    left: u64,
    state: State,
}

/// The next bytes, and their room on the way to the reader.
#[derive(Debug)]
pub struct Slice {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// What is to be kept until they are sent.
    pub share: Share,
}

impl From<Slice> for Bytes {
    fn from(slice: Slice) -> Bytes {
        slice.share.hold(slice.bytes)
    }
}

enum State {
    /// The disk is being asked.
    Fetching(Fetch),
    /// A piece lies ready.
    Ready(Stamp),
    /// There is nothing more to come.
    Over,
}

type Fetch = Pin<Box<dyn Future<Output = Result<Piece, Refusal>> + Send>>;

impl Reading {
    /// Begins to read the bytes from `start` up to `end`, which the file has. Its first piece is there when this returns, so
    /// that what cannot be read is refused before anything is told.
    pub async fn begin(
        readers: &Arc<Readers>,
        file: OpenFile,
        start: u64,
        end: u64,
    ) -> Result<Reading, Refusal> {
        assert!(start <= end && end <= file.view().size, "a read lies within its file");
        let left = end - start;
        // What does not fit into a number is long.
        let piece_bytes = match usize::try_from(left) {
            Ok(bytes) if bytes <= WHOLE_READ_BYTES_MAX => bytes,
            _ => LONG_READ_PIECE_BYTES,
        };
        let readers = Arc::clone(readers);
        let mut reading = Reading { file, readers, piece_bytes, at: start, end, left, state: State::Over };
        if left > 0 {
            let piece = reading.readers.enter(piece_bytes)?;
            let piece = reading.fetch(piece).await?;
            reading.state = State::Ready(reading.readers.put(piece));
        }
        Ok(reading)
    }

    /// The file, as it was when it was asked for.
    pub fn file(&self) -> &FileView {
        self.file.view()
    }

    /// Where the bytes that are still to come begin.
    pub fn next_byte(&self) -> u64 {
        self.end - self.left
    }

    /// Bytes that are still to come.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// The next bytes; none after the last. After a refusal there are no more.
    pub fn poll_slice(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Slice, Refusal>>> {
        loop {
            let piece = match std::mem::replace(&mut self.state, State::Over) {
                State::Over => return Poll::Ready(None),
                State::Ready(stamp) => match self.readers.take(stamp) {
                    Some(piece) if piece.rest().is_empty() => {
                        self.state = State::Fetching(self.fetch(piece));
                        continue;
                    }
                    Some(piece) => Ok(piece),
                    None => Err(TOO_SLOW),
                },
                State::Fetching(mut fetch) => match fetch.as_mut().poll(cx) {
                    Poll::Ready(fetched) => fetched,
                    Poll::Pending => {
                        self.state = State::Fetching(fetch);
                        return Poll::Pending;
                    }
                },
            };
            return Poll::Ready(Some(piece.and_then(|piece| self.slice(piece))));
        }
    }

    /// The next bytes, for those who can wait.
    pub async fn next(&mut self) -> Option<Result<Slice, Refusal>> {
        std::future::poll_fn(|cx| self.poll_slice(cx)).await
    }

    /// Hands out the next slice of a piece. It is a copy, so that a slice that nobody takes holds no more than itself.
    fn slice(&mut self, mut piece: Piece) -> Result<Slice, Refusal> {
        let rest = piece.rest();
        let share = self.readers.on_the_way().share(rest.len())?;
        let bytes = rest[..share.bytes()].to_vec();
        piece.given += bytes.len();
        self.left -= bytes.len() as u64;
        self.readers.count(bytes.len());
        // The next piece is read when it is asked for: until then whoever does not ask can be found in the line.
        if self.left > 0 {
            self.state = State::Ready(self.readers.put(piece));
        }
        Ok(Slice { bytes, share })
    }

    /// Reads the next piece in the room of the last.
    fn fetch(&mut self, mut piece: Piece) -> Fetch {
        let (from, wanted) = (self.at, self.end - self.at);
        let bytes = usize::try_from(wanted).map_or(self.piece_bytes, |wanted| wanted.min(self.piece_bytes));
        self.at += bytes as u64;
        let (file, readers) = (self.file.clone(), Arc::clone(&self.readers));
        Box::pin(async move {
            let _turn = readers.turn_at_the_disk().await;
            let read = tokio::task::spawn_blocking(move || {
                piece.given = 0;
                piece.bytes.resize(bytes, 0);
                file.read_at(from, &mut piece.bytes).map(|()| piece)
            });
            match read.await {
                Ok(Ok(piece)) => Ok(piece),
                Ok(Err(problem)) => Err(refusal(problem)),
                // The server stops, and its threads are gone.
                Err(_) => Err(NOT_READ),
            }
        })
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        if let State::Ready(stamp) = std::mem::replace(&mut self.state, State::Over) {
            drop(self.readers.take(stamp));
        }
    }
}

impl fmt::Debug for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reading({}, {} bytes left)", self.file().name, self.left)
    }
}

const TOO_SLOW: Refusal = Refusal::Busy {
    what: "bytes of files that lie ready to be read, of which yours were not taken in time",
    retry_ms: READ_RETRY_MS,
};
const NOT_READ: Refusal =
    Refusal::Unavailable { why: "the bytes of the file cannot be read now", retry_ms: READ_RETRY_MS };

fn refusal(problem: ReadError) -> Refusal {
    match problem {
        ReadError::Gone => Refusal::NotFound("no such file: it was deleted while it was read"),
        ReadError::Stopped => NOT_READ,
        ReadError::BeyondTheEnd => unreachable!("a read lies within its file"),
        ReadError::Storage(cause) => {
            error!(%cause, "a file cannot be read");
            NOT_READ
        }
    }
}
