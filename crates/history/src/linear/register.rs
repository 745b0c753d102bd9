//! A register as a state machine: a value, and the greatest token that wrote it. A write under a token is done while none
//! greater has been seen, and refused as stale afterwards; one without a token is always done.

use std::collections::{BTreeMap, HashMap};

use crate::grants::Settings;
use crate::linear::{Fault, Model, Span, search};
use crate::operation::{Kind, Operation, Outcome};
use crate::violation::Violation;

/// What was done. Values are known by number; 0 is nothing.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Written { value: usize, token: Option<u64> },
    Stale { token: u64 },
    Read { value: usize },
}

/// The value and the greatest token seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Content {
    value: usize,
    highest: u64,
}

struct Register {
    deeds: Vec<Deed>,
}

impl Model for Register {
    type State = Content;

    fn initial(&self) -> Content {
        Content::default()
    }

    fn step(&self, state: &Content, operation: usize) -> Option<Content> {
        match self.deeds[operation] {
            Deed::Written { value, token } => {
                let highest = token.unwrap_or(state.highest);
                (highest >= state.highest).then_some(Content { value, highest })
            }
            Deed::Stale { token } => (token < state.highest).then_some(*state),
            Deed::Read { value } => (value == state.value).then_some(*state),
        }
    }

    fn is_spent(&self, state: &Content, operation: usize) -> bool {
        // The greatest token only grows.
        matches!(self.deeds[operation], Deed::Written { token: Some(token), .. } if token < state.highest)
    }

    fn drift(&self, _: &Content, _: u64) -> Vec<Content> {
        Vec::new()
    }
}

/// Judges all registers of a history. Gives what is wrong, and what could not be judged.
pub(crate) fn judge(operations: &[Operation], settings: &Settings) -> (Vec<Violation>, Vec<String>) {
    let mut registers: BTreeMap<&str, Vec<&Operation>> = BTreeMap::new();
    for op in operations {
        let looks = op.kind == Kind::Read && op.list.is_none() && op.outcome == Outcome::Done;
        let writes = op.kind == Kind::Write && op.outcome != Outcome::Refused;
        if looks || writes {
            registers.entry(&op.lock).or_default().push(op);
        }
    }
    let (mut wrong, mut unknown) = (Vec::new(), Vec::new());
    for operations in registers.values() {
        match one(operations, settings.ways_max) {
            Ok(()) => {}
            Err(Fault::Impossible { operation, among }) => wrong.push(Violation::new(
                "linearizable",
                "no order of the operations on this register makes the first answer right; the others were under way with it",
                [operation].into_iter().chain(among).map(|number| operations[number]),
            )),
            Err(Fault::TooManyWays { operation }) => {
                let named = operations[operation];
                unknown.push(format!("too many orders of the operations on a register at: {named}"));
            }
        }
    }
    (wrong, unknown)
}

fn one(operations: &[&Operation], ways_max: usize) -> Result<(), Fault> {
    let mut values: HashMap<&str, usize> = HashMap::new();
    let mut deeds = Vec::new();
    let mut spans = Vec::new();
    for op in operations {
        let next = values.len() + 1;
        let value = op.value.as_deref().map_or(0, |value| *values.entry(value).or_insert(next));
        let answered_us = op.answered_us.filter(|_| op.outcome != Outcome::Unknown);
        spans.push(Span { invoked_us: op.invoked_us, answered_us });
        deeds.push(match (op.kind, op.outcome, op.token) {
            (Kind::Read, ..) => Deed::Read { value },
            (_, Outcome::Lost, Some(token)) => Deed::Stale { token },
            (_, _, token) => Deed::Written { value, token },
        });
    }
    search(&Register { deeds }, &spans, ways_max)
}
