//! What the watchdog does next, decided from what it was told and what time it is. No clock, no process, no pipe.

use super::group::Group;
use super::orders::Order;
use super::timetable::Times;

/// How often a group is looked at whose leader has ended. Numbers of processes come round again only after all others,
/// so that none can be used anew within this time.
pub const LOOK_EVERY_US: u64 = 20_000;

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Ask the group to end, and decide again.
    Terminate(Group),
    /// End it, and decide again.
    Kill(Group),
    /// Nothing before this moment, or before something is told.
    WaitUntil(Option<u64>),
    /// Go: there is nothing left to do.
    Leave,
}

/// One watchdog's knowledge.
#[derive(Debug, Default)]
pub struct Watch {
    group: Option<Group>,
    survives_us: u64,
    times: Option<Times>,
    /// Nobody will tell anything any more: `leasehold` is dead.
    alone: bool,
    /// The group's leader has ended, and may have been reaped.
    leaderless: bool,
    dismissed: bool,
    terminated: bool,
    killed: bool,
}

impl Watch {
    /// Takes an order in. Once the group was asked to end, no later time is granted.
    pub fn told(&mut self, order: Order) {
        match order {
            Order::Guard { group, survives_us } => {
                (self.group, self.survives_us) = (Some(group), survives_us);
            }
            Order::By(times) if !self.terminated => self.times = Some(times),
            Order::By(_) => {}
            Order::Done => self.dismissed = true,
        }
    }

    /// The pipe has closed.
    pub fn left_alone(&mut self, now_us: u64) {
        self.alone = true;
        if let Some(times) = &mut self.times {
            times.kill_us = times.kill_us.min(now_us.saturating_add(self.survives_us));
        }
    }

    /// The group's leader has ended.
    pub fn leader_ended(&mut self) {
        self.leaderless = true;
    }

    /// The group, once there is a time for it too.
    pub fn guarded(&self) -> Option<(Group, Times)> {
        self.group.zip(self.times)
    }

