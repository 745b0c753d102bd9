//! The load over the SDK's own way: all clients share its connection and the streams on it, as callers of one program do.

use leasehold_client::keeper::Confirmation;
use leasehold_client::{Ask, BootClock, Claim, Client, Clock, Error, FileWrite, Grant, Written};

use super::door::{Door, Held, Wish};

/// One of the callers that share a client.
pub struct Stream(Client);

impl Stream {
    pub fn new(client: Client) -> Stream {
        Stream(client)
    }
}

impl Door for Stream {
    async fn open(&mut self) -> Result<(), Error> {
        Ok(())
    }

    async fn acquire(&mut self, wish: Wish<'_>) -> Result<Held, Error> {
        Ok(held(self.0.acquire(ask(wish)).await?))
    }

    async fn append(&mut self, claim: &Claim, name: &str, data: &[u8]) -> Result<Written, Error> {
        self.0.write_file(claim, FileWrite::append(name, data)).await
    }

    async fn release(&mut self, claim: &Claim) -> Result<(), Error> {
        self.0.release(claim).await
    }
}

/// The wish in the SDK's words.
pub fn ask(wish: Wish<'_>) -> Ask {
    Ask { owner: Some(wish.owner.to_owned()), ttl: Some(wish.ttl), wait: wish.wait, ..Ask::new(wish.lock) }
}

/// What the SDK was given, heard just now.
pub fn held(grant: Grant) -> Held {
    let us = |duration: std::time::Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    Held {
        confirmation: Confirmation {
            sent_us: grant.sent_us,
            heard_us: BootClock.now_us(),
            ttl_us: us(grant.ttl),
            renew_after_us: us(grant.renew_after),
            stop_after_us: us(grant.stop_after),
        },
        claim: grant.into(),
    }
}
