//! One writer of the load: appends to its file, or to that of all, under a lease that is kept for the whole run, one append
//! after the other until the time is over. What fails is counted and tried anew after a pause, as another append.

use std::sync::Arc;

use leasehold_client::{Claim, Error};
use tokio::time::Instant;

use super::super::door::Door;
use super::super::drive::{Run, us};
use super::super::patience::Patience;
use super::{Author, Desk};

/// One writer of a run.
pub struct Writer<D> {
    door: D,
    client: usize,
    run: Arc<Run>,
    patience: Patience,
    desk: Arc<Desk>,
}

impl<D: Door> Writer<D> {
    pub fn new(door: D, client: usize, run: Arc<Run>, desk: Arc<Desk>) -> Writer<D> {
        let patience = Patience::new(Arc::clone(&run));
        Writer { door, client, run, patience, desk }
    }

    /// Runs until the time is over.
    pub async fn run(mut self) {
        for number in 0.. {
            if self.run.is_over() {
                break;
            }
            if let Err(error) = self.append(number).await {
                self.run.failed(&error);
                self.run.pause(self.client).await;
            }
        }
    }

    async fn append(&mut self, number: u64) -> Result<(), Error> {
        let claim = self.claim().await?;
        let (run, author) = (Arc::clone(&self.run), Author { client: self.client, number });
        let begun = Instant::now();
        self.desk.append(&mut self.patience, &mut self.door, &claim, author).await?;
        if !run.is_over() {
            run.tally.done(self.client, us(begun.elapsed()));
        }
        self.desk.put_away_full(&run, self.client).await
    }

    /// What proves that the lease is held. One that was lost is told, and taken anew.
    async fn claim(&mut self) -> Result<Claim, Error> {
        let Some(lease) = &self.desk.kept(self.client).lease else {
            return Err(Error::Unexpected { detail: "a writer without a lease".into() });
        };
        match lease.claim() {
            Err(lost) => {
                self.run.failed(&lost);
                self.desk.take(lease).await
            }
            claim => claim,
        }
    }
}
