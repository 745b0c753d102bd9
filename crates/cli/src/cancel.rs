//! `leasehold cancel`: takes an acquire back by its request id, wherever it has got to.

use clap::Args;
use leasehold_client::Cancelled;

use crate::asking::Asking;
use crate::printing::print;
use crate::shapes;
use crate::status::Failure;

/// Take an acquire back by its request id
///
/// If it stands in line it leaves it; if it was granted meanwhile the lease is released; if it has not arrived yet it
/// will be refused. The answer says which.
#[derive(Args)]
#[command(after_help = "\
Example:
  leasehold acquire deploy --owner alice --wait 10m --request-id night-7
  leasehold cancel deploy --owner alice --request-id night-7")]
pub struct Cancel {
    /// What was to be locked
    #[arg(value_name = "LOCK", env = "LEASEHOLD_LOCK")]
    lock: String,
    /// Who asked for it
    #[arg(long, value_name = "OWNER", env = "LEASEHOLD_OWNER")]
    owner: String,
    /// The request id that it was asked for with
    #[arg(long, value_name = "ID")]
    request_id: String,
    #[command(flatten)]
    asking: Asking,
}

impl Cancel {
    pub fn run(self) -> Result<(), Failure> {
        let Cancel { lock, owner, request_id, asking } = &self;
        let failed = format!("could not take {request_id} back");
        let found = asking.ask(&failed, async |client| client.cancel(lock, owner, request_id).await)?;
        print(&match (asking.json, found) {
            (true, found) => shapes::cancelled(found),
            (false, Cancelled::Waiting) => format!("{request_id} has left the line for {lock}\n"),
            (false, Cancelled::Released) => {
                format!("{request_id} had been granted {lock}, and gave it back\n")
            }
            (false, Cancelled::Unknown) => {
                format!("{request_id} had not arrived; if it does, it is refused\n")
            }
        })
        .map(drop)
    }
}
