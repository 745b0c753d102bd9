//! Tokio's own clock, for code under test that sleeps by it: when a test has paused it, it is turned along with the test's.
//! When it runs, it is left alone.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// How far the two clocks may be apart while time passes.
pub(super) const SLICE_US: u64 = 10_000;

/// Tokio's clock while it is paused, and the moment from which it is turned along.
#[derive(Clone, Copy, Debug)]
pub(super) struct TokioTime {
    began: Instant,
}

impl TokioTime {
    /// None when tokio's clock runs.
    pub fn paused() -> Option<TokioTime> {
        let began = Instant::now();
        let real = std::time::Instant::now();
        while std::time::Instant::now() <= real {
            std::hint::spin_loop();
        }
        // A clock that runs has moved by now.
        (Instant::now() == began).then_some(TokioTime { began })
    }

    /// Lets tokio's clock reach so much. Everything that is due on it meanwhile happens, each at its own moment.
    pub async fn reach(self, passed_us: u64) {
        sleep_until(self.began + Duration::from_micros(passed_us)).await;
    }
}
