//! When snapshots were under way, as the server itself says, looked at again and again beside a measurement.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::http::Connection;
use crate::served::{Served, sum_of};

/// How often it is looked.
const EVERY: Duration = Duration::from_millis(10);

/// Looks at a server until dropped.
pub struct Snapshots {
    seen: Arc<Seen>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Seen {
    stop: AtomicBool,
    running: AtomicBool,
    begun: AtomicUsize,
    stretches: Mutex<Vec<(Instant, Instant)>>,
}

impl Snapshots {
    /// Begins to look.
    pub fn watch(served: &Served) -> Snapshots {
        let seen = Arc::new(Seen::default());
        let (looking, address) = (seen.clone(), served.address);
        let thread = std::thread::spawn(move || {
            let Ok(mut connection) = Connection::open(address) else { return };
            let mut since = None;
            while !looking.stop.load(Relaxed) {
                let Ok((_, page)) = connection.call("GET", "/metrics", "") else { return };
                let running = sum_of(&page, "lock_journal_snapshot_running") > 0.0;
                match (running, since) {
                    (true, None) => {
                        since = Some(Instant::now());
                        looking.begun.fetch_add(1, Relaxed);
                    }
                    (false, Some(begun)) => {
                        let mut stretches = looking.stretches.lock().unwrap_or_else(PoisonError::into_inner);
                        stretches.push((begun, Instant::now()));
                        since = None;
                    }
                    _ => {}
                }
                looking.running.store(running, Relaxed);
                std::thread::sleep(EVERY);
            }
        });
        Snapshots { seen, thread: Some(thread) }
    }

    /// How many have begun since it was first looked.
    pub fn begun(&self) -> usize {
        self.seen.begun.load(Relaxed)
    }

    /// Resolves when as many as this have begun.
    pub async fn until_begun(&self, count: usize) {
        while self.begun() < count {
            tokio::time::sleep(EVERY).await;
        }
    }

    /// Resolves when none is under way.
    pub async fn until_none(&self) {
        // A first look is taken before anything is believed.
        tokio::time::sleep(EVERY * 4).await;
        while self.seen.running.load(Relaxed) {
            tokio::time::sleep(EVERY).await;
        }
    }

    /// From when to when each was seen, of those that have ended.
    pub fn stretches(&self) -> Vec<(Instant, Instant)> {
        self.seen.stretches.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Snapshots {
    fn drop(&mut self) {
        self.seen.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
