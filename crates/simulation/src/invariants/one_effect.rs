//! one_effect: a request id has one effect. A repeat gets the same token, session, list of tokens or place in a file; the
//! same id with another payload gets nothing; what was cancelled is not granted afterwards. And what has no id is done
//! no more often than it came in.
//!
//! Catches: ids that are forgotten too young, lost in a crash or left out of a snapshot; a retry that is granted or
//! written twice.

use std::collections::BTreeMap;

use leasehold_state_machine::answer::Answer;
use leasehold_state_machine::command::Command;
use leasehold_state_machine::event::Event;
use leasehold_state_machine::file::FileName;
use leasehold_state_machine::ids::RequestName;

use super::{Committed, Reply, Verdict, Violation};
use crate::ledger::{Ledger, MARK_BYTES};

/// See above.
#[derive(Clone, Debug, Default)]
pub struct OneEffect {
    /// The token that each request was granted, and when.
    grants: BTreeMap<String, (u64, u64)>,
    /// When a cancel of it was answered.
    cancelled_us: BTreeMap<String, u64>,
    /// How often each write to a file was made, by its first bytes, and when first.
    writes: BTreeMap<Vec<u8>, (usize, u64)>,
    /// What each request was told, and when first.
    told: BTreeMap<String, (String, u64)>,
    /// When each request, as the journal names it, was carried out.
    carried_out_us: BTreeMap<RequestName, u64>,
}

/// A request id younger than this is never forgotten.
const REMEMBERED_US: u64 = 120_000_000;

/// The request that an event carries out, if it has an id.
pub fn effect(event: &Event) -> Option<RequestName> {
    let request = match event {
        Event::Granted { ask, .. } => ask.request,
        Event::SessionOpened { request, .. }
        | Event::FileWritten { request, .. }
        | Event::FileDeleted { request, .. } => *request,
        Event::BreakAnswered { request, .. } => Some(*request),
        _ => None,
    };
    request.map(|request| request.name)
}

impl OneEffect {
    /// Takes in an event.
    pub fn committed(&mut self, committed: &Committed, ledger: &Ledger) -> Verdict {
        self.once(committed)?;
        if let Event::FileWritten { name, bytes, .. } = &committed.event {
            return self.written(committed.at_us, name, &bytes.whole(), ledger);
        }
        let Event::Granted { token, ask, .. } = &committed.event else { return Ok(()) };
        let origin = ledger.by_secret(ask.secret).and_then(|attempt| attempt.origin.clone());
        let Some(origin) = origin else { return Ok(()) };
        if self.cancelled_us.get(&origin).is_some_and(|at_us| *at_us < committed.at_us) {
            return Err(violation(format!("request {origin} was granted after it was cancelled")));
        }
        match self.grants.insert(origin.clone(), (*token, committed.at_us)) {
            None => Ok(()),
            Some((first, _)) => {
                Err(violation(format!("request {origin} was granted twice: {first} and {token}")))
            }
        }
    }

    /// Whatever is carried out under an id is carried out once, as long as ids are remembered.
    fn once(&mut self, committed: &Committed) -> Verdict {
        match &committed.event {
            Event::Forgotten { .. } => {
                let young = |at_us: u64| at_us + REMEMBERED_US > committed.at_us;
                self.carried_out_us.retain(|_, at_us| young(*at_us));
                self.grants.retain(|_, (_, at_us)| young(*at_us));
                self.cancelled_us.retain(|_, at_us| young(*at_us));
                self.writes.retain(|_, (_, at_us)| young(*at_us));
                self.told.retain(|_, (_, at_us)| young(*at_us));
            }
            Event::ClientForgotten { client } => self
                .carried_out_us
                .retain(|name, _| !matches!(name, RequestName::Numbered(of, _) if of == client)),
            event => {
                if let Some(name) = effect(event)
                    && self.carried_out_us.insert(name, committed.at_us).is_some()
                {
                    return Err(violation(format!(
                        "event {} carries out a request whose id was carried out before",
                        committed.seq
                    )));
                }
            }
        }
        Ok(())
    }

    /// A write to a file is made.
    fn written(&mut self, at_us: u64, name: &FileName, bytes: &[u8], ledger: &Ledger) -> Verdict {
        let Some(mark) = bytes.first_chunk::<MARK_BYTES>() else { return Ok(()) };
        let (made, _) = self.writes.entry(mark.to_vec()).or_insert((0, at_us));
        *made += 1;
        let (mut arrived, mut with_id) = (0, false);
        for wanted in ledger.writers(bytes) {
            arrived += 1;
            with_id |= wanted.request_id.is_some();
        }
        let most = if with_id { 1 } else { arrived };
        if *made <= most {
            return Ok(());
        }
        Err(violation(format!("a write to {name} that may be made {most} times was made {made} times")))
    }

