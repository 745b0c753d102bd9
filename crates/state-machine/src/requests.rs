//! Which request ids are known, and what became of them. The id of a live lease, session or place is found through it
//! and never forgotten. Afterwards an id that its owner chose is set aside and forgotten in its time; a number that a
//! client of a stream counted is kept until the client says that it has the answer.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use hashbrown::HashMap;

use crate::event::{CancelFound, Ending, RequestMark, Ticket};
use crate::ids::{ClientKey, HashKey, Payload, RequestKey, RequestName};
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

/// The numbers of one client of a stream.
#[derive(Debug, Default)]
pub(crate) struct Client {
    /// Numbers up to here are forgotten...
    pub(crate) answered_through: u64,
    /// ...but for these.
    pub(crate) open: BTreeSet<u64>,
    /// What is known of the others.
    pub(crate) known: BTreeMap<u64, Known>,
    /// When it was last heard of. Not journaled.
    pub(crate) heard_us: u64,
}

impl Client {
    /// Whether a number was answered and is forgotten, so that it must not be carried out any more.
    pub(crate) fn has_forgotten(&self, number: u64) -> bool {
        number <= self.answered_through && !self.open.contains(&number)
    }
}

/// All known requests.
#[derive(Debug)]
pub(crate) struct Requests {
    chosen: HashMap<RequestKey, Known, Keyed>,
    pub(crate) retired: Remembered<RequestKey>,
    pub(crate) clients: BTreeMap<ClientKey, Client>,
    /// How many numbers are known of all clients together.
    numbered: usize,
}

impl Requests {
    pub(crate) fn new(key: HashKey) -> Self {
        Requests {
            chosen: HashMap::with_hasher(Keyed(key)),
            retired: Remembered::new(),
            clients: BTreeMap::new(),
            numbered: 0,
        }
    }

    pub(crate) fn get(&self, name: &RequestName) -> Option<&Known> {
        match name {
            RequestName::Chosen(key) => self.chosen.get(key),
            RequestName::Numbered(client, number) => self.clients.get(client)?.known.get(number),
        }
    }

    /// Whether this is a number that was answered and is forgotten.
    pub(crate) fn has_forgotten(&self, name: &RequestName) -> bool {
        match name {
            RequestName::Chosen(_) => false,
            RequestName::Numbered(client, number) => {
                self.clients.get(client).is_some_and(|client| client.has_forgotten(*number))
            }
        }
    }

    /// A request that lives, or lives on as something else.
    pub(crate) fn live(&mut self, mark: &RequestMark, fate: Fate) {
        assert!(fate.is_live());
        let known = Known { payload: Some(mark.payload), fate };
        let before = match mark.name {
            RequestName::Chosen(key) => self.chosen.insert(key, known),
            RequestName::Numbered(client, number) => self.put_number(client, number, known),
        };
        assert!(
            before.is_none_or(|known| known.fate.is_live()),
            "a request that has ended does not live again"
        );
    }

    /// A request that is over, and remembered for a while.
    pub(crate) fn retire(&mut self, name: RequestName, payload: Option<Payload>, fate: Fate, now_us: u64) {
        assert!(!fate.is_live());
        let known = Known { payload, fate };
        match name {
            RequestName::Chosen(key) => {
                let before = self.chosen.insert(key, known);
                if before.is_none_or(|known| known.fate.is_live()) {
                    self.retired.push(key, now_us);
                }
            }
            RequestName::Numbered(client, number) => {
                self.put_number(client, number, known);
            }
        }
    }

    /// A request that left no trace.
    pub(crate) fn drop_live(&mut self, name: &RequestName) {
        let before = match name {
            RequestName::Chosen(key) => self.chosen.remove(key),
            RequestName::Numbered(client, number) => {
                let client = self.clients.get_mut(client);
                let before = client.and_then(|client| client.known.remove(number));
                if before.is_none() && self.has_forgotten(name) {
                    return;
                }
                self.numbered -= usize::from(before.is_some());
                before
            }
        };
        assert!(before.is_some_and(|known| known.fate.is_live()), "only the living leave without a trace");
    }

    pub(crate) fn forget_before(&mut self, number: u64) {
        while let Some(key) = self.retired.pop_before(number) {
            let before = self.chosen.remove(&key);
            assert!(before.is_some_and(|known| !known.fate.is_live()), "the living are never forgotten");
        }
    }

    /// A client has the answers of all numbers up to one, but for some.
    pub(crate) fn mark(&mut self, client: ClientKey, answered_through: u64, open: &[u64], now_us: u64) {
        let client = self.clients.entry(client).or_default();
        assert!(answered_through >= client.answered_through, "a mark never goes back");
        client.heard_us = now_us;
        client.answered_through = answered_through;
        client.open = open.iter().copied().collect();
        let Client { open, known, .. } = client;
        let before = known.len();
        let mut above = known.split_off(&answered_through.saturating_add(1));
        known.retain(|number, _| open.contains(number));
        known.append(&mut above);
        self.numbered -= before - known.len();
    }

    pub(crate) fn forget_client(&mut self, client: &ClientKey) {
        let client = self.clients.remove(client);
        self.numbered -= client.map_or(0, |client| client.known.len());
    }

    /// How many ids are known.
    pub(crate) fn len(&self) -> usize {
        self.chosen.len() + self.numbered
    }

    /// How many chosen ids are known.
    pub(crate) fn chosen_len(&self) -> usize {
        self.chosen.len()
    }

    /// What was known of a number before; of one that is forgotten nothing is kept.
    fn put_number(&mut self, client: ClientKey, number: u64, known: Known) -> Option<Known> {
        let client = self.clients.entry(client).or_default();
        if client.has_forgotten(number) {
            return None;
        }
        let before = client.known.insert(number, known);
        self.numbered += usize::from(before.is_none());
        before
    }
}
