//! Plain calls, one operation each: for tools, and for programs that keep their leases themselves. Retried by the client's
//! policy under one request id, so that each happens once; nothing is renewed or remembered here.

use std::future::Future;
use std::time::Duration;

use leasehold_protocol::v1;
use leasehold_protocol::v1::operation::What;

use crate::acquiring::Acquiring;
use crate::client::Client;
use crate::error::{Error, Unavailable};
use crate::operations::Answered;
use crate::outcome::{self, Told};
use crate::refusal;
use crate::releasing::Releasing;
use crate::view::{
    Ask, BreakAsk, Broke, Cancelled, Claim, Grant, ListFilter, Metadata, Page, SessionRow, Snapshot, ms, us,
};
use crate::wire::{Call, CallAnswer, Failed, Trouble};

impl Client {
    /// Acquires a lease. Nobody renews it but its caller; [`Grant::stop_after`] says when to stop believing in it.
    pub fn acquire(&self, ask: Ask) -> impl Future<Output = Result<Grant, Error>> + Send {
        Acquiring::new(self, ask)
    }

    /// An acquire that waits, or is made under an id that the caller has chosen.
    pub(crate) async fn acquire_with_care(&self, ask: Ask) -> Result<Grant, Error> {
        let until_us = match ask.wait {
            Duration::MAX => None,
            wait => Some(self.clock().now_us().saturating_add(us(wait))),
        };
        let waits = !ask.wait.is_zero();
        let request = v1::AcquireRequest {
            lock: ask.lock,
            owner_id: ask.owner.unwrap_or_else(|| self.owner().to_owned()),
            ttl_ms: ask.ttl.map(ms),
            mode: ask.mode.wire(),
            wait_ms: 0,
            session_id: ask.session_id,
            request_id: ask.request_id,
            metadata: ask.metadata,
        };
        if request.request_id.is_some() {
            return self.acquire_under_id(request, waits, until_us).await;
        }
        granted(self.wait_for(request, until_us).await?, String::new(), String::new())
    }

    /// Stands in line; tries again for as long as there is time while there is none to stand in.
    async fn wait_for(&self, request: v1::AcquireRequest, until_us: Option<u64>) -> Result<Answered, Error> {
        loop {
            let outcome = self.operations().stand_in_line(request.clone(), until_us).await;
            let Err(Error::Busy { retry_after, .. }) = &outcome else { return outcome };
            let again_us = self.clock().now_us().saturating_add(us(*retry_after));
            if until_us.is_some_and(|until_us| until_us <= again_us) {
                return outcome;
            }
            self.clock().sleep_until(again_us).await;
        }
    }

    /// Renews a lease, and with it everything else under its session; with a new TTL or new metadata if given.
    pub async fn renew(
        &self,
        claim: &Claim,
        ttl: Option<Duration>,
        metadata: Option<Metadata>,
    ) -> Result<Grant, Error> {
        let request = v1::RenewRequest {
            lock: claim.lock.clone(),
            owner_id: claim.owner_id.clone(),
            lease_id: claim.lease_id.clone(),
            fencing_token: token(claim.fencing_token),
            ttl_ms: ttl.map(ms),
            metadata: metadata.map(|entries| v1::Metadata { entries }),
        };
        granted(self.operations().ask(What::Renew(request)).await?, String::new(), String::new())
    }

    /// Gives a lease back. Doing it again does no harm.
    pub fn release(&self, claim: &Claim) -> impl Future<Output = Result<(), Error>> + Send {
        Releasing::new(self, claim)
    }

    /// Takes back an acquire that was made under a chosen request id, wherever it has got to.
    pub async fn cancel(&self, lock: &str, owner: &str, request_id: &str) -> Result<Cancelled, Error> {
        let request = v1::CancelRequest {
            lock: lock.to_owned(),
            owner_id: owner.to_owned(),
            request_id: request_id.to_owned(),
        };
        match self.call(Call::Cancel(request), lock, true).await? {
            CallAnswer::Cancel(told) => Cancelled::told(told),
            other => Err(odd(&other)),
        }
    }

    /// Whether a live lease with this token covered the lock a moment ago, and how long it had to live. For diagnosis: only
    /// a comparison of tokens at the protected resource fences.
    pub async fn verify(&self, lock: &str, token: u64) -> Result<Duration, Error> {
        let fencing_token = self::token(token);
        let request = v1::VerifyRequest { lock: lock.to_owned(), fencing_token };
        match self.operations().ask(What::Verify(request)).await?.told {
            Told::Verified(told) if told.valid => Ok(Duration::from_millis(told.expires_in_ms)),
            other => Err(odd(&other)),
        }
    }

