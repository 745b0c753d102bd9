//! Leasehold over unary gRPC calls: a connection for each client, one call after the other.

use std::time::Duration;

use leasehold_client::bare::Unary;
use leasehold_client::{Ask, Claim, Client};

use super::stream::wait;
use crate::drive::{TTL, Workload};
use crate::peers::{LockClient, Way};

/// The way.
pub struct Grpc {
    /// Its address.
    pub server: String,
}

/// One client.
pub struct Caller {
    unary: Unary,
    owner: String,
    wait: Duration,
}

impl Way for Grpc {
    type Client = Caller;

    async fn clients(&self, count: usize, workload: Workload) -> Result<Vec<Caller>, String> {
        let mut callers = Vec::with_capacity(count);
        for number in 0..count {
            let unary = Client::builder(&self.server).unary().map_err(|error| error.to_string())?;
            unary.connect().await.map_err(|error| error.to_string())?;
            callers.push(Caller { unary, owner: format!("bench/{number}"), wait: wait(workload) });
        }
        Ok(callers)
    }
}

impl LockClient for Caller {
    type Held = Claim;

    async fn acquire(&mut self, lock: &str) -> Result<Claim, String> {
        let ask = Ask { owner: Some(self.owner.clone()), ttl: Some(TTL), wait: self.wait, ..Ask::new(lock) };
        let granted = self.unary.acquire(ask).await;
        granted.map(Claim::from).map_err(|error| error.to_string())
    }

    async fn renew(&mut self, held: &mut Claim) -> Result<(), String> {
        self.unary.renew(held).await.map(drop).map_err(|error| error.to_string())
    }

    async fn release(&mut self, held: Claim) -> Result<(), String> {
        self.unary.release(&held).await.map_err(|error| error.to_string())
    }

    fn token(held: &Claim) -> Option<u64> {
        Some(held.fencing_token)
    }
}
