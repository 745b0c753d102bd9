//! What is asked and told of fenced files, as Rust data. Turned from and into the messages of the protocol here and nowhere
//! else; decides nothing.

use std::fmt;
use std::time::SystemTime;

use leasehold_protocol::v1;

use crate::error::Error;
use crate::view::{Claim, time, token};
use crate::wire::Call;

/// A write to a file. Begin with [`FileWrite::append`] or [`FileWrite::at`].
#[derive(Clone, PartialEq, Eq)]
pub struct FileWrite {
    /// The file's name: a relative path, such as `reports/a.log`.
    pub name: String,
    /// Where the bytes go; none is the end of the file, wherever that is by then.
    pub offset: Option<u64>,
    /// The bytes, at most 1 MiB. None at all is a write, too: it makes an empty file.
    pub data: Vec<u8>,
    /// Makes it safe to ask again in another process: the same owner, id and bytes are written once. Within one call that is
    /// so anyway.
    pub request_id: Option<String>,
}

impl FileWrite {
    /// Writes to the end of a file, which is made if there is none.
    pub fn append(name: impl Into<String>, data: impl Into<Vec<u8>>) -> FileWrite {
        FileWrite { name: name.into(), offset: None, data: data.into(), request_id: None }
    }

    /// Writes at an offset, which is not beyond the end.
    pub fn at(name: impl Into<String>, offset: u64, data: impl Into<Vec<u8>>) -> FileWrite {
        FileWrite { offset: Some(offset), ..FileWrite::append(name, data) }
    }

    pub(crate) fn call(self, claim: &Claim, request_id: String) -> Call {
        let FileWrite { name, offset, data, .. } = self;
        let Claim { lock, owner_id, lease_id, fencing_token } = claim.clone();
        let (fencing_token, request_id) = (crate::calls::token(fencing_token), Some(request_id));
        match offset {
            None => Call::AppendFile(v1::AppendFileRequest {
                name,
                lock,
                owner_id,
                lease_id,
                fencing_token,
                request_id,
                data,
            }),
            Some(_) => Call::WriteFile(v1::WriteFileRequest {
                name,
                lock,
                owner_id,
                lease_id,
                fencing_token,
                request_id,
                data,
                offset,
            }),
        }
    }
}

impl fmt::Debug for FileWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileWrite")
            .field("name", &self.name)
            .field("offset", &self.offset)
            .field("length", &self.data.len())
            .finish_non_exhaustive()
    }
}

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Where the bytes begin in the file.
    pub offset: u64,
    /// How many they are.
    pub length: u64,
    /// The size of the file after it.
    pub size: u64,
}

impl Written {
    pub(crate) fn told(told: v1::WriteFileResponse) -> Written {
        Written { offset: told.offset, length: told.length, size: told.size }
    }
}

/// A file as everybody may see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRow {
    /// Its name.
    pub name: String,
    /// How many bytes it has.
    pub size: u64,
    /// Its number, for locks on `inode:` and `range:`. Never another file's.
    pub inode: u64,
    /// The highest token that wrote it.
    pub fencing_token: u64,
    /// Since when it is there, for people to read.
    pub created_at: SystemTime,
    /// When it was last written, for people to read.
    pub written_at: SystemTime,
    /// The event that last wrote it.
    pub version: u64,
}

impl FileRow {
    pub(crate) fn told(told: v1::File) -> Result<FileRow, Error> {
        Ok(FileRow {
            name: told.name,
            size: told.size,
            inode: u64::try_from(told.inode).map_err(|_| Error::Unexpected {
                detail: format!("a file with a number below zero ({})", told.inode),
            })?,
            fencing_token: token(told.fencing_token)?,
            created_at: time(told.created_at),
            written_at: time(told.written_at),
            version: told.version,
        })
    }
}
