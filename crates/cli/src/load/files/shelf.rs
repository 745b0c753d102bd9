//! The files under one lock, one after the other: when one is full its writers go on to the next, and it is to be read back as
//! soon as the last of them has let go of it. So a run of any length needs room for a part of what it writes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::ledger::Ledger;

/// The files under one lock.
#[derive(Debug)]
pub struct Shelf {
    /// The lock that covers them.
    pub lock: String,
    folder: String,
    record_bytes: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    current: Arc<Ledger>,
    /// How many there were before it.
    before: u64,
    /// Those that are full, until they are taken.
    full: Vec<Arc<Ledger>>,
}

impl Shelf {
    /// For files below this folder.
    pub fn new(folder: String, record_bytes: usize) -> Shelf {
        let current = Arc::new(Ledger::new(format!("{folder}/0"), record_bytes));
        let state = Mutex::new(State { current, before: 0, full: Vec::new() });
        Shelf { lock: format!("path:/{folder}"), folder, record_bytes, state }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file to append to. Whoever appends to it keeps this until its outcome is entered.
    pub fn current(&self) -> Arc<Ledger> {
        Arc::clone(&self.state().current)
    }

    /// This file is full: whoever comes from now on gets the next one.
    pub fn turn(&self, full: &Arc<Ledger>) {
        let mut state = self.state();
        if Arc::ptr_eq(&state.current, full) {
            state.before += 1;
            let next = Arc::new(Ledger::new(format!("{}/{}", self.folder, state.before), self.record_bytes));
            let full = std::mem::replace(&mut state.current, next);
            state.full.push(full);
        }
    }

    /// A full file to which nobody appends any more, for whoever reads it back.
    pub fn take_full(&self) -> Option<Arc<Ledger>> {
        let mut state = self.state();
        // Only the current one is given out, so that a count of one stays one.
        let at = state.full.iter().position(|ledger| Arc::strong_count(ledger) == 1)?;
        Some(state.full.swap_remove(at))
    }

    /// All that was not taken, when nobody writes any more.
    pub fn take_rest(&self) -> Vec<Arc<Ledger>> {
        let mut state = self.state();
        let mut rest = std::mem::take(&mut state.full);
        rest.push(Arc::clone(&state.current));
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_file_is_taken_when_its_last_writer_has_let_go() {
        let shelf = Shelf::new("load/1".into(), 64);
        assert_eq!(shelf.lock, "path:/load/1");
        let (first, other) = (shelf.current(), shelf.current());
        assert_eq!(first.name, "load/1/0");
        shelf.turn(&first);
        shelf.turn(&other);
        assert_eq!(shelf.current().name, "load/1/1", "two that fill it turn once");
        drop(first);
        assert!(shelf.take_full().is_none(), "somebody appends to it");
        drop(other);
        assert_eq!(shelf.take_full().unwrap().name, "load/1/0");
        assert!(shelf.take_full().is_none());
        shelf.turn(&shelf.current());
        let rest: Vec<String> = shelf.take_rest().iter().map(|ledger| ledger.name.clone()).collect();
        assert_eq!(rest, ["load/1/1", "load/1/2"]);
    }
}
