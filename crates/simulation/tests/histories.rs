//! A second opinion: what the clients of simulated runs asked and heard is judged by `crates/history`, which knows nothing of
//! the server, the simulator or its invariants.

use leasehold_history::{Report, Settings, check};
use leasehold_simulation::{FaultKind, Order, carry_out};

/// The server's clock may be wrong by a hundredth, and the time that a run counts in is nobody's clock.
const SETTINGS: Settings = Settings { rate_error_ppm: 20_000, ways_max: 20_000 };

/// The report on one seed; none if an old copy of the data was put back, after which what was promised need not hold.
fn judged(seed: u64, heeds: Option<&'static str>) -> Option<Report> {
    let outcome = carry_out(&Order { seed, history: true, heeds, ..Order::default() });
    assert!(heeds.is_some() || outcome.violation.is_none(), "{:?}", outcome.violation);
    (outcome.tally.of(FaultKind::Restored) == 0).then(|| check(&outcome.history, &SETTINGS))
}

#[cfg(not(feature = "planted-bugs"))]
#[test]
fn nothing_is_wrong_with_what_clients_hear() {
    let (mut grants, mut operations, mut open_ended, mut undecided) = (0, 0, 0, 0);
    for seed in 1..=60 {
        let Some(report) = judged(seed, None) else { continue };
        assert!(report.violations.is_empty(), "seed {seed}: {report}");
        grants += report.grants;
        operations += report.operations;
        open_ended += report.open_ended;
        undecided += report.undecided.len();
    }
    println!(
        "{operations} operations, {open_ended} of them open-ended, {grants} grants, {undecided} undecided"
    );
    assert!(
        grants > 1_000 && open_ended > 1_000,
        "the runs were too quiet: {grants} grants, {open_ended} open"
    );
    assert_eq!(undecided, 0, "what could not be decided is not clean");
}

#[cfg(feature = "planted-bugs")]
mod planted {
    use std::panic::catch_unwind;

    use super::*;
    use leasehold_planted::{Bug, plant};

    /// The judge sees a bug by this rule within so many seeds. The invariants are not asked.
    fn caught(bug: Bug, rule: &str, seeds: u64) {
        let _planted = plant(Some(bug));
        let sees = |report: Report| report.violations.iter().any(|violation| violation.rule == rule);
        let found = (1..=seeds).find(|seed| {
            // An assertion of the server may be first; then this seed shows nothing of the judge.
            let report = catch_unwind(|| judged(*seed, Some("none of them")));
            report.is_ok_and(|report| report.is_some_and(sees))
        });
        assert!(found.is_some(), "{} is not seen by {rule} in {seeds} seeds", bug.name());
    }

    #[test]
    fn ranges_compared_by_equality() {
        caught(Bug::RangesComparedByEquality, "exclusion", 20);
        caught(Bug::RangesComparedByEquality, "linearizable", 20);
    }

    #[test]
    fn request_ids_ignored() {
        caught(Bug::RequestIdsIgnored, "one_effect", 20);
    }
}
