//! fail_fast: a client's keeper says *lost* before the server ends the lease or grants it on, with the holder's time to stop
//! in between, for clocks whose rates err by up to 1 %; and what it has called lost it never believes again. It is asked
//! what the client's own clock shows at the real moment of the server's decision, whether or not anybody woke the client.
//!
//! Catches: a client that counts from the arrival of an answer or from the sending of a retry, a late success that revives
//! what was lost, an answer that promises too much. Excepted are leases broken by force; the end of leases that were there
//! before an old copy of the data was put back, which may not know of their renewals; and leases that it brought back to life.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_client::keeper::{Keeper, Standing};
use leasehold_state_machine::event::{Event, LeaseName, Release};
use leasehold_state_machine::resource::Resource;
use leasehold_state_machine::words::Mode;

use super::file_model::FileModel;
use super::{Committed, Verdict, Violation};
use crate::local_clock::LocalClock;

/// A lease as its client keeps it.
#[derive(Clone, Debug)]
pub struct Holder {
    /// The lease.
    pub token: u64,
    /// What it holds.
    pub resource: Resource,
    /// In which mode.
    pub mode: Mode,
    /// How long before its end it must have been lost.
    pub stopping_us: u64,
    /// What the client asks whether it holds.
    pub keeper: Keeper,
    /// The clock that the client asks with.
    pub clock: LocalClock,
}

impl Holder {
    /// How the lease stands for its client at a real moment.
    fn standing(&self, at_us: u64) -> Standing {
        self.keeper.clone().look(self.clock.local_us(at_us))
    }
}

#[derive(Debug)]
struct Known {
    holder: Holder,
    /// When the client let it go, or was told that it is over.
    let_go_us: Option<u64>,
}

impl Known {
    fn believes(&self, at_us: u64) -> bool {
        let held = self.let_go_us.is_none_or(|let_go_us| at_us < let_go_us);
        held && believed(self.holder.standing(at_us))
    }
}

fn believed(standing: Standing) -> bool {
    match standing {
        Standing::Safe { .. } | Standing::InJeopardy { .. } => true,
        Standing::Unconfirmed | Standing::Lost => false,
    }
}

/// See above.
#[derive(Debug, Default)]
pub struct FailFast {
    /// What clients keep or kept, by token.
    known: BTreeMap<u64, Known>,
    /// Tokens whose lease the server has ended.
    ended: BTreeSet<u64>,
    /// All tokens since an old copy of the data was last put back...
    granted: BTreeSet<u64>,
    /// ...and those before, whose end may come early.
    older: BTreeSet<u64>,
    /// Broken by force, or brought back to life with an old copy of the data.
    excepted: BTreeSet<u64>,
}

impl FailFast {
    /// Takes in an event.
    pub fn committed(&mut self, committed: &Committed, files: &FileModel) -> Verdict {
        let at_us = committed.at_us;
        match &committed.event {
            Event::Granted { token, ask, .. } => {
                // After an old copy was put back and the wall clock with it, a number may come a second time.
                self.known.remove(token);
                self.ended.remove(token);
                self.older.remove(token);
                self.granted.insert(*token);
                let in_the_way = self.known.values().find(|known| {
                    let Holder { token, resource, mode, .. } = &known.holder;
                    files.overlap(&ask.resource, resource)
                        && ask.mode.conflicts(*mode)
                        && !self.excepted.contains(token)
                        && known.believes(at_us)
                });
                if let Some(known) = in_the_way {
                    let Holder { token: other, resource, .. } = &known.holder;
                    return Err(violation(format!(
                        "{} is granted under token {token} while a client's keeper says that it holds {resource} under {other}",
                        ask.resource
                    )));
                }
            }
            Event::Broken { lease, force: true, .. } => {
                self.excepted.insert(lease.token);
                self.ended.insert(lease.token);
            }
            Event::Released { lease, why: Release::Broken } | Event::Expired { lease } => {
                return self.ends(lease, at_us, true);
            }
            Event::Released { lease, .. } => return self.ends(lease, at_us, false),
            _ => {}
        }
        Ok(())
    }

