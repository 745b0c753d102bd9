//! Whoever writes answers down in the form in which they leave: a door's trade, done where the answer is made, while all that it
//! speaks of is at hand. The engine knows nothing of that form but that it is bytes.

use leasehold_state_machine::answer::Answer;

/// Writes answers for conversations. Runs on the threads that turn the engine.
pub trait Scribe: Send {
    /// Appends the answer to the request of this number. False, and nothing is appended, for an answer that is told as it is.
    fn write(&mut self, number: u64, answer: &Answer, into: &mut Vec<u8>) -> bool;
}

/// Writes nothing: every answer is told as it is.
pub(crate) struct NoScribe;

impl Scribe for NoScribe {
    fn write(&mut self, _: u64, _: &Answer, _: &mut Vec<u8>) -> bool {
        false
    }
}
