//! The load over unary gRPC calls: one connection for each client, one call after the other.

use leasehold_client::bare::Unary;
use leasehold_client::{Claim, Error, Written};

use super::door::{Door, Held, Wish};
use super::stream::{ask, held};

/// One client's connection.
pub struct Grpc(Unary);

impl Grpc {
    pub fn new(unary: Unary) -> Grpc {
        Grpc(unary)
    }
}

impl Door for Grpc {
    async fn open(&mut self) -> Result<(), Error> {
        self.0.connect().await
    }

    async fn acquire(&mut self, wish: Wish<'_>) -> Result<Held, Error> {
        Ok(held(self.0.acquire(ask(wish)).await?))
    }

    async fn append(&mut self, claim: &Claim, name: &str, data: &[u8]) -> Result<Written, Error> {
        self.0.append(claim, name, data).await
    }

    async fn release(&mut self, claim: &Claim) -> Result<(), Error> {
        self.0.release(claim).await
    }
}
