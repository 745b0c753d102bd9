//! `leasehold acquire`: one lease, for those who keep it alive themselves. Whoever is not told of the lease does not keep
//! it: an interrupt takes the request back, and what cannot be printed is released.

use std::convert::Infallible;
use std::io::{self, IsTerminal};
use std::pin::pin;
use std::time::Duration;

use clap::Args;
use leasehold_client::{Ask, Client, Error, Grant, Mode};

use crate::asking::{Asking, Owner, runtime};
use crate::duration;
use crate::interrupt::interrupted;
use crate::metadata;
use crate::paint::{Paint, visible};
use crate::printing::{Reader, print};
use crate::quote::quoted;
use crate::shapes;
use crate::status::{Failure, Status};

/// How long an interrupted command still tries to leave the line in good order.
const LEAVING_MAX: Duration = Duration::from_secs(3);

/// Acquire a lease, and leave it to the caller to keep it
///
/// The lease ends when its time is over: renew it after a third of its TTL, and stop what it protects when no renewal
/// was confirmed for half of it. To run a command under a lock, `leasehold lock` does all of that by itself.
#[derive(Args)]
#[command(after_help = "\
Examples:
  leasehold acquire deploy --ttl 60s --wait 10s
  lease=$(leasehold acquire deploy --ttl 10m --export) && eval \"$lease\"
  leasehold renew && ./deploy.sh --fence \"$LEASEHOLD_TOKEN\" && leasehold release")]
pub struct Acquire {
    /// What to lock: a NAME, path:/A/B, inode:N or range:N:FROM-TO
    #[arg(value_name = "LOCK")]
    lock: String,
    /// How long it lives without a renewal: a duration, or short (10s), long (60s), batch (300s); 30s unless given
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_ttl)]
    ttl: Option<Duration>,
    /// Stand in line for so long; without it, one attempt
    #[arg(long, value_name = "DURATION", default_value = "0s", hide_default_value = true, value_parser = duration::parse)]
    wait: Duration,
    /// Share it with others that share it
    #[arg(long)]
    shared: bool,
    /// Attach KEY=VALUE for everybody to see; can be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = metadata::parse)]
    metadata: Vec<(String, String)>,
    /// Make it safe to repeat: the same owner and id get the same lease; a random one unless given
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
    /// Live by this session instead of one of its own
    #[arg(
        long,
        value_name = "ID",
        env = "LEASEHOLD_SESSION_ID",
        hide_env_values = true,
        conflicts_with = "ttl"
    )]
    session_id: Option<String>,
    /// Print assignments that a shell can evaluate, for `renew`, `release` and `verify` to find
    #[arg(long, conflicts_with = "json")]
    export: bool,
    #[command(flatten)]
    owner: Owner,
    #[command(flatten)]
    asking: Asking,
}

impl Acquire {
    pub fn run(self) -> Result<(), Failure> {
        let failed = format!("could not acquire {}", self.lock);
        let ask = self.ask()?;
        let runtime = runtime()?;
        let done = runtime.block_on(async {
            let mut stop = pin!(interrupted()?);
            let client = tokio::select! {
                connected = self.asking.connect(self.owner.owner.as_deref(), &failed) => connected?,
                status = &mut stop => return Err(self.interrupted(status)),
            };
            let grant = tokio::select! {
                answered = self.asking.bounded(self.wait, client.acquire(ask.clone())) => {
                    answered.map_err(|error| self.failure(&failed, &client, &ask, &error))?
                }
                never = self.say_that_it_waits() => match never {},
                status = &mut stop => return Err(self.take_back(&client, &ask, status).await),
            };
            let told = self.tell(&grant);
            if !matches!(told, Ok(Reader::There)) {
                let claim = grant.claim();
                let _ = self.asking.bounded(Duration::ZERO, client.release(&claim)).await;
            }
            told.map(drop)
        });
        runtime.shutdown_background();
        done
    }

    fn ask(&self) -> Result<Ask, Failure> {
        let usage = |wrong| self.asking.told_as("invalid_argument", Failure::new(Status::Usage, wrong));
        let request_id = match &self.request_id {
            Some(id) => id.clone(),
            None => random_id()?,
        };
        Ok(Ask {
            ttl: self.ttl,
            mode: if self.shared { Mode::Shared } else { Mode::Exclusive },
            wait: self.wait,
            session_id: self.session_id.clone(),
            request_id: Some(request_id),
            metadata: metadata::gather(self.metadata.clone()).map_err(usage)?,
            ..Ask::new(&self.lock)
        })
    }

