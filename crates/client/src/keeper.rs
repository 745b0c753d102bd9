//! When to renew, and when a lease is lost: the client's half of the promise, as plain arithmetic. Time is an argument; there
//! is no clock in here, no task and no server, so that the simulator runs this very code with clocks that drift and
//! clients that stop.
//!
//! All times are microseconds of one clock, the client's boot-time clock. An answer counts from the moment its attempt was
//! *sent*: it may have been under way for any length of time.

use leasehold_planted::{Bug, planted};

/// A renewal is repeated after this part of the TTL...
const REPEAT_PART: u64 = 24;
/// ...and never faster than this, as little as renewals that are confirmed.
pub const REPEAT_MIN_US: u64 = 20_000;
/// A grant that came after a wait of more TTLs than this is confirmed before it is believed.
const WAIT_TTLS_MAX: u64 = 10;

/// An answer of the server that speaks for a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirmation {
    /// When the attempt that it answers was sent.
    pub sent_us: u64,
    /// When it was heard.
    pub heard_us: u64,
    /// The lease's time to live.
    pub ttl_us: u64,
    /// How long after sending to renew.
    pub renew_after_us: u64,
    /// How long after sending to stop.
    pub stop_after_us: u64,
}

/// What became of a confirmation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirmed {
    /// The lease may be relied on up to this moment.
    Until(u64),
    /// The answer came too late to believe it by itself: one renewal must be confirmed first.
    AskAgain,
    /// It had been lost before, and that is for good.
    Lost,
}

/// How a lease stands at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing was believed yet.
    Unconfirmed,
    /// Confirmed not long ago.
    Safe {
        /// What is left until it is lost, if no renewal is confirmed.
        left_us: u64,
    },
    /// A renewal is overdue. The lease is still held; finish, or prepare to stop.
    InJeopardy {
        /// What is left until it is lost, if no renewal is confirmed.
        left_us: u64,
    },
    /// Over, for good.
    Lost,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send a renewal now, and say so with [`Keeper::renewal_sent`].
    Renew,
    /// Nothing before this moment.
    WaitUntil(u64),
    /// It is over.
    Lost,
}

/// Keeps one lease, or one session with all its leases.
#[derive(Clone, Debug)]
pub struct Keeper {
    renewal: Renewal,
    progress: Option<Progress>,
    ttl_us: u64,
    /// Up to when it is believed; none before the first confirmation that can be relied on.
    until_us: Option<u64>,
    /// Up to when a first confirmation is sought.
    seek_until_us: u64,
    renew_at_us: u64,
    lost: bool,
}

/// When a lease is renewed by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Renewal {
    /// By the server's timetable: at a third of the TTL.
    #[default]
    Timetable,
    /// This long after each confirmed sending, if that is earlier; at least 20 ms.
    Every(u64),
    /// Never: it ends when its time has run.
    Never,
}

impl Renewal {
    /// This long after each confirmed sending.
    pub fn every(every: std::time::Duration) -> Renewal {
        Renewal::Every(u64::try_from(every.as_micros()).unwrap_or(u64::MAX))
    }
}

/// Renewal that depends on the holder's progress.
#[derive(Clone, Copy, Debug)]
struct Progress {
    within_us: u64,
    last_us: u64,
}

impl Progress {
    fn is_stuck(&self, now_us: u64) -> bool {
        now_us >= self.last_us.saturating_add(self.within_us)
    }
}

impl Keeper {
    /// For something that has not been confirmed yet.
    pub fn new(renewal: Renewal) -> Keeper {
        Keeper {
            renewal,
            progress: None,
            ttl_us: 0,
            until_us: None,
            seek_until_us: u64::MAX,
            renew_at_us: u64::MAX,
            lost: false,
        }
    }

    /// Renews only while the holder has reported progress within this time; the first report is now.
    pub fn tied_to_progress(mut self, within_us: u64, now_us: u64) -> Keeper {
        self.progress = Some(Progress { within_us, last_us: now_us });
        self
    }

    /// The holder has got on. Gives whether a renewal was held back for want of it and is due now.
    pub fn report_progress(&mut self, now_us: u64) -> bool {
        let Some(progress) = &mut self.progress else { return false };
        let stuck = progress.is_stuck(now_us);
        progress.last_us = progress.last_us.max(now_us);
        stuck && self.renew_at_us <= now_us
    }

