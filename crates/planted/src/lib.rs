//! Bugs put in on purpose, to prove that the invariants of the simulation can see. Each is a mistake that somebody could
//! have made, at the place in the code where they would have made it, behind a question: `if planted(Bug::…)`.
//!
//! In an ordinary build the answer is the constant `false`, and nothing of a bug is left. In a build with the feature
//! `planted-bugs` one bug at most can be chosen, for the whole process. Knows nothing of what the bugs break.

#![cfg_attr(not(feature = "planted-bugs"), no_std)]
#![forbid(unsafe_code)]

mod bugs;
#[cfg(feature = "planted-bugs")]
mod choice;

pub use bugs::Bug;
#[cfg(feature = "planted-bugs")]
pub use choice::{Planted, plant, planted};

/// Whether this bug is in. In this build none is.
#[cfg(not(feature = "planted-bugs"))]
#[inline(always)]
pub const fn planted(_: Bug) -> bool {
    false
}
