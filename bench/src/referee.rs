//! Checks, while clients run, that no two hold the same lock at once, and that tokens grow with every grant. Sees only what
//! clients were told; asks no server. Costs two atomic exchanges and a look at one cache line a cycle, so that it is there in every
//! measurement.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Watches over a number of locks.
pub struct Referee {
    locks: Vec<Seen>,
    changes: AtomicU64,
    violations: AtomicU64,
    first: Mutex<Option<String>>,
}

/// What was seen of one lock. Clients are counted from 1 here; 0 is nobody. Small, because nothing of it is in the cache any more
/// when many clients have had their turn.
#[derive(Default)]
struct Seen {
    holder: AtomicU32,
    /// This and the token are only the holder's to read and change: whoever else does was seen as a second holder.
    last: AtomicU32,
    token: AtomicU64,
}

/// A client as it is counted here.
fn counted(client: usize) -> u32 {
    client as u32 + 1
}

impl Referee {
    /// For so many locks.
    pub fn new(locks: usize) -> Referee {
        Referee {
            locks: (0..locks).map(|_| Seen::default()).collect(),
            changes: AtomicU64::new(0),
            violations: AtomicU64::new(0),
            first: Mutex::default(),
        }
    }

    /// A client holds a lock, perhaps under a token. Call it after its grant was heard.
    pub fn enter(&self, lock: usize, client: usize, token: Option<u64>) {
        let (seen, holder) = (&self.locks[lock], counted(client));
        match seen.holder.swap(holder, Ordering::AcqRel) {
            0 => {}
            other => self.violated(format!("clients {} and {client} held lock {lock} at once", other - 1)),
        }
        if let Some(token) = token {
            let last = seen.token.load(Ordering::Relaxed);
            if token <= last {
                self.violated(format!("lock {lock} was granted under token {token} after {last}"));
            }
            seen.token.store(token, Ordering::Relaxed);
        }
        let last = seen.last.load(Ordering::Relaxed);
        if last != holder {
            seen.last.store(holder, Ordering::Relaxed);
            self.changes.fetch_add(u64::from(last != 0), Ordering::Relaxed);
        }
    }

    /// A client stops holding. Call it before its release is sent.
    pub fn leave(&self, lock: usize, client: usize) {
        let holder = self.locks[lock].holder.swap(0, Ordering::AcqRel);
        if holder != counted(client) {
            self.violated(format!("lock {lock} was taken over while client {client} held it"));
        }
    }

    fn violated(&self, sentence: String) {
        self.violations.fetch_add(1, Ordering::Relaxed);
        self.first.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(sentence);
    }

    /// How often a lock went from one client to another.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// An error if anything was wrong.
    pub fn verdict(&self) -> Result<(), String> {
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner).clone();
        first.map_or(Ok(()), |first| {
            let violations = self.violations.load(Ordering::Relaxed);
            Err(format!("exclusion was violated {violations} times; first: {first}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_after_the_other_is_as_it_should_be() {
        let referee = Referee::new(2);
        for (client, token) in [(0, 5), (1, 6), (1, 7), (0, 9)] {
            referee.enter(0, client, Some(token));
            referee.enter(1, 3, None);
            referee.leave(0, client);
            referee.leave(1, 3);
        }
        assert_eq!(referee.verdict(), Ok(()));
        assert_eq!(referee.changes(), 2);
    }

    #[test]
    fn two_at_once_are_seen() {
        let referee = Referee::new(1);
        referee.enter(0, 4, None);
        referee.enter(0, 7, None);
        let verdict = referee.verdict().unwrap_err();
        assert!(verdict.contains("clients 4 and 7"), "{verdict}");
    }

    #[test]
    fn tokens_that_do_not_grow_are_seen() {
        let referee = Referee::new(1);
        for client in [0, 1] {
            referee.enter(0, client, Some(8));
            referee.leave(0, client);
        }
        assert!(referee.verdict().unwrap_err().contains("token 8 after 8"));
    }
}
