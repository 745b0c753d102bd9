//! A request before it has taken any door: which call, and its fields by name. Where a field stands for what an earlier
//! answer told, it says which answer: `#3` is the lease id, the token or the session id of the fourth.

use serde_json::Value;

#[derive(Clone, Debug)]
pub struct Asked {
    pub call: Call,
    pub fields: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Acquire,
    Renew,
    Release,
    Cancel,
    Verify,
    Get,
    List,
    Break,
    OpenSession,
    KeepAlive,
    CloseSession,
    ListSessions,
    AppendFile,
    WriteFile,
    DeleteFile,
    StatFile,
    ListFiles,
    ReadFile,
}

impl Call {
    /// The fields without which it is malformed.
    pub fn required(self) -> &'static [&'static str] {
        match self {
            Call::Acquire => &["lock", "owner_id"],
            Call::Renew | Call::Release => &["lock", "owner_id", "lease_id", "fencing_token"],
            Call::Cancel => &["lock", "owner_id", "request_id"],
            Call::Verify => &["lock", "fencing_token"],
            Call::Get => &["lock"],
            Call::Break => &["lock", "reason"],
            Call::OpenSession => &["owner_id"],
            Call::KeepAlive | Call::CloseSession => &["session_id"],
            Call::AppendFile | Call::DeleteFile => &["name", "lock", "owner_id", "lease_id", "fencing_token"],
            Call::WriteFile => &["name", "lock", "owner_id", "lease_id", "fencing_token", "offset"],
            Call::StatFile | Call::ReadFile => &["name"],
            Call::List | Call::ListSessions | Call::ListFiles => &[],
        }
    }
}

impl Asked {
    /// The request with what earlier answers told put in its place.
    pub fn resolved(&self, told: &[Value]) -> Asked {
        let mut asked = self.clone();
        for (name, value) in asked.fields.as_object_mut().unwrap() {
            let Some(place) = value.as_str().and_then(|text| text.strip_prefix('#')) else { continue };
            let field = if name == "token" { "fencing_token" } else { name };
            *value = told[place.parse::<usize>().unwrap()][field].clone();
            assert!(!value.is_null(), "{self:?} speaks of what was not told");
        }
        asked
    }
}
