//! One way of ordering what was done so far, and the ways on from it.

use std::collections::{HashSet, VecDeque};

use crate::linear::{Model, Moment, Span};

/// What everything placed so far has come to, and what is still to be placed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Way<S> {
    pub state: S,
    /// What is under way and not placed yet, in the order in which it began.
    pub left: Vec<usize>,
}

/// The ways on in which one operation is placed by its answer: those that place the least besides come first.
#[derive(Debug)]
pub(super) struct Onward<S> {
    moment: Moment,
    seen: HashSet<Way<S>>,
    open: VecDeque<Way<S>>,
}

impl<S: Clone + Eq + Ord + std::hash::Hash> Onward<S> {
    /// From these.
    pub fn from(ways: impl IntoIterator<Item = Way<S>>, moment: Moment) -> Onward<S> {
        Onward { moment, seen: HashSet::new(), open: ways.into_iter().collect() }
    }

    /// How many were looked at.
    pub fn looked_at(&self) -> usize {
        self.seen.len()
    }

    /// The next one, as long as no more than this have been looked at.
    pub fn next<M: Model<State = S>>(&mut self, model: &M, spans: &[Span], most: usize) -> Option<Way<S>> {
        let Moment { at_us, operation, .. } = self.moment;
        while self.seen.len() < most {
            let way = self.open.pop_front()?;
            if !self.seen.insert(way.clone()) {
                continue;
            }
            if !way.left.contains(&operation) {
                return Some(way);
            }
            for other in &way.left {
                // What need not be placed and changes nothing is not placed.
                let idle = |state: &S| spans[*other].answered_us.is_none() && *state == way.state;
                if let Some(state) = model.step(&way.state, *other).filter(|state| !idle(state)) {
                    let left = way.left.iter().copied().filter(|number| number != other).collect();
                    self.add(model, spans, Way { state, left }, *other == operation);
                }
            }
            for state in model.drift(&way.state, at_us) {
                self.add(model, spans, Way { state, left: way.left.clone() }, false);
            }
        }
        None
    }

    /// Adds a way that may lead on; what need not be placed and can change nothing any more is forgotten.
    fn add<M: Model<State = S>>(&mut self, model: &M, spans: &[Span], mut way: Way<S>, first: bool) {
        let Way { state, left } = &mut way;
        let mut hopeless = false;
        left.retain(|number| {
            let spent = model.is_spent(state, *number);
            hopeless |= spent && spans[*number].answered_us.is_some();
            !spent
        });
        if !hopeless && first {
            self.open.push_front(way);
        } else if !hopeless {
            self.open.push_back(way);
        }
    }
}
