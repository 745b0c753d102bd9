//! The proof that the invariants can see: bugs put in on purpose, each of which must be found within a few seeds, by every
//! invariant whose business it is, each asked alone.

use leasehold_simulation::{Plant, run_heeding};

fn must_be_caught(plant: Plant, seeds: u64, by: &[&'static str]) {
    for invariant in by {
        let caught = (1..=seeds).find(|seed| run_heeding(*seed, plant, invariant).violation.is_some());
        match caught {
            None => panic!("{plant:?} went unseen by {invariant} for {seeds} seeds"),
            Some(seed) => println!("{plant:?} is caught by {invariant} at seed {seed}"),
        }
    }
}

#[test]
fn a_reply_before_its_batch_is_durable() {
    must_be_caught(Plant::EarlyReplies, 5, &["durability"]);
}

#[test]
fn a_disk_that_lies_about_syncs() {
    must_be_caught(Plant::LyingDisk, 50, &["durability"]);
}

#[test]
fn a_client_that_counts_from_the_arrival_of_the_answer() {
    must_be_caught(Plant::BeliefFromArrival, 500, &["fail_fast", "exclusion"]);
}

#[test]
fn a_client_that_counts_from_the_sending_of_a_retry() {
    must_be_caught(Plant::BeliefFromRetry, 500, &["fail_fast", "exclusion"]);
}

#[test]
fn a_late_success_that_revives_what_was_lost() {
    must_be_caught(Plant::LateSuccessRevives, 200, &["fail_fast"]);
}

#[test]
fn a_client_that_believes_to_the_very_deadline() {
    must_be_caught(Plant::BeliefToDeadline, 200, &["fail_fast", "exclusion"]);
}

#[test]
fn a_boot_clock_that_runs_ahead_at_a_restart() {
    must_be_caught(Plant::ClockAheadAtRestart, 50, &["never_early", "exclusion"]);
}

#[test]
fn a_data_directory_that_is_lost() {
    must_be_caught(Plant::ForgottenJournal, 50, &["durability"]);
}

#[test]
fn an_old_connection_that_detaches_the_new_attempt() {
    must_be_caught(Plant::DetachesTheNewest, 200, &["fifo", "progress"]);
}

#[test]
fn request_ids_that_are_ignored() {
    must_be_caught(Plant::IdsIgnored, 50, &["one_effect"]);
}

#[test]
fn a_stop_that_is_counted_as_time() {
    must_be_caught(Plant::StopsCounted, 300, &["never_early"]);
}

#[test]
fn an_engine_that_is_deaf_to_time() {
    must_be_caught(Plant::DeafToTime, 50, &["progress"]);
}

#[test]
fn bytes_in_a_file_before_their_batch_is_durable() {
    must_be_caught(Plant::BytesBeforeSync, 200, &["files_read", "files_whole"]);
}

#[test]
fn a_write_that_is_told_done_before_it_is_in_its_file() {
    must_be_caught(Plant::WritesToldEarly, 50, &["files_acked"]);
}

#[test]
fn a_write_that_is_made_again_when_it_is_repeated() {
    must_be_caught(Plant::WriteIdsIgnored, 50, &["one_effect"]);
}

#[test]
fn a_start_that_does_not_cut_what_lies_behind_a_file() {
    must_be_caught(Plant::RecoveryDoesNotCut, 50, &["files_whole"]);
}

#[test]
fn a_snapshot_before_the_files_are_on_the_disk() {
    must_be_caught(Plant::SnapshotBeforeFiles, 200, &["files_whole"]);
}

#[test]
fn a_holder_of_the_past_whose_write_is_let_through() {
    must_be_caught(Plant::Unfenced, 50, &["writer_only"]);
}
