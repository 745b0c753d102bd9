//! The record of a lease. There are a million of them, so it is laid out to be small: what few leases have stands apart,
//! and what takes a few bits shares a word. What is journaled stands first; below it what is not: the deadline, and where
//! it stands among the timers.

use alloc::boxed::Box;

use crate::crowd::{Class, Standing};
use crate::event::{Ask, LeaseName, RequestMark, Seq, Ticket, Under};
use crate::ids::Secret;
use crate::owners::{OwnerNumber, Owners};
use crate::resource::Resource;
use crate::words::{Metadata, Mode, Ttl};

/// The bits of a word that hold a TTL in milliseconds or the slot of a session; both stay below.
const VALUE: u32 = (1 << 28) - 1;
/// The value is a session's slot.
const UNDER_SESSION: u32 = 1 << 28;
/// The mode is shared.
const SHARED: u32 = 1 << 29;
/// It is broken.
const BROKEN: u32 = 1 << 30;
/// It does not stand among the timers.
const UNARMED: u64 = u64::MAX;

/// One resource granted to one session.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) secret: Secret,
    pub(crate) resource: Resource,
    pub(crate) owner: OwnerNumber,
    word: u32,
    rare: Option<Box<Rare>>,
    pub(crate) ticket: Ticket,
    pub(crate) token: u64,
    pub(crate) acquired_wall_ms: u64,
    /// The event that last changed this lease.
    pub(crate) changed: Seq,

    /// The deadline of its own session, or of a broken lease; a lease under an opened session lives by that one's.
    pub(crate) deadline_us: u64,
    armed_us: u64,
}

/// What few leases have.
#[derive(Debug, Default)]
struct Rare {
    request: Option<RequestMark>,
    metadata: Metadata,
    ttl_longest: Option<Ttl>,
}

impl Lease {
    /// A lease as it is granted; `owner` is the number of the ask's.
    pub(crate) fn new(
        ask: Ask,
        owner: OwnerNumber,
        ticket: Ticket,
        token: u64,
        acquired_wall_ms: u64,
        changed: Seq,
    ) -> Lease {
        let Ask { secret, resource, mode, under, request, metadata, .. } = ask;
        let mut lease = Lease {
            secret,
            resource,
            owner,
            word: match mode {
                Mode::Exclusive => 0,
                Mode::Shared => SHARED,
            },
            rare: None,
            ticket,
            token,
            acquired_wall_ms,
            changed,
            deadline_us: 0,
            armed_us: UNARMED,
        };
        lease.set_under(under);
        lease.set_request(request);
        lease.set_metadata(metadata);
        lease
    }

    pub(crate) fn mode(&self) -> Mode {
        if self.word & SHARED == 0 { Mode::Exclusive } else { Mode::Shared }
    }

    /// Broken: useless to its holder, and standing until its own deadline.
    pub(crate) fn broken(&self) -> bool {
        self.word & BROKEN != 0
    }

    pub(crate) fn set_broken(&mut self) {
        self.word |= BROKEN;
    }

    /// By whose life it lives.
    pub(crate) fn under(&self) -> Under {
        let value = self.word & VALUE;
        if self.word & UNDER_SESSION == 0 { Under::Own(Ttl::unpacked(value)) } else { Under::Session(value) }
    }

    pub(crate) fn set_under(&mut self, under: Under) {
        let value = match under {
            Under::Own(ttl) => ttl.packed(),
            Under::Session(slot) => slot | UNDER_SESSION,
        };
        assert!(value & !UNDER_SESSION <= VALUE, "TTLs and slots leave room for flags");
        self.word = self.word & !(VALUE | UNDER_SESSION) | value;
    }

    pub(crate) fn request(&self) -> Option<RequestMark> {
        self.rare.as_ref()?.request
    }

    pub(crate) fn set_request(&mut self, request: Option<RequestMark>) {
        self.change_rare(request.is_some(), |rare| rare.request = request);
    }

