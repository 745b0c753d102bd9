//! `leasehold release`: gives a lease back.

use clap::Args;

use crate::asking::Asking;
use crate::holding::Holding;
use crate::paint::Paint;
use crate::printing::print;
use crate::shapes;
use crate::status::Failure;

/// Give a lease back, so that the next in line has it at once
///
/// Doing it again changes nothing. After the lease's time has run out it fails with status 76: somebody else may have
/// been at work meanwhile.
#[derive(Args)]
#[command(after_help = "\
Examples:
  leasehold release                inside a shell that evaluated `acquire --export`
  leasehold release deploy --owner alice --lease-id l0-5f… --token 888419500019712")]
pub struct Release {
    #[command(flatten)]
    holding: Holding,
    #[command(flatten)]
    asking: Asking,
}

impl Release {
    pub fn run(self) -> Result<(), Failure> {
        let claim = self.holding.claim();
        let failed = format!("could not release {}", claim.lock);
        self.asking.ask(&failed, async |client| client.release(&claim).await)?;
        print(&match self.asking.json {
            true => shapes::released(),
            false => format!("released {}\n", Paint::for_stdout().name(&claim.lock)),
        })
        .map(drop)
    }
}
