//! Exit statuses, the same for every command, and the failures that end in one. The numbers are a contract.

use std::fmt::Display;
use std::io;
use std::process::ExitCode;

use leasehold_client::Error;
use leasehold_journal::{BackupError, FolderError, OpenError, StorageError};
use leasehold_server::auth::TokensError;
use leasehold_server::config::ConfigError;
use leasehold_server::secret_file::SecretFileError;
use leasehold_server::serve::ServeError;
use leasehold_server::tls::TlsError;

/// The statuses, as `--help` explains them.
pub const HELP: &str = "\
Exit status:
   0  done
  64  the request makes no sense: usage, an invalid argument, too large, or
      under a lease that is not for it
  69  no server answers, or its address is taken
  70  damaged data, a failed disk, or a bug of ours
  75  held or in use by another, not to be had in time, or the server is busy
  76  lost, expired, released, stale, or not there
  77  not allowed
`lock` and `elect` end with the status of what they ran, with 128 + n when
signal n ended it, or with 126 or 127 when it could not be run. A command that
is interrupted ends with 128 + n, too.";

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// As it should.
    Success,
    /// What was asked makes no sense.
    Usage,
    /// There is no server, or none can be where it should.
    Unavailable,
    /// Data or disk are not in order, or the program is not.
    Broken,
    /// Somebody else has it.
    InUse,
    /// What was the caller's is so no longer, or never was.
    Lost,
    /// The operating system or the server does not allow it.
    NotAllowed,
    /// Whatever the command that was run ended with, or 128 and the signal that ended it or us.
    Passed(u8),
}

impl Status {
    /// Ended by this signal, as shells count it.
    pub fn signalled(number: i32) -> Status {
        Status::Passed(u8::try_from(number).unwrap_or(0).saturating_add(128))
    }
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> ExitCode {
        ExitCode::from(match status {
            Status::Success => 0,
            Status::Usage => 64,
            Status::Unavailable => 69,
            Status::Broken => 70,
            Status::InUse => 75,
            Status::Lost => 76,
            Status::NotAllowed => 77,
            Status::Passed(status) => status,
        })
    }
}

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub struct Failure {
    /// The exit status.
    pub status: Status,
    /// For the person at the terminal, in one sentence.
    pub sentence: String,
    /// For the program that asked for JSON, in one line; takes the sentence's place.
    pub problem: Option<String>,
}

impl Failure {
    /// A failure with this status and sentence.
    pub fn new(status: Status, sentence: impl Display) -> Failure {
        Failure { status, sentence: sentence.to_string(), problem: None }
    }
}

/// What a server's refusal, or its silence, means.
pub fn of_client(error: &Error) -> Status {
    match error {
        // Somebody else took the request back: it is not to be had, as if its time had run out.
        Error::Held(_) | Error::Busy { .. } | Error::Cancelled => Status::InUse,
        // What nobody knows is not the caller's, whether it ever was or not. Events that are gone are lost to a watcher.
        Error::Ended(_) | Error::NotFound { .. } | Error::Gone => Status::Lost,
        // A lease that lives and is not for this: another one must be named. It is not lost, and nothing need be stopped.
        Error::Invalid { .. } | Error::ScopeMismatch { .. } | Error::TooLarge { .. } => Status::Usage,
        Error::NotAllowed { .. } => Status::NotAllowed,
        Error::ServerUnavailable(_) => Status::Unavailable,
        _ => Status::Broken,
    }
}

/// What a refusal of the operating system means.
pub fn of_io(error: &io::Error) -> Status {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Status::NotAllowed,
        _ => Status::Broken,
    }
}

fn of_folder(error: &FolderError) -> Status {
    match error {
        FolderError::InUse(_) => Status::InUse,
        FolderError::NotEmpty(_) => Status::Usage,
        FolderError::Shared(_) => Status::NotAllowed,
        FolderError::Io { source, .. } => of_io(source),
    }
}

/// A file that is not there was named wrongly.
fn of_secret_file(error: &SecretFileError) -> Status {
    match error {
        SecretFileError::Unreadable { source, .. } if of_io(source) == Status::NotAllowed => {
            Status::NotAllowed
        }
        _ => Status::Usage,
    }
}

