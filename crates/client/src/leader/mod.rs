//! The run-loop: protected code is contained. It stands in line, leads when it is granted, follows while it waits, and begins
//! again when it was lost or given up. It never leads past the moment at which another may: what leads is told at the safety
//! window, and dropped in time if it does not stop.

mod following;
mod term;

use std::convert::Infallible;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::client::Client;
use crate::error::Error;
use crate::lease::Lease;
use crate::lock::{Lock, LockOptions};
use crate::retry::RetryPolicy;
use crate::session::Session;
use crate::ttl::Ttl;
use crate::view::us;

pub use following::{Following, Led};
pub use term::Term;

/// Whoever has neither won nor been told a place in line for so long follows, and does not know whom.
const FOLLOW_AFTER: Duration = Duration::from_millis(500);

/// What to do when a term is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Next {
    /// Stand in line again, behind everybody who waits.
    #[default]
    Again,
    /// Leave the loop.
    Stop,
}

/// A candidate for leadership.
///
/// The caller says what to do while leading, with the term's token and its signal, and what to do while following. When what
/// leads returns, it has resigned: the next in line leads at once. When the lease is lost, [`Term::stopping`] fires at the
/// safety window; what has not returned when a sixth of the TTL is left is dropped.
///
/// ```
/// use leasehold_client::{Client, Error, Leader, Next, Ttl};
///
/// async fn schedule(client: &Client) -> Result<(), Error> {
///     let candidate = Leader::new(client, "scheduler").ttl(Ttl::SHORT).value("10.0.0.7:8080");
///     candidate
///         .run(
///             |term| async move {
///                 println!("leading with token {:?}", term.token());
///                 // Work until `term.stopping()` fires. Returning is resigning.
///                 Next::Stop
///             },
///             |mut following| async move {
///                 loop {
///                     println!("following {:?}", following.changed().await);
///                 }
///             },
///         )
///         .await
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Error> {
/// #     let server = leasehold_client::testing::Server::new();
/// #     schedule(&server.client("me")).await
/// # }
/// ```
#[derive(Clone)]
pub struct Leader {
    client: Client,
    session: Option<Session>,
    lock: String,
    ttl: Ttl,
    value: Option<String>,
    options: LockOptions,
    after_loss: Next,
    stop: CancellationToken,
}

impl Leader {
    /// The key in the lease's metadata under which a leader publishes its value.
    pub const VALUE_KEY: &'static str = "leader.value";

    /// A candidate for what this lock stands for.
    pub fn new(client: &Client, lock: impl Into<String>) -> Leader {
        Leader {
            client: client.clone(),
            session: None,
            lock: lock.into(),
            ttl: Ttl::default(),
            value: None,
            options: LockOptions::default(),
            after_loss: Next::Again,
            stop: CancellationToken::new(),
        }
    }

    pub(crate) fn under(session: &Session, lock: impl Into<String>) -> Leader {
        Leader { session: Some(session.clone()), ..Leader::new(session.client(), lock) }
    }

    /// How long the lease lives without a renewal: how long followers wait when a leader has died.
    pub fn ttl(mut self, ttl: impl Into<Ttl>) -> Leader {
        self.ttl = ttl.into();
        self
    }

    /// What a leader publishes from the moment it leads, such as its address.
    pub fn value(mut self, value: impl Into<String>) -> Leader {
        self.value = Some(value.into());
        self
    }

    /// What else everybody may read about the leader.
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Leader {
        self.options = self.options.metadata(key, value);
        self
    }

    /// Renews only while what leads has reported progress within this time ([`Term::progress`]).
    pub fn tied_to_progress(mut self, within: Duration) -> Leader {
        self.options = self.options.tied_to_progress(within);
        self
    }

    /// How to try again while there is no line to stand in; see [`LockOptions::delay`].
    pub fn delay(mut self, delay: RetryPolicy) -> Leader {
        self.options = self.options.delay(delay);
        self
    }

    /// What to do when what leads had to be dropped, so that it could not say. By default it stands in line again.
    pub fn after_loss(mut self, next: Next) -> Leader {
        self.after_loss = next;
        self
    }

    /// Leaves the loop when this fires: whoever leads is told to stop, and resigns when it has.
    pub fn stopped_by(mut self, stop: CancellationToken) -> Leader {
        self.stop = stop;
        self
    }

    /// Runs until it is told to stop, or meets an error that trying again would not mend. Dropping the future resigns, in the
    /// background.
    pub async fn run<L, LF, F, FF>(self, mut leading: L, mut following: F) -> Result<(), Error>
    where
        L: FnMut(Term) -> LF,
        LF: Future<Output = Next>,
        F: FnMut(Following) -> FF,
        FF: Future<Output = ()>,
    {
        loop {
            let lease = match self.stand(&mut following).await {
                Ok(lease) => lease,
                Err(Error::Cancelled) if self.stop.is_cancelled() => return Ok(()),
                Err(error) => return Err(error),
            };
            let reign = Reign(Arc::new(lease));
            let metadata = self.options.acquire.metadata.clone();
            let term = Term::new(Arc::clone(&reign.0), self.stop.child_token(), metadata);
            let next = contain(&reign.0, &term, leading(term.clone())).await;
            // To resign is to hand over at once; one that was lost is given back all the same, because it has stopped.
            let released = reign.0.release().await;
            if let Err(error) = released
                && !matches!(error, Error::Ended(_) | Error::NotFound { .. } | Error::ServerUnavailable(_))
            {
                return Err(error);
            }
            if next.unwrap_or(self.after_loss) == Next::Stop || self.stop.is_cancelled() {
                return Ok(());
            }
        }
    }

    /// Stands in line; follows meanwhile.
    async fn stand<F, FF>(&self, following: &mut F) -> Result<Lease, Error>
    where
        F: FnMut(Following) -> FF,
        FF: Future<Output = ()>,
    {
        let lock = match &self.session {
            Some(session) => Lock::under(session, &*self.lock),
            None => Lock::new(&self.client, &*self.lock),
        };
        let mut options = self.options.clone().cancelled_by(self.stop.clone());
        if let Some(value) = &self.value {
            options = options.metadata(Leader::VALUE_KEY, value);
        }
        let queued = Notify::new();
        let waits = || queued.notify_one();
        let mut standing = pin!(lock.stand(self.ttl, &options, &waits));
        let clock = self.client.clock();
        let follow_us = clock.now_us().saturating_add(us(FOLLOW_AFTER));
        tokio::select! {
            biased;
            granted = &mut standing => return granted.map(|guard| guard.into_lease()),
            () = queued.notified() => {}
            () = clock.sleep_until(follow_us) => {}
        }
        let (observing, seen) = following::observe(lock.lease());
        let meanwhile = async {
            tokio::join!(observing, following(seen));
            std::future::pending::<Infallible>().await
        };
        tokio::select! {
            biased;
            granted = &mut standing => granted.map(|guard| guard.into_lease()),
            never = meanwhile => match never {},
        }
    }
}

/// Runs what leads until it returns. When the lease is over it is told; none when it had to be dropped.
async fn contain<W: Future<Output = Next>>(lease: &Lease, term: &Term, work: W) -> Option<Next> {
    let hold = lease.hold().ok()?;
    let clock = lease.client().clock();
    let over = hold.over().clone();
    let mut work = pin!(work);
    let mut watched = pin!(poll_fn(|context| {
        // A process that was stopped looks before it goes on.
        if hold.look().is_err() {
            term.tell_to_stop();
            if clock.now_us() >= hold.stop_by_us() {
                return Poll::Ready(None);
            }
        }
        work.as_mut().poll(context).map(Some)
    }));
    tokio::select! {
        biased;
        next = &mut watched => return next,
        () = over.cancelled() => term.tell_to_stop(),
    }
    tokio::select! {
        biased;
        next = watched => next,
        () = clock.sleep_until(hold.stop_by_us()) => None,
    }
}

/// A term that ends when this is dropped, whoever else has a hand on its lease.
struct Reign(Arc<Lease>);

impl Drop for Reign {
    fn drop(&mut self) {
        self.0.let_go();
    }
}

impl fmt::Debug for Leader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leader").field("lock", &self.lock).finish_non_exhaustive()
    }
}