    /// Whether its holder has not got on for so long that it is left to run out.
    pub fn is_stuck(&self, now_us: u64) -> bool {
        self.progress.is_some_and(|progress| progress.is_stuck(now_us))
    }

    /// Takes in an answer that speaks for the lease.
    pub fn confirm(&mut self, answer: Confirmation) -> Confirmed {
        let Confirmation { sent_us, heard_us, ttl_us, .. } = answer;
        assert!(sent_us <= heard_us, "an answer is heard after its attempt was sent");
        let sent_us = if planted(Bug::ClientCountsFromReply) { heard_us } else { sent_us };
        if self.look(heard_us) == Standing::Lost && !planted(Bug::LateSuccessRevives) {
            return Confirmed::Lost;
        }
        // The decision was made before it was heard, so that no honest answer reaches further than this. (Whatever numbers
        // are in an answer, there is an end to time.)
        let until_us = sent_us.saturating_add(answer.stop_after_us).min(heard_us.saturating_add(ttl_us / 2));
        let until_us = if planted(Bug::BeliefToDeadline) { until_us + ttl_us / 2 } else { until_us };
        let first = self.until_us.is_none();
        let waited_long = first
            && self.seek_until_us == u64::MAX
            && heard_us - sent_us > ttl_us.saturating_mul(WAIT_TTLS_MAX);
        if until_us <= heard_us || waited_long {
            if first {
                self.ttl_us = ttl_us;
                self.seek_until_us = self.seek_until_us.min(heard_us.saturating_add(ttl_us));
                self.renew_at_us = self.renew_at_us.min(heard_us);
            }
            return self.until_us.map_or(Confirmed::AskAgain, Confirmed::Until);
        }
        if first || self.until_us.is_some_and(|known_us| until_us >= known_us) {
            self.ttl_us = ttl_us;
            self.until_us = Some(until_us);
            self.renew_at_us = match self.renewal {
                Renewal::Timetable => sent_us.saturating_add(answer.renew_after_us),
                Renewal::Every(every_us) => {
                    sent_us.saturating_add(answer.renew_after_us.min(every_us.max(REPEAT_MIN_US)))
                }
                Renewal::Never => u64::MAX,
            };
        }
        self.until_us.map_or(Confirmed::Lost, Confirmed::Until)
    }

    /// How it stands now. Who asks past its time has lost it, whatever any timer did.
    pub fn look(&mut self, now_us: u64) -> Standing {
        let past = match self.until_us {
            Some(until_us) => now_us >= until_us,
            None => now_us >= self.seek_until_us,
        };
        self.lost = past || self.lost && !planted(Bug::LateSuccessRevives);
        match self.until_us {
            _ if self.lost => Standing::Lost,
            None => Standing::Unconfirmed,
            Some(until_us) => {
                let left_us = until_us - now_us;
                // A confirmation is good for half a TTL, and young for a third and a twenty-fourth: an eighth is left.
                if left_us > self.ttl_us / 8 {
                    Standing::Safe { left_us }
                } else {
                    Standing::InJeopardy { left_us }
                }
            }
        }
    }

    /// What to do next.
    pub fn step(&mut self, now_us: u64) -> Step {
        if self.look(now_us) == Standing::Lost {
            return Step::Lost;
        }
        let end_us = self.until_us.unwrap_or(self.seek_until_us);
        // Without progress it is left to run out.
        let stuck = self.is_stuck(now_us);
        if self.renew_at_us > now_us {
            Step::WaitUntil(end_us.min(self.renew_at_us))
        } else if stuck {
            Step::WaitUntil(end_us)
        } else {
            Step::Renew
        }
    }

    /// A renewal was sent; it is repeated until one is confirmed.
    pub fn renewal_sent(&mut self, now_us: u64) {
        self.renew_at_us = now_us.saturating_add((self.ttl_us / REPEAT_PART).max(REPEAT_MIN_US));
    }

    /// It is over, whatever the clock says: the server has said so, or the holder has let it go.
    pub fn lose(&mut self) {
        self.lost = true;
    }

    /// Up to when it is believed.
    pub fn until_us(&self) -> Option<u64> {
        self.until_us
    }

