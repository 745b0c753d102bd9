//! What was asked of files, field by field, before it is judged: filled in by whichever door the request came through, as
//! the forms of locks are. A form becomes a command here and nowhere else.

use leasehold_state_machine::command::{Command, Proof, WriteFile};
use leasehold_state_machine::file::{FileBytes, FileName, Offset};
use leasehold_state_machine::invalid::Invalid;
use leasehold_state_machine::words::RequestId;

use super::forms::{ProofForm, page_rows};

/// A change of a file: which one, under which lease.
#[derive(Debug)]
pub struct ChangeForm<'f> {
    /// The file's name.
    pub name: &'f str,
    /// What the holder shows.
    pub proof: ProofForm<'f>,
    /// The request's id.
    pub request_id: Option<RequestId>,
}

/// A change that was judged by its words. Only its bytes are missing, if it has any: who sends them need not do so in vain.
#[derive(Debug)]
pub struct Change {
    name: FileName,
    proof: Proof,
    request_id: Option<RequestId>,
}

impl ChangeForm<'_> {
    /// The change, or what is wrong.
    pub fn judge(self) -> Result<Change, Invalid> {
        let (name, proof) = (FileName::parse(self.name)?, self.proof.proof()?);
        Ok(Change { name, proof, request_id: self.request_id })
    }
}

impl Change {
    /// The command to write. Looks at every byte.
    pub fn write(self, offset: Offset, bytes: &[u8]) -> Command {
        let bytes = FileBytes::new(bytes);
        Command::WriteFile(Box::new(WriteFile::new(self.name, offset, bytes, self.proof, self.request_id)))
    }

    /// The command to delete.
    pub fn delete(self) -> Command {
        Command::DeleteFile { name: self.name, proof: self.proof, request_id: self.request_id }
    }
}

/// The command to look at a file, or what is wrong.
pub fn stat_file(name: &str) -> Result<Command, Invalid> {
    Ok(Command::StatFile { name: FileName::parse(name)? })
}

/// The command to look at many files, or what is wrong.
pub fn list_files(prefix: &str, limit: Option<u64>, cursor: Option<&str>) -> Result<Command, Invalid> {
    Ok(Command::ListFiles {
        prefix: prefix.to_owned(),
        limit: page_rows(limit)?,
        cursor: cursor.map(str::to_owned),
    })
}
