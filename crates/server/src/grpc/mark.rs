//! Which answers a stream's client has, by what it says: every number up to one, but for those still open. Only keeps the
//! newest word; what is remembered across streams and restarts is the state machine's.

use leasehold_state_machine::invalid::Invalid;
use leasehold_state_machine::limits::OPEN_NUMBERS_MAX;

/// The client's newest word.
#[derive(Debug, Default)]
pub struct Mark {
    answered_through: u64,
    /// In order.
    open: Vec<u64>,
    /// Whether the engine still has to hear it.
    untold: bool,
}

impl Mark {
    /// Takes in what a group says. A mark never goes back: of groups that overtook each other the newest counts.
    pub fn take(&mut self, answered_through: u64, mut open: Vec<u64>) -> Result<(), Invalid> {
        if open.len() > OPEN_NUMBERS_MAX {
            let problem =
                format!("at most {OPEN_NUMBERS_MAX} numbers may be open below the last one answered");
            return Err(Invalid::new("open", problem));
        }
        open.retain(|number| *number <= answered_through && !self.has_forgotten(*number));
        open.sort_unstable();
        open.dedup();
        let newer = answered_through > self.answered_through
            || answered_through == self.answered_through && open.len() < self.open.len();
        if newer {
            *self = Mark { answered_through, open, untold: true };
        }
        Ok(())
    }

    /// Whether a number must not be carried out any more.
    pub fn has_forgotten(&self, number: u64) -> bool {
        number <= self.answered_through && self.open.binary_search(&number).is_err()
    }

    /// What the engine still has to hear, once.
    pub fn untold(&mut self) -> Option<(u64, Vec<u64>)> {
        std::mem::take(&mut self.untold).then(|| (self.answered_through, self.open.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_goes_back() {
        let mut mark = Mark::default();
        mark.take(0, vec![]).unwrap();
        assert_eq!(mark.untold(), None);
        mark.take(10, vec![7, 3, 3, 12]).unwrap();
        assert_eq!(mark.untold(), Some((10, vec![3, 7])));
        assert_eq!(mark.untold(), None, "said once");
        for (number, forgotten) in [(1, true), (3, false), (7, false), (10, true), (11, false)] {
            assert_eq!(mark.has_forgotten(number), forgotten, "{number}");
        }
        mark.take(9, vec![]).unwrap();
        mark.take(10, vec![2, 3, 7]).unwrap();
        assert_eq!(mark.untold(), None, "an older word, and one that opens a forgotten number");
        mark.take(10, vec![7]).unwrap();
        assert_eq!(mark.untold(), Some((10, vec![7])));
        mark.take(20, vec![3, 7]).unwrap();
        assert_eq!(mark.untold(), Some((20, vec![7])));
    }

    #[test]
    fn few_may_be_open() {
        let open = |count| Mark::default().take(5000, (1..=count).collect());
        assert!(open(OPEN_NUMBERS_MAX as u64).is_ok());
        assert_eq!(open(OPEN_NUMBERS_MAX as u64 + 1).unwrap_err().field, "open");
    }
}
