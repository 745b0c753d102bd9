//! Locks as one state machine: who holds what. Locks that can meet (a path and what lies under it, overlapping ranges) are
//! judged together, all others apart. A lease may go by itself from the moment its time has run out, or from the moment
//! somebody broke it or took its request back.
//!
//! A refusal changes nothing, and why it was given is not judged. Nor is a grant that nobody heard of ever needed to
//! explain an answer: it is left out.

use std::collections::BTreeMap;

use crate::grants::{Grants, Settings};
use crate::ground::Stretch;
use crate::linear::{Fault, Model, Span, search};
use crate::operation::{Kind, Mode, Operation, Outcome};
use crate::violation::Violation;

/// What was done, as far as it says something about who holds.
#[derive(Clone, Copy, Debug)]
enum Deed {
    /// This request was granted.
    Granted { request: usize },
    /// Its lease was given back; a repetition finds it gone.
    Released { request: usize, repeated: bool },
    /// Its lease was there.
    There { request: usize },
    /// Its lease was not there.
    Gone { request: usize },
}

/// A request for a lock.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    at: Stretch,
    mode: Mode,
    token: u64,
    /// From when on it may go by itself.
    may_go_us: u64,
}

/// Who holds, by the numbers of their requests, and the greatest token given.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Held {
    requests: Vec<usize>,
    last_token: u64,
}

struct Locks<'a> {
    wanted: &'a [Wanted],
    deeds: Vec<Deed>,
    unanswered: Vec<bool>,
}

impl Model for Locks<'_> {
    type State = Held;

    fn initial(&self) -> Held {
        Held::default()
    }

    fn step(&self, state: &Held, operation: usize) -> Option<Held> {
        let holds = |request: usize| state.requests.contains(&request);
        let without = |request: usize| Held {
            requests: state.requests.iter().copied().filter(|other| *other != request).collect(),
            ..*state
        };
        match self.deeds[operation] {
            Deed::Granted { request } => {
                let new = &self.wanted[request];
                let free = state.requests.iter().all(|other| {
                    let other = &self.wanted[*other];
                    !(other.at.overlaps(&new.at) && other.mode.conflicts(new.mode))
                });
                if !free || new.token <= state.last_token {
                    return None;
                }
                let mut requests = state.requests.clone();
                requests.push(request);
                requests.sort_unstable();
                Some(Held { requests, last_token: new.token })
            }
            Deed::Released { request, .. } if holds(request) => Some(without(request)),
            Deed::Released { repeated, .. } => repeated.then(|| state.clone()),
            Deed::There { request } => holds(request).then(|| state.clone()),
            Deed::Gone { request } => (!holds(request)).then(|| state.clone()),
        }
    }

    fn is_spent(&self, state: &Held, operation: usize) -> bool {
        // Tokens only grow: what was granted before and is not held will not be held again.
        let is_past = |request: usize| {
            self.wanted[request].token <= state.last_token && !state.requests.contains(&request)
        };
        match self.deeds[operation] {
            Deed::Granted { request } => self.wanted[request].token <= state.last_token,
            Deed::There { request } => is_past(request),
            Deed::Released { request, repeated } => {
                is_past(request) && (!repeated || self.unanswered[operation])
            }
            Deed::Gone { .. } => false,
        }
    }

    fn drift(&self, state: &Held, now_us: u64) -> Vec<Held> {
        let may_go = |request: &&usize| self.wanted[**request].may_go_us <= now_us;
        let without = |gone: &usize| Held {
            requests: state.requests.iter().copied().filter(|other| other != gone).collect(),
            ..*state
        };
        state.requests.iter().filter(may_go).map(without).collect()
    }
}

/// Judges all locks of a history. Gives what is wrong, and what could not be judged.
pub(crate) fn judge(
    operations: &[Operation],
    grants: &Grants,
    settings: &Settings,
) -> (Vec<Violation>, Vec<String>) {
    let (wanted, deeds) = deeds(operations, grants);
    let lots = lots(&wanted);
    let mut by_lot: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (number, (deed, _, _)) in deeds.iter().enumerate() {
        let (Deed::Granted { request }
        | Deed::Released { request, .. }
        | Deed::There { request }
        | Deed::Gone { request }) = *deed;
        by_lot.entry(lots[request]).or_default().push(number);
    }
    let (mut wrong, mut unknown) = (Vec::new(), Vec::new());
    for numbers in by_lot.into_values() {
        let named = |number: usize| &operations[deeds[numbers[number]].2];
        let spans: Vec<Span> = numbers.iter().map(|number| deeds[*number].1).collect();
        let model = Locks {
            wanted: &wanted,
            deeds: numbers.iter().map(|number| deeds[*number].0).collect(),
            unanswered: spans.iter().map(|span| span.answered_us.is_none()).collect(),
        };
        match search(&model, &spans, settings.ways_max) {
            Ok(()) => {}
            Err(Fault::Impossible { operation, among }) => wrong.push(Violation::new(
                "linearizable",
                "no order of the operations on this lock makes the first answer right; the others were under way with it",
                [operation].into_iter().chain(among).map(named),
            )),
            Err(Fault::TooManyWays { operation }) => {
                unknown.push(format!("too many orders of the operations on a lock at: {}", named(operation)));
            }
        }
    }
    (wrong, unknown)
}

/// Requests that were granted, and what was done about them: each deed with its span and the operation that tells of it.
fn deeds(operations: &[Operation], grants: &Grants) -> (Vec<Wanted>, Vec<(Deed, Span, usize)>) {
    let (mut wanted, mut deeds) = (Vec::new(), Vec::new());
    // A grant's request has the grant's number.
    for grant in &grants.all {
        let request = wanted.len();
        let may_go_us = grant.may_run_out_us.min(grant.broken_us);
        wanted.push(Wanted { at: grant.at, mode: grant.mode, token: grant.token, may_go_us });
        let span = Span { invoked_us: grant.not_before_us, answered_us: Some(grant.heard_us) };
        deeds.push((Deed::Granted { request }, span, grant.acquire));
    }
    for (place, op) in operations.iter().enumerate() {
        let Some(request) = op.token.and_then(|token| grants.by_token(token)) else { continue };
        let answered = Span { invoked_us: op.invoked_us, answered_us: op.answered_us };
        let open = Span { answered_us: None, ..answered };
        let (deed, span) = match (op.kind, op.outcome) {
            (Kind::Release, Outcome::Done | Outcome::Unknown) => {
                let span = if op.outcome == Outcome::Done { answered } else { open };
                // Who gives back what is gone already by its own doing, or was taken back, is told the same.
                let grant = &grants.all[request];
                let repeated = grant.releases > 1 || grant.broken_us < u64::MAX;
                (Deed::Released { request, repeated }, span)
            }
            (Kind::Renew, Outcome::Done) => (Deed::There { request }, answered),
            (Kind::Renew | Kind::Release, Outcome::Lost) | (Kind::Ended, _) => {
                (Deed::Gone { request }, answered)
            }
            _ => continue,
        };
        deeds.push((deed, span, place));
    }
    (wanted, deeds)
}

/// Which locks can meet: the number of the lot that each request lies in.
fn lots(wanted: &[Wanted]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by_key(|request| wanted[*request].at.from);
    let mut lots = vec![0; wanted.len()];
    let (mut lot, mut end) = (0, 0);
    for request in order {
        let at = wanted[request].at;
        if at.from >= end {
            lot += 1;
        }
        end = end.max(at.to);
        lots[request] = lot;
    }
    lots
}
