//! `leasehold break`: takes a lock from its holders.

use clap::Args;
use leasehold_client::BreakAsk;

use crate::asking::Asking;
use crate::duration;
use crate::paint::Paint;
use crate::printing::print;
use crate::shapes;
use crate::status::Failure;

/// Take a lock from its holders, for good reason
///
/// From now on their leases can neither be renewed nor verified. The lock is granted on at their deadline, by which a
/// holder that keeps its side of the promise has stopped: nobody overlaps. Who must be let in sooner needs --force.
/// When nothing is held the status is 76.
#[derive(Args)]
#[command(after_help = "\
Examples:
  leasehold break deploy --reason 'host7 has lost its disk'
  leasehold break deploy --reason 'host7 is switched off' --force")]
pub struct Break {
    /// The lock; only leases on exactly this one are broken
    #[arg(value_name = "LOCK")]
    lock: String,
    /// Why; it is recorded, and watchers and the holder see it
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Grant on at once. The old holder may still be at work: only what compares fencing tokens is protected
    #[arg(long)]
    force: bool,
    /// Break only the lease with this fencing token
    #[arg(long, value_name = "NUMBER")]
    token: Option<u64>,
    /// Make it safe to repeat: the same id breaks once
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
    #[command(flatten)]
    asking: Asking,
}

impl Break {
    pub fn run(self) -> Result<(), Failure> {
        let Break { lock, reason, force, token, request_id, asking } = self;
        let failed = format!("could not break {lock}");
        let ask = BreakAsk { lock: lock.clone(), reason, force, token, request_id };
        let broke = asking.ask(&failed, async |client| client.break_lock(ask).await)?;
        if asking.json {
            return print(&shapes::broke(&broke)).map(drop);
        }
        let tokens = broke.tokens.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        let leases = if broke.tokens.len() == 1 { "the lease" } else { "the leases" };
        let free = match broke.free_in.is_zero() {
            true => "it is free now".to_owned(),
            false => format!("it is free in {}", duration::show(broke.free_in)),
        };
        print(&format!("broke {leases} {tokens} on {}: {free}\n", Paint::for_stdout().name(&lock))).map(drop)
    }
}
