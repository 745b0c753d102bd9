//! One writer of the load: appends to its file, or to that of all, under a lease that is kept for the whole run, one append
//! after the other until the time is over. What fails is counted and tried anew after a pause, as another append.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use leasehold_client::{Claim, Error};
use tokio::time::Instant;

use super::super::door::Door;
use super::super::drive::{Run, Tally, us};
use super::{Author, Desk};

/// One writer of a run.
pub struct Writer<D> {
    door: D,
    client: usize,
    run: Arc<Run>,
    desk: Arc<Desk>,
    tally: Tally,
}

impl<D: Door> Writer<D> {
    pub fn new(door: D, client: usize, run: Arc<Run>, desk: Arc<Desk>) -> Writer<D> {
        Writer { door, client, run, desk, tally: Tally::default() }
    }

    /// Runs until the time is over.
    pub async fn run(mut self) -> Tally {
        for number in 0.. {
            if self.run.over.is_cancelled() {
                break;
            }
            if let Err(error) = self.append(number).await {
                self.run.failed(&mut self.tally, &error);
                self.run.pause(self.client).await;
            }
        }
        self.tally
    }

    async fn append(&mut self, number: u64) -> Result<(), Error> {
        let claim = self.claim().await?;
        let (run, author) = (Arc::clone(&self.run), Author { client: self.client, number });
        let begun = Instant::now();
        self.desk.append(&run, &mut self.door, &claim, author).await?;
        if !run.over.is_cancelled() {
            self.tally.latency.record(us(begun.elapsed()));
            run.cycles.fetch_add(1, Ordering::Relaxed);
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
                self.run.failed(&mut self.tally, &lost);
                self.desk.take(lease).await
            }
            claim => claim,
        }
    }
}