    /// A lease ends: by its time, or because its holder says that it has stopped.
    fn ends(&mut self, lease: &LeaseName, at_us: u64, by_time: bool) -> Verdict {
        self.ended.insert(lease.token);
        if self.excepted.contains(&lease.token) || self.older.contains(&lease.token) {
            return Ok(());
        }
        let Some(known) = self.known.get(&lease.token) else { return Ok(()) };
        // What is let go needs no more time: the close of a session ends what was broken under it at once.
        let stopped = known.let_go_us.is_some_and(|let_go_us| let_go_us <= at_us);
        let stopping_us = if by_time && !stopped { known.holder.stopping_us } else { 0 };
        if known.believes(at_us.saturating_sub(stopping_us)) {
            return Err(violation(format!(
                "lease {} on {} ends, and {stopping_us} us before that its client's keeper did not say that it is lost",
                lease.token, lease.resource
            )));
        }
        Ok(())
    }

    /// An answer was taken in by a client's keeper.
    pub fn keeps(&mut self, now_us: u64, holder: Holder) -> Verdict {
        let token = holder.token;
        let known = Known { let_go_us: None, holder };
        let was_over = self.known.get(&token).is_some_and(|before| {
            before.let_go_us.is_some() || before.holder.standing(now_us) == Standing::Lost
        });
        if known.believes(now_us) && !self.excepted.contains(&token) {
            if was_over {
                return Err(violation(format!(
                    "a client believes again in lease {token}, which it had lost"
                )));
            }
            if self.ended.contains(&token) {
                return Err(violation(format!("a client begins to believe in lease {token} after its end")));
            }
        }
        // Lost is lost, also when the client itself has forgotten it.
        if !was_over {
            self.known.insert(token, known);
        }
        Ok(())
    }

    /// A client has let a lease go, or knows that it is over.
    pub fn stops(&mut self, now_us: u64, token: u64) {
        if let Some(known) = self.known.get_mut(&token) {
            known.let_go_us = known.let_go_us.or(Some(now_us));
        }
    }

    /// An old copy of the data was put back, in which these leases, which had ended, live again.
    pub fn restore(&mut self, revived: impl Iterator<Item = u64>) {
        self.older.append(&mut self.granted);
        self.excepted.extend(revived);
    }
}

