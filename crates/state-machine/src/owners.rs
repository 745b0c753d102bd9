//! Owners, each kept once: a worker with a thousand leases has one name, and each of the leases its number. One that is not
//! used any more is kept for a while: most come back soon, with the next lock they take.

use alloc::collections::VecDeque;

use hashbrown::HashMap;

use crate::ids::HashKey;
use crate::keyed::Keyed;
use crate::limits::OWNERS_UNUSED_MAX;
use crate::slab::Slab;
use crate::words::Owner;

/// The number of an owner in use. Not journaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnerNumber(u32);

/// The owners that are known, and how often each is used.
#[derive(Debug)]
pub(crate) struct Owners {
    numbers: HashMap<Owner, u32, Keyed>,
    names: Slab<Named>,
    /// Those that are unused or were so some time ago, in that order.
    unused: VecDeque<u32>,
}

#[derive(Debug)]
struct Named {
    owner: Owner,
    uses: u32,
    /// Whether it stands among the unused.
    listed: bool,
}

impl Owners {
    pub(crate) fn new(key: HashKey) -> Self {
        Owners { numbers: HashMap::with_hasher(Keyed(key)), names: Slab::new(), unused: VecDeque::new() }
    }

    /// An owner's number, used once more.
    pub(crate) fn intern(&mut self, owner: &Owner) -> OwnerNumber {
        if let Some(number) = self.numbers.get(owner).copied() {
            if let Some(named) = self.names.get_mut(number) {
                named.uses += 1;
            }
            return OwnerNumber(number);
        }
        let number = self.names.vacant();
        self.names.insert(number, Named { owner: owner.clone(), uses: 1, listed: false });
        self.numbers.insert(owner.clone(), number);
        OwnerNumber(number)
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
        let named = self.names.get_mut(number.0).filter(|named| named.uses > 0);
        assert!(named.is_some(), "an owner in use is known");
        let Some(named) = named else { return };
        named.uses -= 1;
        if named.uses == 0 && !named.listed {
            named.listed = true;
            self.unused.push_back(number.0);
            self.forget_oldest();
        }
    }

    /// Forgets the one that has been unused for longest, if there are too many, or finds that it is used again.
    fn forget_oldest(&mut self) {
        if self.unused.len() <= OWNERS_UNUSED_MAX {
            return;
        }
        let Some(number) = self.unused.pop_front() else { return };
        match self.names.get_mut(number) {
            Some(named) if named.uses > 0 => named.listed = false,
            Some(named) => {
                self.numbers.remove(&named.owner);
                self.names.remove(number);
            }
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    fn owner(number: usize) -> Owner {
        Owner::parse(&format!("w{number}")).unwrap()
    }

    #[test]
    fn those_that_come_back_keep_their_number_and_the_rest_are_bounded() {
        let mut owners = Owners::new(HashKey::default());
        let stays = owners.intern(&owner(0));
        let comes_back = owners.intern(&owner(1));
        owners.release(&owner(1));
        assert_eq!(owners.intern(&owner(1)), comes_back);
        for number in 2..3 * OWNERS_UNUSED_MAX {
            let passes = owners.intern(&owner(number));
            assert_eq!(owners.name(passes), &owner(number));
            owners.release_number(passes);
            assert!(owners.unused.len() <= OWNERS_UNUSED_MAX);
            assert!(owners.numbers.len() <= OWNERS_UNUSED_MAX + 2);
            assert_eq!(owners.names.len(), owners.numbers.len());
        }
        assert_eq!((owners.name(stays), owners.name(comes_back)), (&owner(0), &owner(1)));
        assert_eq!(owners.intern(&owner(1)), comes_back, "it was found to be used again");
        owners.release_number(comes_back);
        owners.release_number(comes_back);
        owners.release_number(stays);
        assert_eq!(owners.unused.len(), OWNERS_UNUSED_MAX);
        assert_eq!(owners.intern(&owner(0)), stays);
    }

    #[test]
    #[should_panic(expected = "an owner in use is known")]
    fn one_that_is_not_used_is_not_given_up() {
        let mut owners = Owners::new(HashKey::default());
        owners.intern(&owner(0));
        owners.release(&owner(0));
        owners.release(&owner(0));
    }
}
