//! The proof that the invariants can see: bugs put in on purpose, each of which must be found within a few seeds, by every
//! invariant whose business it is, each asked alone.
//!
//! The rows that these tests print are the table in docs/proof.md: `scripts/planted-bugs` prints it anew.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use leasehold_planted::{Bug, plant};
use leasehold_simulation::{run, run_heeding};

/// Finds the first seed of so many at which an invariant, asked alone, sees the bug.
fn first_seed(seeds: u64, invariant: &'static str) -> Option<u64> {
    let (next, found) = (AtomicU64::new(1), AtomicU64::new(u64::MAX));
    let jobs = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed > seeds || seed > found.load(Ordering::Relaxed) {
                        return;
                    }
                    // An assertion of the server may be first; then this seed shows nothing of the invariant.
                    let outcome = catch_unwind(AssertUnwindSafe(|| run_heeding(seed, invariant)));
                    if outcome.is_ok_and(|outcome| outcome.violation.is_some()) {
                        found.fetch_min(seed, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    Some(found.into_inner()).filter(|seed| *seed <= seeds)
}

fn must_be_caught(bug: Bug, seeds: u64, by: &[&'static str]) {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if info.location().is_some_and(|at| at.file().ends_with("planted.rs")) {
                loud(info);
            }
        }));
    });
    let _planted = plant(Some(bug));
    let found: Vec<_> = by.iter().map(|invariant| (invariant, first_seed(seeds, invariant))).collect();
    let words: Vec<String> = found
        .iter()
        .map(|(invariant, seed)| match seed {
            Some(seed) => format!("{invariant}: {seed}"),
            None => format!("{invariant}: not within {seeds}"),
        })
        .collect();
    let number = bug as u8 + 1;
    println!(
        "\n| {number:2} | `{}` | {} | `{}` | {} |",
        bug.name(),
        bug.text(),
        bug.file(),
        words.join(", ")
    );
    assert!(found.iter().all(|(_, seed)| seed.is_some()), "{bug:?} went unseen: {words:?}");
}

macro_rules! caught {
    ($($test:ident: $bug:ident within $seeds:literal by $($by:literal),+;)*) => {
        $(#[test]
        fn $test() {
            must_be_caught(Bug::$bug, $seeds, &[$($by),+]);
        })*

        /// Those that see one.
        const INVARIANTS: &[&str] = &[$($($by),+),*];

        #[test]
        fn every_bug_has_its_test() {
            let tested = [$(Bug::$bug),*];
            for bug in Bug::ALL {
                assert_eq!(tested.iter().filter(|tested| *tested == bug).count(), 1, "{bug:?}");
            }
        }
    };
}

caught! {
    client_counts_from_reply: ClientCountsFromReply within 1000 by "fail_fast", "exclusion";
    client_counts_from_retry: ClientCountsFromRetry within 2000 by "fail_fast", "exclusion";
    belief_to_deadline: BeliefToDeadline within 500 by "fail_fast", "exclusion";
    late_success_revives: LateSuccessRevives within 2000 by "fail_fast";
    expires_early_after_restart: ExpiresEarlyAfterRestart within 1000 by "never_early";
    clocks_not_compared: ClocksNotCompared within 2000 by "never_early", "exclusion";
    horizon_on_wrong_clock: HorizonOnWrongClock within 2000 by "never_early";
    grant_not_bounded_by_horizon: GrantNotBoundedByHorizon within 3000 by "never_early";
    stops_counted: StopsCounted within 1000 by "never_early";
    deaf_to_time: DeafToTime within 200 by "progress";
    grant_after_the_wait: GrantAfterTheWait within 500 by "fifo";
    shared_overtakes: SharedOvertakes within 500 by "fifo";
    lost_wake_up: LostWakeUp within 500 by "fifo";
    old_connection_detaches_new: OldConnectionDetachesNew within 2000 by "fifo";
    ranges_compared_by_equality: RangesComparedByEquality within 500 by "exclusion";
    release_by_name_only: ReleaseByNameOnly within 500 by "holder_only";
    keep_alive_hides_broken_lease: KeepAliveHidesBrokenLease within 1000 by "fail_fast";
    token_reset_after_restart: TokenResetAfterRestart within 1000 by "fencing";
    old_deadline_promised: OldDeadlinePromised within 1000 by "promise";
    request_ids_ignored: RequestIdsIgnored within 500 by "one_effect";
    confirmed_carried_out: ConfirmedCarriedOut within 1000 by "confirmed";
    dedupe_lost_on_restart: DedupeLostOnRestart within 1000 by "one_effect", "determinism";
    id_evicted_young: IdEvictedYoung within 2000 by "one_effect";
    limit_not_looked_at: LimitNotLookedAt within 1000 by "bounded";
    reply_before_sync: ReplyBeforeSync within 100 by "durability";
    sync_left_out: SyncLeftOut within 500 by "durability";
    ack_after_error: AckAfterError within 1000 by "no_ack_after_error";
    folder_not_synced: FolderNotSynced within 1000 by "durability";
    damage_cut_off: DamageCutOff within 500 by "durability";
    file_bytes_before_sync: FileBytesBeforeSync within 1000 by "files_read", "files_whole";
    write_told_early: WriteToldEarly within 500 by "files_acked";
    write_ids_ignored: WriteIdsIgnored within 500 by "one_effect";
    write_unfenced: WriteUnfenced within 1000 by "writer_only", "fenced";
    file_not_cut: FileNotCut within 1000 by "files_whole";
    snapshot_before_files: SnapshotBeforeFiles within 1000 by "files_whole";
    picture_too_early: PictureTooEarly within 500 by "durability";
}

#[test]
fn every_invariant_sees_a_bug() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/invariants");
    let mut seeing = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        // An invariant's file opens with its name; what else lies there does not.
        if std::fs::read_to_string(&path).unwrap().starts_with(&format!("//! {name}: ")) {
            // A register that compares tokens loses an update only by two leases with one token, and before that comes about
            // the state machine's own assertion stops the server.
            assert!(INVARIANTS.contains(&name) || name == "register", "no bug is there to be seen by {name}");
            seeing += 1;
        }
    }
    assert!(seeing > 10, "the invariants are where they are looked for");
}

/// The bugs do it, not the build that can have them.
#[test]
fn with_no_bug_chosen_all_is_well() {
    let _planted = plant(None);
    let next = AtomicU64::new(1);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed > 300 {
                        return;
                    }
                    let violation = run(seed, false).violation;
                    assert!(violation.is_none(), "seed {seed}: {violation:?}");
                }
            });
        }
    });
}
