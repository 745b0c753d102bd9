//! What was asked, field by field, before it is judged: one form for each call, filled in by whichever door the request
//! came through. A form becomes a command here and nowhere else, so that every door refuses the same things and names
//! the same fields.

use leasehold_state_machine::command::{Acquire, Break, Command, List, Proof, Renew};
use leasehold_state_machine::ids::{LeaseId, SessionId};
use leasehold_state_machine::invalid::Invalid;
use leasehold_state_machine::limits::{PAGE_ROWS_DEFAULT, PAGE_ROWS_MAX};
use leasehold_state_machine::resource::Resource;
use leasehold_state_machine::token::TOKEN_END;
use leasehold_state_machine::words::{Metadata, Mode, Owner, Reason, RequestId, Ttl, Wait};

/// An acquire.
#[derive(Debug)]
pub struct AcquireForm<'f> {
    /// The lock's text.
    pub lock: &'f str,
    /// Who asks.
    pub owner_id: &'f str,
    /// For how long.
    pub ttl_ms: Option<u64>,
    /// In which mode.
    pub mode: Option<Mode>,
    /// How long to stand in line.
    pub wait_ms: Option<u64>,
    /// The session to live by.
    pub session_id: Option<&'f str>,
    /// The request's id, by whatever way it came.
    pub request_id: Option<RequestId>,
    /// What the caller says of itself.
    pub metadata: Metadata,
}

impl AcquireForm<'_> {
    /// The command, or what is wrong.
    pub fn command(self) -> Result<Command, Invalid> {
        let resource = Resource::parse(self.lock)?;
        let owner = Owner::parse(self.owner_id)?;
        let ttl = self.ttl_ms.map(Ttl::from_ms).transpose()?;
        let wait = self.wait_ms.map(Wait::from_ms).transpose()?.unwrap_or_default();
        let session = self.session_id.map(SessionId::parse).transpose()?;
        if ttl.is_some() && session.is_some() {
            return Err(Invalid::new(
                "ttl_ms",
                "a lease under a session lives by the session's TTL: leave it out",
            ));
        }
        let (mode, request_id, metadata) = (self.mode.unwrap_or_default(), self.request_id, self.metadata);
        Ok(Command::Acquire(Acquire { resource, owner, ttl, mode, wait, session, request_id, metadata }))
    }
}

/// What a holder shows.
#[derive(Debug)]
pub struct ProofForm<'f> {
    /// The lock's text.
    pub lock: &'f str,
    /// Who holds it.
    pub owner_id: &'f str,
    /// The lease's secret id, as its bytes: what is not of our making is nobody's, whatever it is.
    pub lease_id: &'f [u8],
    /// Its fencing token.
    pub fencing_token: u64,
}

impl ProofForm<'_> {
    /// The proof, or what is wrong.
    pub fn proof(&self) -> Result<Proof, Invalid> {
        Ok(Proof {
            resource: Resource::parse(self.lock)?,
            owner: Owner::parse(self.owner_id)?,
            lease: LeaseId::parse_bytes(self.lease_id)?,
            token: check_token("fencing_token", self.fencing_token)?,
        })
    }

    /// The command to renew, or what is wrong.
    pub fn renew(&self, ttl_ms: Option<u64>, metadata: Option<Metadata>) -> Result<Command, Invalid> {
        let proof = self.proof()?;
        Ok(Command::Renew(Renew { proof, ttl: ttl_ms.map(Ttl::from_ms).transpose()?, metadata }))
    }

    /// The command to release, or what is wrong.
    pub fn release(&self) -> Result<Command, Invalid> {
        Ok(Command::Release(self.proof()?))
    }
}

/// The command to take a request back, or what is wrong.
pub fn cancel(lock: &str, owner_id: &str, request_id: &str) -> Result<Command, Invalid> {
    Ok(Command::Cancel {
        resource: Resource::parse(lock)?,
        owner: Owner::parse(owner_id)?,
        request_id: RequestId::parse(request_id)?,
    })
}

/// The command to verify a token, or what is wrong.
pub fn verify(lock: &str, fencing_token: u64) -> Result<Command, Invalid> {
    let token = check_token("fencing_token", fencing_token)?;
    Ok(Command::Verify { resource: Resource::parse(lock)?, token })
}

