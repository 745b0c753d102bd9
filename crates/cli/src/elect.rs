//! `leasehold elect`: a command that runs whenever this process leads, and stops when it does not.

use std::time::Duration;

use clap::Args;
use leasehold_client::{Advice, Client, Error};
use tokio::time::sleep;

use crate::status::{Failure, Status};
use crate::tenancy::{Stood, Tenancy, Tenure, Wish};
use crate::under_lease::Signals;

/// How long to wait when there is no line to stand in, at least.
const PAUSE: Duration = Duration::from_secs(1);

/// Run a command whenever this process is the leader
///
/// Stands in line for leadership and runs CMD each time it is won, with a new LEASEHOLD_TOKEN. When leadership is lost, CMD is
/// ended as with `leasehold lock`, and this program stands in line again. When CMD ends by itself, leadership is handed
/// over and the exit status is CMD's own. SIGTERM stops CMD and hands over at once.
#[derive(Args)]
#[command(after_help = "\
Examples:
  leasehold elect scheduler -- ./scheduler
  leasehold elect scheduler --ttl short -- sh -c 'exec ./scheduler --term \"$LEASEHOLD_TOKEN\"'")]
pub struct Elect {
    #[command(flatten)]
    tenancy: Tenancy,
}

impl Elect {
    pub fn run(self) -> Result<Status, Failure> {
        let runtime = Tenancy::runtime()?;
        let done = runtime.block_on(self.lead_again_and_again());
        runtime.shutdown_background();
        done
    }

    async fn lead_again_and_again(&self) -> Result<Status, Failure> {
        let tenancy = &self.tenancy;
        let mut signals = Signals::listen().map_err(Tenancy::cannot_start)?;
        let client = match tenancy.connect(&mut signals).await? {
            Ok(client) => client,
            Err(signal) => return Ok(Status::signalled(signal.as_raw())),
        };
        loop {
            let guard = match self.stand(&client, &mut signals).await? {
                Stood::Granted(guard) => guard,
                Stood::Called(signal) => return Ok(Status::signalled(signal.as_raw())),
            };
            if let Ok(token) = guard.token() {
                tenancy.say(&format!("leading {} with token {token}", tenancy.lock));
            }
            match tenancy.run(&client, guard, &mut signals).await? {
                Tenure::Ended(status) => return Ok(status),
                Tenure::Lost { loss, again: false } => return Err(loss),
                Tenure::Lost { loss, again: true } => {
                    tenancy.warn(&format!("{}; standing in line again", loss.sentence));
                }
                Tenure::Missed => {}
            }
        }
    }

    /// For as long as it takes, also while there is no server.
    async fn stand(&self, client: &Client, signals: &mut Signals) -> Result<Stood, Failure> {
        let tenancy = &self.tenancy;
        loop {
            let error = match tenancy.stand(client, Wish::default(), signals).await {
                Ok(stood) => return Ok(stood),
                Err(error) => error,
            };
            let failure =
                tenancy.asking.failure(&format!("could not stand in line for {}", tenancy.lock), &error);
            let pause = match (error.advice(), &error) {
                (Advice::TryAgain(after), _) => after.max(PAUSE),
                (_, Error::ServerUnavailable(_)) => PAUSE,
                _ => return Err(failure),
            };
            tenancy.say(&format!("{}; trying again", failure.sentence));
            tokio::select! {
                () = sleep(pause) => {}
                signal = signals.end() => return Ok(Stood::Called(signal)),
            }
        }
    }
}
