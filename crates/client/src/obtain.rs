//! From asking for a lease to relying on it: asks, takes in the grant, has it kept alive, and is done only when the keeper
//! believes it. What is not relied on in the end is given back.

use std::pin::pin;
use std::sync::Arc;

use leasehold_protocol::v1;
use leasehold_protocol::v1::operation::What as Asked;

use crate::client::Client;
use crate::error::{Error, Unavailable};
use crate::hold::{Hold, Promise};
use crate::keeper::{Keeper, Renewal};
use crate::operations::Answered;
use crate::options::AcquireOptions;
use crate::outcome::{self, Told};
use crate::session::Session;
use crate::ttl::Ttl;
use crate::upkeep;
use crate::view::{Grant, us};
use crate::wire::Trouble;

/// How long to wait for somebody else to go.
pub(crate) enum Patience<'p> {
    /// Not at all.
    OneAttempt,
    /// In line, up to this moment if there is one.
    InLine {
        until_us: Option<u64>,
        /// Called when there is a place in line.
        waits: &'p (dyn Fn() + Send + Sync),
    },
}

/// A lease that is wanted.
pub(crate) struct Wish<'w> {
    pub lock: &'w str,
    pub ttl: Ttl,
    pub options: &'w AcquireOptions,
    pub patience: Patience<'w>,
}

/// A lease that was granted, and whatever keeps it. Dropping it gives it back.
pub(crate) struct Term {
    hold: Arc<Hold>,
    session: Option<Session>,
}

impl Term {
    pub fn hold(&self) -> Arc<Hold> {
        Arc::clone(&self.hold)
    }
}

impl Drop for Term {
    fn drop(&mut self) {
        if let Some(session) = &self.session {
            session.heart().detach(self.hold.claim().fencing_token);
        }
        self.hold.let_go();
    }
}

impl Wish<'_> {
    /// Asks, and gives what was granted once it may be relied on.
    pub async fn obtain(self, client: &Client, session: Option<&Session>) -> Result<Term, Error> {
        self.check(session)?;
        // Held until the grant is attached: what the session hears of meanwhile is remembered.
        let _asking = session.map(|session| session.heart().asking());
        let answered = tokio::select! {
            answered = self.ask(client, session) => answered?,
            error = over(session) => return Err(error),
        };
        let Told::Lease(told) = answered.told else {
            return Err(Error::Unexpected { detail: "no lease came of an acquire".into() });
        };
        let told = outcome::lease(&told)?;
        let term = self.begin(client, session, told, answered.sent_us)?;
        term.hold.settled().await.map_err(Error::Ended)?;
        Ok(term)
    }

    fn check(&self, session: Option<&Session>) -> Result<(), Error> {
        let Some(session) = session else { return Ok(()) };
        session.check()?;
        let field = match self.options.renewal {
            _ if self.ttl != Ttl::default() => "ttl",
            Renewal::Every(_) | Renewal::Never => "renewal",
            Renewal::Timetable => return Ok(()),
        };
        let detail =
            "a lease under a session is kept by the session, for the session's TTL; leave it to that";
        Err(Error::Invalid { field: field.into(), detail: detail.into() })
    }

    async fn ask(&self, client: &Client, session: Option<&Session>) -> Result<Answered, Error> {
        let request = v1::AcquireRequest {
            lock: self.lock.to_owned(),
            owner_id: client.owner().to_owned(),
            ttl_ms: self.ttl.ms(),
            mode: self.options.mode.wire(),
            wait_ms: 0,
            session_id: session.map(|session| session.heart().id().to_owned()),
            request_id: None,
            metadata: self.options.metadata.clone(),
        };
        let operations = client.operations();
        match self.patience {
            Patience::OneAttempt => {
                let asking = operations.ask(Asked::Acquire(request));
                let Some(timeout) = self.options.timeout else { return asking.await };
                let until_us = client.clock().now_us().saturating_add(us(timeout));
                tokio::select! {
                    biased;
                    answered = asking => answered,
                    // What is dropped unanswered is taken back.
                    () = client.clock().sleep_until(until_us) => Err(no_answer(client)),
                }
            }
            Patience::InLine { until_us, waits } => {
                let in_line = operations.stand_in_line(request, until_us);
                let mut positions = in_line.position();
                let mut in_line = pin!(in_line);
                loop {
                    tokio::select! {
                        biased;
                        answered = &mut in_line => return answered,
                        Ok(()) = positions.changed() => waits(),
                    }
                }
            }
        }
    }

    /// Begins to keep what was granted.
    fn begin(
        &self,
        client: &Client,
        session: Option<&Session>,
        told: v1::Lease,
        sent_us: u64,
    ) -> Result<Term, Error> {
        let promise = Promise::from(&told);
        let claim = Grant::told(told, sent_us)?.claim();
        let (clock, operations) = (client.clock(), client.operations());
        let mut keeper = Keeper::new(self.options.renewal);
        if let Some(within) = self.options.progress_within {
            keeper = keeper.tied_to_progress(us(within), clock.now_us());
        }
        let nudge = session.map_or_else(Default::default, |session| Arc::clone(session.heart().nudge()));
        let hold = Arc::new(Hold::new(claim, keeper, Arc::clone(clock), operations.clone(), nudge));
        hold.confirm(promise, sent_us);
        match session {
            Some(session) => session.heart().attach(&hold),
            None => operations.spawn(upkeep::keep(Arc::clone(&hold))),
        }
        Ok(Term { hold, session: session.cloned() })
    }
}

/// Resolves when the session to live by is over.
async fn over(session: Option<&Session>) -> Error {
    match session {
        Some(session) => {
            session.heart().over().cancelled().await;
            session.check().err().unwrap_or(Error::Cancelled)
        }
        None => std::future::pending().await,
    }
}

fn no_answer(client: &Client) -> Error {
    Error::ServerUnavailable(Box::new(Unavailable {
        server: client.server().to_owned(),
        attempts: 1,
        trouble: Trouble::Silence("the time for the attempt is over, and it is taken back".into()),
        may_have_happened: true,
    }))
}
