//! `leasehold lock`: a command that runs while a lock is held, and no longer.

use std::time::Duration;

use clap::Args;
use tokio::time::Instant;

use crate::duration;
use crate::status::{Failure, Status};
use crate::tenancy::{Stood, Tenancy, Tenure, Wish};
use crate::under_lease::Signals;

/// Run a command while holding a lock
///
/// Stands in line for the lock, runs CMD, renews the lock for as long as CMD runs, and releases it when CMD and all that it
/// left in its process group have ended. If the lock is lost, CMD is ended before anybody else can have it: SIGTERM after half
/// of the TTL, SIGKILL after three quarters, also if this program itself was killed or stopped.
///
/// CMD finds LEASEHOLD_LOCK, LEASEHOLD_LEASE_ID, LEASEHOLD_TOKEN, LEASEHOLD_OWNER, LEASEHOLD_SERVER and LEASEHOLD_TTL_MS in its
/// environment. Signals are passed on to it. The exit status is CMD's own; 75 when the lock was not to be had in time, 76 when it was lost.
#[derive(Args)]
#[command(after_help = "\
Examples:
  leasehold lock deploy -- ./deploy.sh
  leasehold lock nightly --ttl batch --wait 0s -- ./report.sh || echo \"somebody else does it\"
  leasehold lock path:/data/in --shared -- sh -c './read.sh --fence \"$LEASEHOLD_TOKEN\"'")]
pub struct LockCommand {
    /// Stand in line for so long; 0s is one attempt [default: for as long as it takes]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    wait: Option<Duration>,
    /// Share it with others that share it
    #[arg(long)]
    shared: bool,
    #[command(flatten)]
    tenancy: Tenancy,
}

impl LockCommand {
    pub fn run(self) -> Result<Status, Failure> {
        let runtime = Tenancy::runtime()?;
        let done = runtime.block_on(self.lock_and_run());
        runtime.shutdown_background();
        done
    }

    async fn lock_and_run(&self) -> Result<Status, Failure> {
        let tenancy = &self.tenancy;
        let failed = format!("could not lock {}", tenancy.lock);
        let mut signals = Signals::listen().map_err(Tenancy::cannot_start)?;
        let until = self.wait.map(|wait| Instant::now() + wait);
        let client = match tenancy.connect(&mut signals).await? {
            Ok(client) => client,
            Err(signal) => return Ok(Status::signalled(signal.as_raw())),
        };
        loop {
            let wish = Wish { until, shared: self.shared };
            let stood = tenancy.stand(&client, wish, &mut signals).await;
            let guard = match stood.map_err(|error| tenancy.asking.failure(&failed, &error))? {
                Stood::Granted(guard) => guard,
                Stood::Called(signal) => return Ok(Status::signalled(signal.as_raw())),
            };
            match tenancy.run(&client, guard, &mut signals).await? {
                Tenure::Ended(status) => return Ok(status),
                Tenure::Lost { loss, .. } => return Err(loss),
                // Nothing has happened yet.
                Tenure::Missed => {}
            }
        }
    }
}
