//! Leasehold over its SDK: all clients are callers of one program, and share its connection and the streams on it.

use std::time::Duration;

use leasehold_client::{Ask, Claim, Client};

use crate::drive::{TTL, Workload};
use crate::peers::{LockClient, Way};

/// The way of the SDK.
pub struct Stream {
    /// Its address.
    pub server: String,
}

/// One caller.
pub struct Caller {
    client: Client,
    owner: String,
    wait: Duration,
}

impl Way for Stream {
    type Client = Caller;

    async fn clients(&self, count: usize, workload: Workload) -> Result<Vec<Caller>, String> {
        let client = Client::connect(&self.server).await.map_err(|error| error.to_string())?;
        let wait = wait(workload);
        let caller = |number| Caller { client: client.clone(), owner: format!("bench/{number}"), wait };
        Ok((0..count).map(caller).collect())
    }
}

/// How long to stand in line: not at all where nobody else wants the lock.
pub fn wait(workload: Workload) -> Duration {
    match workload {
        Workload::Contended => Duration::from_secs(600),
        Workload::Uncontended | Workload::Renewals => Duration::ZERO,
    }
}

impl LockClient for Caller {
    type Held = Claim;

    async fn acquire(&mut self, lock: &str) -> Result<Claim, String> {
        let ask = Ask { owner: Some(self.owner.clone()), ttl: Some(TTL), wait: self.wait, ..Ask::new(lock) };
        let granted = self.client.acquire(ask).await;
        granted.map(Claim::from).map_err(|error| error.to_string())
    }

    async fn renew(&mut self, held: &mut Claim) -> Result<(), String> {
        self.client.renew(held, None, None).await.map(drop).map_err(|error| error.to_string())
    }

    async fn release(&mut self, held: Claim) -> Result<(), String> {
        self.client.release(&held).await.map_err(|error| error.to_string())
    }

    fn token(held: &Claim) -> Option<u64> {
        Some(held.fencing_token)
    }
}
