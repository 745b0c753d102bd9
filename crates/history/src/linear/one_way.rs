//! Follows one way of ordering, and goes a few steps back where it comes to nothing. Finds an order quickly where there are
//! many; that it finds none says nothing.

use std::collections::VecDeque;

use crate::linear::way::{Onward, Way};
use crate::linear::{Model, Moment, Span};

/// So many answers it goes back at most.
const BACK_MAX: usize = 64;
/// So many ways on are looked at for one answer.
const LOOK_MAX: usize = 400;
/// So many times in all it goes back, for each answer that there is.
const BACK_SHARE: usize = 8;

/// Whether there surely is an order.
pub(super) fn is_there<M: Model>(model: &M, spans: &[Span], moments: &[Moment]) -> bool {
    // Where a choice was made: what else could have been chosen there, and which moment followed.
    let mut back: VecDeque<(Onward<M::State>, usize)> = VecDeque::new();
    let mut patience = BACK_SHARE * moments.len();
    let mut way = Way { state: model.initial(), left: Vec::new() };
    let mut next = 0;
    while let Some(moment) = moments.get(next) {
        next += 1;
        if !moment.answered {
            way.left.push(moment.operation);
            continue;
        }
        if back.len() == BACK_MAX {
            back.pop_front();
        }
        back.push_back((Onward::from([way], *moment), next));
        way = loop {
            let Some((onward, followed)) = back.back_mut() else { return false };
            if patience == 0 {
                return false;
            }
            patience -= 1;
            if let Some(way) = onward.next(model, spans, LOOK_MAX) {
                next = *followed;
                break way;
            }
            back.pop_back();
        };
    }
    true
}
