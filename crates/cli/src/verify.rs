//! `leasehold verify`: whether a token was good a moment ago. For diagnosis: only a comparison of tokens at the protected
//! resource itself keeps a late writer out.

use clap::Args;

use crate::asking::Asking;
use crate::duration;
use crate::paint::Paint;
use crate::printing::print;
use crate::shapes;
use crate::status::Failure;

/// Say whether a live lease with this token covers a lock
///
/// Status 0 when it does, 76 when it does not. It was so a moment ago: what must keep a late writer out compares tokens
/// itself, and refuses one that is lower than the highest it has seen.
#[derive(Args)]
#[command(after_help = "\
Examples:
  leasehold verify deploy --token 888419500019712
  leasehold lock deploy -- sh -c 'leasehold verify && ./deploy.sh'")]
pub struct Verify {
    /// What is locked
    #[arg(value_name = "LOCK", env = "LEASEHOLD_LOCK")]
    lock: String,
    /// The lease's fencing token
    #[arg(long, value_name = "NUMBER", env = "LEASEHOLD_TOKEN")]
    token: u64,
    #[command(flatten)]
    asking: Asking,
}

impl Verify {
    pub fn run(self) -> Result<(), Failure> {
        let Verify { lock, token, asking } = &self;
        let failed = format!("could not find token {token} good for {lock}");
        let left = asking.ask(&failed, async |client| client.verify(lock, *token).await)?;
        print(&match asking.json {
            true => shapes::valid(left),
            false => format!(
                "token {token} is good for {}, with {} left\n",
                Paint::for_stdout().name(lock),
                duration::show(left)
            ),
        })
        .map(drop)
    }
}
