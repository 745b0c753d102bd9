//! register: no update is ever lost at a resource that compares tokens, whatever clients believe, however long they think,
//! and whatever the network keeps back. Who writes back what it has read finds that nobody has written in between.
//!
//! Catches: two leases with one token, a token that is lower than that of an earlier holder, anything else by which a holder
//! of the past comes between a holder's read and its write.

use leasehold_state_machine::resource::Resource;

use super::{Verdict, Violation};

/// An update that the register makes.
#[derive(Clone, Copy, Debug)]
pub struct Update<'a> {
    /// Of what.
    pub cell: &'a Resource,
    /// Under which token.
    pub token: u64,
    /// What its writer had read.
    pub read: u64,
    /// What it finds.
    pub found: u64,
}

impl Update<'_> {
    /// Judges it.
    pub fn judge(&self) -> Verdict {
        let Update { cell, token, read, found } = self;
        if read == found {
            return Ok(());
        }
        let sentence = format!(
            "{cell} is written under token {token} over update {found}, which its writer had not seen: it had read {read}"
        );
        Err(Violation::new("register", sentence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sees_a_lost_update() {
        let cell = &Resource::parse("build").unwrap();
        Update { cell, token: 1, read: 4, found: 4 }.judge().unwrap();
        assert!(Update { cell, token: 1, read: 4, found: 5 }.judge().is_err());
    }
}
