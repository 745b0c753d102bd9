//! `leasehold verify`: whether a token was good a moment ago. For diagnosis: only a comparison of tokens at the protected
//! resource itself keeps a late writer out.

use clap::Args;
use leasehold_client::Error;

use crate::asking::Asking;
use crate::duration;
use crate::paint::{Paint, visible};
use crate::printing::print;
use crate::shapes;
use crate::status::{Failure, Status};

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
        let failed = format!("could not verify token {token} of {lock}");
        let left = asking.ask(&failed, async |client| match client.verify(lock, *token).await {
            Err(Error::Ended(_)) => Ok(None),
            answered => answered.map(Some),
        })?;
        let Some(left) = left else {
            let sentence = format!(
                "token {token} is not good for {}: at {} no live lease with it covers that lock",
                visible(lock),
                asking.server
            );
            return Err(asking.told_as("stale_token", Failure::new(Status::Lost, sentence)));
        };
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
