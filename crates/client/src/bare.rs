//! Bare ways to a server, for tools that measure it or speak to it themselves: a connection on which nothing was said yet, and
//! unary calls. Nothing is retried, shared or kept alive here; to hold a lock, take a [`Client`](crate::Client).

use std::fmt;
use std::sync::Arc;

use leasehold_protocol::v1;

use crate::boot_clock::BootClock;
use crate::client::ClientBuilder;
use crate::clock::Clock;
pub use crate::connect::Stream;
use crate::connect::dial;
use crate::error::{Error, Unavailable};
use crate::file_view::Written;
use crate::grpc::Grpc;
use crate::refusal;
use crate::view::{Ask, Claim, Grant, ms};
use crate::wire::{Failed, Trouble, Wire};

/// A connection on which nothing was said yet, encrypted if the address wants that, for HTTP/1.1.
pub struct Bare {
    /// The connection.
    pub stream: Box<dyn Stream>,
    /// The server's host and port, for the header `host`.
    pub authority: String,
    /// What the header `authorization` is to say. A secret.
    pub authorization: Option<String>,
}

impl fmt::Debug for Bare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bare").field("authority", &self.authority).finish_non_exhaustive()
    }
}

/// Calls over a connection of their own, each made once.
#[derive(Debug)]
pub struct Unary {
    grpc: Grpc,
}

impl ClientBuilder {
    /// Connects, and says nothing.
    pub async fn dial(&self) -> Result<Bare, Error> {
        let destination = self.destination()?;
        let mut tls = destination.tls;
        if let Some(config) = &mut tls {
            Arc::make_mut(config).alpn_protocols = Vec::from([b"http/1.1".to_vec()]);
        }
        let address = destination.address;
        let dialled = dial(&address, tls.as_ref(), destination.within).await;
        let (stream, _) = dialled.map_err(|trouble| unavailable(&address.to_string(), trouble, false))?;
        let authorization = destination.authorization.as_ref().and_then(|header| header.to_str().ok());
        Ok(Bare {
            stream,
            authority: address.authority(),
            authorization: authorization.map(ToOwned::to_owned),
        })
    }

    /// For unary calls. Connects with the first of them.
    pub fn unary(&self) -> Result<Unary, Error> {
        Ok(Unary { grpc: Grpc::new(self.destination()?)? })
    }
}

impl Unary {
    /// Connects now.
    pub async fn connect(&self) -> Result<(), Error> {
        self.grpc.pipe().await.map(drop).map_err(|failed| self.error(failed, "", false))
    }

    /// Acquires a lease.
    pub async fn acquire(&self, ask: Ask) -> Result<Grant, Error> {
        let lock = ask.lock.clone();
        let asked = v1::AcquireRequest {
            lock: ask.lock,
            owner_id: ask.owner.unwrap_or_default(),
            ttl_ms: ask.ttl.map(ms),
            mode: ask.mode.wire(),
            wait_ms: ms(ask.wait),
            session_id: ask.session_id,
            request_id: ask.request_id,
            metadata: ask.metadata,
        };
        let sent_us = BootClock.now_us();
        let (_, pipe) = self.grpc.pipe().await.map_err(|failed| self.error(failed, &lock, false))?;
        match self.grpc.locks(&pipe).acquire(asked).await {
            Ok(told) => Grant::told(told.into_inner(), sent_us),
            Err(status) => Err(self.error(pipe.failed(&status), &lock, true)),
        }
    }

    /// Renews a lease.
    pub async fn renew(&self, claim: &Claim) -> Result<Grant, Error> {
        let asked = v1::RenewRequest {
            lock: claim.lock.clone(),
            owner_id: claim.owner_id.clone(),
            lease_id: claim.lease_id.clone(),
            fencing_token: crate::calls::token(claim.fencing_token),
            ttl_ms: None,
            metadata: None,
        };
        let sent_us = BootClock.now_us();
        let (_, pipe) = self.grpc.pipe().await.map_err(|failed| self.error(failed, &claim.lock, false))?;
        match self.grpc.locks(&pipe).renew(asked).await {
            Ok(told) => Grant::told(told.into_inner(), sent_us),
            Err(status) => Err(self.error(pipe.failed(&status), &claim.lock, true)),
        }
    }

    /// Appends to a file under a lease. It carries no request id: sent again, it is another append.
    pub async fn append(&self, claim: &Claim, name: &str, data: &[u8]) -> Result<Written, Error> {
        let asked = v1::AppendFileRequest {
            name: name.to_owned(),
            lock: claim.lock.clone(),
            owner_id: claim.owner_id.clone(),
            lease_id: claim.lease_id.clone(),
            fencing_token: crate::calls::token(claim.fencing_token),
            request_id: None,
            data: data.to_vec(),
        };
        let (_, pipe) = self.grpc.pipe().await.map_err(|failed| self.error(failed, &claim.lock, false))?;
        match self.grpc.files(&pipe).append(asked).await {
            Ok(told) => Ok(Written::told(told.into_inner())),
            Err(status) => Err(self.error(pipe.failed(&status), &claim.lock, true)),
        }
    }

    /// Gives a lease back.
    pub async fn release(&self, claim: &Claim) -> Result<(), Error> {
        let asked = v1::ReleaseRequest {
            lock: claim.lock.clone(),
            owner_id: claim.owner_id.clone(),
            lease_id: claim.lease_id.clone(),
            fencing_token: i64::try_from(claim.fencing_token).unwrap_or(i64::MAX),
        };
        let (_, pipe) = self.grpc.pipe().await.map_err(|failed| self.error(failed, &claim.lock, false))?;
        let told = self.grpc.locks(&pipe).release(asked).await;
        told.map(drop).map_err(|status| self.error(pipe.failed(&status), &claim.lock, true))
    }

    fn error(&self, failed: Failed, lock: &str, may_have_happened: bool) -> Error {
        match failed {
            Failed::Refused(refused) => refusal::error(*refused, lock),
            Failed::Trouble(trouble) => unavailable(self.grpc.server(), trouble, may_have_happened),
        }
    }
}

/// What a refusal means that came over HTTP, for this lock if it was for one.
pub fn refusal(code: &str, detail: String, field: String, lock: &str) -> Error {
    refusal::error(v1::Error { code: code.to_owned(), detail, field, ..v1::Error::default() }, lock)
}

fn unavailable(server: &str, trouble: Trouble, may_have_happened: bool) -> Error {
    let server = server.to_owned();
    Error::ServerUnavailable(Box::new(Unavailable { server, attempts: 1, trouble, may_have_happened }))
}
