//! Owners, each kept once: a worker with a thousand leases has one name, and each of the leases its number.

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use crate::ids::HashKey;
use crate::keyed::Keyed;
use crate::slab::Slab;
use crate::words::Owner;

/// The number of an owner in use. Not journaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnerNumber(u32);

/// The owners in use and how often.
#[derive(Debug)]
pub(crate) struct Owners {
    numbers: HashMap<Owner, u32, Keyed>,
    names: Slab<Named>,
}

#[derive(Debug)]
struct Named {
    owner: Owner,
    uses: u32,
}

impl Owners {
    pub(crate) fn new(key: HashKey) -> Self {
        Owners { numbers: HashMap::with_hasher(Keyed(key)), names: Slab::new() }
    }

    /// An owner's number, used once more.
    pub(crate) fn intern(&mut self, owner: &Owner) -> OwnerNumber {
        match self.numbers.entry(owner.clone()) {
            Entry::Occupied(known) => {
                let number = *known.get();
                if let Some(named) = self.names.get_mut(number) {
                    named.uses += 1;
                }
                OwnerNumber(number)
            }
            Entry::Vacant(place) => {
                let number = self.names.vacant();
                self.names.insert(number, Named { owner: owner.clone(), uses: 1 });
                OwnerNumber(*place.insert(number))
            }
        }
    }

    /// The one copy of an owner's name.
    pub(crate) fn name(&self, number: OwnerNumber) -> &Owner {
        let named = self.names.get(number.0);
        assert!(named.is_some(), "an owner in use is known");
        &named.unwrap_or_else(|| unreachable!("asserted above")).owner
    }

    /// Used once less.
    pub(crate) fn release(&mut self, owner: &Owner) {
        let number = self.numbers.get(owner).copied();
        assert!(number.is_some(), "an owner in use is known");
        if let Some(number) = number {
            self.release_number(OwnerNumber(number));
        }
    }

    /// Used once less.
    pub(crate) fn release_number(&mut self, number: OwnerNumber) {
        let named = self.names.get_mut(number.0);
        assert!(named.is_some(), "an owner in use is known");
        if let Some(named) = named {
            named.uses -= 1;
            if named.uses == 0 {
                self.numbers.remove(&named.owner);
                self.names.remove(number.0);
            }
        }
    }
}
