//! fencing: every grant's token is greater than every earlier one, across restarts.
//!
//! Catches: a token counter that is not journaled, a wall clock set back that takes tokens with it, a lost directory.

use leasehold_state_machine::event::Event;
use leasehold_state_machine::token::TOKEN_END;

use super::{Committed, Verdict, Violation};

/// See above.
#[derive(Debug, Default)]
pub struct Fencing {
    last: u64,
}

impl Fencing {
    /// Takes in an event.
    pub fn committed(&mut self, committed: &Committed) -> Verdict {
        if let Event::Granted { token, .. } = committed.event {
            if token <= self.last || token >= TOKEN_END {
                let sentence = format!("event {} grants token {token} after {}", committed.seq, self.last);
                return Err(Violation::new("fencing", sentence));
            }
            self.last = token;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariants::samples::granted;
    use leasehold_state_machine::words::Mode;

    #[test]
    fn sees_a_token_that_does_not_grow() {
        let mut fencing = Fencing::default();
        fencing.committed(&granted(1, 10, "a", Mode::Shared)).unwrap();
        fencing.committed(&granted(2, 11, "a", Mode::Shared)).unwrap();
        assert!(fencing.committed(&granted(3, 11, "a", Mode::Shared)).is_err());
        assert!(fencing.committed(&granted(3, 5, "b", Mode::Shared)).is_err());
        assert!(fencing.committed(&granted(3, TOKEN_END, "b", Mode::Shared)).is_err());
    }
}
