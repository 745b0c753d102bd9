//! Appends to fenced files under load: the files and the leases on them, one append, and the reading back. Here: what all
//! writers share; what a writer does is in `writer.rs`, what must hold in `ledger.rs`.

pub mod counters;
mod ledger;
mod shelf;
pub mod writer;

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use leasehold_client::{AcquireOptions, Claim, Client, Error, Lease, Lock, LockOptions};

use super::door::Door;
use super::drive::Run;
use super::patience::Patience;
pub use ledger::RECORD_BYTES_MIN;
use ledger::{Answered, Entry, Ledger};
use shelf::Shelf;

/// All files of a run together have about so many bytes and records, and one of them no more than that, before they are read
/// back, deleted and begun anew: well below what a server keeps, and what can be remembered of them here.
const RUN_BYTES_MAX: u64 = 1 << 30;
const RUN_RECORDS_MAX: u64 = 1 << 20;
const FILE_BYTES_MAX: u64 = 256 << 20;
/// So many leases are taken, or files read back, at once.
const AT_ONCE: usize = 16;

/// Who appends to what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Each writer has a file of its own, under a lease of its own.
    Apart,
    /// All append to one file, under one lease that they share.
    Together,
    /// All append to one file, each under a lease that it takes for one append.
    InTurn,
}

/// What is appended.
#[derive(Clone, Debug)]
pub struct Appends {
    pub record_bytes: usize,
    /// When a file is read back, deleted, and begun anew; a share of what all may have if not given.
    pub file_bytes_max: Option<u64>,
    pub sharing: Sharing,
    /// What lies above all files of this run, and of no other.
    pub folder: String,
}

/// What all writers share.
#[derive(Debug)]
pub struct Desk {
    /// For leases, reading and deleting: it tries again, as programs do. What is measured goes through doors.
    client: Client,
    ttl: Duration,
    record_bytes: usize,
    file_bytes_max: u64,
    shelves: Vec<Kept>,
    /// Acknowledged appends that were found where they belong.
    found: AtomicU64,
}

/// Files, and the lease on them, unless each append takes one.
#[derive(Debug)]
struct Kept {
    shelf: Shelf,
    lease: Option<Lease>,
}

/// One append of a client.
#[derive(Clone, Copy, Debug)]
pub struct Author {
    pub client: usize,
    pub number: u64,
}

impl Desk {
    /// Takes the leases that are kept for the whole run.
    pub async fn open(client: Client, appends: &Appends, files: usize, ttl: Duration) -> Result<Desk, Error> {
        let share = |most: u64| most / files as u64;
        let records_max = share(RUN_RECORDS_MAX).saturating_mul(appends.record_bytes as u64);
        let share_max = share(RUN_BYTES_MAX).min(records_max).min(FILE_BYTES_MAX);
        let mut desk = Desk {
            ttl,
            record_bytes: appends.record_bytes,
            file_bytes_max: appends.file_bytes_max.unwrap_or(share_max),
            shelves: Vec::new(),
            found: AtomicU64::new(0),
            client,
        };
        let shelf = |number| Shelf::new(format!("{}/{number}", appends.folder), appends.record_bytes);
        let lease = |shelf: &Shelf| {
            (appends.sharing != Sharing::InTurn).then(|| Lease::new(&desk.client, &shelf.lock))
        };
        let kept: Vec<Kept> =
            (0..files).map(shelf).map(|shelf| Kept { lease: lease(&shelf), shelf }).collect();
        // Many at once: their places in the journal share its syncs.
        let taking = kept.iter().filter_map(|kept| kept.lease.as_ref()).map(|lease| desk.take(lease));
        futures_util::stream::iter(taking).buffer_unordered(AT_ONCE).try_collect::<Vec<Claim>>().await?;
        desk.shelves = kept;
        Ok(desk)
    }

    /// Takes a lease. The folder is this run's own, so that nobody else holds it, but perhaps an earlier lease of ours.
    async fn take(&self, lease: &Lease) -> Result<Claim, Error> {
        lease.acquire(self.ttl, AcquireOptions::default()).await?;
        lease.claim()
    }

    /// How many bytes an append has.
    pub fn record_bytes(&self) -> usize {
        self.record_bytes
    }

