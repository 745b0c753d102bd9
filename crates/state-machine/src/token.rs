//! Fencing tokens: a hybrid logical clock in one integer, and the guards that keep a wrong wall clock out of it.

/// 2020-01-01T00:00:00Z in Unix milliseconds: where tokens begin to count.
pub const EPOCH_MS: u64 = 1_577_836_800_000;
/// Tokens stay below this, so that JSON clients keep them exact.
pub const TOKEN_END: u64 = 1 << 53;
/// 2025-01-01T00:00:00Z: an earlier reading is a machine without a clock.
const WALL_MS_MIN: u64 = 1_735_689_600_000;
/// 2080-01-01T00:00:00Z: tokens of later readings would come near their end.
const WALL_MS_MAX: u64 = 3_471_292_800_000;
/// How far a reading may run ahead of what the journal and the boot clock predict.
const AHEAD_MS_MAX: u64 = 24 * 3600 * 1000;

/// Why a wall reading is not used for tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// It reads before 2025.
    TooEarly,
    /// It reads after 2080.
    TooLate,
    /// It is over a day ahead of the prediction, by this much.
    Ahead {
        /// Milliseconds ahead.
        by_ms: u64,
    },
}

/// Whether a wall reading may enter a token, given what the journal and the boot clock predict it to be.
pub fn doubt(wall_ms: u64, predicted_ms: Option<u64>) -> Option<Doubt> {
    if wall_ms < WALL_MS_MIN {
        return Some(Doubt::TooEarly);
    }
    if wall_ms >= WALL_MS_MAX {
        return Some(Doubt::TooLate);
    }
    let by_ms = wall_ms.saturating_sub(predicted_ms?);
    (by_ms > AHEAD_MS_MAX).then_some(Doubt::Ahead { by_ms })
}

/// The token of the next grant. `wall_ms` is a reading that nobody doubts, or none.
pub fn next(last: u64, wall_ms: Option<u64>) -> u64 {
    let clock = wall_ms.map_or(0, |ms| ms.saturating_sub(EPOCH_MS).saturating_mul(4096));
    let token = clock.max(last + 1);
    assert!(token > last && token < TOKEN_END, "tokens only ever grow, and stay below 2^53");
    token
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_790_000_000_000;

    #[test]
    fn grows_whatever_the_clock_does() {
        let first = next(0, Some(NOW));
        assert_eq!(first, (NOW - EPOCH_MS) * 4096);
        assert_eq!(next(first, Some(NOW)), first + 1);
        assert_eq!(next(first, Some(NOW - 1_000_000)), first + 1);
        assert_eq!(next(first, None), first + 1);
        assert!(next(0, Some(WALL_MS_MAX - 1)) < TOKEN_END);
    }

    #[test]
    fn wrong_clocks_are_doubted() {
        assert_eq!(doubt(0, None), Some(Doubt::TooEarly));
        // The first millisecond of 2025, and the last of 2079.
        assert_eq!(doubt(1_735_689_599_999, None), Some(Doubt::TooEarly));
        assert_eq!(doubt(1_735_689_600_000, None), None);
        assert_eq!(doubt(3_471_292_799_999, None), None);
        assert_eq!(doubt(WALL_MS_MAX, None), Some(Doubt::TooLate));
        assert_eq!(doubt(NOW, None), None);
        assert_eq!(doubt(NOW, Some(NOW + 1)), None);
        assert_eq!(doubt(NOW, Some(NOW - AHEAD_MS_MAX)), None);
        assert_eq!(doubt(NOW, Some(NOW - AHEAD_MS_MAX - 1)), Some(Doubt::Ahead { by_ms: AHEAD_MS_MAX + 1 }));
    }
}
