//! The mutex: protected code follows one call. It stands in the server's line and does not poll; where there is no line to
//! stand in, it watches first and then tries again, so that no change is missed. It never holds anything itself: each
//! success is a guard of its own.

use std::fmt;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::client::Client;
use crate::error::{Ended, Error};
use crate::guard::Guard;
use crate::lease::Lease;
use crate::observe::Observer;
use crate::obtain::Patience;
use crate::options::AcquireOptions;
use crate::retry::RetryPolicy;
use crate::session::Session;
use crate::ttl::Ttl;
use crate::view::{EventKind, us};

/// How a lock is waited for and kept: without a limit, exclusive, renewed by the server's timetable, unless told otherwise.
#[derive(Clone, Debug)]
pub struct LockOptions {
    pub(crate) acquire: AcquireOptions,
    cancel: Option<CancellationToken>,
    delay: RetryPolicy,
}

impl Default for LockOptions {
    fn default() -> LockOptions {
        let delay =
            RetryPolicy { attempts: u32::MAX, backoff: Duration::from_millis(500), ..RetryPolicy::default() };
        LockOptions { acquire: AcquireOptions::default(), cancel: None, delay }
    }
}

impl LockOptions {
    /// Waits for no longer than this; zero is a single attempt, which does not wait in line.
    pub fn timeout(mut self, timeout: Duration) -> LockOptions {
        self.acquire = self.acquire.timeout(timeout);
        self
    }

    /// Stops waiting when this fires. Dropping the future does the same.
    pub fn cancelled_by(mut self, cancel: CancellationToken) -> LockOptions {
        self.cancel = Some(cancel);
        self
    }

    /// How long to wait between attempts, and how many to make, while there is no line to stand in: the server is `busy`. A
    /// change of the lock ends a pause early.
    pub fn delay(mut self, delay: RetryPolicy) -> LockOptions {
        self.delay = delay;
        self
    }

    /// Shares the lock with others that share it.
    pub fn shared(mut self) -> LockOptions {
        self.acquire = self.acquire.shared();
        self
    }

    /// What everybody may read about the holder.
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> LockOptions {
        self.acquire = self.acquire.metadata(key, value);
        self
    }

    /// Renews this long after each renewal that was confirmed, if that is earlier than a third of the TTL.
    pub fn renew_every(mut self, every: Duration) -> LockOptions {
        self.acquire = self.acquire.renew_every(every);
        self
    }

    /// Never renews: the lock is lost at half of its TTL.
    pub fn never_renew(mut self) -> LockOptions {
        self.acquire = self.acquire.never_renew();
        self
    }

    /// Renews only while the holder has reported progress within this time ([`Guard::progress`]), so that a stuck worker does
    /// not keep the lock. The grant counts as the first report.
    pub fn tied_to_progress(mut self, within: Duration) -> LockOptions {
        self.acquire = self.acquire.tied_to_progress(within);
        self
    }
}

