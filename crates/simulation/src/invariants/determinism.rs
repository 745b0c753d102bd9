//! determinism: the same journal gives the same state. (That the same seed gives the same run, byte for byte, is
//! checked by running seeds twice.)
//!
//! Catches: a decision that changes durable state without an event, a field that a snapshot leaves out, an order that
//! depends on a hash map.

use leasehold_state_machine::Machine;

use super::{Verdict, Violation};

/// Compares the durable state of two machines.
pub fn compare(what: &str, replayed: &Machine, other: &Machine) -> Verdict {
    let (mut left, mut right) = (Vec::new(), Vec::new());
    replayed.write_snapshot(&mut left);
    other.write_snapshot(&mut right);
    if left == right {
        return Ok(());
    }
    let at = left.iter().zip(&right).take_while(|(a, b)| a == b).count();
    let sentence = format!(
        "{what}: the state replayed to event {} differs from that at event {}: {} and {} bytes, first at byte {at}",
        replayed.seq(),
        other.seq(),
        left.len(),
        right.len()
    );
    Err(Violation::new("determinism", sentence))
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_state_machine::event::Event;
    use leasehold_state_machine::ids::HashKey;
    use leasehold_state_machine::limits::Limits;

    #[test]
    fn sees_a_difference() {
        let founded = || {
            let mut machine = Machine::new(Limits::default());
            machine.apply(0, &Event::Founded { key: HashKey([1, 2]) });
            machine
        };
        let mut other = founded();
        compare("test", &founded(), &other).unwrap();
        other.apply(0, &Event::GrantsHeld { for_ms: 1 });
        assert!(compare("test", &founded(), &other).is_err());
    }
}
