//! `leasehold renew`: one renewal, for those who keep their lease alive by hand.

use std::time::Duration;

use clap::Args;

use crate::asking::Asking;
use crate::duration;
use crate::holding::Holding;
use crate::metadata;
use crate::paint::Paint;
use crate::printing::print;
use crate::shapes;
use crate::status::{Failure, Status};

/// Renew a lease once
///
/// Inside `leasehold lock` and `leasehold elect` nothing needs to be renewed by hand.
#[derive(Args)]
#[command(after_help = "\
Examples:
  leasehold renew                  inside a shell that evaluated `acquire --export`
  leasehold renew deploy --owner alice --lease-id l0-5f… --token 888419500019712")]
pub struct Renew {
    #[command(flatten)]
    holding: Holding,
    /// Give it another TTL: a duration, or short (10s), long (60s), batch (300s)
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_ttl)]
    ttl: Option<Duration>,
    /// Put KEY=VALUE in place of its metadata; can be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = metadata::parse)]
    metadata: Vec<(String, String)>,
    #[command(flatten)]
    asking: Asking,
}

impl Renew {
    pub fn run(self) -> Result<(), Failure> {
        let claim = self.holding.claim();
        let usage = |wrong| self.asking.told_as("invalid_argument", Failure::new(Status::Usage, wrong));
        let metadata = match self.metadata.is_empty() {
            true => None,
            false => Some(metadata::gather(self.metadata).map_err(usage)?),
        };
        let failed = format!("could not renew {}", claim.lock);
        let grant =
            self.asking.ask(&failed, async |client| client.renew(&claim, self.ttl, metadata).await)?;
        print(&match self.asking.json {
            true => shapes::lease(&grant),
            false => format!(
                "renewed {} for {}\n",
                Paint::for_stdout().name(&grant.lock),
                duration::show(grant.expires_in)
            ),
        })
        .map(drop)
    }
}
