//! The primitive: one resource, granted for a time. One attempt to get it, kept alive in the background, given back once;
//! who holds it, and how that changes. It never waits in line: that is what a [`Lock`](crate::Lock) is for.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_protocol::v1;
use leasehold_protocol::v1::operation::What as Asked;
use tokio_util::sync::CancellationToken;

use crate::calls;
use crate::client::Client;
use crate::error::{Ended, Error};
use crate::hold::{GiveBack, Hold, Promise, Standing, ended_by};
use crate::observed::Changes;
use crate::obtain::{Patience, Term, Wish};
use crate::options::AcquireOptions;
use crate::outcome::{self, Told};
use crate::session::Session;
use crate::ttl::Ttl;
use crate::view::{Claim, Holder, Metadata};

/// One resource, granted for a time.
///
/// It can be acquired again after it has ended; each time it gets a new, higher token. Dropping it gives back what it holds,
/// in the background.
///
/// ```
/// use leasehold_client::{AcquireOptions, Client, Error, Lease, Ttl};
///
/// async fn report(client: &Client) -> Result<(), Error> {
///     let lease = Lease::new(client, "nightly-report");
///     if lease.acquire(Ttl::SHORT, AcquireOptions::default()).await? {
///         println!("held with token {}", lease.token()?);
///         lease.release().await?;
///     } else if let Some(holder) = lease.holder().await? {
///         println!("{} holds it", holder.owner_id);
///     }
///     Ok(())
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Error> {
/// #     let server = leasehold_client::testing::Server::new();
/// #     report(&server.client("me")).await
/// # }
/// ```
pub struct Lease {
    client: Client,
    session: Option<Session>,
    lock: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The newest term, held or over.
    term: Option<Term>,
    asking: bool,
}

impl Lease {
    /// A lease on this resource, not yet acquired. Once it is, it has a session of its own.
    pub fn new(client: &Client, lock: impl Into<String>) -> Lease {
        Lease { client: client.clone(), session: None, lock: lock.into(), state: Mutex::default() }
    }

    pub(crate) fn under(session: &Session, lock: impl Into<String>) -> Lease {
        Lease { session: Some(session.clone()), ..Lease::new(session.client(), lock) }
    }

    /// What is locked, in its text form.
    pub fn lock(&self) -> &str {
        &self.lock
    }

    /// Makes one attempt, and tells whether it succeeded. It does not wait for whoever holds the resource. A success is
    /// kept alive from now on; it is told only when it may be relied on.
    ///
    /// # Errors
    ///
    /// When it is not known whether the attempt succeeded, it is taken back in the background.
    pub async fn acquire(&self, ttl: impl Into<Ttl>, options: AcquireOptions) -> Result<bool, Error> {
        match self.obtain(ttl.into(), &options, Patience::OneAttempt).await {
            Ok(()) => Ok(true),
            Err(Error::Held(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Begins a new term.
    pub(crate) async fn obtain(
        &self,
        ttl: Ttl,
        options: &AcquireOptions,
        patience: Patience<'_>,
    ) -> Result<(), Error> {
        let _asking = self.begin_asking()?;
        let wish = Wish { lock: &self.lock, ttl, options, patience };
        let term = wish.obtain(&self.client, self.session.as_ref()).await?;
        let past = self.state().term.replace(term);
        drop(past);
        Ok(())
    }

    /// Gives the lease back and waits until the server has taken it. Once only: later calls say that it is over, and send
    /// nothing. If it had ended before, this says how; the server is told all the same that its holder has stopped.
    pub async fn release(&self) -> Result<(), Error> {
        let hold = self.hold()?;
        let gives_back = hold.give_back();
        self.leave_session(&hold);
        match gives_back {
            GiveBack::Held(request) => {
                self.client.operations().insist(Asked::Release(request)).await.map(drop)
            }
            GiveBack::Ended(how) => Err(Error::Ended(how)),
        }
    }

    /// Gives the lease back without waiting.
    pub(crate) fn let_go(&self) {
        if let Ok(hold) = self.hold() {
            hold.let_go();
            self.leave_session(&hold);
        }
    }

    /// The latest fencing token, or the error that ended the lease.
    pub fn token(&self) -> Result<u64, Error> {
        let hold = self.hold()?;
        hold.look().map_err(Error::Ended)?;
        Ok(hold.claim().fencing_token)
    }

    /// What proves to the server that the lease is held; its id is a secret.
    pub fn claim(&self) -> Result<Claim, Error> {
        let hold = self.hold()?;
        hold.look().map_err(Error::Ended)?;
        Ok(hold.claim().clone())
    }

    /// How it stands now, with the time that is left.
    pub fn standing(&self) -> Standing {
        let Ok(hold) = self.hold() else { return Standing::Lost };
        hold.look().map_or(Standing::Lost, Standing::from)
    }

    /// Its time to live, as the server has granted it.
    pub fn ttl(&self) -> Result<Duration, Error> {
        Ok(self.hold()?.ttl())
    }

    /// Until when it is believed if no renewal is confirmed, in microseconds of [`Client::clock`]: half a TTL after the last
    /// confirmed sending. For whoever makes sure from outside that the holder stops, such as a watchdog process.
    pub fn believed_until_us(&self) -> Result<u64, Error> {
        self.hold()?.believed_until_us().map_err(Error::Ended)
    }

    /// Resolves when a confirmed renewal has moved [`Lease::believed_until_us`] beyond this, and gives the new moment.
    pub async fn believed_beyond(&self, beyond_us: u64) -> Result<u64, Error> {
        let hold = self.hold()?;
        hold.believed_beyond(beyond_us).await.map_err(Error::Ended)
    }

    /// Fires when this term is lost, and on any other end; it has fired already if there is none.
    pub fn lost(&self) -> CancellationToken {
        match self.hold() {
            Ok(hold) => {
                // Whoever asks past the window gets a signal that has fired.
                let _ = hold.look();
                hold.over().child_token()
            }
            Err(_) => {
                let over = CancellationToken::new();
                over.cancel();
                over
            }
        }
    }

    /// Says that the holder has got on; needed only by a lease that is tied to progress.
    pub fn progress(&self) {
        if let Ok(hold) = self.hold() {
            hold.report_progress();
        }
    }

    /// Puts this in place of what everybody may read about the holder.
    pub async fn describe(&self, metadata: Metadata) -> Result<(), Error> {
        let hold = self.hold()?;
        let claim = self.claim()?;
        let renewal = v1::RenewRequest {
            lock: claim.lock,
            owner_id: claim.owner_id,
            lease_id: claim.lease_id,
            fencing_token: calls::token(claim.fencing_token),
            ttl_ms: None,
            metadata: Some(v1::Metadata { entries: metadata }),
        };
        let answered = self.client.operations().ask(Asked::Renew(renewal)).await;
        match answered {
            Ok(answered) => {
                if let Told::Lease(lease) = answered.told {
                    let lease = outcome::lease(&lease)?;
                    hold.confirm(Promise::from(&lease), answered.sent_us);
                }
                hold.look().map(drop).map_err(Error::Ended)
            }
            Err(refusal) => {
                if let Some(how) = ended_by(&refusal) {
                    hold.end(how);
                    hold.look().map_err(Error::Ended)?;
                }
                Err(refusal)
            }
        }
    }

    /// Who holds the resource now, whoever it is; the first of them if it is shared.
    pub async fn holder(&self) -> Result<Option<Holder>, Error> {
        let snapshot = self.client.get(&self.lock).await?;
        Ok(snapshot.holders.into_iter().find(|holder| !holder.broken))
    }

    /// Who holds the resource, now and after each change, without gaps and across reconnects. An idle observer sends
    /// nothing. It speaks of leases on exactly this resource.
    pub fn observe(&self) -> Changes {
        Changes::of(&self.client, &self.lock)
    }

    /// Why it is over.
    pub(crate) fn why(&self) -> Error {
        self.token().err().unwrap_or(Error::Ended(Ended::Lost))
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// The newest term.
    pub(crate) fn hold(&self) -> Result<Arc<Hold>, Error> {
        self.state().term.as_ref().map(Term::hold).ok_or(Error::Ended(Ended::NeverHeld))
    }

    /// The session need not keep this term any more, whatever has begun since.
    fn leave_session(&self, hold: &Hold) {
        if let Some(session) = &self.session {
            session.heart().detach(hold.claim().fencing_token);
        }
    }

    fn begin_asking(&self) -> Result<AskingMark<'_>, Error> {
        let mut state = self.state();
        let held = state.term.as_ref().is_some_and(|term| term.hold().look().is_ok());
        if held || state.asking {
            let what = if held { "it is held already" } else { "it is being acquired already" };
            let detail = format!("{what}; make another lease, or release this one first");
            return Err(Error::Invalid { field: "lease".into(), detail });
        }
        state.asking = true;
        // Whoever acquires again has stopped what the term before protected.
        if let Some(term) = &state.term {
            term.hold().let_go();
        }
        drop(state);
        Ok(AskingMark(self))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// While it is being acquired.
struct AskingMark<'l>(&'l Lease);

impl Drop for AskingMark<'_> {
    fn drop(&mut self) {
        self.0.state().asking = false;
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("lock", &self.lock).field("standing", &self.standing()).finish()
    }
}
