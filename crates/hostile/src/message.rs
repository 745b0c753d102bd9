//! Commands written back as the messages that would have asked for them: what was read once, from JSON or from a message, must
//! read the same again.

use leasehold_protocol::v1;
use leasehold_server::grpc::{files, requests};
use leasehold_state_machine::command::{Command, Proof};
use leasehold_state_machine::file::Offset;
use leasehold_state_machine::invalid::Invalid;
use leasehold_state_machine::words::{Metadata, Mode, RequestId};
use prost::Message as _;

/// Declares the messages that ask for something, with how each is read.
macro_rules! messages {
    ($($name:ident($asked:ty) = $read:path,)*) => {
        /// A message that asks for something.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Message {
            $($name($asked),)*
        }

        impl Message {
            /// How many kinds there are.
            pub const KINDS: usize = [$(stringify!($name)),*].len();

            /// Decodes a message of this kind.
            pub fn decode(kind: usize, bytes: &[u8]) -> Option<Message> {
                let mut kinds = 0..;
                $(if kinds.next() == Some(kind) {
                    return <$asked>::decode(bytes).ok().map(Message::$name);
                })*
                None
            }

            /// Its kind and its bytes.
            pub fn encode(&self) -> (usize, Vec<u8>) {
                let mut kinds = 0..;
                $(
                    let kind = kinds.next().unwrap_or(0);
                    if let Message::$name(asked) = self {
                        return (kind, asked.encode_to_vec());
                    }
                )*
                (0, Vec::new())
            }

            /// What it asks for.
            pub fn command(self) -> Result<Command, Invalid> {
                match self {
                    $(Message::$name(asked) => $read(asked),)*
                }
            }
        }
    };
}

messages! {
    Acquire(v1::AcquireRequest) = requests::acquire,
    Renew(v1::RenewRequest) = requests::renew,
    Release(v1::ReleaseRequest) = requests::release,
    Cancel(v1::CancelRequest) = requests::cancel,
    Verify(v1::VerifyRequest) = requests::verify,
    Get(v1::GetRequest) = requests::get,
    List(v1::ListRequest) = requests::list,
    Break(v1::BreakRequest) = requests::break_lock,
    OpenSession(v1::OpenSessionRequest) = requests::open_session,
    KeepAlive(v1::KeepAliveRequest) = requests::keep_alive,
    CloseSession(v1::CloseSessionRequest) = requests::close_session,
    ListSessions(v1::ListSessionsRequest) = requests::list_sessions,
    AppendFile(v1::AppendFileRequest) = files::append,
    WriteFile(v1::WriteFileRequest) = files::write,
    DeleteFile(v1::DeleteFileRequest) = files::delete,
    StatFile(v1::StatFileRequest) = files::stat,
    ListFiles(v1::ListFilesRequest) = files::list,
}

/// Asserts that a command can be asked for by a message that means exactly the same.
pub fn assert_comes_back(command: &Command) {
    let Some(message) = written(command) else { panic!("nobody can ask for {command:?}") };
    let (kind, bytes) = message.encode();
    let again = Message::decode(kind, &bytes).map(Message::command);
    let Some(Ok(again)) = again else { panic!("{message:?} was refused: {again:?}") };
    assert_eq!(written(&again).as_ref(), Some(&message), "a command changed on the way");
    assert_eq!(format!("{command:?}"), format!("{again:?}"), "a command changed on the way");
}

/// A command as an input of the target for messages.
pub fn input(command: &Command) -> Option<Vec<u8>> {
    let (kind, bytes) = written(command)?.encode();
    Some([&[u8::try_from(kind).ok()?], &*bytes].concat())
}