    /// Who holds and who waits for a lock, and for what overlaps it.
    pub async fn get(&self, lock: &str) -> Result<Snapshot, Error> {
        match self.operations().ask(What::Get(v1::GetRequest { lock: lock.to_owned() })).await?.told {
            Told::Snapshot(told) => Snapshot::told(*told),
            other => Err(odd(&other)),
        }
    }

    /// The locks that are held or waited for, in order of their text.
    pub async fn list(&self, filter: ListFilter) -> Result<Page<Snapshot>, Error> {
        let request = v1::ListRequest {
            prefix: filter.prefix,
            owner_id: filter.owner,
            limit: filter.limit.unwrap_or(0),
            cursor: filter.cursor,
        };
        match self.call(Call::List(request), "", false).await? {
            CallAnswer::List(told) => Ok(Page {
                rows: told.locks.into_iter().map(Snapshot::told).collect::<Result<_, _>>()?,
                next_cursor: told.next_cursor,
            }),
            other => Err(odd(&other)),
        }
    }

    /// Takes a lock from its holders.
    pub async fn break_lock(&self, ask: BreakAsk) -> Result<Broke, Error> {
        let lock = ask.lock.clone();
        let request = v1::BreakRequest {
            lock: ask.lock,
            reason: ask.reason,
            force: ask.force,
            token: ask.token.map(token),
            request_id: Some(ask.request_id.unwrap_or_else(|| self.random().id())),
        };
        match self.call(Call::Break(request), &lock, true).await? {
            CallAnswer::Break(told) => Broke::told(told),
            other => Err(odd(&other)),
        }
    }

    /// The sessions that live, a page at a time; no secrets.
    pub async fn sessions(
        &self,
        limit: Option<u32>,
        cursor: Option<String>,
    ) -> Result<Page<SessionRow>, Error> {
        let request = v1::ListSessionsRequest { limit: limit.unwrap_or(0), cursor };
        match self.call(Call::ListSessions(request), "", false).await? {
            CallAnswer::ListSessions(told) => Ok(Page {
                rows: told.sessions.into_iter().map(SessionRow::told).collect(),
                next_cursor: told.next_cursor,
            }),
            other => Err(odd(&other)),
        }
    }

    /// A call of its own, by the client's policy.
    pub(crate) async fn call(&self, call: Call, lock: &str, changes: bool) -> Result<CallAnswer, Error> {
        let policy = *self.policy();
        let mut trying = Trying::new(self, lock, changes);
        loop {
            let time = policy.attempt_timeout + call.extra();
            let attempt = self.wire().call(call.clone());
            match trying.within(time, attempt).await {
                Ok(answer) => return Ok(answer),
                Err(failed) => trying.pause_after(failed).await?,
            }
        }
    }

    /// An acquire under an id that the caller has chosen. One that waits keeps its place for as long as its caller does.
    async fn acquire_under_id(
        &self,
        request: v1::AcquireRequest,
        waits: bool,
        until_us: Option<u64>,
    ) -> Result<Grant, Error> {
        let policy = *self.policy();
        let lock = request.lock.clone();
        let mut trying = Trying::new(self, &lock, true);
        loop {
            let sent_us = self.clock().now_us();
            let left_us = until_us.map_or(WAIT_MAX_US, |until_us| until_us.saturating_sub(sent_us));
            let wait = Duration::from_micros(left_us.min(WAIT_MAX_US));
            let attempt =
                self.wire().call(Call::Acquire(v1::AcquireRequest { wait_ms: ms(wait), ..request.clone() }));
            let failed = match trying.within(wait + policy.attempt_timeout, attempt).await {
                Ok(CallAnswer::Acquire(lease)) => return Grant::told(lease, sent_us),
                Ok(other) => return Err(odd(&other)),
                Err(failed) => failed,
            };
            let now_us = self.clock().now_us();
            let goes_on = waits && until_us.is_none_or(|until_us| now_us < until_us);
            if goes_on && matches!(&failed, Failed::Refused(refusal) if refusal.code == "held") {
                // The server's longest wait was over, the caller's is not.
                continue;
            }
            let (after, error) = trying.failed(failed)?;
            let pause = match waits {
                false if trying.attempts >= policy.attempts => return Err(error),
                false => policy.pause(trying.attempts, after, self.random().number()),
                true if !goes_on => return Err(error),
                true => Duration::from_millis(250 + self.random().up_to(750)).max(after.unwrap_or_default()),
            };
            let until_us = until_us.filter(|_| waits).unwrap_or(u64::MAX);
            self.clock().sleep_until(until_us.min(now_us.saturating_add(us(pause)))).await;
        }
    }
}