/// The command to look at a lock, or what is wrong.
pub fn get(lock: &str) -> Result<Command, Invalid> {
    Ok(Command::Get { resource: Resource::parse(lock)? })
}

/// A page of locks.
#[derive(Debug)]
pub struct ListForm<'f> {
    /// Only locks whose text begins with this.
    pub prefix: &'f str,
    /// Only locks that this owner holds or waits for.
    pub owner_id: Option<&'f str>,
    /// Rows at most.
    pub limit: Option<u64>,
    /// Where the page before ended.
    pub cursor: Option<&'f str>,
}

impl ListForm<'_> {
    /// The command, or what is wrong.
    pub fn command(self) -> Result<Command, Invalid> {
        Ok(Command::List(List {
            prefix: self.prefix.to_owned(),
            owner: self.owner_id.map(Owner::parse).transpose()?,
            limit: page_rows(self.limit)?,
            cursor: self.cursor.map(str::to_owned),
        }))
    }
}

/// A break.
#[derive(Debug)]
pub struct BreakForm<'f> {
    /// The lock's text.
    pub lock: &'f str,
    /// The operator's words.
    pub reason: &'f str,
    /// Whether to grant on at once.
    pub force: bool,
    /// Only the lease with this token.
    pub token: Option<u64>,
    /// The request's id.
    pub request_id: Option<RequestId>,
}

impl BreakForm<'_> {
    /// The command, or what is wrong.
    pub fn command(self) -> Result<Command, Invalid> {
        Ok(Command::Break(Box::new(Break {
            resource: Resource::parse(self.lock)?,
            reason: Reason::parse(self.reason)?,
            force: self.force,
            token: self.token.map(|token| check_token("token", token)).transpose()?,
            request_id: self.request_id,
            broken: Default::default(),
        })))
    }
}

/// The command to open a session, or what is wrong.
pub fn open_session(
    owner_id: &str,
    ttl_ms: Option<u64>,
    request_id: Option<RequestId>,
    metadata: Metadata,
) -> Result<Command, Invalid> {
    let owner = Owner::parse(owner_id)?;
    let ttl = ttl_ms.map(Ttl::from_ms).transpose()?.unwrap_or_default();
    Ok(Command::OpenSession { owner, ttl, request_id, metadata })
}

/// The command to keep a session alive, or what is wrong.
pub fn keep_alive(session_id: &str, seen: Option<u64>) -> Result<Command, Invalid> {
    Ok(Command::KeepAlive { session: SessionId::parse(session_id)?, seen })
}

/// The command to close a session, or what is wrong.
pub fn close_session(session_id: &str) -> Result<Command, Invalid> {
    Ok(Command::CloseSession { session: SessionId::parse(session_id)? })
}

/// The command to look at the sessions, or what is wrong.
pub fn list_sessions(limit: Option<u64>, cursor: Option<&str>) -> Result<Command, Invalid> {
    Ok(Command::ListSessions { limit: page_rows(limit)?, cursor: cursor.map(str::to_owned) })
}

/// Whether a number can be a fencing token at all.
fn check_token(field: &'static str, token: u64) -> Result<u64, Invalid> {
    if token >= TOKEN_END {
        return Err(Invalid::new(field, "a fencing token is below 2^53"));
    }
    Ok(token)
}

/// How many rows a page has.
pub fn page_rows(limit: Option<u64>) -> Result<usize, Invalid> {
    match limit.map(usize::try_from) {
        None => Ok(PAGE_ROWS_DEFAULT),
        Some(Ok(rows)) if (1..=PAGE_ROWS_MAX).contains(&rows) => Ok(rows),
        Some(_) => Err(Invalid::new("limit", format!("a page has 1 to {PAGE_ROWS_MAX} rows"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_below_its_end() {
        assert!(verify("a", TOKEN_END - 1).is_ok());
        assert_eq!(verify("a", TOKEN_END).unwrap_err().field, "fencing_token");
    }

    #[test]
    fn a_page_has_its_bounds() {
        for limit in [Some(0), Some(PAGE_ROWS_MAX as u64 + 1), Some(u64::MAX)] {
            assert_eq!(list_sessions(limit, None).unwrap_err().field, "limit");
        }
        assert!(list_sessions(Some(1), None).is_ok() && list_sessions(None, None).is_ok());
    }
}
