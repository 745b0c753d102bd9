//! fenced: no byte of a file is ever overwritten under an older token, whatever clients believe and whatever the network
//! keeps back. Beside it stands an unfenced control, a register that takes every write as it comes and looks at no
//! token: how often that one is overwritten by a holder of the past is counted, and shows that there was something to
//! fence off.
//!
//! Catches: a fence that does not hold; and, by a count that stays at zero, a run in which nobody ever tried it.

use std::collections::BTreeMap;

use leasehold_state_machine::command::WriteFile;
use leasehold_state_machine::event::Event;
use leasehold_state_machine::resource::{Kind, Resource};
use leasehold_state_machine::words::Mode;

use super::{Committed, Verdict, Violation};

/// See above.
#[derive(Clone, Debug, Default)]
pub struct Fenced {
    /// By file, the token under which each byte was written.
    bytes: BTreeMap<u64, Vec<u64>>,
    /// The highest token under which anything was written at a path.
    paths: BTreeMap<Resource, u64>,
}

/// The register that looks at no token.
#[derive(Clone, Debug, Default)]
pub struct Control {
    /// Exclusive leases on paths.
    granted: BTreeMap<u64, Resource>,
    /// The highest token whose write it has taken, by path.
    highest: BTreeMap<Resource, u64>,
}

impl Fenced {
    /// Takes in an event.
    pub fn committed(&mut self, committed: &Committed) -> Verdict {
        let Event::FileWritten { number, name, lease, offset, bytes, .. } = &committed.event else {
            return Ok(());
        };
        let (start, length) = (usize::try_from(*offset).unwrap_or(usize::MAX), bytes.whole().len());
        let tokens = self.bytes.entry(*number).or_default();
        tokens.resize(tokens.len().max(start + length), 0);
        let path = self.paths.entry(name.path().clone()).or_default();
        let written = &mut tokens[start..start + length];
        // Who holds the path holds all that was ever there; who holds bytes, those.
        let whole = matches!(lease.resource.kind(), Kind::Path(_)).then_some(*path);
        let newest = written.iter().copied().chain(whole).max().unwrap_or(0);
        if newest > lease.token {
            return Err(Violation::new(
                "fenced",
                format!(
                    "event {} writes to {name} under token {}, over what token {newest} has written",
                    committed.seq, lease.token
                ),
            ));
        }
        written.fill(lease.token);
        *path = lease.token.max(*path);
        Ok(())
    }
}

impl Control {
    /// Takes in an event.
    pub fn committed(&mut self, committed: &Committed) {
        if let Event::Granted { token, ask, .. } = &committed.event
            && ask.mode == Mode::Exclusive
            && matches!(ask.resource.kind(), Kind::Path(_))
        {
            self.granted.insert(*token, ask.resource.clone());
        }
    }

    /// A write arrives, and is made. Whether that was a holder of the past over one who came later.
    pub fn write(&mut self, write: &WriteFile) -> bool {
        let (token, path) = (write.proof.token, write.name.path());
        let held = self.granted.get(&token).filter(|held| **held == write.proof.resource);
        if !held.is_some_and(|held| held.covers(path)) {
            return false;
        }
        let highest = self.highest.entry(path.clone()).or_default();
        let stale = token < *highest;
        *highest = token.max(*highest);
        stale
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariants::samples::{FILE, granted, name, proof, written, written_under};
    use leasehold_state_machine::file::{FileBytes, FileName, Offset};

    #[test]
    fn sees_an_older_token_over_a_newer_one() {
        let mut fenced = Fenced::default();
        fenced.committed(&written(1, 10, "a", 0, b"aaaa")).unwrap();
        fenced.committed(&written(2, 12, "a", 0, b"bb")).unwrap();
        assert!(fenced.committed(&written(3, 11, "a", 1, b"c")).is_err());
        assert!(fenced.committed(&written(3, 11, "a", 2, b"c")).is_err(), "a path is all of it");
        let range = |token, text: &str| name(token, &format!("range:{FILE}:{text}"));
        fenced.committed(&written_under(3, range(14, "0-2"), "a", 0, b"dd")).unwrap();
        fenced.committed(&written_under(4, range(13, "2-4"), "a", 2, b"ee")).unwrap();
        assert!(fenced.committed(&written_under(5, range(13, "0-4"), "a", 1, b"ff")).is_err());
    }

    #[test]
    fn the_control_lets_a_holder_of_the_past_write_and_says_so() {
        let mut control = Control::default();
        let write = |token| {
            let name = FileName::parse("a").unwrap();
            WriteFile::new(name, Offset::End, FileBytes::new(*b"x"), proof(token, "path:/a"), None)
        };
        for token in [10, 11] {
            control.committed(&granted(token, token, "path:/a", Mode::Exclusive));
        }
        assert!(!control.write(&write(10)) && !control.write(&write(11)));
        assert!(control.write(&write(10)));
        assert!(!control.write(&write(9)), "never granted");
    }
}
