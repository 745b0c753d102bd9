//! What `lock` and `elect` share: standing in line for a lock, and running a command under it until one of the two is over.
//! Each of them decides for itself what comes next.

use std::convert::Infallible;
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::time::Duration;

use clap::Args;
use leasehold_client::{Client, Ended, Error, Guard, Lease, Lock, LockOptions, Ttl};
use rustix::process::Signal;
use tokio::runtime::Runtime;
use tokio::time::{Instant, sleep, timeout};

use crate::asking::{Asking, Owner};
use crate::duration;
use crate::paint::visible;
use crate::status::{Failure, Status, of_io};
use crate::under_lease::{self, Ran, Signals, Task, us};

/// How long to wait before saying that there is a wait.
const SAY_AFTER: Duration = Duration::from_millis(500);
/// How long the server is waited for when a lock is given back, or a place in line. It is free at its deadline anyway.
const GIVE_BACK_PATIENCE: Duration = Duration::from_secs(5);
/// The same for a lock that is lost already: its server may well be gone.
const LOST_PATIENCE: Duration = Duration::from_secs(1);

/// Tells a command its TTL in milliseconds, or that of the lock around ours if it is shorter.
const TTL: &str = "LEASEHOLD_TTL_MS";

/// What both commands are told.
#[derive(Args)]
pub struct Tenancy {
    /// What to lock: a NAME, path:/A/B, inode:N or range:N:FROM-TO
    #[arg(value_name = "LOCK")]
    pub lock: String,
    /// For how long others wait if this machine dies: a duration, or short (10s), long (60s), batch (300s) [default: 30s]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_ttl)]
    ttl: Option<Duration>,
    /// Say what happens, also when standard error is no terminal
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    owner: Owner,
    /// The command to run, and its arguments
    #[arg(value_name = "CMD", last = true, required = true)]
    command: Vec<OsString>,
    #[command(flatten)]
    pub asking: Asking,
}

/// How long to wait, and for what.
#[derive(Clone, Copy, Default)]
pub struct Wish {
    /// Up to this moment; without one, for as long as it takes.
    pub until: Option<Instant>,
    /// With others that share it.
    pub shared: bool,
}

/// What came of standing in line.
pub enum Stood {
    /// It is ours.
    Granted(Guard),
    /// This signal called us away.
    Called(Signal),
}

/// What came of running the command.
pub enum Tenure {
    /// It ended with this status, and the lock was given back.
    Ended(Status),
    /// The lock was lost, and the command ended for it.
    Lost {
        /// How and why, for whoever reads standard error.
        loss: Failure,
        /// Whether it may be tried again: all of the command has ended, and nobody has asked us to end.
        again: bool,
    },
    /// The lock was lost before the command was started.
    Missed,
}

impl Tenancy {
    /// Starts what everything here runs on: renewals have threads of their own.
    pub fn runtime() -> Result<Runtime, Failure> {
        let built = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        built.map_err(Tenancy::cannot_start)
    }

    /// The operating system does not let us.
    pub fn cannot_start(error: io::Error) -> Failure {
        Failure::new(of_io(&error), format!("could not start the command: {error}"))
    }

    /// Connects; none if a signal came first.
    pub async fn connect(&self, signals: &mut Signals) -> Result<Result<Client, Signal>, Failure> {
        let failed = format!("could not lock {}", self.lock);
        tokio::select! {
            client = self.asking.connect(self.owner.owner.as_deref(), &failed) => Ok(Ok(client?)),
            signal = signals.end() => Ok(Err(signal)),
        }
    }

    /// Stands in line until it is granted, the time is over, or a signal says to go.
    pub async fn stand(&self, client: &Client, wish: Wish, signals: &mut Signals) -> Result<Stood, Error> {
        let ttl = self.ttl.map_or_else(Ttl::default, Ttl::from);
        let mut options = LockOptions::default();
        if wish.shared {
            options = options.shared();
        }
        if let Some(until) = wish.until {
            options = options.timeout(until.saturating_duration_since(Instant::now()));
        }
        let lock = Lock::new(client, &*self.lock);
        let stood = tokio::select! {
            granted = lock.lock(ttl, options) => granted.map(Stood::Granted),
            signal = signals.end() => Ok(Stood::Called(signal)),
            never = self.say_who_is_in_the_way(client) => match never {},
        };
        if !matches!(stood, Ok(Stood::Granted(_))) {
            // The place in line, or what was granted in the same moment, is being given back.
            let _ = timeout(GIVE_BACK_PATIENCE, client.settled()).await;
        }
        stood
    }

