//! The hand-over between the thread that turns the engine and appends to the journal, its stand-in, and the threads of the
//! files, in thousands of orders in which these threads could have run, chosen by a seed: the real driver, whose locks, channels and threads are shuttle's in this build.
//! Nothing times out here: a wake-up that is lost is a deadlock, and seen.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod by_hand;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use by_hand::{Still, append, queue, release};
use leasehold_engine::{
    Clock, DriverOptions, Engine, EngineOptions, Handle, Heard, Metrics, Replay, Stream, start,
};
use leasehold_files::{DiskStore, FileStore, MemoryDisk};
use leasehold_journal::{Chore, ChoreDone, Extent, Journal, StorageError};
use leasehold_planted::{Bug, plant};
use leasehold_state_machine::answer::{Answer, LeaseView, Outcome};
use leasehold_state_machine::codec::read_batch;
use leasehold_state_machine::command::Command;
use leasehold_state_machine::event::Event;
use leasehold_state_machine::ids::HashKey;
use leasehold_state_machine::limits::{FILE_INODE_FIRST, Limits};
use shuttle::future::block_on;
use shuttle::thread;

/// What is on the disk: the tokens that were granted.
#[derive(Clone, Default)]
struct Disk(Arc<Mutex<Vec<u64>>>);

impl Disk {
    fn has(&self, token: u64) -> bool {
        self.0.lock().unwrap().contains(&token)
    }
}

/// A journal that takes its time, and may fail.
struct Slow {
    disk: Disk,
    appended: u64,
    fails_at: Option<u64>,
}

impl Journal for Slow {
    fn append(&mut self, payload: &[u8]) -> Result<u64, StorageError> {
        self.appended += 1;
        // Everybody else may run while it is being written...
        thread::yield_now();
        if self.fails_at == Some(self.appended) {
            return Err(StorageError::Stopped);
        }
        let mut tokens = Vec::new();
        read_batch(payload, &mut |_, _, _, event| {
            if let Event::Granted { token, .. } = event {
                tokens.push(token);
            }
        })
        .unwrap();
        self.disk.0.lock().unwrap().append(&mut tokens);
        // ...and while nobody knows yet that it is written.
        thread::yield_now();
        Ok(self.appended)
    }

    fn batch_bytes_max(&self) -> usize {
        1 << 20
    }

    fn room(&self) -> Result<u64, StorageError> {
        Ok(u64::MAX)
    }

    fn chores(&mut self) -> Vec<Chore> {
        Vec::new()
    }

    fn chore_done(&mut self, _: ChoreDone) -> Result<(), StorageError> {
        Ok(())
    }

    fn extent(&self) -> Extent {
        Extent::default()
    }
}

/// A server under test.
#[derive(Clone)]
struct Server {
    handle: Handle,
    disk: Disk,
    files: Arc<dyn FileStore>,
}

impl Server {
    fn start(fails_at: Option<u64>) -> Server {
        let options = EngineOptions {
            founding_key: HashKey([1, 2]),
            restored: None,
            accept_clock: true,
            batch_bytes_max: 1 << 20,
            metrics: Arc::new(Metrics::default()),
        };
        let (engine, _) =
            Engine::recover(Replay::new(Limits::default()), Still.boot_id(), Still.read(), options);
        let disk = Disk::default();
        let files: Arc<dyn FileStore> = Arc::new(DiskStore::new(MemoryDisk::new()));
        let journal = Box::new(Slow { disk: disk.clone(), appended: 0, fails_at });
        let driven = DriverOptions { files: files.clone(), ..DriverOptions::default() };
        let handle = start(engine, journal, Arc::new(Still), driven).unwrap();
        Server { handle, disk, files }
    }

    /// Takes the lock, by a call or in a conversation, and looks that whoever is told of a grant finds it on the disk.
    fn hold(&self, owner: &str) -> Option<LeaseView> {
        let wanted = queue("path:/a", owner, 10_000, 60_000, None);
        let outcome = if owner == CONVERSES {
            block_on(converse(&mut self.handle.stream(), wanted))
        } else {
            block_on(self.handle.ask(wanted))
        };
        let Ok(Answer::Lease(lease)) = outcome else { return None };
        assert!(self.disk.has(lease.token), "a grant was told before it was durable");
        Some(*lease)
    }
}

