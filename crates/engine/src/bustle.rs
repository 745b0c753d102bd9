//! Whether requests come one after the other, each soon after the answer before: whoever carries them had better look out for
//! the next than go to sleep and be woken for it. Knows times and nothing else; who looks out, and how, is the doors'
//! business.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use tokio::sync::Notify;

use crate::limits::{DOORS_LOOK_OUT_US, FEW_TOLD_MAX};

/// When something was last asked and told. Times are raw.
#[derive(Debug, Default)]
pub(crate) struct Bustle {
    asked_us: AtomicU64,
    /// Zero when many were told at once: they bring work enough, and need their processor for it.
    few_told_us: AtomicU64,
    /// From the last question before that to the answer.
    answered_in_us: AtomicU64,
    begun: Notify,
}

impl Bustle {
    /// Something is asked. Soon after few were told something, that is one of them, who goes on.
    pub fn asked(&self, now_us: u64) {
        // What arrives together is one arrival.
        if self.asked_us.load(Relaxed) != now_us {
            self.asked_us.store(now_us, Relaxed);
            if now_us.saturating_sub(self.few_told_us.load(Relaxed)) < DOORS_LOOK_OUT_US {
                self.begun.notify_one();
            }
        }
    }

    /// So many are told something.
    pub fn told(&self, now_us: u64, how_many: usize) {
        let few = how_many <= FEW_TOLD_MAX;
        self.answered_in_us.store(now_us.saturating_sub(self.asked_us.load(Relaxed)), Relaxed);
        self.few_told_us.store(if few { now_us } else { 0 }, Relaxed);
    }

    /// Waits until somebody goes on.
    pub async fn begun(&self) {
        self.begun.notified().await;
    }

    /// Whether something was asked or told just now, and not to many; or an answer is under way that does not take long.
    pub fn lasts(&self, now_us: u64) -> bool {
        let (few_told_us, asked_us) = (self.few_told_us.load(Relaxed), self.asked_us.load(Relaxed));
        let answered_soon = self.answered_in_us.load(Relaxed) < DOORS_LOOK_OUT_US;
        let comes_soon = few_told_us >= asked_us || answered_soon;
        let since_us = now_us.saturating_sub(asked_us.max(few_told_us));
        few_told_us > 0 && comes_soon && since_us < DOORS_LOOK_OUT_US
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
        let bustle = Bustle::default();
        bustle.asked(1_000_000);
        assert!(!bustle.lasts(1_000_000), "nobody was told anything");
        bustle.told(1_000_100, 1);
        assert!(!has_begun(&bustle), "one who asks once");
        let asked_us = 1_000_100 + DOORS_LOOK_OUT_US;
        bustle.asked(asked_us);
        assert!(!has_begun(&bustle), "one who takes his time");
        bustle.told(asked_us + 1, FEW_TOLD_MAX);
        let asked_us = asked_us + DOORS_LOOK_OUT_US;
        bustle.asked(asked_us);
        assert!(has_begun(&bustle));
        assert!(!has_begun(&bustle), "once for each who goes on");
        assert!(bustle.lasts(asked_us) && bustle.lasts(asked_us + DOORS_LOOK_OUT_US - 1));
        assert!(!bustle.lasts(asked_us + DOORS_LOOK_OUT_US));
        let told_us = asked_us + 5 * DOORS_LOOK_OUT_US;
        bustle.told(told_us, 1);
        assert!(bustle.lasts(told_us + DOORS_LOOK_OUT_US - 1), "an answer may bring the next question");
        assert!(!bustle.lasts(told_us + DOORS_LOOK_OUT_US));
    }

    #[test]
    fn an_answer_is_looked_out_for_while_they_do_not_take_long() {
        let bustle = Bustle::default();
        let mut now_us = 1_000_000;
        bustle.told(now_us, 1);
        for (takes_us, looked_out_for) in
            [(DOORS_LOOK_OUT_US - 1, false), (DOORS_LOOK_OUT_US, true), (1, false), (1, true)]
        {
            now_us += 1;
            bustle.asked(now_us);
            assert!(has_begun(&bustle), "whoever took long may be told something soon the next time");
            assert_eq!(bustle.lasts(now_us + DOORS_LOOK_OUT_US - 1), looked_out_for);
            assert!(!bustle.lasts(now_us + DOORS_LOOK_OUT_US));
            now_us += takes_us;
            bustle.told(now_us, 1);
        }
    }

    #[test]
    fn many_who_go_on_bring_work_enough() {
        let bustle = Bustle::default();
        bustle.told(1_000_000, FEW_TOLD_MAX + 1);
        bustle.asked(1_000_001);
        assert!(!has_begun(&bustle) && !bustle.lasts(1_000_001));
    }
}
