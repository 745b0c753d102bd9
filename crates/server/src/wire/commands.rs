//! What was sent, as a command: each call's fields and parameters are read here and nowhere else. Judges only the
//! form; whether a request may have what it asks for is the state machine's to say.

use hyper::header::HeaderMap;
use leasehold_state_machine::command::{Acquire, Break, Command, List, Proof, Renew};
use leasehold_state_machine::ids::{LeaseId, SessionId};
use leasehold_state_machine::invalid::Invalid;
use leasehold_state_machine::limits::{PAGE_ROWS_DEFAULT, PAGE_ROWS_MAX};
use leasehold_state_machine::resource::Resource;
use leasehold_state_machine::words::{Mode, Owner, Reason, RequestId, Ttl, Wait};

use super::body::{Body, check_token};
use super::percent::decode_segment;
use super::query::Query;

/// The header that is another way to give a `request_id`.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Stands for the lock in a path when the lock is in the query.
const LOCK_IN_QUERY: &str = "~";

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
}

/// The parts of a request that say what is asked.
#[derive(Clone, Copy, Debug)]
pub struct Sent<'r> {
    /// The path segment that names the lock, as it was sent; empty where a route has none.
    pub lock: &'r str,
    /// The query, as it was sent.
    pub query: Option<&'r str>,
    /// The headers.
    pub headers: &'r HeaderMap,
    /// The body; empty for calls without one.
    pub body: &'r [u8],
}

impl Call {
    /// All of them, in the order of their discriminants.
    pub const ALL: [Call; 12] = [
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
        }
    }

    /// Whether it comes with a JSON body.
    pub fn has_body(self) -> bool {
        !matches!(self, Call::Get | Call::List | Call::Break | Call::ListSessions)
    }

    /// The command that was sent.
    pub fn command(self, sent: Sent<'_>) -> Result<Command, Invalid> {
        match self {
            Call::Acquire => acquire(sent),
            Call::Renew => renew(sent),
            Call::Release => release(sent),
            Call::Cancel => cancel(sent),
            Call::Verify => verify(sent),
            Call::Get => Ok(Command::Get { resource: only_lock(sent)? }),
            Call::List => list(sent),
            Call::Break => break_lock(sent),
            Call::OpenSession => open_session(sent),
            Call::KeepAlive => keep_alive(sent),
            Call::CloseSession => close_session(sent),
            Call::ListSessions => list_sessions(sent),
        }
    }
}

fn acquire(sent: Sent<'_>) -> Result<Command, Invalid> {
    let resource = only_lock(sent)?;
    let mut body = Body::read(
        sent.body,
        ["owner_id", "ttl_ms", "mode", "wait_ms", "session_id", "request_id", "metadata"],
    )?;
    let owner = Owner::parse(&body.required_text("owner_id")?)?;
    let ttl = body.number("ttl_ms")?.map(Ttl::from_ms).transpose()?;
    let mode = body.text("mode")?.map(|text| Mode::parse(&text)).transpose()?.unwrap_or_default();
    let wait = body.number("wait_ms")?.map(Wait::from_ms).transpose()?.unwrap_or_default();
    let session = body.text("session_id")?.map(|text| SessionId::parse(&text)).transpose()?;
    let request_id = request_id(body.text("request_id")?, sent.headers)?;
    let metadata = body.metadata("metadata")?.unwrap_or_default();
    if ttl.is_some() && session.is_some() {
        return Err(Invalid::new(
            "ttl_ms",
            "a lease under a session lives by the session's TTL: leave it out",
        ));
    }
    Ok(Command::Acquire(Acquire { resource, owner, ttl, mode, wait, session, request_id, metadata }))
}

fn renew(sent: Sent<'_>) -> Result<Command, Invalid> {
    let resource = only_lock(sent)?;
    let mut body = Body::read(sent.body, ["owner_id", "lease_id", "fencing_token", "ttl_ms", "metadata"])?;
    let proof = proof(resource, &mut body)?;
    let ttl = body.number("ttl_ms")?.map(Ttl::from_ms).transpose()?;
    Ok(Command::Renew(Renew { proof, ttl, metadata: body.metadata("metadata")? }))
}

fn release(sent: Sent<'_>) -> Result<Command, Invalid> {
    let resource = only_lock(sent)?;
    let mut body = Body::read(sent.body, ["owner_id", "lease_id", "fencing_token"])?;
    Ok(Command::Release(proof(resource, &mut body)?))
}

fn cancel(sent: Sent<'_>) -> Result<Command, Invalid> {
    let resource = only_lock(sent)?;
    let mut body = Body::read(sent.body, ["owner_id", "request_id"])?;
    let owner = Owner::parse(&body.required_text("owner_id")?)?;
    let request_id = RequestId::parse(&body.required_text("request_id")?)?;
    Ok(Command::Cancel { resource, owner, request_id })
}

