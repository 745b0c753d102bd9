//! A resource outside of the server that clients change under their leases: numbers that are read, thought about and written
//! back one higher. It compares tokens and refuses an older one than it has seen. Beside it stands an unfenced control, which
//! is sent the same and refuses nothing. What a client believes is not looked at: this is what locks are for, and the final
//! judge of all of it.

use std::collections::BTreeMap;

use leasehold_state_machine::resource::Resource;

use crate::invariants::{Update, Verdict};

/// What there is to change. Each is covered by several of the locks that clients want.
const CELLS: [&str; 9] = [
    "build",
    "deploy",
    "path:/a/b/c",
    "path:/a/bc",
    "path:/log",
    "range:7:2-3",
    "range:7:7-8",
    "range:7:12-13",
    "range:8:100-101",
];

/// The register.
#[derive(Debug, Default)]
pub struct Register {
    cells: BTreeMap<Resource, Cell>,
    /// Counts how often its tokens became worthless.
    era: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    highest: u64,
    value: u64,
    unfenced: u64,
}

/// Something on its way to the register or back.
#[derive(Clone, Debug)]
pub struct Errand {
    /// Whose.
    pub client: usize,
    /// For which of its tasks.
    pub task: u64,
    /// The token of its lease.
    pub token: u64,
    /// What is read or written.
    pub cell: Resource,
    /// What was read, if it is to be written back.
    pub read: Option<Values>,
    era: u64,
}

/// What was read: at the register, and at the control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Values {
    fenced: u64,
    unfenced: u64,
}

/// What the register makes of an errand.
#[derive(Debug, Default)]
pub struct Taken {
    /// The errand on its way back, if the client has more to do.
    pub back: Option<Errand>,
    /// Whether it was refused for its token.
    pub fenced_off: bool,
    /// Whether the control lost an update by it.
    pub control_lost: bool,
    /// What the judge says.
    pub verdict: Option<Verdict>,
}

impl Register {
    /// What a lease on a resource allows to change.
    pub fn cells_of(resource: &Resource) -> Vec<Resource> {
        let cells = CELLS.iter().filter_map(|text| Resource::parse(text).ok());
        cells.filter(|cell| resource.covers(cell)).collect()
    }

    /// An errand that begins with a read.
    pub fn errand(&self, client: usize, task: u64, token: u64, cell: Resource) -> Errand {
        Errand { client, task, token, cell, read: None, era: self.era }
    }

    /// An errand arrives.
    pub fn take(&mut self, mut errand: Errand) -> Taken {
        if errand.era != self.era {
            return Taken::default();
        }
        let cell = self.cells.entry(errand.cell.clone()).or_default();
        let Some(read) = errand.read else {
            // Who reads under a token has shown it: older ones are refused from now on.
            cell.highest = cell.highest.max(errand.token);
            errand.read = Some(Values { fenced: cell.value, unfenced: cell.unfenced });
            return Taken { back: Some(errand), ..Taken::default() };
        };
        let control_lost = cell.unfenced != read.unfenced;
        cell.unfenced = read.unfenced + 1;
        if errand.token < cell.highest {
            return Taken { fenced_off: true, control_lost, ..Taken::default() };
        }
        let Values { fenced: read, .. } = read;
        let Errand { token, cell: name, .. } = &errand;
        let verdict = Update { cell: name, token: *token, read, found: cell.value }.judge();
        cell.highest = errand.token;
        cell.value = read + 1;
        errand.read = None;
        Taken { back: Some(errand), fenced_off: false, control_lost, verdict: Some(verdict) }
    }

    /// An old copy of the server's data was put back and its wall clock set: its tokens may come again. Whoever is on the
    /// way is from before.
    pub fn forget_tokens(&mut self) {
        self.era += 1;
        self.cells.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_an_older_token_where_the_control_loses_an_update() {
        let mut register = Register::default();
        let cell = Resource::parse("build").unwrap();
        let old = register.errand(1, 1, 10, cell.clone());
        let old = register.take(old).back.unwrap();
        let new = register.errand(2, 1, 11, cell);
        let new = register.take(new).back.unwrap();
        let taken = register.take(new);
        assert!(taken.verdict.unwrap().is_ok() && !taken.control_lost);
        let taken = register.take(old);
        assert!(taken.fenced_off && taken.control_lost && taken.back.is_none());
    }

    #[test]
    fn sees_an_update_lost_when_tokens_go_back() {
        let mut register = Register::default();
        let cell = Resource::parse("build").unwrap();
        let first = register.errand(1, 1, 11, cell.clone());
        let first = register.take(first).back.unwrap();
        // The next holder's token is lower: its read does not keep the first one out.
        let next = register.errand(2, 1, 11, cell);
        let next = register.take(next).back.unwrap();
        assert!(register.take(first).verdict.unwrap().is_ok());
        assert!(register.take(next).verdict.unwrap().is_err());
    }

    #[test]
    fn locks_cover_cells() {
        let cells = |text| Register::cells_of(&Resource::parse(text).unwrap()).len();
        assert_eq!(
            (cells("path:/"), cells("path:/a/b"), cells("inode:7"), cells("range:7:5-15")),
            (3, 1, 3, 2)
        );
    }
}
