//! Which request ids are known, and what became of them. The id of a live lease, session or place is found through it
//! and never forgotten; afterwards it is set aside and forgotten in its time.

use alloc::boxed::Box;
use alloc::vec::Vec;

use hashbrown::HashMap;

use crate::event::{CancelFound, Ending, RequestMark, Ticket};
use crate::ids::{HashKey, Payload, RequestKey};
use crate::keyed::Keyed;
use crate::remembered::Remembered;

/// What became of a request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Fate {
    /// It stands in line.
    Waiting(Ticket),
    /// It is the lease in this slot.
    Lease(u32),
    /// It is the session in this slot.
    Session(u32),
    /// It was a lease or a session, and ended.
    Ended(Ending),
    /// It was taken back.
    Cancelled(CancelFound),
    /// It was a break, and this was the answer.
    Broke(Box<(Vec<u64>, u64)>),
}

impl Fate {
    pub(crate) fn is_live(&self) -> bool {
        matches!(self, Fate::Waiting(_) | Fate::Lease(_) | Fate::Session(_))
    }
}

/// A known request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Known {
    /// What was asked; nobody knows for a request that was cancelled before it came.
    pub(crate) payload: Option<Payload>,
    pub(crate) fate: Fate,
}

/// All known requests.
#[derive(Debug)]
pub(crate) struct Requests {
    known: HashMap<RequestKey, Known, Keyed>,
    pub(crate) retired: Remembered<RequestKey>,
}

impl Requests {
    pub(crate) fn new(key: HashKey) -> Self {
        Requests { known: HashMap::with_hasher(Keyed(key)), retired: Remembered::new() }
    }

    pub(crate) fn get(&self, key: &RequestKey) -> Option<&Known> {
        self.known.get(key)
    }

    /// A request that lives, or lives on as something else.
    pub(crate) fn live(&mut self, mark: &RequestMark, fate: Fate) {
        assert!(fate.is_live());
        let before = self.known.insert(mark.key, Known { payload: Some(mark.payload), fate });
        assert!(
            before.is_none_or(|known| known.fate.is_live()),
            "a request that has ended does not live again"
        );
    }

    /// A request that is over, and remembered for a while.
    pub(crate) fn retire(&mut self, key: RequestKey, payload: Option<Payload>, fate: Fate, now_us: u64) {
        assert!(!fate.is_live());
        let before = self.known.insert(key, Known { payload, fate });
        if before.is_none_or(|known| known.fate.is_live()) {
            self.retired.push(key, now_us);
        }
    }

    /// A request that left no trace.
    pub(crate) fn drop_live(&mut self, key: &RequestKey) {
        let before = self.known.remove(key);
        assert!(before.is_some_and(|known| known.fate.is_live()), "only the living leave without a trace");
    }

    pub(crate) fn forget_before(&mut self, number: u64) {
        while let Some(key) = self.retired.pop_before(number) {
            let before = self.known.remove(&key);
            assert!(before.is_some_and(|known| !known.fate.is_live()), "the living are never forgotten");
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }
}