fn of_open(error: &OpenError) -> Status {
    match error {
        OpenError::Storage(StorageError::Io { source, .. }) => of_io(source),
        OpenError::Options(_) => Status::Usage,
        _ => Status::Broken,
    }
}

impl From<FolderError> for Failure {
    fn from(error: FolderError) -> Failure {
        Failure::new(of_folder(&error), error)
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Failure {
        Failure::new(of_open(&error), error)
    }
}

impl From<BackupError> for Failure {
    fn from(error: BackupError) -> Failure {
        let status = match &error {
            BackupError::Nothing(_) | BackupError::Occupied(_) => Status::Usage,
            BackupError::Source(error) => of_open(error),
            BackupError::Target(StorageError::Io { source, .. })
            | BackupError::Beside(StorageError::Io { source, .. }) => of_io(source),
            BackupError::Target(_) | BackupError::Beside(_) | BackupError::Copy(_) => Status::Broken,
            BackupError::Restless(_) => Status::InUse,
        };
        Failure::new(status, error)
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Failure {
        let status = match &error {
            ConfigError::Unreadable { source, .. } if of_io(source) == Status::NotAllowed => {
                Status::NotAllowed
            }
            _ => Status::Usage,
        };
        Failure::new(status, error)
    }
}

impl From<TokensError> for Failure {
    fn from(error: TokensError) -> Failure {
        let status = match &error {
            TokensError::File(error) => of_secret_file(error),
            _ => Status::Usage,
        };
        Failure::new(status, error)
    }
}

impl From<SecretFileError> for Failure {
    fn from(error: SecretFileError) -> Failure {
        Failure::new(of_secret_file(&error), error)
    }
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Failure {
        let status = match &error {
            ServeError::Listen { source, .. } if of_io(source) == Status::NotAllowed => Status::NotAllowed,
            ServeError::Listen { .. } => Status::Unavailable,
            ServeError::Tls(TlsError::File(error)) | ServeError::Tokens(TokensError::File(error)) => {
                of_secret_file(error)
            }
            ServeError::Tls(TlsError::SelfSigned(_)) => Status::Broken,
            ServeError::Tls(_) | ServeError::Tokens(_) => Status::Usage,
            ServeError::Folder(error) => of_folder(error),
            ServeError::Journal(error) => of_open(error),
            ServeError::Files(_) => Status::Broken,
            ServeError::AuditLog { source, .. } => of_io(source),
            ServeError::System { source, .. } => of_io(source),
            ServeError::Storage(_) => Status::Broken,
        };
        Failure::new(status, error)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use leasehold_client::{Ended, Held, Trouble, Unavailable};

    use super::*;

    #[test]
    fn each_refusal_has_the_status_of_the_contract() {
        let (detail, retry_after) = (String::new(), Duration::ZERO);
        let held = Held { lock: String::new(), holders: Vec::new(), waiters: Vec::new(), retry_after };
        let trouble = Trouble::Refused(String::new());
        let unavailable =
            Unavailable { server: String::new(), attempts: 1, trouble, may_have_happened: false };
        for (error, number) in [
            (Error::Invalid { field: String::new(), detail: detail.clone() }, 64),
            (Error::ScopeMismatch { detail: detail.clone() }, 64),
            (Error::TooLarge { detail: detail.clone() }, 64),
            (Error::ServerUnavailable(Box::new(unavailable)), 69),
            (Error::Unexpected { detail: detail.clone() }, 70),
            (Error::Held(Box::new(held)), 75),
            (Error::Busy { detail: detail.clone(), retry_after }, 75),
            (Error::Cancelled, 75),
            (Error::Ended(Ended::Expired), 76),
            (Error::Ended(Ended::Released), 76),
            (Error::Ended(Ended::Lost), 76),
            (Error::Ended(Ended::Stale), 76),
            (Error::NotFound { detail: detail.clone() }, 76),
            (Error::Gone, 76),
            (Error::NotAllowed { detail }, 77),
        ] {
            assert_eq!(ExitCode::from(of_client(&error)), ExitCode::from(number), "{error:?}");
        }
        assert_eq!(ExitCode::from(Status::signalled(2)), ExitCode::from(130));
    }
}
