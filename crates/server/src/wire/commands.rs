//! What was sent over HTTP, as a command: each call's fields and parameters are read here into its form, which judges
//! them. Whether a request may have what it asks for is the state machine's to say.

use hyper::header::HeaderMap;
use leasehold_state_machine::command::Command;
use leasehold_state_machine::invalid::Invalid;
use leasehold_state_machine::words::{Mode, RequestId};

use super::body::Body;
use super::fields;
use super::file_commands::{self, Write};
use super::forms::{self, AcquireForm, BreakForm, ListForm, ProofForm};
use super::percent::decode_segment;
use super::query::Query;

/// The header that is another way to give a `request_id`.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Stands for the name in a path when the name is in the query.
const IN_QUERY: &str = "~";

/// The calls that the engine answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Acquire a lock.
    Acquire,
    /// Renew a lease.
    Renew,
    /// Release a lease.
    Release,
    /// Cancel a request.
    Cancel,
    /// Verify a token.
    Verify,
    /// Look at one lock.
    Get,
    /// Look at many.
    List,
    /// Break a lock.
    Break,
    /// Open a session.
    OpenSession,
    /// Keep a session alive.
    KeepAlive,
    /// Close a session.
    CloseSession,
    /// Look at the sessions.
    ListSessions,
    /// Write to a file's end.
    AppendFile,
    /// Write to a file at an offset.
    WriteFile,
    /// Delete a file.
    DeleteFile,
    /// Read a file.
    ReadFile,
    /// Look at one file.
    StatFile,
    /// Look at many.
    ListFiles,
}

/// The parts of a request that say what is asked.
#[derive(Clone, Copy, Debug)]
pub struct Sent<'r> {
    /// The path segment that names the lock or the file, as it was sent; empty where a route has none.
    pub segment: &'r str,
    /// The query, as it was sent.
    pub query: Option<&'r str>,
    /// The headers.
    pub headers: &'r HeaderMap,
    /// The body; empty for calls without one.
    pub body: &'r [u8],
}

impl Call {
    /// All of them, in the order of their discriminants.
    pub const ALL: [Call; 18] = [
        Call::Acquire,
        Call::Renew,
        Call::Release,
        Call::Cancel,
        Call::Verify,
        Call::Get,
        Call::List,
        Call::Break,
        Call::OpenSession,
        Call::KeepAlive,
        Call::CloseSession,
        Call::ListSessions,
        Call::AppendFile,
        Call::WriteFile,
        Call::DeleteFile,
        Call::ReadFile,
        Call::StatFile,
        Call::ListFiles,
    ];

    /// The word under which metrics know it.
    pub fn text(self) -> &'static str {
        match self {
            Call::Acquire => "acquire",
            Call::Renew => "renew",
            Call::Release => "release",
            Call::Cancel => "cancel",
            Call::Verify => "verify",
            Call::Get => "get",
            Call::List => "list",
            Call::Break => "break",
            Call::OpenSession => "open_session",
            Call::KeepAlive => "keepalive",
            Call::CloseSession => "close_session",
            Call::ListSessions => "list_sessions",
            Call::AppendFile => "append_file",
            Call::WriteFile => "write_file",
            Call::DeleteFile => "delete_file",
            Call::ReadFile => "read_file",
            Call::StatFile => "stat_file",
            Call::ListFiles => "list_files",
        }
    }

    /// The command that was sent.
    pub fn command(self, sent: Sent<'_>) -> Result<Command, Invalid> {
        match self {
            Call::Acquire => acquire(sent),
            Call::Renew => renew(sent),
            Call::Release => release(sent),
            Call::Cancel => cancel(sent),
            Call::Verify => verify(sent),
            Call::Get => forms::get(&only_lock(sent)?),
            Call::List => list(sent),
            Call::Break => break_lock(sent),
            Call::OpenSession => open_session(sent),
            Call::KeepAlive => keep_alive(sent),
            Call::CloseSession => close_session(sent),
            Call::ListSessions => list_sessions(sent),
            Call::AppendFile => Ok(Write::append(sent)?.with(sent.body)),
            Call::WriteFile => Ok(Write::at_offset(sent)?.with(sent.body)),
            Call::DeleteFile => file_commands::delete(sent),
            Call::ReadFile | Call::StatFile => file_commands::stat(sent),
            Call::ListFiles => file_commands::list(sent),
        }
    }
}

fn acquire(sent: Sent<'_>) -> Result<Command, Invalid> {
    let lock = only_lock(sent)?;
    let mut body = Body::read(sent.body, fields::ACQUIRE)?;
    AcquireForm {
        lock: &lock,
        owner_id: &body.required_text("owner_id")?,
        ttl_ms: body.number("ttl_ms")?,
        mode: body.text("mode")?.map(|text| Mode::parse(&text)).transpose()?,
        wait_ms: body.number("wait_ms")?,
        session_id: body.text("session_id")?.as_deref(),
        request_id: request_id(body.text("request_id")?, sent.headers)?,
        metadata: body.metadata("metadata")?.unwrap_or_default(),
    }
    .command()
}

fn renew(sent: Sent<'_>) -> Result<Command, Invalid> {
    let lock = only_lock(sent)?;
    let mut body = Body::read(sent.body, fields::RENEW)?;
    let (ttl_ms, metadata) = (body.number("ttl_ms")?, body.metadata("metadata")?);
    ProofForm {
        lock: &lock,
        owner_id: &body.required_text("owner_id")?,
        lease_id: body.required_text("lease_id")?.as_bytes(),
        fencing_token: body.required_number("fencing_token")?,
    }
    .renew(ttl_ms, metadata)
}