    pub(crate) fn metadata(&self) -> &Metadata {
        static NONE: Metadata = Metadata::NONE;
        self.rare.as_ref().map_or(&NONE, |rare| &rare.metadata)
    }

    pub(crate) fn set_metadata(&mut self, metadata: Metadata) {
        self.change_rare(metadata != Metadata::NONE, |rare| rare.metadata = metadata);
    }

    /// The longest TTL that its own session has had, if that is not the one it has; recovery re-arms with it.
    pub(crate) fn ttl_longest(&self) -> Option<Ttl> {
        self.rare.as_ref()?.ttl_longest
    }

    pub(crate) fn set_ttl_longest(&mut self, ttl: Option<Ttl>) {
        self.change_rare(ttl.is_some(), |rare| rare.ttl_longest = ttl);
    }

    /// Changes what few leases have; a lease that has none of it any more keeps no room for it.
    fn change_rare(&mut self, something: bool, change: impl FnOnce(&mut Rare)) {
        if something || self.rare.is_some() {
            let rare = self.rare.get_or_insert_default();
            change(rare);
            let Rare { request, metadata, ttl_longest } = &**rare;
            if request.is_none() && *metadata == Metadata::NONE && ttl_longest.is_none() {
                self.rare = None;
            }
        }
    }

    /// Where it stands among the timers.
    pub(crate) fn armed_us(&self) -> Option<u64> {
        (self.armed_us != UNARMED).then_some(self.armed_us)
    }

    pub(crate) fn set_armed_us(&mut self, at_us: Option<u64>) {
        assert!(at_us != Some(UNARMED), "no time is that late");
        self.armed_us = at_us.unwrap_or(UNARMED);
    }

    /// As events name it.
    pub(crate) fn name(&self, slot: u32, owners: &Owners) -> LeaseName {
        LeaseName {
            slot,
            token: self.token,
            resource: self.resource.clone(),
            owner: owners.name(self.owner).clone(),
            mode: self.mode(),
        }
    }

    /// What was asked for, as it is now.
    pub(crate) fn ask(&self, owners: &Owners) -> Ask {
        Ask {
            secret: self.secret,
            resource: self.resource.clone(),
            owner: owners.name(self.owner).clone(),
            mode: self.mode(),
            under: self.under(),
            request: self.request(),
            metadata: self.metadata().clone(),
        }
    }

    pub(crate) fn standing(&self, slot: u32) -> Standing {
        Standing { class: Class::Lease, mode: self.mode(), order: self.token, slot }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{SLOTS_MAX, TTL_MS_MAX};

    #[test]
    fn a_lease_is_small() {
        assert_eq!(size_of::<Option<Lease>>(), 96);
    }

    #[test]
    fn everything_stays_apart_in_one_word() {
        let longest = Ttl::from_ms(TTL_MS_MAX).unwrap();
        for under in [Under::Own(longest), Under::Own(Ttl::default()), Under::Session(SLOTS_MAX as u32)] {
            for mode in [Mode::Exclusive, Mode::Shared] {
                let mut owners = Owners::new(crate::ids::HashKey([1, 2]));
                let owner = crate::words::Owner::parse("w").unwrap();
                let ask = Ask {
                    secret: Secret([1, 2]),
                    resource: Resource::parse("a").unwrap(),
                    owner: owner.clone(),
                    mode,
                    under,
                    request: None,
                    metadata: Metadata::NONE,
                };
                let mut lease = Lease::new(ask.clone(), owners.intern(&owner), 1, 2, 3, 4);
                assert_eq!(lease.ask(&owners), ask);
                lease.set_broken();
                lease.set_ttl_longest(Some(longest));
                assert!(lease.broken() && lease.rare.is_some() && lease.armed_us().is_none());
                assert_eq!(lease.ask(&owners), ask);
                lease.set_ttl_longest(None);
                lease.set_under(Under::Own(Ttl::default()));
                assert_eq!((lease.mode(), lease.under()), (mode, Under::Own(Ttl::default())));
                assert!(lease.broken() && lease.rare.is_none());
            }
        }
    }
}
