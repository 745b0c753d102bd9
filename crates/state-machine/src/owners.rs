//! Owners, each kept once: a worker with a thousand leases has one name.

use hashbrown::HashMap;

use crate::ids::HashKey;
use crate::keyed::Keyed;
use crate::words::Owner;

/// The owners in use and how often.
#[derive(Debug)]
pub(crate) struct Owners {
    uses: HashMap<Owner, u32, Keyed>,
}

impl Owners {
    pub(crate) fn new(key: HashKey) -> Self {
        Owners { uses: HashMap::with_hasher(Keyed(key)) }
    }

    /// The one copy of an owner's name, used once more.
    pub(crate) fn intern(&mut self, owner: &Owner) -> Owner {
        if let Some((known, uses)) = self.uses.get_key_value_mut(owner) {
            *uses += 1;
            return known.clone();
        }
        self.uses.insert(owner.clone(), 1);
        owner.clone()
    }

    /// Used once less.
    pub(crate) fn release(&mut self, owner: &Owner) {
        let uses = self.uses.get_mut(owner);
        assert!(uses.is_some(), "an owner in use is known");
        if let Some(uses) = uses {
            *uses -= 1;
            if *uses == 0 {
                self.uses.remove(owner);
            }
        }
    }
}