/// Who asks in a conversation; all others ask by calls.
const CONVERSES: &str = "w1";

async fn converse(stream: &mut Stream, wanted: Command) -> Outcome {
    stream.ask(1, (), wanted)?;
    loop {
        stream.hear().await;
        while let Some(heard) = stream.heard() {
            if let Heard::Outcome { outcome, .. } = heard {
                return outcome;
            }
        }
    }
}

/// Several clients hand a lock round, one of them writes to a file, and the server stops when they are done.
fn hand_round() {
    let server = Server::start(None);
    let clients: Vec<_> = ["w1", "w2", "w3"]
        .into_iter()
        .map(|owner| {
            let server = server.clone();
            thread::spawn(move || {
                let lease = server.hold(owner).expect("everybody's turn comes");
                if owner == "w2" {
                    let wrote = block_on(server.handle.ask(append(&lease, "a", b"bytes", None)));
                    assert!(wrote.is_ok(), "{wrote:?}");
                    let mut found = [0; 5];
                    assert!(server.files.read(FILE_INODE_FIRST, 0, &mut found).unwrap());
                    assert_eq!(&found, b"bytes", "a write was told before its bytes were in the file");
                }
                let released = block_on(server.handle.ask(release(&lease)));
                assert!(matches!(released, Ok(Answer::Released { .. })), "{released:?}");
                lease.token
            })
        })
        .collect();
    let mut tokens: Vec<u64> = clients.into_iter().map(|client| client.join().unwrap()).collect();
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), 3, "everybody had a lease of its own");
    block_on(server.handle.stop());
}

/// The journal fails while clients wait: nobody is told anything that is not on the disk, and everybody is told something.
fn fail_in_between() {
    let server = Server::start(Some(3));
    let clients: Vec<_> = ["w1", "w2", "w3"]
        .into_iter()
        .map(|owner| {
            let server = server.clone();
            thread::spawn(move || {
                if let Some(lease) = server.hold(owner) {
                    let _: Outcome = block_on(server.handle.ask(release(&lease)));
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    // Whatever is asked now meets the failed append, before or after: the failure is told.
    let _: Outcome = block_on(server.handle.ask(queue("other", "w4", 10_000, 0, None)));
    let _: Outcome = block_on(server.handle.ask(queue("another", "w5", 10_000, 0, None)));
    let _failure = block_on(server.handle.failed());
    assert!(!server.handle.is_ready());
    block_on(server.handle.stop());
}

/// Clients are still asking while the server is told to stop: it stops, and everybody is told something true.
fn stop_in_between() {
    let server = Server::start(None);
    let clients: Vec<_> = ["w1", "w2"]
        .into_iter()
        .map(|owner| {
            let server = server.clone();
            thread::spawn(move || drop(server.hold(owner)))
        })
        .collect();
    block_on(server.handle.stop());
    clients.into_iter().for_each(|client| client.join().unwrap());
}

fn iterations(default: usize) -> usize {
    std::env::var("LEASEHOLD_SHUTTLE_ITERATIONS").map_or(default, |text| text.parse().unwrap())
}

/// So many orders at random, from a seed that stays the same, and so many with few changes of thread at chosen moments.
fn in_many_orders(what: fn(), default: usize) {
    let _none = plant(None);
    let iterations = iterations(default);
    shuttle::check_random_with_seed(what, 7, iterations);
    shuttle::check_pct(what, iterations, 3);
}

#[test]
fn a_lock_goes_round() {
    in_many_orders(hand_round, 3_000);
}

#[test]
fn a_failing_journal_lets_nothing_out() {
    in_many_orders(fail_in_between, 3_000);
}

#[test]
fn a_stop_comes_in_between() {
    in_many_orders(stop_in_between, 3_000);
}

/// The proof that this can see: replies that leave before the sync.
#[test]
fn a_reply_before_the_sync_is_seen() {
    let _planted = plant(Some(Bug::ReplyBeforeSync));
    let seen = catch_unwind(AssertUnwindSafe(|| shuttle::check_random_with_seed(hand_round, 7, 300)));
    assert!(seen.is_err(), "no order showed it");
}
