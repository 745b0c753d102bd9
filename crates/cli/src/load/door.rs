//! A way to a server as one client of the load has it: take a lock, append to a file under it, give it
//! back, and no more. Each way is in a file of its
//! own; none of them tries anything twice.

use std::time::Duration;

use leasehold_client::keeper::Confirmation;
use leasehold_client::{Claim, Error, Written};

/// What a client asks for.
#[derive(Clone, Copy, Debug)]
pub struct Wish<'a> {
    pub lock: &'a str,
    pub owner: &'a str,
    pub ttl: Duration,
    /// How long to stand in line.
    pub wait: Duration,
}

/// A lease, and what the client was told with it.
#[derive(Clone, Debug)]
pub struct Held {
    pub claim: Claim,
    pub confirmation: Confirmation,
}

/// One client's way to the server.
pub trait Door: Send + 'static {
    /// Connects, if that is not done by the first call as well.
    fn open(&mut self) -> impl Future<Output = Result<(), Error>> + Send;

    /// Asks for a lock, once.
    fn acquire(&mut self, wish: Wish<'_>) -> impl Future<Output = Result<Held, Error>> + Send;

    /// Appends to a file under a lease, once.
    fn append(
        &mut self,
        claim: &Claim,
        name: &str,
        data: &[u8],
    ) -> impl Future<Output = Result<Written, Error>> + Send;

    /// Gives it back.
    fn release(&mut self, claim: &Claim) -> impl Future<Output = Result<(), Error>> + Send;
}
