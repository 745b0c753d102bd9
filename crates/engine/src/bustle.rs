//! Whether requests come one after the other, each soon after the answer before: whoever carries them had better look out for
//! the next than go to sleep and be woken for it. Knows times and nothing else; who looks out, and how, is the doors'
//! business.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use tokio::sync::Notify;

use crate::limits::{
    FEW_TOLD_MAX, LOOK_OUT_FOR_ANSWER_US, LOOK_OUT_ONE_BY_ONE_US, LOOK_OUT_US, ONE_BY_ONE_MAX,
};

/// When something was last asked and told. Times are raw.
#[derive(Debug, Default)]
pub(crate) struct Bustle {
    asked_us: AtomicU64,
    told_us: AtomicU64,
    /// How long those who were told then are looked out for.
    patience_us: AtomicU64,
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
            if now_us.saturating_sub(self.told_us.load(Relaxed)) < self.patience_us.load(Relaxed) {
                self.begun.notify_one();
            }
        }
    }

    /// So many are told something.
    pub fn told(&self, now_us: u64, how_many: usize) {
        let patience_us = if how_many <= ONE_BY_ONE_MAX {
            LOOK_OUT_ONE_BY_ONE_US
        } else if how_many <= FEW_TOLD_MAX {
            LOOK_OUT_US
        } else {
            // They bring work enough, and need their processor for it.
            0
        };
        self.answered_in_us.store(now_us.saturating_sub(self.asked_us.load(Relaxed)), Relaxed);
        self.patience_us.store(patience_us, Relaxed);
        self.told_us.store(now_us, Relaxed);
    }

    /// Waits until somebody goes on.
    pub async fn begun(&self) {
        self.begun.notified().await;
    }

    /// Whether something was asked or told just now, and not to many; or an answer is under way that does not take long.
    pub fn lasts(&self, now_us: u64) -> bool {
        let (told_us, asked_us) = (self.told_us.load(Relaxed), self.asked_us.load(Relaxed));
        let patience_us = match self.patience_us.load(Relaxed) {
            0 => 0,
            for_question_us if told_us >= asked_us => for_question_us,
            _ if self.answered_in_us.load(Relaxed) < LOOK_OUT_FOR_ANSWER_US => LOOK_OUT_FOR_ANSWER_US,
            // The disk is slow, or was once: no more than another question would be worth.
            _ => LOOK_OUT_US,
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
        for (how_many, patience_us) in [
            (1, LOOK_OUT_ONE_BY_ONE_US),
            (ONE_BY_ONE_MAX, LOOK_OUT_ONE_BY_ONE_US),
            (ONE_BY_ONE_MAX + 1, LOOK_OUT_US),
            (FEW_TOLD_MAX, LOOK_OUT_US),
        ] {
            let bustle = Bustle::default();
            bustle.asked(1_000_000);
            assert!(!bustle.lasts(1_000_000), "nobody was told anything");
            bustle.told(1_000_100, how_many);
            assert!(!has_begun(&bustle), "one who asks once");
            let asked_us = 1_000_100 + patience_us;
            bustle.asked(asked_us);
            assert!(!has_begun(&bustle), "one who takes his time");
            let told_us = asked_us + LOOK_OUT_FOR_ANSWER_US;
            bustle.told(told_us, how_many);
            let asked_us = told_us + patience_us - 1;
            bustle.asked(asked_us);
            assert!(has_begun(&bustle));
            assert!(!has_begun(&bustle), "once for each who goes on");
            assert!(bustle.lasts(asked_us) && bustle.lasts(asked_us + LOOK_OUT_US - 1));
            assert!(!bustle.lasts(asked_us + LOOK_OUT_US), "the last answer took long");
            let told_us = asked_us + LOOK_OUT_US;
            bustle.told(told_us, how_many);
            assert!(bustle.lasts(told_us + patience_us - 1), "an answer may bring the next question");
            assert!(!bustle.lasts(told_us + patience_us));
        }
    }

    #[test]
    fn an_answer_is_looked_out_for_while_they_do_not_take_long() {
        let bustle = Bustle::default();
        let mut now_us = 1_000_000;
        bustle.told(now_us, 1);
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
            bustle.told(now_us, 1);
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
