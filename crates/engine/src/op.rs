//! The operations as admission and metrics know them: a word each, never a lock's name or an owner.

use leasehold_state_machine::command::{Command, Proof};
use leasehold_state_machine::words::{Metadata, RequestId};

/// One kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// Acquire.
    Acquire,
    /// Renew.
    Renew,
    /// Release.
    Release,
    /// Cancel.
    Cancel,
    /// Verify.
    Verify,
    /// Get.
    Get,
    /// List.
    List,
    /// Break.
    Break,
    /// Open a session.
    OpenSession,
    /// Keep a session alive.
    KeepAlive,
    /// Close a session.
    CloseSession,
    /// List sessions.
    ListSessions,
    /// Write to a file.
    WriteFile,
    /// Delete a file.
    DeleteFile,
    /// Look at a file.
    StatFile,
    /// List files.
    ListFiles,
    /// A connection has closed.
    Detach,
    /// A grant could not be delivered.
    Abandon,
    /// A stream's client has its answers.
    Mark,
}

/// Which bound a request counts against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Begins something.
    Ordinary,
    /// Brings bytes for a file; apart, so that they crowd out nothing else.
    Write,
    /// Keeps up or ends what was begun; still admitted when nothing new is.
    Upkeep,
    /// Only looks.
    Read,
}

impl Op {
    /// All of them.
    pub const ALL: [Op; 19] = [
        Op::Acquire,
        Op::Renew,
        Op::Release,
        Op::Cancel,
        Op::Verify,
        Op::Get,
        Op::List,
        Op::Break,
        Op::OpenSession,
        Op::KeepAlive,
        Op::CloseSession,
        Op::ListSessions,
        Op::WriteFile,
        Op::DeleteFile,
        Op::StatFile,
        Op::ListFiles,
        Op::Detach,
        Op::Abandon,
        Op::Mark,
    ];

    /// What a command asks for.
    pub fn of(command: &Command) -> Op {
        match command {
            Command::Acquire(_) => Op::Acquire,
            Command::Renew(_) => Op::Renew,
            Command::Release(_) => Op::Release,
            Command::Cancel { .. } | Command::CancelNumber { .. } => Op::Cancel,
            Command::Verify { .. } => Op::Verify,
            Command::Get { .. } => Op::Get,
            Command::List(_) => Op::List,
            Command::Break(_) => Op::Break,
            Command::OpenSession { .. } => Op::OpenSession,
            Command::KeepAlive { .. } => Op::KeepAlive,
            Command::CloseSession { .. } => Op::CloseSession,
            Command::ListSessions { .. } => Op::ListSessions,
            Command::WriteFile(_) => Op::WriteFile,
            Command::DeleteFile { .. } => Op::DeleteFile,
            Command::StatFile { .. } => Op::StatFile,
            Command::ListFiles { .. } => Op::ListFiles,
            Command::Detach { .. } => Op::Detach,
            Command::Abandon { .. } => Op::Abandon,
            Command::Mark { .. } => Op::Mark,
        }
    }

    /// The word in metrics.
    pub fn text(self) -> &'static str {
        match self {
            Op::Acquire => "acquire",
            Op::Renew => "renew",
            Op::Release => "release",
            Op::Cancel => "cancel",
            Op::Verify => "verify",
            Op::Get => "get",
            Op::List => "list",
            Op::Break => "break",
            Op::OpenSession => "open_session",
            Op::KeepAlive => "keepalive",
            Op::CloseSession => "close_session",
            Op::ListSessions => "list_sessions",
            Op::WriteFile => "write_file",
            Op::DeleteFile => "delete_file",
            Op::StatFile => "stat_file",
            Op::ListFiles => "list_files",
            Op::Detach => "detach",
            Op::Abandon => "abandon",
            Op::Mark => "mark",
        }
    }

    /// Which bound it counts against.
    pub fn purpose(self) -> Purpose {
        match self {
            Op::Acquire | Op::Break | Op::OpenSession => Purpose::Ordinary,
            Op::WriteFile => Purpose::Write,
            Op::Verify | Op::Get | Op::List | Op::ListSessions | Op::StatFile | Op::ListFiles => {
                Purpose::Read
            }
            Op::Renew
            | Op::Release
            | Op::Cancel
            | Op::KeepAlive
            | Op::CloseSession
            | Op::DeleteFile
            | Op::Detach
            | Op::Abandon
            | Op::Mark => Purpose::Upkeep,
        }
    }

    /// Whether it needs room on the disk that it will not soon give back.
    pub fn needs_room(self) -> bool {
        matches!(self.purpose(), Purpose::Ordinary | Purpose::Write)
    }
}

/// About how many bytes a command takes in memory.
pub fn weight_bytes(command: &Command) -> usize {
    let words = match command {
        Command::Acquire(ask) => {
            ask.resource.text().len()
                + ask.owner.text().len()
                + id_bytes(ask.request_id.as_ref())
                + metadata_bytes(&ask.metadata)
        }
        Command::OpenSession { owner, request_id, metadata, .. } => {
            owner.text().len() + id_bytes(request_id.as_ref()) + metadata_bytes(metadata)
        }
        Command::Renew(renew) => {
            proof_bytes(&renew.proof) + renew.metadata.as_ref().map_or(0, metadata_bytes)
        }
        Command::Release(proof) => proof_bytes(proof),
        Command::Cancel { resource, owner, request_id } => {
            resource.text().len() + owner.text().len() + id_bytes(Some(request_id))
        }
        Command::Verify { resource, .. } | Command::Get { resource } => resource.text().len(),
        Command::List(list) => {
            list.prefix.len()
                + list.owner.as_ref().map_or(0, |owner| owner.text().len())
                + list.cursor.as_ref().map_or(0, String::len)
        }
        Command::Break(wish) => {
            wish.resource.text().len() + wish.reason.text().len() + id_bytes(wish.request_id.as_ref())
        }
        Command::CancelNumber { client, .. } => client.text().len(),
        Command::Mark { client, open, .. } => client.text().len() + size_of_val(open.as_slice()),
        Command::ListSessions { cursor, .. } => cursor.as_ref().map_or(0, String::len),
        Command::WriteFile(write) => {
            write.name.text().len()
                + proof_bytes(&write.proof)
                + id_bytes(write.request_id.as_ref())
                + usize::try_from(write.bytes.len()).unwrap_or(usize::MAX)
        }
        Command::DeleteFile { name, proof, request_id } => {
            name.text().len() + proof_bytes(proof) + id_bytes(request_id.as_ref())
        }
        Command::StatFile { name } => name.text().len(),
        Command::ListFiles { prefix, cursor, .. } => prefix.len() + cursor.as_ref().map_or(0, String::len),
        Command::KeepAlive { .. }
        | Command::CloseSession { .. }
        | Command::Detach { .. }
        | Command::Abandon { .. } => 0,
    };
    REQUEST_BYTES + words
}

/// A request itself, its way back to the caller, and its place in a queue.
const REQUEST_BYTES: usize = 512;
/// What a map spends on an entry beside its texts.
const ENTRY_BYTES: usize = 64;

fn id_bytes(id: Option<&RequestId>) -> usize {
    id.map_or(0, |id| match id {
        RequestId::Chosen(text) => text.len(),
        RequestId::Numbered(client, _) => client.text().len(),
    })
}

fn proof_bytes(proof: &Proof) -> usize {
    proof.resource.text().len() + proof.owner.text().len()
}

fn metadata_bytes(metadata: &Metadata) -> usize {
    metadata.entries().map(|(key, value)| key.len() + value.len() + ENTRY_BYTES).sum()
}
