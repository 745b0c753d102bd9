//! Which lease a command is about: by its options, or by the environment that `lock`, `elect` and `acquire --export` give.

use clap::Args;
use leasehold_client::Claim;

/// A lease and whose it is.
#[derive(Args)]
pub struct Holding {
    /// What is locked
    #[arg(value_name = "LOCK", env = "LEASEHOLD_LOCK")]
    pub lock: String,
    /// Whose lease it is
    #[arg(long, value_name = "OWNER", env = "LEASEHOLD_OWNER")]
    owner: String,
    /// The lease's id, a secret; better in the environment, where other users do not see it
    #[arg(long, value_name = "ID", env = "LEASEHOLD_LEASE_ID", hide_env_values = true)]
    lease_id: String,
    /// The lease's fencing token
    #[arg(long, value_name = "NUMBER", env = "LEASEHOLD_TOKEN")]
    token: u64,
}

impl Holding {
    /// As the server wants to see it.
    pub fn claim(&self) -> Claim {
        Claim {
            lock: self.lock.clone(),
            owner_id: self.owner.clone(),
            lease_id: self.lease_id.clone(),
            fencing_token: self.token,
        }
    }
}
