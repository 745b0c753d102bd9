//! Which request ids are known, and what became of them. The id of a live lease, session or place is found through it
//! and never forgotten. Afterwards an id that its owner chose is set aside and forgotten in its time; a number that a
//! client of a stream counted is kept until the client says that it has the answer.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use hashbrown::HashMap;
use leasehold_planted::{Bug, planted};

use crate::answer::Written;
use crate::event::{CancelFound, Ending, RequestMark, Ticket};
use crate::ids::{ClientKey, HashKey, Payload, RequestKey, RequestName};
use crate::keyed::Keyed;
use crate::numbers::Numbers;
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
    /// It was a write to a file, and this was the answer.
    Wrote(Box<Written>),
    /// It deleted a file.
    Deleted,
}

impl Fate {
    pub(crate) fn is_live(&self) -> bool {
        matches!(self, Fate::Waiting(_) | Fate::Lease(_) | Fate::Session(_))
    }

    /// How many tokens it keeps.
    fn tokens(&self) -> usize {
        match self {
            Fate::Broke(told) => told.0.len(),
            _ => 0,
        }
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
    pub(crate) known: Numbers<Known>,
    /// When it was last heard of. Not journaled.
    pub(crate) heard_us: u64,
}

impl Client {
    /// Whether a number was answered and is forgotten, so that it must not be carried out any more.
    pub(crate) fn has_forgotten(&self, number: u64) -> bool {
        let answered = number <= self.answered_through && !self.open.contains(&number);
        answered && !planted(Bug::ConfirmedCarriedOut)
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
    /// How many tokens the remembered answers of breaks have together.
    break_tokens: usize,
}

impl Requests {
    pub(crate) fn new(key: HashKey) -> Self {
        Requests {
            chosen: HashMap::with_hasher(Keyed(key)),
            retired: Remembered::new(),
            clients: BTreeMap::new(),
            numbered: 0,
            break_tokens: 0,
        }
    }

    pub(crate) fn get(&self, name: &RequestName) -> Option<&Known> {
        match name {
            RequestName::Chosen(key) => self.chosen.get(key),
            RequestName::Numbered(client, number) => self.clients.get(client)?.known.get(*number),
        }
    }

    /// Whether this is a number that was answered and is forgotten.
    pub(crate) fn has_forgotten(&self, name: &RequestName) -> bool {
        match name {
            RequestName::Chosen(_) => false,
            RequestName::Numbered(client, number) => {
                // Numbers begin at 1, whoever counts them.
                self.clients.get(client).map_or(*number == 0, |client| client.has_forgotten(*number))
            }
        }
    }

    /// A request that lives, or lives on as something else.
    pub(crate) fn live(&mut self, mark: &RequestMark, fate: Fate, now_us: u64) {
        assert!(fate.is_live());
        let known = Known { payload: Some(mark.payload), fate };
        let before = match mark.name {
            RequestName::Chosen(key) => self.chosen.insert(key, known),
            RequestName::Numbered(client, number) => self.put_number(client, number, known, now_us),
        };
        assert!(
            before.is_none_or(|known| known.fate.is_live()),
            "a request that has ended does not live again"
        );
    }

    /// A request that is over, and remembered for a while.
    pub(crate) fn retire(&mut self, name: RequestName, payload: Option<Payload>, fate: Fate, now_us: u64) {
        assert!(!fate.is_live());
        let tokens = fate.tokens();
        let known = Known { payload, fate };
        let before = match name {
            RequestName::Chosen(key) => {
                let before = self.chosen.insert(key, known);
                if before.as_ref().is_none_or(|known| known.fate.is_live()) {
                    self.retired.push(key, now_us);
                }
                before
            }
            RequestName::Numbered(client, number) => self.put_number(client, number, known, now_us),
        };
        self.break_tokens += tokens;
        self.break_tokens -= before.map_or(0, |known| known.fate.tokens());
    }

    /// A request that left no trace.
    pub(crate) fn drop_live(&mut self, name: &RequestName) {
        let before = match name {
            RequestName::Chosen(key) => self.chosen.remove(key),
            RequestName::Numbered(client, number) => {
                let client = self.clients.get_mut(client);
                let before = client.and_then(|client| client.known.remove(*number));
                self.numbered -= usize::from(before.is_some());
                before
            }
        };
        assert!(before.is_some_and(|known| known.fate.is_live()), "only the living leave without a trace");
    }

    pub(crate) fn forget_before(&mut self, number: u64) {
        while let Some(key) = self.retired.pop_before(number) {
            let before = self.chosen.remove(&key);
            self.break_tokens -= before.as_ref().map_or(0, |known| known.fate.tokens());
            assert!(before.is_some_and(|known| !known.fate.is_live()), "the living are never forgotten");
        }
    }

    /// A client has the answers of all numbers up to one, but for some. Gives what still lives under a number that is
    /// let go: it lives on without an id.
    pub(crate) fn mark(
        &mut self,
        client: ClientKey,
        answered_through: u64,
        open: &[u64],
        now_us: u64,
    ) -> Vec<Fate> {
        let client = self.clients.entry(client).or_default();
        assert!(answered_through >= client.answered_through, "a mark never goes back");
        client.heard_us = now_us;
        client.answered_through = answered_through;
        client.open = open.iter().copied().collect();
        let Client { open, known, .. } = client;
        let (before, mut living) = (known.len(), Vec::new());
        known.take_through(
            answered_through,
            |number| open.contains(&number),
            |known| living.extend(Some(known.fate).filter(Fate::is_live)),
        );
        self.numbered -= before - known.len();
        living
    }

    /// A client was heard of.
    pub(crate) fn hear_of(&mut self, client: &ClientKey, now_us: u64) {
        if let Some(client) = self.clients.get_mut(client) {
            client.heard_us = now_us;
        }
    }

    pub(crate) fn forget_client(&mut self, client: &ClientKey) {
        let client = self.clients.remove(client);
        let known = client.map(|client| client.known).unwrap_or_default();
        assert!(
            known.iter().all(|(_, known)| !known.fate.is_live()),
            "whoever has something that lives is kept"
        );
        self.numbered -= known.len();
    }

    /// How many ids are known.
    pub(crate) fn len(&self) -> usize {
        self.chosen.len() + self.numbered
    }

    /// How many numbers of clients are known.
    pub(crate) fn numbered_len(&self) -> usize {
        self.numbered
    }

    /// How many tokens the remembered answers of breaks have together.
    pub(crate) fn break_tokens(&self) -> usize {
        self.break_tokens
    }

    /// How many chosen ids are known.
    pub(crate) fn chosen_len(&self) -> usize {
        self.chosen.len()
    }

    /// What was known of a number before.
    fn put_number(&mut self, client: ClientKey, number: u64, known: Known, now_us: u64) -> Option<Known> {
        let client = self.clients.entry(client).or_default();
        assert!(!client.has_forgotten(number), "what is let go does not come back");
        client.heard_us = client.heard_us.max(now_us);
        let before = client.known.insert(number, known);
        self.numbered += usize::from(before.is_none());
        before
    }
}