    /// How many acknowledged appends were found again.
    pub fn found(&self) -> u64 {
        self.found.load(Ordering::Relaxed)
    }

    fn kept(&self, client: usize) -> &Kept {
        &self.shelves[client % self.shelves.len()]
    }

    /// Appends a record once. The file is that of the writer, or of all.
    pub async fn append(
        &self,
        patience: &mut Patience,
        door: &mut impl Door,
        claim: &Claim,
        author: Author,
    ) -> Result<(), Error> {
        let shelf = &self.kept(author.client).shelf;
        let ledger = shelf.current();
        let entry = Entry { client: author.client, number: author.number, token: claim.fencing_token };
        let (record, end) = (entry.record(self.record_bytes), ledger.end());
        match patience.answered(pin!(door.append(claim, &ledger.name, &record))).await {
            Ok(written) => {
                let answered =
                    Answered { offset: written.offset, length: written.length, size: written.size };
                if let Some(wrong) = ledger.acknowledge(entry, end, answered) {
                    patience.run().referee.violated(wrong);
                }
                if written.size >= self.file_bytes_max {
                    shelf.turn(&ledger);
                }
                Ok(())
            }
            Err(error) => {
                if !error.outcome_is_known() {
                    ledger.unsure(entry);
                }
                Err(error)
            }
        }
    }

    /// Reads a full file of this writer's back and deletes it, if nobody appends to it any more.
    pub async fn put_away_full(&self, run: &Run, client: usize) -> Result<(), Error> {
        let kept = self.kept(client);
        let Some(ledger) = kept.shelf.take_full() else { return Ok(()) };
        self.put_away(run, kept, &ledger).await
    }

    /// Reads all files back, deletes them, and gives the leases back, when nobody writes any more. Gives what went wrong.
    pub async fn close(&self, run: &Run) -> Vec<Error> {
        let closing = self.shelves.iter().map(|kept| async move {
            let mut wrong = Vec::new();
            for ledger in kept.shelf.take_rest() {
                wrong.extend(self.put_away(run, kept, &ledger).await.err());
            }
            if let Some(lease) = &kept.lease {
                wrong.extend(lease.release().await.err());
            }
            wrong
        });
        futures_util::stream::iter(closing).buffer_unordered(AT_ONCE).concat().await
    }

    async fn put_away(&self, run: &Run, kept: &Kept, ledger: &Ledger) -> Result<(), Error> {
        if !ledger.may_have_any() {
            return Ok(());
        }
        self.read_back(run, ledger).await?;
        let deleted = match &kept.lease {
            Some(lease) => {
                let claim = match lease.claim() {
                    Err(_) => self.take(lease).await?,
                    claim => claim?,
                };
                self.client.delete_file(&claim, &ledger.name, None).await
            }
            None => {
                let lock = Lock::new(&self.client, &kept.shelf.lock);
                let guard = lock.lock(self.ttl, LockOptions::default().timeout(run.plan.timeout)).await?;
                let claim = guard.lease().claim()?;
                let deleted = self.client.delete_file(&claim, &ledger.name, None).await;
                guard.unlock().await?;
                deleted
            }
        };
        match deleted {
            // None of the appends that nobody was told of was made.
            Err(Error::NotFound { .. }) => Ok(()),
            deleted => deleted,
        }
    }

    async fn read_back(&self, run: &Run, ledger: &Ledger) -> Result<(), Error> {
        let mut reader = match self.client.read_file(&ledger.name, 0, None).await {
            Err(Error::NotFound { .. }) => {
                if ledger.has_any() {
                    run.referee.violated(format!(
                        "{} is not there, and appends to it were acknowledged",
                        ledger.name
                    ));
                }
                return Ok(());
            }
            reader => reader?,
        };
        let mut reading = ledger.reading();
        while let Some(piece) = reader.next().await? {
            reading.read(&piece);
        }
        let shown = reading.end(reader.file().size, reader.file().fencing_token);
        self.found.fetch_add(shown.found, Ordering::Relaxed);
        shown.wrong.into_iter().for_each(|wrong| run.referee.violated(wrong));
        Ok(())
    }
}