    /// Takes in a reply.
    pub fn replied(&mut self, reply: &Reply<'_>, ledger: &Ledger) -> Verdict {
        let Some(attempt) = ledger.attempt(reply.to) else { return Ok(()) };
        let Some(origin) = &attempt.origin else { return Ok(()) };
        let told = match (&attempt.command, reply.outcome) {
            (Command::Acquire(ask), Ok(Answer::Lease(view))) => {
                if view.resource != ask.resource || view.mode != ask.mode || view.owner != ask.owner {
                    return Err(violation(format!(
                        "request {origin} was answered with another request's lease"
                    )));
                }
                format!("token {}", view.token)
            }
            (Command::OpenSession { .. }, Ok(Answer::Session(view))) => {
                format!("session {:x?}", view.session.secret().0)
            }
            (Command::Break(_), Ok(Answer::Broke { tokens, free_in_ms })) => {
                format!("broke {tokens:?}, free in {free_in_ms} ms")
            }
            (Command::WriteFile(_), Ok(Answer::Wrote(written))) => format!("{written:?}"),
            (Command::Cancel { .. } | Command::CancelNumber { .. }, Ok(Answer::Cancelled(_))) => {
                self.cancelled_us.entry(origin.clone()).or_insert(reply.at_us);
                return Ok(());
            }
            _ => return Ok(()),
        };
        let (first, _) = self.told.entry(origin.clone()).or_insert_with(|| (told.clone(), reply.at_us));
        if *first == told {
            return Ok(());
        }
        Err(violation(format!("request {origin} was told {first}, and then {told}")))
    }
}

fn violation(sentence: String) -> Violation {
    Violation::new("one_effect", sentence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariants::samples::{granted, proof, written};
    use crate::ledger::tests::{with_acquires, with_write};
    use leasehold_state_machine::event::CancelFound;
    use leasehold_state_machine::words::Mode;

    #[test]
    fn sees_a_request_granted_twice() {
        // The tokens of the samples are the secrets of the attempts.
        let ledger = with_acquires(Some("r"), 2);
        let mut one_effect = OneEffect::default();
        one_effect.committed(&granted(1, 1, "a", Mode::Exclusive), &ledger).unwrap();
        assert!(one_effect.committed(&granted(2, 2, "a", Mode::Exclusive), &ledger).is_err());
        let mut one_effect = OneEffect::default();
        let ledger = with_acquires(None, 2);
        one_effect.committed(&granted(1, 1, "a", Mode::Exclusive), &ledger).unwrap();
        one_effect.committed(&granted(2, 2, "a", Mode::Exclusive), &ledger).unwrap();
    }

    #[test]
    fn sees_an_id_carried_out_twice_and_lets_it_be_forgotten() {
        let ledger = with_acquires(None, 0);
        let named = |seq: u64| {
            let mut granted = granted(seq, seq, "a", Mode::Exclusive);
            granted.at_us = seq * 1_000_000;
            if let Event::Granted { ask, .. } = &mut granted.event {
                let name = RequestName::Chosen(leasehold_state_machine::ids::RequestKey([7, 7]));
                ask.request = Some(leasehold_state_machine::event::RequestMark {
                    name,
                    payload: leasehold_state_machine::ids::Payload(0),
                });
            }
            granted
        };
        let mut one_effect = OneEffect::default();
        one_effect.committed(&named(1), &ledger).unwrap();
        assert!(one_effect.clone().committed(&named(2), &ledger).is_err());
        let mut forgotten = named(200);
        forgotten.event = Event::Forgotten { requests_before: 9, tombstones_before: 9 };
        one_effect.committed(&forgotten, &ledger).unwrap();
        one_effect.committed(&named(201), &ledger).unwrap();
    }

    #[test]
    fn sees_a_write_made_twice() {
        let ledger = with_write(proof(10, "path:/a"), b"the bytes");
        let mut one_effect = OneEffect::default();
        one_effect.committed(&written(1, 10, "a", 0, b"the bytes"), &ledger).unwrap();
        assert!(one_effect.committed(&written(2, 10, "a", 9, b"the bytes"), &ledger).is_err());
        assert!(one_effect.committed(&written(2, 10, "a", 9, b"not asked for"), &ledger).is_err());
    }

    #[test]
    fn sees_a_grant_after_a_cancel() {
        let ledger = with_acquires(Some("r"), 1);
        let mut one_effect = OneEffect::default();
        one_effect.cancelled_us.insert("w/r".into(), 500);
        assert!(one_effect.committed(&granted(1, 1, "a", Mode::Exclusive), &ledger).is_err());
        let outcome = Ok(Answer::Cancelled(CancelFound::Unknown));
        one_effect.replied(&Reply { at_us: 1, to: (1, 1), outcome: &outcome }, &ledger).unwrap();
    }

    #[test]
    fn sees_a_repeat_that_is_told_something_else() {
        let mut ledger = with_acquires(None, 0);
        let command = Command::Break(Box::new(leasehold_state_machine::command::Break {
            resource: leasehold_state_machine::resource::Resource::parse("a").unwrap(),
            reason: leasehold_state_machine::words::Reason::parse("because").unwrap(),
            force: false,
            token: None,
            request_id: Some(leasehold_state_machine::words::RequestId::parse("b").unwrap()),
            broken: Default::default(),
        }));
        let attempt = crate::ledger::Attempt {
            socket_us: 0,
            arrived_us: 0,
            turned_us: Some(0),
            certain: true,
            closed_us: None,
            secret: leasehold_state_machine::ids::Secret([9, 9]),
            origin: crate::ledger::origin(&command),
            command,
        };
        ledger.accepted((1, 1), attempt);
        let mut one_effect = OneEffect::default();
        let broke = |token| Ok(Answer::Broke { tokens: vec![token], free_in_ms: 5 });
        one_effect.replied(&Reply { at_us: 1, to: (1, 1), outcome: &broke(1) }, &ledger).unwrap();
        one_effect.replied(&Reply { at_us: 2, to: (1, 1), outcome: &broke(1) }, &ledger).unwrap();
        assert!(one_effect.replied(&Reply { at_us: 3, to: (1, 1), outcome: &broke(2) }, &ledger).is_err());
    }
}
