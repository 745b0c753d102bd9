//! The lease under which a file is changed: the one that the environment or the options name, or else one on the file's path
//! that is taken for the purpose, kept while it lasts and given back. Changes nothing itself.

use std::cell::Cell;
use std::convert::Infallible;
use std::io::{self, IsTerminal};
use std::pin::pin;
use std::time::Duration;

use clap::Args;
use leasehold_client::{Claim, Client, Error, Guard, Lock, LockOptions, Ttl, Unavailable};
use leasehold_state_machine::file::FileName;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::asking::{Asking, Owner, runtime};
use crate::duration;
use crate::interrupt::interrupted;
use crate::paint::visible;
use crate::status::{Failure, Status};

/// How long the server is waited for when a lock or a place in line is given back. It is free at its deadline anyway.
const GIVE_BACK_PATIENCE: Duration = Duration::from_secs(3);
/// How long to wait before a server is asked anew that did not answer however often it was asked.
const ANEW_AFTER: Duration = Duration::from_millis(250);

/// Under which lease.
#[derive(Args)]
pub struct FileLease {
    /// Stand in line for the file's lock for so long; 0s is one attempt [default: for as long as it takes]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    wait: Option<Duration>,
    /// Take the file's lock although the environment names a lease
    #[arg(long)]
    own_lock: bool,
    /// Write under a lease on this lock that is held already, instead of taking the file's
    #[arg(long, value_name = "LOCK", env = "LEASEHOLD_LOCK")]
    lock: Option<String>,
    /// That lease's id, a secret; better in the environment, where other users do not see it
    #[arg(long, value_name = "ID", env = "LEASEHOLD_LEASE_ID", hide_env_values = true)]
    lease_id: Option<String>,
    /// That lease's fencing token
    #[arg(long, value_name = "NUMBER", env = "LEASEHOLD_TOKEN")]
    token: Option<u64>,
    #[command(flatten)]
    owner: Owner,
}

/// The lease that a change is made under.
pub struct Hold<'h> {
    /// What proves it.
    pub claim: Claim,
    /// If it was taken for the purpose.
    guard: Option<&'h Guard>,
}

impl Hold<'_> {
    /// Waits for something, but not beyond the end of the lease. One that was named is for somebody else to watch.
    pub async fn wait_for<F: Future>(&self, something: F) -> Result<F::Output, Error> {
        match self.guard {
            Some(guard) => guard.run(something).await,
            None => Ok(something.await),
        }
    }
}

/// A change that is to be made.
pub struct Change<'c> {
    /// Whom to ask.
    pub asking: &'c Asking,
    /// Of which file.
    pub file: &'c str,
    /// What could not be done, if it cannot: "could not append to reports/a.log".
    pub failed: &'c str,
    /// Whether the server has been asked for it.
    begun: Cell<bool>,
}