    /// The TTL of the answer that it is believed by; 0 before the first.
    pub fn ttl_us(&self) -> u64 {
        self.ttl_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL_US: u64 = 24_000_000;

    /// An answer to an attempt sent then and decided at once, heard so much later.
    fn answer(sent_us: u64, later_us: u64) -> Confirmation {
        Confirmation {
            sent_us,
            heard_us: sent_us + later_us,
            ttl_us: TTL_US,
            renew_after_us: TTL_US / 3,
            stop_after_us: TTL_US / 2,
        }
    }

    fn begun() -> Keeper {
        let mut keeper = Keeper::new(Renewal::Timetable);
        assert_eq!(keeper.confirm(answer(1_000_000, 500)), Confirmed::Until(13_000_000));
        keeper
    }

    #[test]
    fn counts_from_sending_through_its_three_states() {
        let mut keeper = begun();
        assert_eq!(keeper.look(1_000_500), Standing::Safe { left_us: 11_999_500 });
        assert_eq!(keeper.look(9_999_999), Standing::Safe { left_us: 3_000_001 });
        assert_eq!(keeper.look(10_000_000), Standing::InJeopardy { left_us: 3_000_000 });
        assert_eq!(keeper.look(12_999_999), Standing::InJeopardy { left_us: 1 });
        assert_eq!(keeper.look(13_000_000), Standing::Lost);
        assert_eq!(keeper.look(2_000_000), Standing::Lost, "for good");
    }

    #[test]
    fn renews_at_a_third_and_repeats_every_twenty_fourth() {
        let mut keeper = begun();
        assert_eq!(keeper.step(1_000_500), Step::WaitUntil(9_000_000));
        assert_eq!(keeper.step(9_000_000), Step::Renew);
        keeper.renewal_sent(9_000_000);
        assert_eq!(keeper.step(9_000_001), Step::WaitUntil(10_000_000));
        assert_eq!(keeper.step(10_000_000), Step::Renew);
        assert_eq!(keeper.confirm(answer(9_000_000, 1_000_001)), Confirmed::Until(21_000_000));
        assert_eq!(keeper.step(10_000_001), Step::WaitUntil(17_000_000));
    }

    #[test]
    fn repeats_no_faster_than_it_can_be_answered() {
        let mut keeper = Keeper::new(Renewal::Timetable);
        let short =
            Confirmation { ttl_us: 100_000, renew_after_us: 33_000, stop_after_us: 50_000, ..answer(0, 0) };
        keeper.confirm(short);
        keeper.renewal_sent(33_000);
        assert_eq!(keeper.step(33_001), Step::WaitUntil(50_000));
        assert_eq!(keeper.step(50_000), Step::Lost);
    }

    #[test]
    fn a_late_success_changes_nothing() {
        let mut keeper = begun();
        assert_eq!(keeper.confirm(answer(12_999_000, 1_000)), Confirmed::Lost);
        assert_eq!(keeper.step(13_000_001), Step::Lost);
    }

    #[test]
    fn an_older_answer_never_takes_time_away() {
        let mut keeper = begun();
        assert_eq!(keeper.confirm(answer(9_000_000, 10)), Confirmed::Until(21_000_000));
        assert_eq!(keeper.confirm(answer(8_000_000, 1_000_020)), Confirmed::Until(21_000_000));
        assert_eq!(keeper.step(9_000_030), Step::WaitUntil(17_000_000));
    }

    #[test]
    fn an_older_answer_changes_no_timetable() {
        let mut keeper = begun();
        let older = Confirmation { ttl_us: 10 * TTL_US, ..answer(0, 12_000_000) };
        assert_eq!(keeper.confirm(older), Confirmed::Until(13_000_000));
        assert_eq!(keeper.ttl_us(), TTL_US);
        keeper.renewal_sent(12_000_000);
        assert_eq!(keeper.step(12_000_000), Step::WaitUntil(13_000_000));
        assert_eq!(keeper.look(9_999_999), Standing::Safe { left_us: 3_000_001 });
    }

    #[test]
    fn an_answer_past_its_stop_is_confirmed_first() {
        let mut keeper = Keeper::new(Renewal::Timetable);
        assert_eq!(keeper.confirm(answer(0, 12_000_000)), Confirmed::AskAgain);
        assert_eq!(keeper.look(12_000_000), Standing::Unconfirmed);
        assert_eq!(keeper.step(12_000_000), Step::Renew);
        keeper.renewal_sent(12_000_000);
        assert_eq!(keeper.step(12_000_001), Step::WaitUntil(13_000_000));
        assert_eq!(keeper.confirm(answer(12_000_000, 5)), Confirmed::Until(24_000_000));
    }

    #[test]
    fn what_is_never_confirmed_is_lost_in_the_end() {
        let mut keeper = Keeper::new(Renewal::Timetable);
        keeper.confirm(answer(0, 12_000_000));
        assert_eq!(keeper.step(36_000_000), Step::Lost);
    }

    #[test]
    fn a_grant_after_a_long_wait_is_confirmed_first() {
        let mut keeper = Keeper::new(Renewal::Timetable);
        let waited_us = 10 * TTL_US + 1;
        let granted = Confirmation { stop_after_us: waited_us + TTL_US / 2, ..answer(0, waited_us) };
        assert_eq!(keeper.confirm(granted), Confirmed::AskAgain);
        assert_eq!(keeper.step(waited_us), Step::Renew);
        assert!(matches!(keeper.confirm(answer(waited_us, 5)), Confirmed::Until(_)));

        let mut keeper = Keeper::new(Renewal::Timetable);
        let granted = Confirmation { stop_after_us: 10 * TTL_US + 7, ..answer(0, 10 * TTL_US) };
        assert_eq!(keeper.confirm(granted), Confirmed::Until(10 * TTL_US + 7));
    }

    #[test]
    fn no_answer_is_believed_for_more_than_half_a_ttl() {
        let mut keeper = Keeper::new(Renewal::Timetable);
        let generous = Confirmation { stop_after_us: u64::from(u32::MAX), ..answer(0, 7) };
        assert_eq!(keeper.confirm(generous), Confirmed::Until(7 + TTL_US / 2));
    }

    #[test]
    fn no_number_in_an_answer_is_too_large_for_it() {
        let endless = Confirmation {
            ttl_us: u64::MAX,
            renew_after_us: u64::MAX,
            stop_after_us: u64::MAX,
            ..answer(u64::MAX / 2, 7)
        };
        for renewal in [Renewal::Timetable, Renewal::Every(u64::MAX), Renewal::Never] {
            let mut keeper = Keeper::new(renewal);
            assert!(matches!(keeper.confirm(endless), Confirmed::Until(_)));
            assert!(matches!(keeper.look(endless.heard_us), Standing::Safe { .. }));
            keeper.renewal_sent(endless.heard_us);
            assert!(matches!(keeper.step(endless.heard_us), Step::WaitUntil(_)));
        }
        let mut keeper = Keeper::new(Renewal::Timetable);
        assert_eq!(keeper.confirm(Confirmation { stop_after_us: 0, ..endless }), Confirmed::AskAgain);
        assert_eq!(keeper.step(endless.heard_us), Step::Renew);
    }

    #[test]
    fn renews_more_often_when_told_and_never_when_told() {
        let mut keeper = Keeper::new(Renewal::Every(1_000_000));
        keeper.confirm(answer(0, 10));
        assert_eq!(keeper.step(10), Step::WaitUntil(1_000_000));
        let mut keeper = Keeper::new(Renewal::Every(u64::MAX));
        keeper.confirm(answer(0, 10));
        assert_eq!(keeper.step(10), Step::WaitUntil(TTL_US / 3));
        let mut keeper = Keeper::new(Renewal::Every(0));
        keeper.confirm(answer(0, 10));
        assert_eq!(keeper.step(10), Step::WaitUntil(REPEAT_MIN_US), "and not without a pause");
        let mut keeper = Keeper::new(Renewal::Never);
        keeper.confirm(answer(0, 10));
        assert_eq!(keeper.step(10), Step::WaitUntil(TTL_US / 2));
    }

    #[test]
    fn without_progress_it_is_left_to_run_out() {
        let mut keeper = Keeper::new(Renewal::Timetable).tied_to_progress(5_000_000, 0);
        keeper.confirm(answer(0, 10));
        assert_eq!(keeper.step(10), Step::WaitUntil(8_000_000));
        assert!(!keeper.report_progress(4_000_000));
        assert_eq!(keeper.step(8_000_000), Step::Renew);
        keeper.renewal_sent(8_000_000);
        assert_eq!(keeper.step(9_000_000), Step::WaitUntil(12_000_000), "it is stuck");
        assert!(keeper.report_progress(10_000_000));
        assert_eq!(keeper.step(10_000_000), Step::Renew, "it has got on after all");
        assert_eq!(keeper.step(12_000_000), Step::Lost);
    }

    #[test]
    fn what_the_server_ended_is_over() {
        let mut keeper = begun();
        keeper.lose();
        assert_eq!(keeper.look(1_000_600), Standing::Lost);
        assert_eq!(keeper.confirm(answer(1_000_600, 10)), Confirmed::Lost);
    }
}
