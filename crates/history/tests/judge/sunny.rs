//! Histories of a service that does everything right are not refused, whatever the climate; and the same histories with one
//! thing changed are.

use leasehold_history::{History, Kind, Operation, Outcome, Report, Settings, check};

use crate::service::{Climate, Service};

const CALM: Climate = Climate { clients: 8, locks: 3, operations: 2_000, lost_answers: 0, varied: false };

fn judged(history: &History) -> Report {
    check(history, &Settings::default())
}

#[test]
fn nothing_right_is_refused() {
    let climates = [
        CALM,
        Climate { lost_answers: 10, ..CALM },
        Climate { clients: 3, locks: 1, lost_answers: 30, ..CALM },
        Climate { clients: 40, locks: 400, lost_answers: 5, varied: true, ..CALM },
        Climate { clients: 20, locks: 64, lost_answers: 2, varied: true, ..CALM },
    ];
    for (place, climate) in climates.into_iter().enumerate() {
        for seed in 1..=6 {
            let report = judged(&Service::history(climate, seed));
            assert!(report.is_clean(), "climate {place}, seed {seed}: {report}");
            assert!(report.grants > 150 && report.queued > 10, "too quiet, climate {place}: {report}");
            assert_eq!(report.open_ended > 0, climate.lost_answers > 0, "{report}");
        }
    }
}

/// Changes the history at its first place where that can be done, counted from the middle.
fn changed(history: &History, change: impl Fn(&mut [Operation], usize) -> bool) -> Report {
    let mut operations = history.operations().to_vec();
    let places = operations.len() / 2..operations.len();
    let done = places.into_iter().any(|place| change(&mut operations, place));
    assert!(done, "there is no place for this change");
    judged(&History::new(operations))
}

fn is(op: &Operation, kind: Kind, outcome: Outcome) -> bool {
    op.kind == kind && op.outcome == outcome
}

#[test]
fn one_thing_changed_is_refused() {
    for seed in 1..=5 {
        let history = Service::history(CALM, seed);
        let by = |rule: &str, report: Report| {
            assert!(report.violations.iter().any(|v| v.rule == rule), "seed {seed}, {rule}: {report}");
        };
        by(
            "token_order",
            changed(&history, |all, place| {
                let granted = is(&all[place], Kind::Acquire, Outcome::Done);
                all[place].token = all[place].token.filter(|_| !granted).or(Some(5));
                granted
            }),
        );
        by(
            "exclusion",
            changed(&history, |all, place| {
                // A lease that was given back goes on being renewed.
                let Some(token) = all[place].token.filter(|_| is(&all[place], Kind::Release, Outcome::Done))
                else {
                    return false;
                };
                let Some(next) = all[place + 1..].iter().find(|op| {
                    is(op, Kind::Acquire, Outcome::Done)
                        && op.lock == all[place].lock
                        && op.token > Some(token)
                }) else {
                    return false;
                };
                let (at_us, number) = (next.answered_us.unwrap() + 1, 1_000_000);
                let mut renewal =
                    Operation::new(&all[place].client, number, Kind::Renew, &all[place].lock, at_us);
                (renewal.token, renewal.ttl_us) = (Some(token), Some(100));
                renewal.answer(at_us + 1, Outcome::Done);
                all[place] = renewal;
                true
            }),
        );
        by(
            "linearizable",
            changed(&history, |all, place| {
                let reads = is(&all[place], Kind::Read, Outcome::Done) && all[place].value.is_some();
                if reads {
                    let later = all[place..].iter().rev();
                    let lock = all[place].lock.clone();
                    let newest =
                        later.into_iter().find(|op| is(op, Kind::Write, Outcome::Done) && op.lock == lock);
                    all[place].value = newest.and_then(|op| op.value.clone());
                }
                reads
            }),
        );
        by(
            "appends",
            changed(&history, |all, place| {
                let Some(list) = all[place].list.as_mut().filter(|list| list.len() > 2) else { return false };
                let gone = list.len() / 2;
                list.remove(gone);
                true
            }),
        );
    }
}

#[test]
fn a_history_survives_its_lines() {
    let history = Service::history(Climate { varied: true, lost_answers: 10, ..CALM }, 9);
    let mut lines = Vec::new();
    for op in history.operations() {
        leasehold_history::write_line(&mut lines, op).unwrap();
    }
    assert_eq!(History::read(lines.as_slice()).unwrap(), history);
}
