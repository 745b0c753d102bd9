//! Bytes enter a file after their batch is durable, with the real threads: each sync and each write to a file is noted in
//! the order in which it happened. That this can be seen is shown with a bug put in on purpose.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod by_hand;

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use by_hand::{acquire, append};
use leasehold_engine::{
    Clock, DriverOptions, Engine, EngineOptions, MachineClock, Metrics, Replay, founding_key, start,
};
use leasehold_files::{DiskStore, FileStore, MemoryDisk};
use leasehold_journal::{Chore, ChoreDone, Extent, Journal, MemoryJournal, StorageError};
use leasehold_state_machine::answer::Answer;
use leasehold_state_machine::limits::Limits;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Durable,
    Written,
}

/// What happened, in order.
#[derive(Default)]
struct Steps {
    steps: Mutex<Vec<Step>>,
    news: Condvar,
}

impl Steps {
    fn note(&self, step: Step) {
        self.steps.lock().unwrap().push(step);
        self.news.notify_all();
    }
}

/// What is written to the file.
const BYTES: &[u8] = b"hello";

/// A journal that takes its time over the batch with these bytes, in case somebody does not wait for it.
struct Slow {
    inner: MemoryJournal,
    steps: Arc<Steps>,
    patience: Duration,
}

impl Journal for Slow {
    fn append(&mut self, payload: &[u8]) -> Result<u64, StorageError> {
        if !payload.windows(BYTES.len()).any(|bytes| bytes == BYTES) {
            return self.inner.append(payload);
        }
        let steps = self.steps.steps.lock().unwrap();
        let no_write = |steps: &mut Vec<Step>| !steps.contains(&Step::Written);
        drop(self.steps.news.wait_timeout_while(steps, self.patience, no_write).unwrap());
        let index = self.inner.append(payload)?;
        self.steps.note(Step::Durable);
        Ok(index)
    }
    fn batch_bytes_max(&self) -> usize {
        self.inner.batch_bytes_max()
    }
    fn room(&self) -> Result<u64, StorageError> {
        self.inner.room()
    }
    fn chores(&mut self) -> Vec<Chore> {
        self.inner.chores()
    }
    fn chore_done(&mut self, done: ChoreDone) -> Result<(), StorageError> {
        self.inner.chore_done(done)
    }
    fn extent(&self) -> Extent {
        self.inner.extent()
    }
}

/// A store that notes its writes.
struct Noting {
    inner: DiskStore<MemoryDisk>,
    steps: Arc<Steps>,
}

impl FileStore for Noting {
    fn write(&self, number: u64, offset: u64, bytes: &[u8]) -> Result<(), StorageError> {
        self.steps.note(Step::Written);
        self.inner.write(number, offset, bytes)
    }
    fn remove(&self, number: u64) -> Result<(), StorageError> {
        self.inner.remove(number)
    }
    fn read(&self, number: u64, offset: u64, buffer: &mut [u8]) -> Result<bool, StorageError> {
        self.inner.read(number, offset, buffer)
    }
    fn sync(&self) -> Result<u64, StorageError> {
        self.inner.sync()
    }
    fn length(&self, number: u64) -> Result<Option<u64>, StorageError> {
        self.inner.length(number)
    }
    fn cut(&self, number: u64, length: u64) -> Result<(), StorageError> {
        self.inner.cut(number, length)
    }
    fn numbers(&self) -> Result<Vec<u64>, StorageError> {
        self.inner.numbers()
    }
    fn path(&self, number: u64) -> String {
        self.inner.path(number)
    }
    fn room(&self) -> Result<u64, StorageError> {
        self.inner.room()
    }
}

/// What happens around one write to a file, if its sync takes so long unless the write comes first.
async fn steps_of_a_write(patience: Duration) -> Vec<Step> {
    let steps = Arc::<Steps>::default();
    let clock = Arc::new(MachineClock::new().unwrap());
    let journal = Slow { inner: MemoryJournal::new(), steps: Arc::clone(&steps), patience };
    let options = EngineOptions {
        founding_key: founding_key().unwrap(),
        restored: None,
        accept_clock: true,
        batch_bytes_max: journal.batch_bytes_max(),
        metrics: Arc::new(Metrics::default()),
    };
    let replay = Replay::new(Limits::default());
    let (engine, _) = Engine::recover(replay, clock.boot_id(), clock.read(), options);
    let files = Noting { inner: DiskStore::new(MemoryDisk::new()), steps: Arc::clone(&steps) };
    let options = DriverOptions { files: Arc::new(files), ..DriverOptions::default() };
    let handle = start(engine, Box::new(journal), clock, options).unwrap();

    let Ok(Answer::Lease(holder)) = handle.ask(acquire("path:/", "w", 3_600_000)).await else {
        panic!("the lock is free");
    };
    assert!(handle.ask(append(&holder, "a", BYTES, None)).await.is_ok());
    handle.stop().await;
    steps.steps.lock().unwrap().clone()
}

#[tokio::test]
async fn bytes_enter_a_file_after_their_batch_is_durable() {
    #[cfg(feature = "planted-bugs")]
    let _planted = leasehold_planted::plant(None);
    let steps = steps_of_a_write(Duration::from_millis(50)).await;
    assert_eq!(steps, [Step::Durable, Step::Written]);
}

#[cfg(feature = "planted-bugs")]
#[tokio::test]
async fn bytes_that_enter_it_before_are_seen() {
    use leasehold_planted::{Bug, plant};

    let planted = plant(Some(Bug::FileBytesBeforeSync));
    let steps = steps_of_a_write(Duration::from_secs(60)).await;
    drop(planted);
    assert_eq!(steps, [Step::Written, Step::Durable]);
}
