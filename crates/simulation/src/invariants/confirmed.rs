//! confirmed: on a stream, a number whose answer its client says it has is forgotten and never carried out: not when the
//! request was stuck on its way, not on another connection, not after a restart. And such a confirmation never goes back.
//!
//! Catches: a mark that is not journaled or lost in a snapshot, an old mark that arrives late and opens numbers again, a
//! request that is judged before its number.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_state_machine::command::Command;
use leasehold_state_machine::event::Event;
use leasehold_state_machine::ids::{ClientKey, HashKey, RequestName};
use leasehold_state_machine::words::RequestId;

use super::one_effect::effect;
use super::{Committed, Reply, Verdict, Violation};
use crate::ledger::Ledger;

/// See above.
#[derive(Clone, Debug, Default)]
pub struct Confirmed {
    key: HashKey,
    marks: BTreeMap<ClientKey, Mark>,
}

#[derive(Clone, Debug, Default)]
struct Mark {
    answered_through: u64,
    open: BTreeSet<u64>,
    /// When it was decided.
    at_us: u64,
}

impl Mark {
    fn covers(&self, number: u64) -> bool {
        number <= self.answered_through && !self.open.contains(&number)
    }
}

impl Confirmed {
    /// Takes in an event.
    pub fn committed(&mut self, committed: &Committed) -> Verdict {
        match &committed.event {
            Event::Founded { key } => self.key = *key,
            Event::Marked { client, answered_through, open } => {
                let mark = Mark {
                    answered_through: *answered_through,
                    open: open.iter().copied().collect(),
                    at_us: committed.at_us,
                };
                let before = self.marks.insert(*client, mark).unwrap_or_default();
                if *answered_through < before.answered_through {
                    let sentence = format!(
                        "numbers were confirmed up to {} and then up to {answered_through}",
                        before.answered_through
                    );
                    return Err(violation(sentence));
                }
                if let Some(number) = open.iter().find(|number| before.covers(**number)) {
                    return Err(violation(format!("number {number} was confirmed and is open again")));
                }
            }
            Event::ClientForgotten { client } => {
                self.marks.remove(client);
            }
            event => {
                if let Some(RequestName::Numbered(client, number)) = effect(event)
                    && self.marks.get(&client).is_some_and(|mark| mark.covers(number))
                {
                    return Err(violation(format!(
                        "event {} carries out number {number}, whose answer was confirmed",
                        committed.seq
                    )));
                }
            }
        }
        Ok(())
    }

    /// Whether a request comes in after its client has said that it has the answer, and the journal knows.
    pub fn is_late(&self, command: &Command) -> bool {
        self.late_since_us(command).is_some()
    }

    fn late_since_us(&self, command: &Command) -> Option<u64> {
        let (Command::Acquire(leasehold_state_machine::command::Acquire { request_id, .. })
        | Command::OpenSession { request_id, .. }) = command
        else {
            return None;
        };
        let Some(RequestId::Numbered(client, number)) = request_id else { return None };
        let mark = self.marks.get(&self.key.client(client))?;
        mark.covers(*number).then_some(mark.at_us)
    }

    /// Takes in a reply.
    pub fn replied(&self, reply: &Reply<'_>, ledger: &Ledger) -> Verdict {
        let (Some(attempt), Ok(_)) = (ledger.attempt(reply.to), reply.outcome) else { return Ok(()) };
        let since_us = self.late_since_us(&attempt.command);
        if since_us.is_some_and(|since_us| attempt.turned_us.is_some_and(|at_us| at_us > since_us)) {
            let origin = attempt.origin.as_deref().unwrap_or_default();
            return Err(violation(format!(
                "request {origin} came after its answer was confirmed, and was told yes"
            )));
        }
        Ok(())
    }
}

fn violation(sentence: String) -> Violation {
    Violation::new("confirmed", sentence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariants::samples::{ask, committed};
    use leasehold_state_machine::event::RequestMark;
    use leasehold_state_machine::ids::Payload;
    use leasehold_state_machine::words::Mode;

    const CLIENT: ClientKey = ClientKey([1, 2]);

    fn marked(seq: u64, answered_through: u64, open: &[u64]) -> Committed {
        committed(seq, Event::Marked { client: CLIENT, answered_through, open: open.to_vec() })
    }

    fn granted(seq: u64, number: u64) -> Committed {
        let name = RequestName::Numbered(CLIENT, number);
        let mut ask = ask(seq, "a", Mode::Exclusive, 1000);
        ask.request = Some(RequestMark { name, payload: Payload(0) });
        committed(seq, Event::Granted { ticket: seq, slot: 0, token: seq, ask })
    }

    #[test]
    fn sees_a_confirmed_number_carried_out() {
        let mut confirmed = Confirmed::default();
        confirmed.committed(&marked(1, 5, &[3])).unwrap();
        confirmed.committed(&granted(2, 3)).unwrap();
        confirmed.committed(&granted(3, 6)).unwrap();
        assert!(confirmed.committed(&granted(4, 5)).is_err());
        confirmed.committed(&committed(5, Event::ClientForgotten { client: CLIENT })).unwrap();
        confirmed.committed(&granted(6, 5)).unwrap();
    }

    #[test]
    fn sees_a_mark_that_goes_back() {
        let mut confirmed = Confirmed::default();
        confirmed.committed(&marked(1, 5, &[3])).unwrap();
        assert!(confirmed.clone().committed(&marked(2, 4, &[3])).is_err());
        assert!(confirmed.clone().committed(&marked(2, 6, &[4])).is_err());
        confirmed.committed(&marked(2, 6, &[6, 3])).unwrap();
    }
}