/// The longest wait that a server takes.
const WAIT_MAX_US: u64 = 3_600_000_000;

/// A call that is tried more than once.
pub(crate) struct Trying<'c> {
    client: &'c Client,
    lock: &'c str,
    changes: bool,
    attempts: u32,
    /// Whether an attempt ended without word of what came of it.
    uncertain: bool,
}

impl<'c> Trying<'c> {
    /// Nothing was tried yet.
    pub fn new(client: &'c Client, lock: &'c str, changes: bool) -> Trying<'c> {
        Trying { client, lock, changes, attempts: 0, uncertain: false }
    }

    /// One attempt, for no longer than this.
    pub async fn within<T>(
        &self,
        time: Duration,
        attempt: impl Future<Output = Result<T, Failed>> + Send,
    ) -> Result<T, Failed> {
        let clock = self.client.clock();
        // The way itself gives up a little earlier, and knows better why.
        let late = clock.sleep_until(clock.now_us().saturating_add(us(time + time / 8)));
        tokio::select! {
            answer = attempt => answer,
            () = late => {
                let detail = format!("no answer within {} ms", time.as_millis());
                Err(Failed::Trouble(Trouble::Silence(detail)))
            }
        }
    }

    /// An attempt has failed. Waits as long as the client's policy has it before the next, or fails if there is to be none.
    pub async fn pause_after(&mut self, failed: Failed) -> Result<(), Error> {
        let policy = *self.client.policy();
        let (after, error) = self.failed(failed)?;
        if self.attempts >= policy.attempts {
            return Err(error);
        }
        let clock = self.client.clock();
        let pause = policy.pause(self.attempts, after, self.client.random().number());
        clock.sleep_until(clock.now_us().saturating_add(us(pause))).await;
        Ok(())
    }

    /// An attempt has failed. Gives the error if it was the last one, and when the server wants to be asked again; fails at
    /// once with what asking again would not change.
    pub fn failed(&mut self, failed: Failed) -> Result<(Option<Duration>, Error), Error> {
        self.attempts += 1;
        let (after, trouble) = match failed {
            Failed::Trouble(trouble) => {
                self.uncertain |= !matches!(
                    trouble,
                    Trouble::NoSuchHost(_) | Trouble::Refused(_) | Trouble::Tls(_) | Trouble::NotLeasehold(_)
                );
                (None, trouble)
            }
            Failed::Refused(refusal) => match refusal::again(&refusal) {
                None => return Err(refusal::error(*refusal, self.lock)),
                Some(refusal::Again::Busy(after)) if !self.uncertain => {
                    return Ok((Some(after), refusal::error(*refusal, self.lock)));
                }
                Some(refusal::Again::Busy(after)) => (Some(after), Trouble::NotServing(refusal.detail)),
                Some(refusal::Again::NotServing(after)) => {
                    self.uncertain = true;
                    (Some(after), Trouble::NotServing(refusal.detail))
                }
            },
        };
        let error = Error::ServerUnavailable(Box::new(Unavailable {
            server: self.client.server().to_owned(),
            attempts: self.attempts,
            trouble,
            may_have_happened: self.uncertain && self.changes,
        }));
        Ok((after, error))
    }
}

pub(crate) fn token(number: u64) -> i64 {
    // One that large was never given; the server says so.
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// What was granted, most likely this lock to this owner; see [`outcome::grant`].
pub(crate) fn granted(answered: Answered, lock: String, owner: String) -> Result<Grant, Error> {
    match answered.told {
        Told::Lease(told) => outcome::grant(&told, lock, owner, answered.sent_us),
        other => Err(odd(&other)),
    }
}

pub(crate) fn odd(told: &impl std::fmt::Debug) -> Error {
    let mut kind = format!("{told:?}");
    // The first word names the kind; what follows may hold secrets.
    kind.truncate(kind.find(|c: char| !c.is_alphanumeric()).unwrap_or(kind.len()));
    Error::Unexpected { detail: format!("an answer of the kind {kind}, which was not asked for") }
}