fn verify(sent: Sent<'_>) -> Result<Command, Invalid> {
    let resource = only_lock(sent)?;
    let mut body = Body::read(sent.body, ["fencing_token"])?;
    Ok(Command::Verify { resource, token: body.required_token("fencing_token")? })
}

fn list(sent: Sent<'_>) -> Result<Command, Invalid> {
    let query = Query::read(sent.query, ["prefix", "owner", "limit", "cursor"])?;
    let owner = query.text("owner").map(Owner::parse).transpose();
    Ok(Command::List(List {
        prefix: query.text("prefix").unwrap_or_default().to_owned(),
        owner: owner.map_err(|invalid| Invalid::new("owner", invalid.problem))?,
        limit: page_rows(query.number("limit")?)?,
        cursor: query.text("cursor").map(str::to_owned),
    }))
}

fn break_lock(sent: Sent<'_>) -> Result<Command, Invalid> {
    let query = Query::read(sent.query, ["lock", "reason", "force", "token", "request_id"])?;
    let resource = lock(sent.lock, query.text("lock"))?;
    let Some(reason) = query.text("reason") else {
        return Err(Invalid::new("reason", "a break needs a reason: add `?reason=`"));
    };
    Ok(Command::Break(Break {
        resource,
        reason: Reason::parse(reason)?,
        force: query.flag("force")?.unwrap_or(false),
        token: query.number("token")?.map(|token| check_token("token", token)).transpose()?,
        request_id: request_id(query.text("request_id").map(str::to_owned), sent.headers)?,
        broken: Default::default(),
    }))
}

fn open_session(sent: Sent<'_>) -> Result<Command, Invalid> {
    no_parameters(sent)?;
    let mut body = Body::read(sent.body, ["owner_id", "ttl_ms", "request_id", "metadata"])?;
    Ok(Command::OpenSession {
        owner: Owner::parse(&body.required_text("owner_id")?)?,
        ttl: body.number("ttl_ms")?.map(Ttl::from_ms).transpose()?.unwrap_or_default(),
        request_id: request_id(body.text("request_id")?, sent.headers)?,
        metadata: body.metadata("metadata")?.unwrap_or_default(),
    })
}

fn keep_alive(sent: Sent<'_>) -> Result<Command, Invalid> {
    no_parameters(sent)?;
    let mut body = Body::read(sent.body, ["session_id", "seen"])?;
    let session = SessionId::parse(&body.required_text("session_id")?)?;
    Ok(Command::KeepAlive { session, seen: body.number("seen")? })
}

fn close_session(sent: Sent<'_>) -> Result<Command, Invalid> {
    no_parameters(sent)?;
    let mut body = Body::read(sent.body, ["session_id"])?;
    Ok(Command::CloseSession { session: SessionId::parse(&body.required_text("session_id")?)? })
}

fn list_sessions(sent: Sent<'_>) -> Result<Command, Invalid> {
    let query = Query::read(sent.query, ["limit", "cursor"])?;
    let limit = page_rows(query.number("limit")?)?;
    Ok(Command::ListSessions { limit, cursor: query.text("cursor").map(str::to_owned) })
}

fn proof<const N: usize>(resource: Resource, body: &mut Body<N>) -> Result<Proof, Invalid> {
    Ok(Proof {
        resource,
        owner: Owner::parse(&body.required_text("owner_id")?)?,
        lease: LeaseId::parse(&body.required_text("lease_id")?)?,
        token: body.required_token("fencing_token")?,
    })
}

/// The lock of a call whose query says nothing else.
fn only_lock(sent: Sent<'_>) -> Result<Resource, Invalid> {
    let query = Query::read(sent.query, ["lock"])?;
    lock(sent.lock, query.text("lock"))
}

fn lock(segment: &str, in_query: Option<&str>) -> Result<Resource, Invalid> {
    let segment = decode_segment(segment).map_err(|problem| Invalid::new("lock", problem))?;
    match (segment.as_ref(), in_query) {
        (LOCK_IN_QUERY, Some(text)) => Resource::parse(text),
        (LOCK_IN_QUERY, None) => Err(Invalid::new("lock", "a path with `~` names the lock as `?lock=`")),
        (text, None) => Resource::parse(text),
        (_, Some(_)) => {
            Err(Invalid::new("lock", "the lock is named in the path; for `?lock=` write `~` there"))
        }
    }
}

fn no_parameters(sent: Sent<'_>) -> Result<(), Invalid> {
    Query::read(sent.query, []).map(drop)
}

fn page_rows(limit: Option<u64>) -> Result<usize, Invalid> {
    match limit.map(usize::try_from) {
        None => Ok(PAGE_ROWS_DEFAULT),
        Some(Ok(rows)) if (1..=PAGE_ROWS_MAX).contains(&rows) => Ok(rows),
        Some(_) => Err(Invalid::new("limit", format!("a page has 1 to {PAGE_ROWS_MAX} rows"))),
    }
}

/// The request id from the field, from the header, or from both if they agree.
fn request_id(field: Option<String>, headers: &HeaderMap) -> Result<Option<RequestId>, Invalid> {
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
