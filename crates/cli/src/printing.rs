//! Standard output: written at once and whole, and a reader who has seen enough is no error.

use std::io::{self, Write};

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
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(Reader::There),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(error) => Err(Failure::new(Status::Broken, format!("cannot print: {error}"))),
    }
}
