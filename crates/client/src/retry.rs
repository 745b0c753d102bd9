//! How often a call without a deadline of its own is tried, and how long between: exponential backoff with full jitter. Plain
//! arithmetic; it neither sleeps nor calls.

use std::time::Duration;

/// How a call is retried. Retries carry the same request id, so that however often it is sent it happens once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How long one attempt may take.
    pub attempt_timeout: Duration,
    /// Attempts in all, at least 1.
    pub attempts: u32,
    /// The upper end of the first pause; each further one is twice as long.
    pub backoff: Duration,
    /// The longest pause.
    pub backoff_max: Duration,
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy {
            attempt_timeout: Duration::from_secs(2),
            attempts: 5,
            backoff: Duration::from_millis(100),
            backoff_max: Duration::from_secs(30),
        }
    }
}

impl RetryPolicy {
    /// One attempt, and no more.
    pub fn once(attempt_timeout: Duration) -> RetryPolicy {
        RetryPolicy { attempt_timeout, attempts: 1, ..RetryPolicy::default() }
    }

    /// How long to pause before the next attempt, after so many. `chance` is a random number; `recommended` is what the
    /// server asked for, and is never undercut.
    pub fn pause(&self, after_attempts: u32, recommended: Option<Duration>, chance: u64) -> Duration {
        let doubled = after_attempts.saturating_sub(1).min(31);
        let ceiling = self.backoff.saturating_mul(1 << doubled).min(self.backoff_max);
        let ceiling_us = u64::try_from(ceiling.as_micros()).unwrap_or(u64::MAX - 1);
        let jittered = Duration::from_micros(chance % (ceiling_us + 1));
        recommended.map_or(jittered, |recommended| recommended.max(jittered))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_bound_and_are_jittered_in_full() {
        let policy = RetryPolicy::default();
        let longest = |after| (0..5_000).map(|n| policy.pause(after, None, n * 7_919_993)).max().unwrap();
        assert!(longest(1) <= Duration::from_millis(100) && longest(1) > Duration::from_millis(90));
        assert!(longest(2) <= Duration::from_millis(200) && longest(2) > Duration::from_millis(180));
        assert!(longest(40) <= Duration::from_secs(30) && longest(40) > Duration::from_secs(27));
        assert_eq!(policy.pause(1, None, 0), Duration::ZERO);
    }

    #[test]
    fn the_servers_word_is_not_undercut() {
        let policy = RetryPolicy::default();
        assert_eq!(policy.pause(1, Some(Duration::from_secs(3)), 5), Duration::from_secs(3));
        assert!(policy.pause(30, Some(Duration::from_millis(1)), u64::MAX / 3) > Duration::from_millis(1));
    }
}