fn violation(sentence: String) -> Violation {
    Violation::new("fail_fast", sentence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariants::samples::{broken, committed, expired, granted_at, released};
    use leasehold_client::keeper::{Confirmation, Renewal};

    const TTL_US: u64 = 1_000_000;

    /// A lease on `a`, confirmed by an attempt that was sent and heard at these moments of the client's clock.
    fn holder(token: u64, sent_us: u64, heard_us: u64) -> Holder {
        let mut keeper = Keeper::new(Renewal::Timetable);
        let (renew_after_us, stop_after_us) = (TTL_US / 3, TTL_US / 2);
        keeper.confirm(Confirmation { sent_us, heard_us, ttl_us: TTL_US, renew_after_us, stop_after_us });
        let resource = Resource::parse("a").unwrap();
        let clock = LocalClock { offset_us: 0, drift_ppm: 0 };
        Holder { token, resource, mode: Mode::Exclusive, stopping_us: 350_000, keeper, clock }
    }

    fn granted() -> FailFast {
        let mut fail_fast = FailFast::default();
        fail_fast.committed(&granted_at(0, 1, 10, "a", 1000), &FileModel::default()).unwrap();
        fail_fast
    }

    fn ends(fail_fast: &mut FailFast, at_us: u64) -> Verdict {
        fail_fast.committed(&Committed { at_us, ..committed(2, expired(10, "a")) }, &FileModel::default())
    }

    #[test]
    fn sees_an_end_before_the_holder_had_time_to_stop() {
        let mut fail_fast = granted();
        fail_fast.keeps(0, holder(10, 0, 0)).unwrap();
        assert_eq!(ends(&mut fail_fast, 849_999).unwrap_err().invariant, "fail_fast");
        let mut fail_fast = granted();
        fail_fast.keeps(0, holder(10, 0, 0)).unwrap();
        ends(&mut fail_fast, 850_000).unwrap();
    }

    #[test]
    fn asks_with_the_clients_own_clock() {
        for (drift_ppm, fine) in [(10_000, true), (-200_000, false)] {
            let mut fail_fast = granted();
            let clock = LocalClock { offset_us: 0, drift_ppm };
            fail_fast.keeps(0, Holder { clock, ..holder(10, 0, 0) }).unwrap();
            assert_eq!(ends(&mut fail_fast, 950_000).is_ok(), fine, "{drift_ppm}");
        }
    }

    #[test]
    fn sees_a_grant_while_another_believes() {
        let mut fail_fast = granted();
        fail_fast.keeps(0, holder(10, 0, 0)).unwrap();
        let other = |at_us, resource| granted_at(at_us, 3, 11, resource, 1000);
        fail_fast.committed(&other(499_999, "b"), &FileModel::default()).unwrap();
        assert!(fail_fast.committed(&other(499_999, "a"), &FileModel::default()).is_err());
        fail_fast.committed(&other(500_000, "a"), &FileModel::default()).unwrap();
    }

    #[test]
    fn sees_a_release_by_one_who_has_not_stopped() {
        let mut fail_fast = granted();
        fail_fast.keeps(0, holder(10, 0, 0)).unwrap();
        assert!(fail_fast.committed(&released(2, 10, "a"), &FileModel::default()).is_err());
        let mut fail_fast = granted();
        fail_fast.keeps(0, holder(10, 0, 0)).unwrap();
        fail_fast.stops(1_999, 10);
        fail_fast.committed(&released(2, 10, "a"), &FileModel::default()).unwrap();
    }

    #[test]
    fn sees_a_belief_that_comes_back_or_comes_too_late() {
        let mut fail_fast = granted();
        fail_fast.keeps(0, holder(10, 0, 0)).unwrap();
        fail_fast.keeps(400_000, holder(10, 400_000, 400_000)).unwrap();
        assert!(fail_fast.keeps(900_000, holder(10, 800_000, 900_000)).is_err(), "it was lost");
        let mut fail_fast = granted();
        fail_fast.keeps(0, holder(10, 0, 0)).unwrap();
        fail_fast.stops(100, 10);
        fail_fast.keeps(200, Holder { keeper: Keeper::new(Renewal::Timetable), ..holder(10, 0, 0) }).unwrap();
        assert!(fail_fast.keeps(300, holder(10, 250, 300)).is_err(), "it was let go");
        let mut fail_fast = granted();
        ends(&mut fail_fast, 1_000_000).unwrap();
        assert!(fail_fast.keeps(1_000_100, holder(10, 900_000, 1_000_100)).is_err(), "it has ended");
    }

    #[test]
    fn what_was_broken_by_force_or_put_back_is_excepted() {
        let mut fail_fast = granted();
        fail_fast.keeps(0, holder(10, 0, 0)).unwrap();
        fail_fast.committed(&committed(2, broken(10, "a", true)), &FileModel::default()).unwrap();
        fail_fast.committed(&granted_at(100, 3, 11, "a", 1000), &FileModel::default()).unwrap();
        let mut fail_fast = granted();
        fail_fast.keeps(0, holder(10, 0, 0)).unwrap();
        fail_fast.restore([].into_iter());
        ends(&mut fail_fast, 100).unwrap();
        assert!(
            fail_fast.committed(&granted_at(200, 3, 11, "a", 1000), &FileModel::default()).is_err(),
            "no grant comes early"
        );
    }
}
