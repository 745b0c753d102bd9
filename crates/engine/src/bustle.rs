//! Whether requests come one after the other, each soon after the answer before: whoever carries them had better look out for
//! the next than go to sleep and be woken for it. Knows times and nothing else; who looks out, and how, is the doors'
//! business.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use tokio::sync::Notify;

use crate::limits::{
    FEW_TOLD_MAX, LOOK_OUT_FOR_ANSWER_US, LOOK_OUT_ONE_BY_ONE_US, LOOK_OUT_US, ONE_BY_ONE_MAX,
};

/// When something was last asked and told. Times are raw.
#[derive(Debug, Default)]
pub(crate) struct Bustle {
    asked_us: AtomicU64,
    told_us: AtomicU64,
    /// How many were told something then.
    told: AtomicUsize,
    /// From the last question before that to the answer.
    answered_in_us: AtomicU64,
    begun: Notify,
}

impl Bustle {
    /// Something is asked. Soon after somebody was told something, that is one of them, who goes on.
    pub fn asked(&self, now_us: u64) {
        // What arrives together is one arrival.
        if self.asked_us.load(Relaxed) != now_us {
            self.asked_us.store(now_us, Relaxed);
            let told = self.told.load(Relaxed);
            let soon_us = if told == 0 || told > FEW_TOLD_MAX {
                // They bring work enough, and need their processor for it.
                0
            } else if told <= ONE_BY_ONE_MAX {
                LOOK_OUT_ONE_BY_ONE_US
            } else {
                LOOK_OUT_US
            };
            if now_us.saturating_sub(self.told_us.load(Relaxed)) < soon_us {
                self.begun.notify_one();
            }
        }
    }

    /// So many are told something.
    pub fn told(&self, now_us: u64, how_many: usize) {
        self.answered_in_us.store(now_us.saturating_sub(self.asked_us.load(Relaxed)), Relaxed);
        self.told.store(how_many, Relaxed);
        self.told_us.store(now_us, Relaxed);
    }

    /// Waits until somebody goes on.
    pub async fn begun(&self) {
        self.begun.notified().await;
    }

    /// Whether an answer is under way that does not take long, to few; or a question of those who were told something just now and go
    /// on one by one. Where more of them go on, it is they who keep their processor awake.
    pub fn lasts(&self, now_us: u64) -> bool {
        let (told_us, asked_us) = (self.told_us.load(Relaxed), self.asked_us.load(Relaxed));
        let answer_is_under_way = asked_us > told_us;
        let patience_us = match self.told.load(Relaxed) {
            1..=ONE_BY_ONE_MAX if !answer_is_under_way => LOOK_OUT_ONE_BY_ONE_US,
            1..=FEW_TOLD_MAX if answer_is_under_way => {
                if self.answered_in_us.load(Relaxed) < LOOK_OUT_FOR_ANSWER_US {
                    LOOK_OUT_FOR_ANSWER_US
                } else {
                    // The disk is slow, or was once: no more than another question would be worth.
                    LOOK_OUT_US
                }
            }
            _ => 0,
        };
        now_us.saturating_sub(asked_us.max(told_us)) < patience_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Waker};

    fn has_begun(bustle: &Bustle) -> bool {
        pin!(bustle.begun()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn it_begins_with_who_goes_on_and_ends_with_who_does_not() {
        for (how_many, soon_us, looked_out_us) in [
            (1, LOOK_OUT_ONE_BY_ONE_US, LOOK_OUT_ONE_BY_ONE_US),
            (ONE_BY_ONE_MAX, LOOK_OUT_ONE_BY_ONE_US, LOOK_OUT_ONE_BY_ONE_US),
            (ONE_BY_ONE_MAX + 1, LOOK_OUT_US, 0),
            (FEW_TOLD_MAX, LOOK_OUT_US, 0),
        ] {
            let bustle = Bustle::default();
            bustle.asked(1_000_000);
            assert!(!bustle.lasts(1_000_000), "nobody was told anything");
            bustle.told(1_000_100, how_many);
            assert!(!has_begun(&bustle), "one who asks once");
            let asked_us = 1_000_100 + soon_us;
            bustle.asked(asked_us);
            assert!(!has_begun(&bustle), "one who takes his time");
            let told_us = asked_us + LOOK_OUT_FOR_ANSWER_US;
            bustle.told(told_us, how_many);
            let asked_us = told_us + soon_us - 1;
            bustle.asked(asked_us);
            assert!(has_begun(&bustle));
            assert!(!has_begun(&bustle), "once for each who goes on");
            assert!(bustle.lasts(asked_us) && bustle.lasts(asked_us + LOOK_OUT_US - 1));
            assert!(!bustle.lasts(asked_us + LOOK_OUT_US), "the last answer took long");
            let told_us = asked_us + LOOK_OUT_US;
            bustle.told(told_us, how_many);
            let looked_out =
                (0..1_000).take_while(|after_us| bustle.lasts(told_us + after_us)).count() as u64;
            assert_eq!(
                looked_out, looked_out_us,
                "an answer to one of {how_many} may bring the next question"
            );
        }
    }

    #[test]
    fn an_answer_is_looked_out_for_while_they_do_not_take_long() {
        for how_many in [1, FEW_TOLD_MAX] {
            let bustle = Bustle::default();
            let mut now_us = 1_000_000;
            bustle.told(now_us, how_many);
            for (takes_us, looked_out_us) in [
                (LOOK_OUT_FOR_ANSWER_US - 1, LOOK_OUT_US),
                (LOOK_OUT_FOR_ANSWER_US, LOOK_OUT_FOR_ANSWER_US),
                (1, LOOK_OUT_US),
                (1, LOOK_OUT_FOR_ANSWER_US),
            ] {
                now_us += 1;
                bustle.asked(now_us);
                assert!(bustle.lasts(now_us + looked_out_us - 1));
                assert!(!bustle.lasts(now_us + looked_out_us));
                now_us += takes_us;
                bustle.told(now_us, how_many);
            }
        }
    }

    #[test]
    fn many_who_go_on_bring_work_enough() {
        let bustle = Bustle::default();
        bustle.told(1_000_000, 1);
        bustle.told(1_000_000, FEW_TOLD_MAX + 1);
        bustle.asked(1_000_001);
        assert!(!has_begun(&bustle) && !bustle.lasts(1_000_001));
    }
}
