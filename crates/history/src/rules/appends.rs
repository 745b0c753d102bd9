//! **appends**: a file that is only appended to is one list. Every read is a beginning of it; what was confirmed before a read
//! is in it, once; what was refused never is; and the list keeps the order of appends that followed one another.

use std::collections::{BTreeMap, HashMap};

use crate::operation::{Kind, Operation, Outcome};
use crate::rules::Case;
use crate::violation::Violation;

const RULE: &str = "appends";

/// One file: its appends by value, and its reads in the order in which they were invoked.
#[derive(Default)]
struct File<'a> {
    appends: HashMap<&'a str, Append<'a>>,
    reads: Vec<(&'a [String], &'a Operation)>,
}

/// All attempts to append one value.
struct Append<'a> {
    first: &'a Operation,
    /// When its first attempt was invoked.
    invoked_us: u64,
    /// When it was first confirmed.
    confirmed_us: u64,
    /// Whether it may be there: some attempt was not refused.
    possible: bool,
}

pub(super) fn judge(case: &Case<'_>) -> Vec<Violation> {
    let mut files: BTreeMap<&str, File<'_>> = BTreeMap::new();
    let mut wrong = Vec::new();
    for op in case.operations {
        match (op.kind, &op.value, &op.list) {
            (Kind::Append, Some(value), _) => {
                wrong.extend(files.entry(&op.lock).or_default().append(value, op));
            }
            (Kind::Read, _, Some(list)) if op.outcome == Outcome::Done => {
                files.entry(&op.lock).or_default().reads.push((list, op));
            }
            _ => {}
        }
    }
    for file in files.values() {
        if let Some(longest) = file.reads.iter().max_by_key(|(list, _)| list.len()) {
            wrong.extend(file.judge_list(longest.0, longest.1));
            wrong.extend(file.judge_reads(longest.0, longest.1));
        }
    }
    wrong
}

impl<'a> File<'a> {
    fn append(&mut self, value: &'a str, op: &'a Operation) -> Option<Violation> {
        let known = self.appends.entry(value).or_insert(Append {
            first: op,
            invoked_us: op.invoked_us,
            confirmed_us: u64::MAX,
            possible: false,
        });
        known.invoked_us = known.invoked_us.min(op.invoked_us);
        known.possible |= matches!(op.outcome, Outcome::Done | Outcome::Unknown);
        if op.outcome == Outcome::Done {
            known.confirmed_us = known.confirmed_us.min(op.effect_by_us());
        }
        let same = std::ptr::eq(known.first, op)
            || (known.first.client == op.client && known.first.request_id.is_some());
        let same = same && known.first.request_id == op.request_id;
        (!same).then(|| Violation::new(RULE, "two requests append the same value", [known.first, op]))
    }

    /// The longest list: each value once, from an append that may be there, in order.
    fn judge_list(&self, list: &[String], read: &Operation) -> Vec<Violation> {
        let mut wrong = Vec::new();
        let mut places: HashMap<&str, usize> = HashMap::new();
        let mut last_begun: Option<&Append<'_>> = None;
        for (place, value) in list.iter().enumerate() {
            if let Some(before) = places.insert(value, place) {
                let what = format!("`{value}` is in the file twice, at {before} and at {place}");
                wrong.push(Violation::new(RULE, what, [read]));
                continue;
            }
            let Some(append) = self.appends.get(&**value) else {
                wrong.push(Violation::new(
                    RULE,
                    format!("nobody appended `{value}`, which was read"),
                    [read],
                ));
                continue;
            };
            if !append.possible {
                wrong.push(Violation::new(RULE, "what was refused was read", [append.first, read]));
            }
            if let Some(earlier) = last_begun.filter(|earlier| append.confirmed_us < earlier.invoked_us) {
                let what = "the first was confirmed before the second was asked for, and stands behind it";
                wrong.push(Violation::new(RULE, what, [append.first, earlier.first, read]));
            }
            if last_begun.is_none_or(|known| known.invoked_us < append.invoked_us) {
                last_begun = Some(append);
            }
        }
        wrong
    }

    /// Every read is a beginning of the longest, holds all that was confirmed before it and nothing that was asked after.
    fn judge_reads(&self, longest: &[String], longest_read: &Operation) -> Vec<Violation> {
        let mut wrong = Vec::new();
        // How much must have been there once everything confirmed by a moment was there.
        let mut due: Vec<(u64, usize, &Operation)> = Vec::new();
        let places: HashMap<&str, usize> = longest.iter().enumerate().map(|(n, v)| (&**v, n)).collect();
        let mut missing: Vec<&Append<'_>> = Vec::new();
        for (value, append) in &self.appends {
            match places.get(value) {
                Some(place) => due.push((append.confirmed_us, place + 1, append.first)),
                None => missing.push(append),
            }
        }
        missing.sort_by_key(|append| (append.confirmed_us, append.invoked_us));
        for read in self.reads.iter().filter(|read| !longest.starts_with(read.0)) {
            let what = "two reads of one file are not the same list";
            wrong.push(Violation::new(RULE, what, [read.1, longest_read]));
        }
        for (list, read) in &self.reads {
            due.push((read.effect_by_us(), list.len(), read));
        }
        due.sort_by_key(|(at_us, _, _)| *at_us);
        // Of each beginning of the list, what was asked for last.
        let newest: Vec<Option<&Append<'_>>> = longest
            .iter()
            .scan(None, |newest: &mut Option<&Append<'_>>, value| {
                let append = self.appends.get(&**value);
                if append.map(|append| append.invoked_us) > newest.map(|append| append.invoked_us) {
                    *newest = append;
                }
                Some(*newest)
            })
            .collect();
        let mut due = due.into_iter().peekable();
        let mut least: Option<(usize, &Operation)> = None;
        for (list, read) in &self.reads {
            while let Some((_, len, op)) = due.next_if(|(at_us, _, _)| *at_us < read.invoked_us) {
                if least.is_none_or(|(known, _)| known < len) {
                    least = Some((len, op));
                }
            }
            if let Some((_, op)) = least.filter(|(len, _)| *len > list.len()) {
                wrong.push(Violation::new(RULE, "what had been confirmed was not read", [op, *read]));
            }
            let newest = list.len().checked_sub(1).and_then(|last| *newest.get(last)?);
            if let Some(append) = newest.filter(|append| append.invoked_us > read.effect_by_us()) {
                wrong.push(Violation::new(
                    RULE,
                    "it was read before it was asked for",
                    [append.first, *read],
                ));
            }
        }
        if let Some(append) = missing.first() {
            let after = self.reads.iter().find(|(_, read)| append.confirmed_us < read.invoked_us);
            if let Some((_, read)) = after {
                wrong.push(Violation::new(RULE, "what had been confirmed was lost", [append.first, *read]));
            }
        }
        wrong
    }
}
