//! Linearizability: is there one order of everything that was done to one object, each thing at one moment between its
//! sending and its answer, in which every answer is right?
//!
//! Wing and Gong's search, in the order of the answers: whenever one arrives, a way of ordering that is still possible must be
//! able to place it now, after whatever else is under way. What was never answered may be placed at any time, or never.
//!
//! One way is followed first, with a few steps back where it comes to nothing: a right answer is found so in almost no time. Only
//! if that fails are all ways followed at once, those that come to the same as one.

mod all_ways;
pub(crate) mod lock;
mod one_way;
pub(crate) mod register;
mod way;

use std::fmt::Debug;
use std::hash::Hash;

/// One object as a state machine.
pub(crate) trait Model {
    /// What it is in.
    type State: Clone + Eq + Ord + Hash + Debug;

    /// At the beginning.
    fn initial(&self) -> Self::State;

    /// What an operation makes of a state, if its answer is right there.
    fn step(&self, state: &Self::State, operation: usize) -> Option<Self::State>;

    /// Whether an operation that is not placed yet can neither be placed nor change anything any more, whatever comes.
    fn is_spent(&self, state: &Self::State, operation: usize) -> bool;

    /// What may have become of a state by itself at this moment.
    fn drift(&self, state: &Self::State, now_us: u64) -> Vec<Self::State>;
}

/// When one operation of an object was under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub invoked_us: u64,
    /// None: it may take effect at any time, or never.
    pub answered_us: Option<u64>,
}

/// What is wrong.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The answer of this operation is right in no order; these, or the newest of them, were under way with it.
    Impossible { operation: usize, among: Vec<usize> },
    /// There are too many orders to follow at this operation.
    TooManyWays { operation: usize },
}

/// One operation begins or is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Moment {
    at_us: u64,
    /// What ends and begins at one moment was under way together.
    answered: bool,
    operation: usize,
}

/// Looks for an order. At most `ways_max` are followed at a time.
pub(crate) fn search<M: Model>(model: &M, spans: &[Span], ways_max: usize) -> Result<(), Fault> {
    let mut moments = Vec::with_capacity(2 * spans.len());
    for (operation, span) in spans.iter().enumerate() {
        moments.push(Moment { at_us: span.invoked_us, answered: false, operation });
        moments.extend(span.answered_us.map(|at_us| Moment { at_us, answered: true, operation }));
    }
    moments.sort_unstable();
    if one_way::is_there(model, spans, &moments) {
        return Ok(());
    }
    all_ways::follow(model, spans, &moments, ways_max)
}
