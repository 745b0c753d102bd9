//! exclusion: live leases on overlapping resources never conflict, and no two clients believe at the same real moment
//! that they hold conflicting leases. A break with force is excepted, and counted; so is a lease that had ended and that
//! an old copy of the data brings back to life. A file's number and its path are one.
//!
//! Catches: a grant over a live lease; a lease that ends, for the server, before its holder has stopped; recovery that
//! re-arms too short; a client that counts from the wrong moment. A holder whose time ran out is given a third of its
//! TTL to stop in, so that an answer that promises too much is seen long before two holders really meet.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_state_machine::event::Event;
use leasehold_state_machine::resource::Resource;
use leasehold_state_machine::words::Mode;

use super::file_model::FileModel;
use super::{Committed, Verdict, Violation};

/// What a client takes for true of a lease.
#[derive(Clone, Debug)]
pub struct Belief {
    /// The lease.
    pub token: u64,
    /// What it holds.
    pub resource: Resource,
    /// In which mode.
    pub mode: Mode,
    /// When the client's clock will tell it to stop, in real time.
    pub until_us: u64,
    /// How long it may take to stop then.
    pub stopping_us: u64,
}

/// Live leases by token.
pub type Live = BTreeMap<u64, (Resource, Mode)>;

/// See above.
#[derive(Debug, Default)]
pub struct Exclusion {
    live: Live,
    believers: BTreeMap<u64, Belief>,
    /// Broken by force, or brought back to life with an old copy of the data.
    excepted: BTreeSet<u64>,
    /// Pairs of believers that this brought about.
    pub excepted_overlaps: u64,
}

impl Exclusion {
    /// Takes in an event.
    pub fn committed(&mut self, committed: &Committed, files: &FileModel) -> Verdict {
        match &committed.event {
            Event::Granted { token, ask, .. } => {
                for (other, (resource, mode)) in &self.live {
                    if files.overlap(&ask.resource, resource) && ask.mode.conflicts(*mode) {
                        return Err(Violation::new(
                            "exclusion",
                            format!(
                                "event {} grants {} under token {token} while {resource} is held under token {other}",
                                committed.seq, ask.resource
                            ),
                        ));
                    }
                }
                self.live.insert(*token, (ask.resource.clone(), ask.mode));
            }
            Event::Released { lease, .. } | Event::Expired { lease } => {
                self.live.remove(&lease.token);
            }
            Event::Broken { lease, force: true, .. } => {
                self.live.remove(&lease.token);
                self.excepted.insert(lease.token);
            }
            _ => {}
        }
        Ok(())
    }

    /// A client begins to believe, or goes on.
    pub fn believes(&mut self, now_us: u64, belief: Belief, files: &FileModel) -> Verdict {
        self.believers.retain(|_, other| other.until_us + other.stopping_us > now_us);
        for other in self.believers.values().filter(|other| other.token != belief.token) {
            if !files.overlap(&belief.resource, &other.resource) || !belief.mode.conflicts(other.mode) {
                continue;
            }
            if self.excepted.contains(&other.token) || self.excepted.contains(&belief.token) {
                self.excepted_overlaps += 1;
                continue;
            }
            let acting = if other.until_us > now_us { "believes" } else { "is still stopping" };
            return Err(Violation::new(
                "exclusion",
                format!(
                    "a client believes to hold {} under token {} while another {acting} under token {} on {}",
                    belief.resource, belief.token, other.token, other.resource
                ),
            ));
        }
        self.believers.insert(belief.token, belief);
        Ok(())
    }

    /// The live leases.
    pub fn live(&self) -> Live {
        self.live.clone()
    }

    /// An old copy of the journal was put back; what clients believe goes on. Gives the leases that live again.
    pub fn restore(&mut self, live: Live) -> impl Iterator<Item = u64> {
        // A lease that had ended lives again. Nothing new is granted for a while, but its former holder may renew it
        // while whoever came after still believes: there only the token protects, as after a break with force.
        let ended = |token: &u64| !self.live.contains_key(token);
        let revived: Vec<u64> = live.keys().copied().filter(ended).collect();
        self.excepted.extend(&revived);
        self.live = live;
        revived.into_iter()
    }

    /// A client has stopped of its own accord.
    pub fn stops(&mut self, token: u64) {
        self.believers.remove(&token);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariants::samples::{broken, committed, granted, released};

    #[test]
    fn sees_a_grant_over_a_live_lease() {
        let mut exclusion = Exclusion::default();
        exclusion.committed(&granted(1, 10, "path:/a", Mode::Exclusive), &FileModel::default()).unwrap();
        exclusion.committed(&granted(2, 11, "path:/b", Mode::Exclusive), &FileModel::default()).unwrap();
        let refused = exclusion.committed(&granted(3, 12, "path:/a/b", Mode::Shared), &FileModel::default());
        assert_eq!(refused.unwrap_err().invariant, "exclusion");
        exclusion.committed(&released(3, 10, "path:/a"), &FileModel::default()).unwrap();
        exclusion.committed(&granted(4, 12, "path:/a/b", Mode::Shared), &FileModel::default()).unwrap();
        exclusion.committed(&granted(5, 13, "path:/a/b", Mode::Shared), &FileModel::default()).unwrap();
        assert!(committed(6, broken(12, "path:/a/b", true)).seq == 6);
    }

    fn belief(token: u64, until_us: u64) -> Belief {
        let resource = Resource::parse("a").unwrap();
        Belief { token, resource, mode: Mode::Exclusive, until_us, stopping_us: 10 }
    }

    #[test]
    fn sees_two_believers() {
        let mut exclusion = Exclusion::default();
        exclusion.believes(0, belief(1, 100), &FileModel::default()).unwrap();
        assert!(exclusion.believes(50, belief(2, 150), &FileModel::default()).is_err());
        assert!(
            exclusion.believes(105, belief(2, 150), &FileModel::default()).is_err(),
            "the first is still stopping"
        );
        exclusion.believes(110, belief(2, 150), &FileModel::default()).unwrap();
        exclusion.stops(2);
        exclusion.believes(111, belief(3, 150), &FileModel::default()).unwrap();
    }

    #[test]
    fn a_forced_break_is_excepted_and_counted() {
        let mut exclusion = Exclusion::default();
        exclusion.believes(0, belief(1, 100), &FileModel::default()).unwrap();
        exclusion.committed(&committed(1, broken(1, "a", true)), &FileModel::default()).unwrap();
        exclusion.believes(50, belief(2, 150), &FileModel::default()).unwrap();
        assert_eq!(exclusion.excepted_overlaps, 1);
    }
}
