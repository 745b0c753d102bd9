//! Everything that stands at one place, by class, mode and age. Knows orders (tokens, tickets) and slots, and nothing of
//! where the place is.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::words::Mode;

/// What a standing thing means to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// A lease; its order is its token.
    Lease = 0,
    /// A waiter that holds its place against later ones; its order is its ticket.
    Line = 1,
    /// A detached waiter: it keeps its place but is passed over.
    Skipped = 2,
}

/// Something that stands somewhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    pub(crate) class: Class,
    pub(crate) mode: Mode,
    pub(crate) order: u64,
    /// A lease's slot; of no meaning for waiters.
    pub(crate) slot: u32,
}

/// Everything that stands at one place, by class, mode and age.
#[derive(Debug)]
pub(crate) enum Crowd {
    /// One lease and nobody else: the ordinary uncontended lock.
    One {
        mode: Mode,
        token: u64,
        slot: u32,
    },
    Many(Box<Sets>),
}

#[derive(Debug, Default)]
pub(crate) struct Sets {
    pub(crate) sets: [[BTreeMap<u64, u32>; 2]; 3],
    pub(crate) last_token: u64,
}

impl Sets {
    /// As one lease and nobody else, if that is all that is left and remembered.
    fn only_lease(&self) -> Option<Crowd> {
        [Mode::Exclusive, Mode::Shared].into_iter().find_map(|mode| {
            let (token, slot) = self.sets[Class::Lease as usize][mode as usize].first_key_value()?;
            (*token == self.last_token).then_some(Crowd::One { mode, token: *token, slot: *slot })
        })
    }
}

impl Crowd {
    pub(crate) fn of(standing: &Standing) -> Crowd {
        if standing.class == Class::Lease {
            return Crowd::One { mode: standing.mode, token: standing.order, slot: standing.slot };
        }
        let mut crowd = Crowd::Many(Box::default());
        crowd.insert(standing);
        crowd
    }

    pub(crate) fn insert(&mut self, standing: &Standing) {
        if let Crowd::One { mode, token, slot } = *self {
            let mut sets = Sets { last_token: token, ..Sets::default() };
            sets.sets[Class::Lease as usize][mode as usize].insert(token, slot);
            *self = Crowd::Many(Box::new(sets));
        }
        let Crowd::Many(sets) = self else { return };
        if standing.class == Class::Lease {
            sets.last_token = sets.last_token.max(standing.order);
        }
        let set = &mut sets.sets[standing.class as usize][standing.mode as usize];
        let before = set.insert(standing.order, standing.slot);
        assert!(before.is_none(), "nothing stands twice in one place");
    }

    /// Takes something out; true when nobody is left.
    pub(crate) fn remove(&mut self, standing: &Standing) -> bool {
        match self {
            Crowd::One { token, .. } => {
                assert!(
                    standing.class == Class::Lease && *token == standing.order,
                    "what leaves a place stood there"
                );
                true
            }
            Crowd::Many(sets) => {
                let set = &mut sets.sets[standing.class as usize][standing.mode as usize];
                assert!(set.remove(&standing.order).is_some(), "what leaves a place stood there");
                match sets.sets.iter().flatten().map(BTreeMap::len).sum::<usize>() {
                    0 => true,
                    1 => {
                        if let Some(one) = sets.only_lease() {
                            *self = one;
                        }
                        false
                    }
                    _ => false,
                }
            }
        }
    }

    /// The newest of a class that is in the way of `mode` and older than `before`.
    pub(crate) fn newest_in_the_way(&self, class: Class, mode: Mode, before: u64) -> Option<(u64, u32)> {
        match self {
            Crowd::One { mode: held, token, slot } => {
                (class == Class::Lease && mode.conflicts(*held) && *token < before).then_some((*token, *slot))
            }
            Crowd::Many(sets) => [Mode::Exclusive, Mode::Shared]
                .into_iter()
                .filter(|other| mode.conflicts(*other))
                .filter_map(|other| sets.sets[class as usize][other as usize].range(..before).next_back())
                .map(|(order, slot)| (*order, *slot))
                .max(),
        }
    }

    pub(crate) fn lease_with_token(&self, wanted: u64) -> Option<u32> {
        match self {
            Crowd::One { token, slot, .. } => (*token == wanted).then_some(*slot),
            Crowd::Many(sets) => {
                sets.sets[Class::Lease as usize].iter().find_map(|set| set.get(&wanted)).copied()
            }
        }
    }

    pub(crate) fn collect(&self, class: Class, most: usize, into: &mut Vec<(u64, u32)>) {
        match self {
            Crowd::One { token, slot, .. } => {
                if class == Class::Lease {
                    into.push((*token, *slot));
                }
            }
            Crowd::Many(sets) => {
                for set in &sets.sets[class as usize] {
                    into.extend(set.iter().take(most).map(|(order, slot)| (*order, *slot)));
                }
            }
        }
    }

    /// The newest token seen here while the place is remembered.
    pub(crate) fn last_token(&self) -> Option<u64> {
        match self {
            Crowd::One { token, .. } => Some(*token),
            Crowd::Many(sets) => (sets.last_token > 0).then_some(sets.last_token),
        }
    }

    pub(crate) fn waiters(&self) -> usize {
        match self {
            Crowd::One { .. } => 0,
            Crowd::Many(sets) => sets.sets[1..].iter().flatten().map(BTreeMap::len).sum(),
        }
    }
}
