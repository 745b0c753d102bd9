//! Standard output: written at once and whole, and a reader who has seen enough is no error.

use std::io::{self, Write};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::status::{Failure, Status};

/// Whether somebody still reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// It was written.
    There,
    /// Whoever read has gone.
    Gone,
}

/// Writes the text and sees to it that it has left.
pub fn print(text: &str) -> Result<Reader, Failure> {
    print_bytes(text.as_bytes())
}

/// Writes the bytes as they are, and sees to it that they have left.
pub fn print_bytes(bytes: &[u8]) -> Result<Reader, Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(Reader::There),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(error) => Err(Failure::new(Status::Broken, format!("cannot print: {error}"))),
    }
}

/// Resolves when nobody can read standard output any more: its pipe is closed, its terminal gone. What writes seldom would
/// not notice by itself.
pub async fn reader_gone() {
    let (tell, told) = tokio::sync::oneshot::channel();
    // The thread ends with the process; nothing is ever asked of it.
    std::thread::spawn(move || {
        let out = io::stdout();
        // No event is asked for, so only those come that nobody can refuse: an error, or the other end's closing.
        let mut watched = [PollFd::new(&out, PollFlags::empty())];
        while matches!(poll(&mut watched, None), Err(Errno::INTR)) {}
        let _ = tell.send(());
    });
    if told.await.is_err() {
        std::future::pending().await
    }
}
