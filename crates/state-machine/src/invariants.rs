//! What must always be true of the tables, checked over the whole state: in tests, in the simulation, and once after a
//! recovery. In service each step asserts only what it touched.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::crowd::{Class, Crowd};
use crate::event::{Ticket, Under};
use crate::ids::RequestName;
use crate::lease::Lease;
use crate::machine::Machine;
use crate::records::Presence;
use crate::requests::Fate;
use crate::resource::{Kind, Resource};
use crate::words::Mode;

impl Machine {
    /// Panics if anything that must be true is not.
    pub fn assert_invariants(&self) {
        self.leases_do_not_conflict();
        self.everybody_stands_in_place();
        self.sessions_know_their_own();
        self.request_ids_lead_where_they_should();
        self.no_wake_up_is_lost();
        self.timers_are_armed();
        self.files_are_in_order();
    }

    /// At no time do two leases conflict: what overlaps an exclusive lease is that lease alone.
    fn leases_do_not_conflict(&self) {
        let mut tokens: Vec<u64> = self.leases.iter().map(|(_, lease)| lease.token).collect();
        tokens.sort_unstable();
        assert!(tokens.last().is_none_or(|last| *last <= self.last_token), "no token is newer than the last");
        assert!(tokens.windows(2).all(|pair| pair[0] < pair[1]), "no two leases have one token");
        for place in self.space.places().iter_from("", &self.leases) {
            // A name overlaps with itself alone.
            if let (Kind::Name(_), Crowd::One { .. }) = (place.resource.kind(), &*place.crowd) {
                continue;
            }
            for slot in self.space.leases_on(place.resource, &self.leases) {
                self.does_not_conflict(slot);
            }
        }
    }

    fn does_not_conflict(&self, slot: u32) {
        let Some(lease) = self.leases.get(slot) else { return };
        let overlapping = self.space.overlapping(&lease.resource, &[Class::Lease], 64, &self.leases);
        for (token, other) in overlapping {
            let other_mode = self.leases.get(other).map(Lease::mode);
            assert!(
                other == slot && token == lease.token
                    || other_mode.is_some_and(|other| !lease.mode().conflicts(other)),
                "leases on {} conflict",
                lease.resource
            );
        }
    }

    /// The index holds exactly the leases and waiters there are: as many, and each where it belongs. Places are
    /// different resources, so that nobody is counted at two of them.
    fn everybody_stands_in_place(&self) {
        self.space.places().assert_sound(&self.leases);
        let (mut leases, mut waiters) = (0, 0);
        let mut found = Vec::new();
        for place in self.space.places().iter_from("", &self.leases) {
            let before = leases + waiters;
            let resource = place.resource;
            place.crowd.collect(Class::Lease, usize::MAX, &mut found);
            for (token, slot) in found.drain(..) {
                let lease = self.leases.get(slot);
                let stands = lease.is_some_and(|lease| lease.token == token && lease.resource == *resource);
                assert!(stands, "leases on {resource}");
                leases += 1;
            }
            for class in [Class::Line, Class::Skipped] {
                place.crowd.collect(class, usize::MAX, &mut found);
                for (ticket, _) in found.drain(..) {
                    let waiter = self.waiters.get(&ticket);
                    let stands = waiter.is_some_and(|waiter| {
                        waiter.ask.resource == *resource && waiter.standing(ticket).class == class
                    });
                    assert!(stands, "waiters on {resource}");
                    waiters += 1;
                }
            }
            assert!(leases + waiters > before, "a place is remembered while somebody stands there");
        }
        assert_eq!(leases, self.leases.len(), "every lease stands in its place");
        assert_eq!(waiters, self.waiters.len(), "every waiter stands in its place");
        assert!(
            self.waiters.last_key_value().is_none_or(|(ticket, _)| *ticket < self.next_ticket),
            "no ticket is newer than the last"
        );
    }

    fn sessions_know_their_own(&self) {
        let mut leases: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        let mut waiters: BTreeMap<u32, BTreeSet<Ticket>> = BTreeMap::new();
        let mut own = 0;
        for (slot, lease) in self.leases.iter() {
            match lease.under() {
                Under::Own(_) => own += 1,
                Under::Session(session) => {
                    leases.entry(session).or_default().insert(slot);
                }
            }
        }
        for (ticket, waiter) in &self.waiters {
            if let Under::Session(session) = waiter.ask.under {
                waiters.entry(session).or_default().insert(*ticket);
            }
        }
        assert_eq!(own, self.own_sessions, "leases with a session of their own are counted");
        for (slot, session) in self.sessions.iter() {
            assert_eq!(leases.remove(&slot).unwrap_or_default(), session.leases, "leases of a session");
            assert_eq!(waiters.remove(&slot).unwrap_or_default(), session.waiters, "waiters of a session");
            let drained = session.leases.is_empty() && session.waiters.is_empty();
            assert!(session.over.is_none() || !drained, "a session that is over and drained is gone");
        }
        assert!(leases.is_empty() && waiters.is_empty(), "nobody lives by a session that is not there");
    }

