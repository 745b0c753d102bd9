//! Writes a history while it happens. A line leaves when an operation is invoked and another when it is answered: whoever is
//! killed in between leaves an operation that nobody knows the end of, which is the truth.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::lines::write_line;
use crate::operation::{Kind, Operation, Outcome};

/// A file that a history is added to. Shared by all clients of a process; several processes need a file each, or one file
/// and clients of different names.
#[derive(Debug)]
pub struct Recorder {
    file: File,
    next: AtomicU64,
}

impl Recorder {
    /// Adds to this file, which is made if need be. Numbers begin at `first`: who goes on with a client of an earlier process
    /// gives one that is not used yet.
    pub fn open(path: &Path, first: u64) -> io::Result<Recorder> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Recorder { file, next: AtomicU64::new(first) })
    }

    /// An operation begins. Fill in what is asked, and say so with [`Recorder::invoked`] before it is sent.
    pub fn begin(&self, client: &str, kind: Kind, lock: &str, now_us: u64) -> Operation {
        Operation::new(client, self.next.fetch_add(1, Ordering::Relaxed), kind, lock, now_us)
    }

    /// It is about to be sent.
    pub fn invoked(&self, operation: &Operation) -> io::Result<()> {
        write_line(&mut &self.file, operation)
    }

    /// Its answer was heard. Fill in what it said before.
    pub fn answered(&self, operation: &mut Operation, now_us: u64, outcome: Outcome) -> io::Result<()> {
        operation.answer(now_us, outcome);
        write_line(&mut &self.file, operation)
    }
}