fn release(sent: Sent<'_>) -> Result<Command, Invalid> {
    let lock = only_lock(sent)?;
    let mut body = Body::read(sent.body, fields::RELEASE)?;
    ProofForm {
        lock: &lock,
        owner_id: &body.required_text("owner_id")?,
        lease_id: body.required_text("lease_id")?.as_bytes(),
        fencing_token: body.required_number("fencing_token")?,
    }
    .release()
}

fn cancel(sent: Sent<'_>) -> Result<Command, Invalid> {
    let lock = only_lock(sent)?;
    let mut body = Body::read(sent.body, fields::CANCEL)?;
    forms::cancel(&lock, &body.required_text("owner_id")?, &body.required_text("request_id")?)
}

fn verify(sent: Sent<'_>) -> Result<Command, Invalid> {
    let lock = only_lock(sent)?;
    let mut body = Body::read(sent.body, fields::VERIFY)?;
    forms::verify(&lock, body.required_number("fencing_token")?)
}

fn list(sent: Sent<'_>) -> Result<Command, Invalid> {
    let query = Query::read(sent.query, fields::LIST)?;
    let form = ListForm {
        prefix: query.text("prefix").unwrap_or_default(),
        owner_id: query.text("owner"),
        limit: query.number("limit")?,
        cursor: query.text("cursor"),
    };
    form.command().map_err(|invalid| match &*invalid.field {
        // The parameter has a shorter name than the field.
        "owner_id" => Invalid::new("owner", invalid.problem),
        _ => invalid,
    })
}

fn break_lock(sent: Sent<'_>) -> Result<Command, Invalid> {
    let query = Query::read(sent.query, fields::BREAK)?;
    let Some(reason) = query.text("reason") else {
        return Err(Invalid::new("reason", "a break needs a reason: add `?reason=`"));
    };
    BreakForm {
        lock: &named("lock", sent.segment, query.text("lock"))?,
        reason,
        force: query.flag("force")?.unwrap_or(false),
        token: query.number("token")?,
        request_id: request_id(query.text("request_id").map(str::to_owned), sent.headers)?,
    }
    .command()
}

fn open_session(sent: Sent<'_>) -> Result<Command, Invalid> {
    no_parameters(sent)?;
    let mut body = Body::read(sent.body, fields::OPEN_SESSION)?;
    forms::open_session(
        &body.required_text("owner_id")?,
        body.number("ttl_ms")?,
        request_id(body.text("request_id")?, sent.headers)?,
        body.metadata("metadata")?.unwrap_or_default(),
    )
}

fn keep_alive(sent: Sent<'_>) -> Result<Command, Invalid> {
    no_parameters(sent)?;
    let mut body = Body::read(sent.body, fields::KEEP_ALIVE)?;
    forms::keep_alive(&body.required_text("session_id")?, body.number("seen")?)
}

fn close_session(sent: Sent<'_>) -> Result<Command, Invalid> {
    no_parameters(sent)?;
    let mut body = Body::read(sent.body, fields::CLOSE_SESSION)?;
    forms::close_session(&body.required_text("session_id")?)
}

fn list_sessions(sent: Sent<'_>) -> Result<Command, Invalid> {
    let query = Query::read(sent.query, fields::LIST_SESSIONS)?;
    forms::list_sessions(query.number("limit")?, query.text("cursor"))
}

/// The lock of a call whose query says nothing else.
fn only_lock(sent: Sent<'_>) -> Result<String, Invalid> {
    let query = Query::read(sent.query, fields::ONLY_LOCK)?;
    named("lock", sent.segment, query.text("lock"))
}

/// The lock or file that a path segment names, or the query where the segment says so. `what` is the parameter.
pub fn named(what: &'static str, segment: &str, in_query: Option<&str>) -> Result<String, Invalid> {
    let segment = decode_segment(segment).map_err(|problem| Invalid::new(what, problem))?;
    match (segment.as_ref(), in_query) {
        (IN_QUERY, Some(text)) => Ok(text.to_owned()),
        (IN_QUERY, None) => {
            Err(Invalid::new(what, format!("a path with `~` says what it means as `?{what}=`")))
        }
        (_, None) => Ok(segment.into_owned()),
        (_, Some(_)) => {
            Err(Invalid::new(what, format!("it is named in the path; for `?{what}=` write `~` there")))
        }
    }
}

fn no_parameters(sent: Sent<'_>) -> Result<(), Invalid> {
    Query::read(sent.query, []).map(drop)
}

/// The request id from the field, from the header, or from both if they agree.
pub fn request_id(field: Option<String>, headers: &HeaderMap) -> Result<Option<RequestId>, Invalid> {
    let field = field.map(|text| RequestId::parse(&text)).transpose()?;
    let mut lines = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(line) = lines.next() else { return Ok(field) };
    let wrong = |problem: String| Invalid::new("Idempotency-Key", problem);
    if lines.next().is_some() {
        return Err(wrong("the header is given once".into()));
    }
    let text = line.to_str().map_err(|_| wrong("a request id is visible ASCII characters".into()))?;
    let header = RequestId::parse(text).map_err(|invalid| wrong(invalid.problem.into_owned()))?;
    match field {
        Some(field) if field != header => {
            Err(Invalid::new("request_id", "the field and the header `Idempotency-Key` differ"))
        }
        _ => Ok(Some(header)),
    }
}