/// The message for a command; none for what no message asks for.
fn written(command: &Command) -> Option<Message> {
    Some(match command {
        Command::Acquire(ask) => Message::Acquire(v1::AcquireRequest {
            lock: ask.resource.text().into(),
            owner_id: ask.owner.text().into(),
            ttl_ms: ask.ttl.map(|ttl| ttl.ms()),
            mode: if ask.mode == Mode::Shared { v1::Mode::Shared } else { v1::Mode::Exclusive }.into(),
            wait_ms: ask.wait.ms(),
            session_id: ask.session.as_ref().map(|session| session.text()),
            request_id: id(ask.request_id.as_ref()),
            metadata: entries(&ask.metadata),
        }),
        Command::Renew(renew) => {
            let Proof { resource, owner, lease, token } = &renew.proof;
            Message::Renew(v1::RenewRequest {
                lock: resource.text().into(),
                owner_id: owner.text().into(),
                lease_id: lease.text(),
                fencing_token: signed(*token)?,
                ttl_ms: renew.ttl.map(|ttl| ttl.ms()),
                metadata: renew.metadata.as_ref().map(|given| v1::Metadata { entries: entries(given) }),
            })
        }
        Command::Release(Proof { resource, owner, lease, token }) => Message::Release(v1::ReleaseRequest {
            lock: resource.text().into(),
            owner_id: owner.text().into(),
            lease_id: lease.text(),
            fencing_token: signed(*token)?,
        }),
        Command::Cancel { resource, owner, request_id } => Message::Cancel(v1::CancelRequest {
            lock: resource.text().into(),
            owner_id: owner.text().into(),
            request_id: request_id.text().into(),
        }),
        Command::Verify { resource, token } => Message::Verify(v1::VerifyRequest {
            lock: resource.text().into(),
            fencing_token: signed(*token)?,
        }),
        Command::Get { resource } => Message::Get(v1::GetRequest { lock: resource.text().into() }),
        Command::List(list) => Message::List(v1::ListRequest {
            prefix: list.prefix.clone(),
            owner_id: list.owner.as_ref().map(|owner| owner.text().into()),
            limit: u32::try_from(list.limit).ok()?,
            cursor: list.cursor.clone(),
        }),
        Command::Break(wish) => Message::Break(v1::BreakRequest {
            lock: wish.resource.text().into(),
            reason: wish.reason.text().into(),
            force: wish.force,
            token: match wish.token {
                Some(token) => Some(signed(token)?),
                None => None,
            },
            request_id: id(wish.request_id.as_ref()),
        }),
        Command::OpenSession { owner, ttl, request_id, metadata } => {
            Message::OpenSession(v1::OpenSessionRequest {
                owner_id: owner.text().into(),
                ttl_ms: Some(ttl.ms()),
                request_id: id(request_id.as_ref()),
                metadata: entries(metadata),
            })
        }
        Command::KeepAlive { session, seen } => {
            Message::KeepAlive(v1::KeepAliveRequest { session_id: session.text(), seen: *seen, request: 0 })
        }
        Command::CloseSession { session } => {
            Message::CloseSession(v1::CloseSessionRequest { session_id: session.text() })
        }
        Command::ListSessions { limit, cursor } => Message::ListSessions(v1::ListSessionsRequest {
            limit: u32::try_from(*limit).ok()?,
            cursor: cursor.clone(),
        }),
        Command::WriteFile(_) | Command::DeleteFile { .. } => return file_change(command),
        Command::StatFile { name } => Message::StatFile(v1::StatFileRequest { name: name.text().into() }),
        Command::ListFiles { prefix, limit, cursor } => Message::ListFiles(v1::ListFilesRequest {
            prefix: prefix.clone(),
            limit: u32::try_from(*limit).ok()?,
            cursor: cursor.clone(),
        }),
        Command::CancelNumber { .. }
        | Command::Mark { .. }
        | Command::Detach { .. }
        | Command::Abandon { .. } => return None,
    })
}

fn file_change(command: &Command) -> Option<Message> {
    Some(match command {
        Command::WriteFile(write) => {
            let lock = write.proof.resource.text().into();
            let owner_id = write.proof.owner.text().into();
            let (lease_id, fencing_token) = (write.proof.lease.text(), signed(write.proof.token)?);
            let (name, request_id) = (write.name.text().into(), id(write.request_id.as_ref()));
            let data = write.bytes.whole().to_vec();
            match write.offset {
                Offset::End => Message::AppendFile(v1::AppendFileRequest {
                    name,
                    lock,
                    owner_id,
                    lease_id,
                    fencing_token,
                    request_id,
                    data,
                }),
                Offset::At(offset) => Message::WriteFile(v1::WriteFileRequest {
                    name,
                    lock,
                    owner_id,
                    lease_id,
                    fencing_token,
                    request_id,
                    data,
                    offset: Some(offset),
                }),
            }
        }
        Command::DeleteFile { name, proof, request_id } => Message::DeleteFile(v1::DeleteFileRequest {
            name: name.text().into(),
            lock: proof.resource.text().into(),
            owner_id: proof.owner.text().into(),
            lease_id: proof.lease.text(),
            fencing_token: signed(proof.token)?,
            request_id: id(request_id.as_ref()),
        }),
        _ => return None,
    })
}

fn id(id: Option<&RequestId>) -> Option<String> {
    id.map(|id| id.text().into())
}

fn entries(metadata: &Metadata) -> std::collections::BTreeMap<String, String> {
    metadata.entries().map(|(key, value)| (key.into(), value.into())).collect()
}

fn signed(token: u64) -> Option<i64> {
    i64::try_from(token).ok()
}