    /// What to do now. `is_empty` looks at the group.
    pub fn next(&mut self, now_us: u64, is_empty: impl FnOnce(Group) -> bool) -> Act {
        let Some((group, times)) = self.guarded() else {
            return if self.alone || self.dismissed { Act::Leave } else { Act::WaitUntil(None) };
        };
        // A leader that has ended but was not reaped keeps its group's number. Only while `leasehold` lives is it known
        // not to be reaped; and a group that was empty once is never touched again.
        let unpinned = self.leaderless || self.alone;
        if self.dismissed || (unpinned && is_empty(group)) {
            return Act::Leave;
        }
        if self.killed {
            return match self.alone {
                // SIGKILL cannot be missed.
                true => Act::Leave,
                false => Act::WaitUntil(self.leaderless.then_some(now_us + LOOK_EVERY_US)),
            };
        }
        if now_us >= times.kill_us {
            self.killed = true;
            return Act::Kill(group);
        }
        if !self.terminated && (self.alone || now_us >= times.term_us) {
            self.terminated = true;
            return Act::Terminate(group);
        }
        let due_us = if self.terminated { times.kill_us } else { times.term_us };
        let look_us = if unpinned { now_us + LOOK_EVERY_US } else { u64::MAX };
        Act::WaitUntil(Some(due_us.min(look_us)))
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::Pid;

    use super::*;

    const TERM_US: u64 = 2_000_000;
    const KILL_US: u64 = 3_000_000;

    fn group() -> Group {
        Group::led_by(Pid::from_raw(99).unwrap())
    }

    fn guarding() -> Watch {
        let mut watch = Watch::default();
        watch.told(Order::Guard { group: group(), survives_us: u64::MAX });
        watch.told(Order::By(Times { term_us: TERM_US, kill_us: KILL_US }));
        watch
    }

    fn must_not_look(_: Group) -> bool {
        panic!("a group whose leader is not reaped need not be looked at")
    }

    #[test]
    fn terminates_at_one_time_and_kills_at_the_other() {
        let mut watch = guarding();
        assert_eq!(watch.next(0, must_not_look), Act::WaitUntil(Some(TERM_US)));
        assert_eq!(watch.next(TERM_US, must_not_look), Act::Terminate(group()));
        assert_eq!(watch.next(TERM_US, must_not_look), Act::WaitUntil(Some(KILL_US)));
        assert_eq!(watch.next(KILL_US, must_not_look), Act::Kill(group()));
        assert_eq!(watch.next(KILL_US, must_not_look), Act::WaitUntil(None));
        watch.told(Order::Done);
        assert_eq!(watch.next(KILL_US, must_not_look), Act::Leave);
    }

    #[test]
    fn renewals_move_both_times_until_it_has_begun_to_end() {
        let mut watch = guarding();
        let later = Times { term_us: 5_000_000, kill_us: 6_000_000 };
        watch.told(Order::By(later));
        assert_eq!(watch.next(KILL_US, must_not_look), Act::WaitUntil(Some(5_000_000)));
        assert_eq!(watch.next(5_000_000, must_not_look), Act::Terminate(group()));
        watch.told(Order::By(Times { term_us: 9_000_000, kill_us: 9_500_000 }));
        assert_eq!(watch.next(5_000_001, must_not_look), Act::WaitUntil(Some(6_000_000)));
    }

    #[test]
    fn who_wakes_past_everything_kills_at_once() {
        let mut watch = guarding();
        assert_eq!(watch.next(KILL_US + 1, must_not_look), Act::Kill(group()));
    }

    #[test]
    fn a_loss_that_is_known_early_brings_sigterm_forward_and_leaves_sigkill() {
        let mut watch = guarding();
        let times = Times { term_us: TERM_US, kill_us: KILL_US }.brought_forward(7);
        watch.told(Order::By(times));
        assert_eq!(watch.next(8, must_not_look), Act::Terminate(group()));
        assert_eq!(watch.next(9, must_not_look), Act::WaitUntil(Some(KILL_US)));
    }

    #[test]
    fn alone_it_terminates_at_once_and_kills_in_time() {
        let mut watch = guarding();
        watch.left_alone(10);
        assert_eq!(watch.next(10, |_| false), Act::Terminate(group()));
        assert_eq!(watch.next(10, |_| false), Act::WaitUntil(Some(10 + LOOK_EVERY_US)));
        assert_eq!(watch.next(KILL_US - 1, |_| false), Act::WaitUntil(Some(KILL_US)));
        assert_eq!(watch.next(KILL_US, |_| false), Act::Kill(group()));
        assert_eq!(watch.next(KILL_US, |_| false), Act::Leave);
    }

    #[test]
    fn alone_it_kills_earlier_if_told_so() {
        let mut watch = guarding();
        watch.told(Order::Guard { group: group(), survives_us: 1_000 });
        assert_eq!(watch.next(0, must_not_look), Act::WaitUntil(Some(TERM_US)));
        watch.left_alone(10);
        assert_eq!(watch.next(10, |_| false), Act::Terminate(group()));
        assert_eq!(watch.next(10, |_| false), Act::WaitUntil(Some(1_010)));
        assert_eq!(watch.next(1_010, |_| false), Act::Kill(group()));
    }

    #[test]
    fn an_empty_group_is_never_signalled() {
        let mut watch = guarding();
        watch.leader_ended();
        assert_eq!(watch.next(10, |_| false), Act::WaitUntil(Some(10 + LOOK_EVERY_US)));
        assert_eq!(watch.next(KILL_US, |_| true), Act::Leave);
        let mut watch = guarding();
        watch.left_alone(10);
        assert_eq!(watch.next(10, |_| true), Act::Leave);
    }

    #[test]
    fn what_the_leader_left_behind_is_ended_too() {
        let mut watch = guarding();
        watch.leader_ended();
        assert_eq!(watch.next(TERM_US, |_| false), Act::Terminate(group()));
        assert_eq!(watch.next(KILL_US, |_| false), Act::Kill(group()));
        assert_eq!(watch.next(KILL_US, |_| false), Act::WaitUntil(Some(KILL_US + LOOK_EVERY_US)));
        assert_eq!(watch.next(KILL_US, |_| true), Act::Leave);
    }

    #[test]
    fn without_a_group_there_is_nothing_to_do() {
        let mut watch = Watch::default();
        assert_eq!(watch.next(KILL_US, must_not_look), Act::WaitUntil(None));
        watch.left_alone(10);
        assert_eq!(watch.next(KILL_US, must_not_look), Act::Leave);
    }
}