/// A mutex between processes.
///
/// ```
/// use leasehold_client::{Client, Error, Lock, LockOptions, Ttl};
///
/// async fn report(client: &Client) -> Result<(), Error> {
///     let guard = Lock::new(client, "nightly-report").lock(Ttl::LONG, LockOptions::default()).await?;
///     let token = guard.token()?;
///     guard.run(async move { println!("alone, with token {token}") }).await?;
///     guard.unlock().await
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Error> {
/// #     let server = leasehold_client::testing::Server::new();
/// #     report(&server.client("me")).await
/// # }
/// ```
pub struct Lock {
    client: Client,
    session: Option<Session>,
    lock: String,
}

impl Lock {
    /// A lock on this resource. Each time it is held it has a session of its own.
    pub fn new(client: &Client, lock: impl Into<String>) -> Lock {
        Lock { client: client.clone(), session: None, lock: lock.into() }
    }

    pub(crate) fn under(session: &Session, lock: impl Into<String>) -> Lock {
        Lock { session: Some(session.clone()), ..Lock::new(session.client(), lock) }
    }

    /// A lease of the same resource, not yet acquired: for one attempt, to see who holds it, or to observe it. A lock that is
    /// held has its lease in its guard ([`Guard::lease`]).
    pub fn lease(&self) -> Lease {
        match &self.session {
            Some(session) => Lease::under(session, &*self.lock),
            None => Lease::new(&self.client, &*self.lock),
        }
    }

    /// Blocks until the lock is granted, timed out or cancelled, in the server's line. A broken connection does not cost the
    /// place. Dropping the future leaves the line.
    ///
    /// Not re-entrant: whoever holds it and locks it again waits for itself.
    ///
    /// # Errors
    ///
    /// [`Error::Held`] when it was not to be had in time, [`Error::Cancelled`] when the wait was cancelled.
    pub async fn lock(&self, ttl: impl Into<Ttl>, options: LockOptions) -> Result<Guard, Error> {
        self.stand(ttl.into(), &options, &|| {}).await
    }

    /// Like [`Lock::lock`]; `waits` is called when it turns out that the lock is not to be had at once.
    pub(crate) async fn stand(
        &self,
        ttl: Ttl,
        options: &LockOptions,
        waits: &(dyn Fn() + Send + Sync),
    ) -> Result<Guard, Error> {
        let granted = self.stand_or_retry(ttl, options, waits);
        match &options.cancel {
            None => granted.await,
            Some(cancel) => tokio::select! {
                biased;
                () = cancel.cancelled() => Err(Error::Cancelled),
                granted = granted => granted,
            },
        }
    }

    async fn stand_or_retry(
        &self,
        ttl: Ttl,
        options: &LockOptions,
        waits: &(dyn Fn() + Send + Sync),
    ) -> Result<Guard, Error> {
        let clock = self.client.clock();
        let until_us = options.acquire.timeout.map(|wait| clock.now_us().saturating_add(us(wait)));
        let (mut tries, mut changes) = (0, None);
        loop {
            let lease = self.lease();
            let patience = Patience::InLine { until_us, waits };
            let refusal = match lease.obtain(ttl, &options.acquire, patience).await {
                Ok(()) => return Ok(Guard::new(lease)),
                Err(refusal) => refusal,
            };
            let recommended = match &refusal {
                Error::Busy { retry_after, .. } => Some(*retry_after),
                // A grant that was over before it could be relied on.
                Error::Ended(
                    Ended::Lost | Ended::Expired | Ended::Released | Ended::Broken(_) | Ended::Forgotten,
                ) => None,
                _ => return Err(refusal),
            };
            tries += 1;
            let past = until_us.is_some_and(|until_us| clock.now_us() >= until_us);
            let over = self.session.as_ref().is_some_and(|session| session.check().is_err());
            if past || over || tries >= options.delay.attempts {
                return Err(refusal);
            }
            waits();
            // Watch first, then attempt: what changes between the two ends the next pause at once.
            if changes.is_none() {
                changes = self.changes().await;
                if changes.is_some() {
                    continue;
                }
            }
            let pause = options.delay.pause(tries, recommended, self.client.random().number());
            let wake_us = clock.now_us().saturating_add(us(pause)).min(until_us.unwrap_or(u64::MAX));
            tokio::select! {
                () = somebody_goes(changes.as_mut()) => {}
                () = clock.sleep_until(wake_us) => {}
            }
        }
    }

    /// Everything that happens to the lock from now on; nothing if the server does not even say what now is.
    async fn changes(&self) -> Option<Observer> {
        Some(self.client.look_and_watch(&self.lock).await.ok()?.1)
    }
}

/// Resolves when somebody has left the lock or its line.
async fn somebody_goes(changes: Option<&mut Observer>) {
    let Some(changes) = changes else { return std::future::pending().await };
    loop {
        match changes.next().await {
            Some(Ok(event)) if event.kind == EventKind::Queued || event.kind == EventKind::Updated => {}
            Some(Ok(_)) => return,
            // Then only the delay is left.
            Some(Err(_)) | None => std::future::pending().await,
        }
    }
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").field("lock", &self.lock).finish_non_exhaustive()
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::session::SessionOptions;
    use crate::testing::Server;

    #[tokio::test]
    async fn a_grant_that_comes_as_the_wait_is_dropped_is_given_back() {
        let server = Server::new();
        let client = server.client("me");
        let lock = Lock::new(&client, "a");
        let mut locking = Box::pin(lock.lock(Ttl::BATCH, LockOptions::default()));
        assert!((&mut locking).now_or_never().is_none());
        server.clock().settle().await;
        assert_eq!(server.holders("a").len(), 1, "granted, and the answer is here");
        drop(locking);
        server.clock().settle().await;
        assert_eq!(server.holders("a"), []);

        let mut opening = Box::pin(Session::open(&client, Ttl::BATCH, SessionOptions::default()));
        assert!((&mut opening).now_or_never().is_none());
        server.clock().settle().await;
        drop(opening);
        server.clock().settle().await;
        assert_eq!(client.sessions(None, None).await.unwrap().rows, []);
    }

    #[tokio::test]
    async fn an_unlock_that_nobody_waits_for_unlocks_all_the_same() {
        let server = Server::new();
        let client = server.client("me");
        let guard = Lock::new(&client, "a").lock(Ttl::BATCH, LockOptions::default()).await.unwrap();
        assert!(guard.unlock().now_or_never().is_none(), "it is not even sent");
        server.clock().settle().await;
        assert_eq!(server.holders("a"), []);
    }
}