impl<'c> Change<'c> {
    /// Nothing has been done for it yet.
    pub fn new(asking: &'c Asking, file: &'c str, failed: &'c str) -> Change<'c> {
        Change { asking, file, failed, begun: Cell::new(false) }
    }

    /// Asks until an answer comes or the time for it is over, so that a server that is just being started again is no
    /// failure. Each attempt is the same request, under the same id.
    pub async fn insist<T>(&self, attempt: impl AsyncFn() -> Result<T, Error>) -> Result<T, Error> {
        self.begun.set(true);
        let until = Instant::now() + self.asking.timeout;
        let (mut attempts, mut may_have_happened) = (0, false);
        loop {
            let unavailable = match timeout_at(until, attempt()).await {
                Ok(Err(Error::ServerUnavailable(unavailable))) => *unavailable,
                Ok(answered) => return answered,
                Err(_) => return Err(self.asking.silence(true)),
            };
            attempts += unavailable.attempts;
            may_have_happened |= unavailable.may_have_happened;
            if Instant::now() + ANEW_AFTER > until {
                let unavailable = Unavailable { attempts, may_have_happened, ..unavailable };
                return Err(Error::ServerUnavailable(Box::new(unavailable)));
            }
            sleep(ANEW_AFTER).await;
        }
    }

    /// How an error is told.
    pub fn failure(&self, error: Error) -> Failure {
        let error = match error {
            Error::NotFound { detail } => Error::NotFound {
                detail: detail + "; `leasehold files` lists the files, and --own-lock takes the lock of one",
            },
            error => error,
        };
        self.asking.failure(self.failed, &error)
    }

    fn stopped(&self, status: Status) -> Failure {
        let doubt = if self.begun.get() { "; it may have been carried out in part or whole" } else { "" };
        let sentence = visible(&format!("{}: interrupted{doubt}", self.failed));
        self.asking.told_as("cancelled", Failure::new(status, sentence))
    }
}

impl FileLease {
    /// Connects, and makes the change under the lease.
    pub fn make<T>(
        &self,
        change: &Change<'_>,
        work: impl AsyncFnOnce(&Client, &Hold<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let Change { asking, file, failed, .. } = *change;
        let usage = |sentence| asking.told_as("invalid_argument", Failure::new(Status::Usage, sentence));
        let name =
            FileName::parse(file).map_err(|wrong| usage(format!("FILE is not valid: {}", wrong.problem)))?;
        let named = self.named().map_err(usage)?;
        let runtime = runtime()?;
        let done = runtime.block_on(async {
            let mut stop = pin!(interrupted()?);
            let client = tokio::select! {
                connected = asking.connect(self.owner.owner.as_deref(), failed) => connected?,
                status = &mut stop => return Err(change.stopped(status)),
            };
            let done = tokio::select! {
                done = async {
                    match named {
                        Some(claim) => work(&client, &Hold { claim, guard: None }).await,
                        None => self.under_its_own(change, &client, name.path().text(), work).await,
                    }
                } => done,
                status = &mut stop => Err(change.stopped(status)),
            };
            // A place in line, or a lock, that was dropped is being given back.
            let _ = timeout(GIVE_BACK_PATIENCE, client.settled()).await;
            done
        });
        runtime.shutdown_background();
        done
    }

    /// The lease that is named, if one is.
    fn named(&self) -> Result<Option<Claim>, String> {
        // Half a lease is not none: whoever has lost a part of it does not mean to write without it.
        let none_is_named = self.lock.is_none() && self.lease_id.is_none() && self.token.is_none();
        if self.own_lock || none_is_named {
            return Ok(None);
        }
        let missing = |what: &str| {
            format!(
                "a lease is named, but not its {what}: `leasehold lock` and `acquire --export` give all of it; \
                 --own-lock takes the file's lock instead"
            )
        };
        let lease_id =
            self.lease_id.as_ref().ok_or_else(|| missing("id (--lease-id, LEASEHOLD_LEASE_ID)"))?;
        Ok(Some(Claim {
            lock: self.lock.clone().ok_or_else(|| missing("lock (--lock, LEASEHOLD_LOCK)"))?,
            owner_id: self.owner.owner.clone().ok_or_else(|| missing("owner (--owner, LEASEHOLD_OWNER)"))?,
            lease_id: lease_id.clone(),
            fencing_token: self.token.ok_or_else(|| missing("token (--token, LEASEHOLD_TOKEN)"))?,
        }))
    }

    async fn under_its_own<T>(
        &self,
        change: &Change<'_>,
        client: &Client,
        path: &str,
        work: impl AsyncFnOnce(&Client, &Hold<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let explained = |error| change.asking.failure(change.failed, &error);
        let options = match self.wait {
            Some(wait) => LockOptions::default().timeout(wait),
            None => LockOptions::default(),
        };
        let lock = Lock::new(client, path);
        let guard = tokio::select! {
            granted = lock.lock(Ttl::SHORT, options) => granted.map_err(explained)?,
            never = self.say_that_it_waits(change, path) => match never {},
        };
        let claim = guard.lease().claim().map_err(explained)?;
        let done = work(client, &Hold { claim, guard: Some(&guard) }).await;
        give_back(guard, path).await;
        done
    }

    /// Once it is plain that there is a wait, somebody at a terminal wants to know.
    async fn say_that_it_waits(&self, change: &Change<'_>, path: &str) -> Infallible {
        if !change.asking.json && io::stderr().is_terminal() {
            sleep(Duration::from_secs(1)).await;
            eprintln!("leasehold: in line for {}; Ctrl-C leaves it", visible(path));
        }
        std::future::pending().await
    }
}

/// Releases the lock. The change is made or refused by now: that the lock cannot be given back is said, and is no failure.
async fn give_back(guard: Guard, path: &str) {
    let why = match timeout(GIVE_BACK_PATIENCE, guard.unlock()).await {
        // It was ours for as long as the server took what we wrote.
        Ok(Ok(()) | Err(Error::Ended(_))) => return,
        Ok(Err(error)) => error.to_string(),
        Err(_) => "no answer".to_owned(),
    };
    let sentence = format!("could not release {path}: {why}; it is free when its time is over");
    eprintln!("leasehold: {}", visible(&sentence));
}