    /// One line, once it is plain that there is a wait.
    async fn say_who_is_in_the_way(&self, client: &Client) -> Infallible {
        if self.talks() {
            sleep(SAY_AFTER).await;
            let mut line = format!("in line for {}", self.lock);
            if let Ok(snapshot) = client.get(&self.lock).await {
                let holders: Vec<&str> = snapshot.holders.iter().map(|holder| &*holder.owner_id).collect();
                if !holders.is_empty() {
                    line += &format!(", held by {}", holders.join(", "));
                }
                let ours = |waiter: &leasehold_client::Waiter| waiter.owner_id == client.owner();
                match snapshot.waiters.iter().position(ours) {
                    None | Some(0) => {}
                    Some(1) => line += "; 1 waits before us",
                    Some(before) => line += &format!("; {before} wait before us"),
                }
            }
            self.warn(&line);
        }
        std::future::pending().await
    }

    /// Runs the command under what was granted, and gives it back.
    pub async fn run(&self, client: &Client, guard: Guard, signals: &mut Signals) -> Result<Tenure, Failure> {
        let ran = self.run_under(client, guard.lease(), signals).await;
        let why = guard.token().err().unwrap_or(Error::Ended(Ended::Lost));
        match ran {
            Ok(Ran::Ended { .. }) | Err(_) => {
                self.give_back(client, guard, GIVE_BACK_PATIENCE, signals).await
            }
            // Whoever gives it back says that its holder has stopped.
            Ok(Ran::Lost { left_behind: true, .. }) => std::mem::forget(guard),
            Ok(_) => self.give_back(client, guard, LOST_PATIENCE, signals).await,
        }
        Ok(match ran.map_err(Tenancy::cannot_start)? {
            Ran::Ended { status } => Tenure::Ended(Status::Passed(status)),
            Ran::NotStarted { asked_to_end: Some(signal) } => {
                Tenure::Ended(Status::signalled(signal.as_raw()))
            }
            Ran::NotStarted { asked_to_end: None } => Tenure::Missed,
            Ran::Lost { left_behind, asked_to_end } => {
                Tenure::Lost { loss: self.loss(&why, left_behind), again: !left_behind && !asked_to_end }
            }
        })
    }

    async fn run_under(&self, client: &Client, lease: &Lease, signals: &mut Signals) -> io::Result<Ran> {
        let mut environment = lease.claim().map_or_else(
            |_| Vec::new(),
            |claim| {
                vec![
                    ("LEASEHOLD_LOCK", claim.lock),
                    ("LEASEHOLD_LEASE_ID", claim.lease_id),
                    ("LEASEHOLD_TOKEN", claim.fencing_token.to_string()),
                    ("LEASEHOLD_OWNER", claim.owner_id),
                    ("LEASEHOLD_SERVER", client.server().to_owned()),
                ]
            },
        );
        // Under another lock, our own death may mean that its time has come: SIGKILL at three quarters of its TTL. Our
        // command has a group of its own, and follows well before the last quarter is over.
        let outer = std::env::var(TTL).ok().and_then(|ms| ms.parse().ok()).map(Duration::from_millis);
        let ttl = lease.ttl().unwrap_or_default();
        environment.push((TTL, outer.unwrap_or(ttl).min(ttl).as_millis().to_string()));
        let survives_us = outer.map_or(u64::MAX, |outer| us(outer / 8));
        let clock = client.clock().as_ref();
        let task = Task { lease, clock, command: &self.command, environment, survives_us };
        under_lease::run(&task, signals).await
    }

    /// Gives the lock back after the command has ended. That it cannot be given back is said, and is no failure.
    async fn give_back(&self, client: &Client, guard: Guard, patience: Duration, signals: &mut Signals) {
        let given_back = async {
            let released = guard.unlock().await;
            client.settled().await;
            released
        };
        let released = tokio::select! {
            released = timeout(patience, given_back) => released,
            _ = signals.end() => return,
        };
        match released {
            // That it was lost is said elsewhere.
            Ok(Ok(()) | Err(Error::Ended(_))) => {}
            Err(_) if patience == LOST_PATIENCE => {}
            Ok(Err(error)) => self.warn(&format!("could not release {}: {error}", self.lock)),
            Err(_) => self.warn(&format!(
                "could not release {}: no answer from {}; it is free when its time is over",
                self.lock,
                client.server()
            )),
        }
    }

    fn loss(&self, why: &Error, left_behind: bool) -> Failure {
        let mut sentence = format!("lost {}: {why}; its command was ended", self.lock);
        if left_behind {
            sentence += ", but not all of its processes could be: they belong to another user, or hang";
        }
        self.asking.told_as("lease_expired", Failure::new(Status::Lost, visible(&sentence)))
    }

    /// Says something that only somebody who watches wants to know.
    pub fn say(&self, sentence: &str) {
        if self.talks() {
            self.warn(sentence);
        }
    }

    /// Says something on standard error.
    pub fn warn(&self, sentence: &str) {
        under_lease::say(format_args!("{}", visible(sentence)));
    }

    fn talks(&self) -> bool {
        self.verbose || (io::stderr().is_terminal() && !self.asking.json)
    }
}