    /// Once it is plain that there is a wait, somebody at a terminal wants to know.
    async fn say_that_it_waits(&self) -> Infallible {
        if !self.wait.is_zero() && !self.asking.json && io::stderr().is_terminal() {
            tokio::time::sleep(Duration::from_secs(1)).await;
            eprintln!("leasehold: in line for {}; Ctrl-C leaves it", visible(&self.lock));
        }
        std::future::pending().await
    }

    /// Leaves the line, or gives back what was granted in the same moment.
    async fn take_back(&self, client: &Client, ask: &Ask, status: Status) -> Failure {
        let request_id = ask.request_id.as_deref().unwrap_or_default();
        let cancel = client.cancel(&self.lock, client.owner(), request_id);
        match tokio::time::timeout(LEAVING_MAX, cancel).await {
            Ok(Ok(_)) => {
                let sentence = format!("left the line for {}", visible(&self.lock));
                self.asking.told_as("cancelled", Failure::new(status, sentence))
            }
            // The server takes out whoever does not come back.
            _ => self.interrupted(status),
        }
    }

    fn interrupted(&self, status: Status) -> Failure {
        let sentence = format!("interrupted before {} was acquired", visible(&self.lock));
        self.asking.told_as("cancelled", Failure::new(status, sentence))
    }

    /// A request that may have been carried out is named, so that it can be repeated.
    fn failure(&self, failed: &str, client: &Client, ask: &Ask, error: &Error) -> Failure {
        let failure = self.asking.failure(failed, error);
        if error.outcome_is_known() {
            return failure;
        }
        let (owner, request_id) = (client.owner(), ask.request_id.as_deref().unwrap_or_default());
        let sentence = format!(
            "{}; repeat it with --owner {} --request-id {} to learn what came of it",
            failure.sentence,
            quoted(owner),
            quoted(request_id),
        );
        let named = [("owner_id", owner), ("request_id", request_id)];
        Failure { problem: self.asking.problem(&sentence, error, &named), sentence, ..failure }
    }

    fn tell(&self, grant: &Grant) -> Result<Reader, Failure> {
        print(&match (self.asking.json, self.export) {
            (true, _) => shapes::lease(grant),
            (false, true) => assignments(grant, &self.asking.server),
            (false, false) => describe(grant, Paint::for_stdout()),
        })
    }
}

/// For a shell to evaluate; the same names that `lock` gives to what it runs.
fn assignments(grant: &Grant, server: &str) -> String {
    let token = grant.fencing_token.to_string();
    let pairs = [
        ("LEASEHOLD_LOCK", &grant.lock),
        ("LEASEHOLD_LEASE_ID", &grant.lease_id),
        ("LEASEHOLD_TOKEN", &token),
        ("LEASEHOLD_OWNER", &grant.owner_id),
        ("LEASEHOLD_SERVER", &server.to_owned()),
    ];
    pairs.map(|(name, value)| format!("export {name}={}\n", quoted(value))).concat()
}

fn describe(grant: &Grant, paint: Paint) -> String {
    let Grant { lock, owner_id, lease_id, fencing_token, .. } = grant;
    let (renew, stop) = (duration::show(grant.ttl / 3), duration::show(grant.ttl / 2));
    format!(
        "acquired {} for {}\n\
         owner     {}\n\
         lease id  {lease_id}\n\
         token     {fencing_token}\n\
         renew it every {renew}; stop if no renewal was confirmed for {stop}; give it back with\n  \
         leasehold release {} --owner {} --lease-id {lease_id} --token {fencing_token}\n",
        paint.name(lock),
        duration::show(grant.expires_in),
        visible(owner_id),
        quoted(lock),
        quoted(owner_id),
    )
}

/// An id that nobody else has.
pub fn random_id() -> Result<String, Failure> {
    let mut bytes = [0; 16];
    match getrandom::fill(&mut bytes) {
        Ok(()) => Ok(format!("{:032x}", u128::from_be_bytes(bytes))),
        Err(error) => Err(Failure::new(Status::Broken, format!("cannot draw a random number: {error}"))),
    }
}