    fn request_ids_lead_where_they_should(&self) {
        let mut live = 0;
        let leases =
            self.leases.iter().filter_map(|(slot, lease)| Some((lease.request()?, Fate::Lease(slot))));
        let waiters =
            self.waiters.iter().filter_map(|(ticket, w)| Some((w.ask.request?, Fate::Waiting(*ticket))));
        let sessions = self.sessions.iter().filter(|(_, session)| session.over.is_none());
        let sessions = sessions.filter_map(|(slot, s)| Some((s.request?, Fate::Session(slot))));
        for (mark, fate) in leases.chain(waiters).chain(sessions) {
            let known = self.requests.get(&mark.name);
            assert!(known.is_some_and(|known| known.fate == fate), "a live request is found by its id");
            live += usize::from(matches!(mark.name, RequestName::Chosen(_)));
        }
        let chosen = self.requests.chosen_len();
        assert_eq!(live + self.requests.retired.len(), chosen, "ids are live or retired");
        let numbered: usize = self.requests.clients.values().map(|client| client.known.len()).sum();
        assert_eq!(chosen + numbered, self.requests.len(), "known ids are counted");
        for client in self.requests.clients.values() {
            assert!(
                client.known.iter().all(|(number, _)| !client.has_forgotten(number)),
                "what is forgotten is gone"
            );
            let through = client.answered_through;
            assert!(client.open.iter().all(|number| *number <= through), "open numbers lie below the mark");
        }
    }

    /// A waiter that somebody waits behind is granted, looked at, or parked on something that is in its way.
    fn no_wake_up_is_lost(&self) {
        let mut by_ticket: Option<BTreeMap<Ticket, u32>> = None;
        for (ticket, waiter) in &self.waiters {
            if let Some(obstacle) = waiter.parked_on {
                assert!(self.parked.contains(&(obstacle, *ticket)), "who is parked stands in the list");
            }
            let Presence::Attached { attachment, .. } = waiter.presence else { continue };
            assert_eq!(self.attachments.get(&attachment), Some(ticket), "an attempt leads to its waiter");
            if self.looks.contains(ticket) || self.grants_held_ms.is_some() {
                continue;
            }
            let Some(obstacle) = waiter.parked_on else { panic!("waiter {ticket} is parked nowhere") };
            let (resource, mode): (&Resource, Mode) = match self.waiters.get(&obstacle) {
                Some(earlier) => {
                    assert!(obstacle < *ticket, "nobody waits for a later one");
                    let blocks = !matches!(earlier.presence, Presence::Detached { .. });
                    assert!(blocks, "nobody waits for one who is passed over");
                    (&earlier.ask.resource, earlier.ask.mode)
                }
                None => {
                    let by_ticket = by_ticket.get_or_insert_with(|| {
                        self.leases.iter().map(|(slot, lease)| (lease.ticket, slot)).collect()
                    });
                    let lease = by_ticket.get(&obstacle).and_then(|slot| self.leases.get(*slot));
                    let Some(lease) = lease else { panic!("waiter {ticket} waits for nobody") };
                    (&lease.resource, lease.mode())
                }
            };
            let overlap = self.overlap(&waiter.ask.resource, resource);
            assert!(
                overlap && waiter.ask.mode.conflicts(mode),
                "waiter {ticket} waits for what is not in its way"
            );
        }
        assert!(self.attachments.len() <= self.waiters.len(), "attempts stand for waiters");
    }

    fn timers_are_armed(&self) {
        let mut armed = 0;
        for (_, lease) in self.leases.iter() {
            let own = matches!(lease.under(), Under::Own(_)) || lease.broken();
            assert_eq!(lease.armed_us().is_some(), own, "a lease with its own deadline is armed");
            armed += usize::from(own);
            assert!(lease.armed_us().is_none_or(|at_us| at_us <= lease.deadline_us), "timers are never late");
        }
        for (_, session) in self.sessions.iter() {
            assert_eq!(session.armed_us.is_some(), session.over.is_none(), "a live session is armed");
            armed += usize::from(session.over.is_none());
            assert!(
                session.armed_us.is_none_or(|at_us| at_us <= session.deadline_us),
                "timers are never late"
            );
        }
        for waiter in self.waiters.values() {
            assert_eq!(waiter.armed_us, Some(waiter.due_us()), "a waiter is armed for when it is due");
            armed += 1;
        }
        assert_eq!(armed, self.timers.len(), "nothing else falls due");
    }

    /// Whether two resources overlap, with what the table of files adds to that.
    fn overlap(&self, one: &Resource, other: &Resource) -> bool {
        let meets = |bytes: &Resource, path: &Resource| {
            self.space.path_of(bytes).is_some_and(|file| path.covers(file))
        };
        one.overlaps(other) || meets(one, other) || meets(other, one)
    }

    /// Files have a number and a place each, are counted, and are one with the inodes that stand for them.
    fn files_are_in_order(&self) {
        let mut numbers = BTreeSet::new();
        let mut bytes = 0;
        for (name, file) in self.files.from("") {
            bytes += file.size;
            assert!(numbers.insert(file.number), "a number is one file's");
            assert!(file.number < self.files.next_number, "no number is newer than the last");
            assert!(self.files.misplaced(name).is_none(), "nothing lies below the file {name}");
            let path = self.space.path_of(&Resource::inode(file.number));
            assert_eq!(path, Some(name.path()), "a file's inode is one with its path");
            assert!(file.token <= self.last_token && file.changed <= self.seq, "a file was written by then");
        }
        assert_eq!(bytes, self.files.bytes(), "bytes are counted");
        for (number, path) in self.space.deleted_files() {
            assert!(self.space.is_stood_on(number), "somebody stands on the deleted file at {path}");
            assert!(numbers.insert(number), "a deleted file's number is nobody else's");
        }
        let leases = self.leases.iter().map(|(_, lease)| &lease.resource);
        for resource in leases.chain(self.waiters.values().map(|waiter| &waiter.ask.resource)) {
            assert!(self.space.is_known(resource), "nobody stands on a file that never was: {resource}");
        }
    }
}
