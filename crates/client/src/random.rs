//! Chance, for jitter and for ids that nobody else has.

/// A random number.
pub(crate) fn number() -> u64 {
    // A system without randomness would make ids that collide: better to have none.
    #[expect(clippy::expect_used, reason = "there is no lock service without randomness")]
    getrandom::u64().expect("the system gives random numbers")
}

/// A random number up to and including this.
pub(crate) fn up_to(most: u64) -> u64 {
    match most.checked_add(1) {
        Some(count) => number() % count,
        None => number(),
    }
}

/// An id that nobody else has: 128 random bits in hexadecimal digits.
pub(crate) fn id() -> String {
    format!("{:016x}{:016x}", number(), number())
}
