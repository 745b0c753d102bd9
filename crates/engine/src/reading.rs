//! Reading a file: what it is comes from the engine, its bytes straight from where they live, beside whatever is written.
//! Sees what is durable and nothing else.

use std::fmt;
use std::sync::Weak;

use leasehold_files::FileStore;
use leasehold_journal::StorageError;
use leasehold_state_machine::answer::{Answer, FileView, Refusal};
use leasehold_state_machine::command::Command;
use leasehold_state_machine::file::FileName;

use crate::handle::{Handle, STOPPING};

/// A file as it was when it was asked for, to be read.
#[derive(Clone)]
pub struct OpenFile {
    view: FileView,
    files: Weak<dyn FileStore>,
}

/// Why bytes cannot be read.
#[derive(Debug)]
pub enum ReadError {
    /// The file was deleted since.
    Gone,
    /// The server has stopped since.
    Stopped,
    /// The range lies beyond the size that the file had.
    BeyondTheEnd,
    /// The disk failed to give them.
    Storage(StorageError),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Gone => f.write_str("the file was deleted while it was read"),
            ReadError::Stopped => f.write_str("the server is stopping"),
            ReadError::BeyondTheEnd => f.write_str("the file is not that long"),
            ReadError::Storage(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ReadError {}

impl Handle {
    /// Looks at a file, to read it. Every write that was acknowledged before is in what can be read.
    pub async fn open_file(&self, name: FileName) -> Result<OpenFile, Refusal> {
        match self.ask(Command::StatFile { name }).await? {
            Answer::File(view) => Ok(OpenFile { view: *view, files: self.shared.files.clone() }),
            _ => Err(STOPPING),
        }
    }
}

impl OpenFile {
    /// What it is: its size is how far it can be read.
    pub fn view(&self) -> &FileView {
        &self.view
    }

    /// Fills the buffer from an offset; blocks on the disk, so call it where that is nobody else's time. Within one call each
    /// write is seen whole or not at all. A write since the file was asked for may be seen: it is durable.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        let end = offset.checked_add(buffer.len() as u64);
        if end.is_none_or(|end| end > self.view.size) {
            return Err(ReadError::BeyondTheEnd);
        }
        if buffer.is_empty() {
            return Ok(());
        }
        let Some(files) = self.files.upgrade() else { return Err(ReadError::Stopped) };
        match files.read(self.view.number, offset, buffer) {
            Ok(true) => Ok(()),
            Ok(false) => Err(ReadError::Gone),
            Err(error) => Err(ReadError::Storage(error)),
        }
    }
}

impl fmt::Debug for OpenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OpenFile").field(&self.view).finish()
    }
}
