//! The names that each call knows: the fields of its body and the parameters of its query. What is read and what the
//! description of the API tells come from the same lists, so that neither knows a name that the other does not.

use super::commands::Call;

/// In the body of an acquire.
pub const ACQUIRE: [&str; 7] =
    ["owner_id", "ttl_ms", "mode", "wait_ms", "session_id", "request_id", "metadata"];
/// In the body of a renewal.
pub const RENEW: [&str; 5] = ["owner_id", "lease_id", "fencing_token", "ttl_ms", "metadata"];
/// In the body of a release.
pub const RELEASE: [&str; 3] = ["owner_id", "lease_id", "fencing_token"];
/// In the body of a cancel.
pub const CANCEL: [&str; 2] = ["owner_id", "request_id"];
/// In the body of a verify.
pub const VERIFY: [&str; 1] = ["fencing_token"];
/// In the body that opens a session.
pub const OPEN_SESSION: [&str; 4] = ["owner_id", "ttl_ms", "request_id", "metadata"];
/// In the body of a keep-alive.
pub const KEEP_ALIVE: [&str; 2] = ["session_id", "seen"];
/// In the body that closes a session.
pub const CLOSE_SESSION: [&str; 1] = ["session_id"];

/// In the query of a call on one lock, when its path has `~`.
pub const ONLY_LOCK: [&str; 1] = ["lock"];
/// In the query of a list.
pub const LIST: [&str; 4] = ["prefix", "owner", "limit", "cursor"];
/// In the query of a break.
pub const BREAK: [&str; 5] = ["lock", "reason", "force", "token", "request_id"];
/// In the query of a list of sessions.
pub const LIST_SESSIONS: [&str; 2] = ["limit", "cursor"];
/// In the query of a watch of one lock.
pub const WATCH_LOCK: [&str; 2] = ["lock", "from"];
/// In the query of a watch of all locks with a prefix.
pub const WATCH_PREFIX: [&str; 2] = ["prefix", "from"];
/// In the query of a call on one file, when its path has `~`.
pub const ONLY_NAME: [&str; 1] = ["name"];
/// In the query of a write at an offset.
pub const WRITE_FILE: [&str; 2] = ["name", "offset"];
/// In the query of a list of files.
pub const LIST_FILES: [&str; 3] = ["prefix", "limit", "cursor"];

impl Call {
    /// The fields that its body may have; a call without any has no JSON body.
    pub fn fields(self) -> &'static [&'static str] {
        match self {
            Call::Acquire => &ACQUIRE,
            Call::Renew => &RENEW,
            Call::Release => &RELEASE,
            Call::Cancel => &CANCEL,
            Call::Verify => &VERIFY,
            Call::OpenSession => &OPEN_SESSION,
            Call::KeepAlive => &KEEP_ALIVE,
            Call::CloseSession => &CLOSE_SESSION,
            Call::Get | Call::List | Call::Break | Call::ListSessions => &[],
            Call::AppendFile
            | Call::WriteFile
            | Call::DeleteFile
            | Call::ReadFile
            | Call::StatFile
            | Call::ListFiles => &[],
        }
    }

    /// The parameters that its query may have.
    pub fn parameters(self) -> &'static [&'static str] {
        match self {
            Call::Acquire | Call::Renew | Call::Release | Call::Cancel | Call::Verify | Call::Get => {
                &ONLY_LOCK
            }
            Call::List => &LIST,
            Call::Break => &BREAK,
            Call::ListSessions => &LIST_SESSIONS,
            Call::AppendFile | Call::DeleteFile | Call::ReadFile | Call::StatFile => &ONLY_NAME,
            Call::WriteFile => &WRITE_FILE,
            Call::ListFiles => &LIST_FILES,
            Call::OpenSession | Call::KeepAlive | Call::CloseSession => &[],
        }
    }

    /// Whether it comes with a JSON body.
    pub fn has_json(self) -> bool {
        !self.fields().is_empty()
    }

    /// Whether its body is bytes of a file.
    pub fn has_bytes(self) -> bool {
        matches!(self, Call::AppendFile | Call::WriteFile)
    }

    /// Whether it is done under a lease that its headers show.
    pub fn shows_a_lease(self) -> bool {
        self.has_bytes() || self == Call::DeleteFile
    }
}
