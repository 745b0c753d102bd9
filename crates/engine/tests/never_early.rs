//! No lease ends before its TTL has passed since the renewal that was acknowledged: not by a slow disk, not by a server
//! that stood still, not by a crash, nor by the crash after that.

mod by_hand;

use by_hand::{MS, Restart, Server, acquire, get, renew};
use leasehold_engine::Notice;
use leasehold_state_machine::answer::Answer;

const TTL_MS: u64 = 10_000;

/// How much longer than the TTL a lease may stand when horizons of ordinary length were added, in ms.
const HORIZON_MS: u64 = 2_000;

#[test]
fn renewals_are_answered_while_a_commit_hangs_up_to_the_horizon_and_not_beyond() {
    let mut server = Server::new();
    let to = server.ask(acquire("a", "w1", TTL_MS));
    let lease = server.lease(to);
    let granted_us = server.true_us;
    server.disk_is_prompt = false;
    server.ask(acquire("b", "w2", TTL_MS));

    let mut answered_until_us = granted_us;
    let mut first_unanswered = None;
    while server.true_us < granted_us + 5_000 * MS {
        server.run_ms(100);
        let renewal = server.ask(renew(&lease));
        match server.answer(renewal) {
            Some(Ok(Answer::Lease(_))) => {
                assert!(first_unanswered.is_none(), "never again until the disk answers");
                answered_until_us = server.true_us;
            }
            None => first_unanswered = first_unanswered.or(Some(renewal)),
            other => panic!("{other:?}"),
        }
    }
    let answered_ms = (answered_until_us - granted_us) / MS;
    assert!((1_000..=2_000).contains(&answered_ms), "up to the horizon: {answered_ms} ms");
    server.commit();
    let late = server.lease(first_unanswered.unwrap());
    assert_eq!(late.token, lease.token, "and then all of them");
}

#[test]
fn a_read_does_not_show_a_renewal_that_a_crash_could_take_back() {
    let mut server = Server::new();
    let to = server.ask(acquire("a", "w1", TTL_MS));
    let lease = server.lease(to);
    // Nothing waits for the disk, and the horizon has passed: only a new one covers the renewal and the read.
    server.stopped_ms(3_000);
    server.disk_is_prompt = false;
    let renewal = server.request(renew(&lease));
    let read = server.request(get("a"));
    let refused = server.request(acquire("a", "w2", TTL_MS));
    let asked = [renewal.attachment, read.attachment, refused.attachment];
    server.turn(vec![renewal, read, refused]);
    assert!(asked.iter().all(|to| server.answer(*to).is_none()));
    server.commit();
    assert!(asked.iter().all(|to| server.answer(*to).is_some()));
}

/// Holds a lease, renews it a last time, crashes, and sees when somebody else gets it.
fn holds_across(restarts: &[(Restart, u64)]) -> u64 {
    let mut server = Server::new();
    let to = server.ask(acquire("a", "w1", TTL_MS));
    let lease = server.lease(to);
    for _ in 0..7 {
        server.run_ms(930);
        let renewal = server.ask(renew(&lease));
        server.lease(renewal);
    }
    let renewed_us = server.true_us;
    for (restart, away_ms) in restarts {
        server.crash(*restart, *away_ms);
        assert_eq!(server.recovered.same_boot, *restart == Restart::SameBoot);
        server.run_ms(120);
    }
    server.free_after_ms("a");
    (server.true_us - renewed_us) / MS
}

#[test]
fn in_the_same_boot_exactly_the_horizon_is_added() {
    let held_ms = holds_across(&[(Restart::SameBoot, 300)]);
    assert!((TTL_MS..=TTL_MS + HORIZON_MS + 100).contains(&held_ms), "{held_ms} ms");
}

#[test]
fn in_another_boot_the_time_away_is_added() {
    let held_ms = holds_across(&[(Restart::OtherBoot, 60_000)]);
    assert!((TTL_MS..=60_000 + TTL_MS + HORIZON_MS + 100).contains(&held_ms), "{held_ms} ms");
    assert!(held_ms >= 60_000 + TTL_MS, "nobody can know that the time away had passed for the holder");
}

#[test]
fn a_second_crash_takes_nothing_back() {
    use Restart::{OtherBoot, SameBoot};
    for restarts in [
        [(SameBoot, 100), (SameBoot, 100)],
        [(SameBoot, 100), (OtherBoot, 100)],
        [(OtherBoot, 100), (SameBoot, 100)],
        [(OtherBoot, 100), (OtherBoot, 100)],
    ] {
        let held_ms = holds_across(&restarts);
        assert!(held_ms >= TTL_MS, "{restarts:?}: {held_ms} ms");
    }
}

#[test]
fn the_horizon_of_a_slow_disk_outlives_two_crashes() {
    use Restart::{OtherBoot, SameBoot};
    // Commits of 8 s make horizons of 16 s; after the crash commits are fast, and the first horizon would be short.
    for (first, second) in [(OtherBoot, SameBoot), (OtherBoot, OtherBoot), (SameBoot, SameBoot)] {
        let mut server = Server::new();
        let to = server.ask(acquire("a", "w1", TTL_MS));
        let lease = server.lease(to);
        server.disk_is_prompt = false;
        server.run_ms(1_100);
        server.commit_one(8_000 * MS);
        server.run_ms(3_000);
        server.commit();
        server.run_ms(5_000);
        let renewal = server.ask(renew(&lease));
        assert_eq!(server.lease(renewal).token, lease.token, "within the long horizon");
        server.disk_is_prompt = true;
        server.crash(first, 50);
        let read = server.ask(get("a"));
        let shown_ms = match server.answer(read) {
            Some(Ok(Answer::Snapshot(snapshot))) => snapshot.holders[0].expires_in_ms,
            other => panic!("{other:?}"),
        };
        assert!(shown_ms > TTL_MS + HORIZON_MS, "the long horizon counts: {shown_ms} ms");
        let shown_us = server.true_us + shown_ms * MS;
        server.crash(second, 50);
        server.free_after_ms("a");
        assert!(server.true_us >= shown_us, "{first:?}, {second:?}: what a read has shown still holds");
    }
}

#[test]
fn after_a_restart_in_the_same_boot_the_old_horizon_still_covers_renewals() {
    let mut server = Server::new();
    let to = server.ask(acquire("a", "w1", TTL_MS));
    let lease = server.lease(to);
    server.disk_is_prompt = false;
    server.crash(Restart::SameBoot, 500);
    let renewal = server.ask(renew(&lease));
    assert_eq!(server.lease(renewal).token, lease.token, "with the disk standing still since the start");
    server.run_ms(2_000);
    let renewal = server.ask(renew(&lease));
    assert!(server.answer(renewal).is_none(), "but no longer than that");
}

#[test]
fn what_is_past_its_time_is_ended_before_the_first_answer() {
    let mut server = Server::new();
    let to = server.ask(acquire("a", "w1", TTL_MS));
    let lease = server.lease(to);
    server.run_ms(500);
    server.crash(Restart::SameBoot, 60_000);
    assert_eq!((server.recovered.expired, server.recovered.leases), (1, 0));
    assert_eq!(server.recovered.away_ms.map(|ms| ms / 1000), Some(60));
    let renewal = server.ask(renew(&lease));
    assert!(server.answer(renewal).unwrap().is_err());
    assert_eq!(server.free_after_ms("a"), 0);
}

#[test]
fn a_wall_clock_that_disagrees_makes_it_another_boot() {
    let mut server = Server::new();
    server.ask(acquire("a", "w1", TTL_MS));
    server.wall_skew_ms = 2_000;
    server.crash(Restart::SameBoot, 60_000);
    assert!(!server.recovered.same_boot);
    assert_eq!(server.recovered.leases, 1);
}

#[test]
fn idle_for_longer_than_the_horizon_then_a_grant_a_crash_and_a_restart() {
    for restart in [Restart::SameBoot, Restart::OtherBoot] {
        let mut server = Server::new();
        let to = server.ask(acquire("a", "w1", 1_000));
        server.lease(to);
        server.run_ms(120_000);
        assert_eq!(server.engine.machine().counts().sessions, 0);
        let to = server.ask(acquire("a", "w2", TTL_MS));
        server.lease(to);
        let granted_us = server.true_us;
        server.crash(restart, 50);
        assert_eq!(server.recovered.leases, 1);
        server.free_after_ms("a");
        assert!(server.true_us >= granted_us + TTL_MS * MS, "{restart:?}");
        assert_eq!(server.metrics.stall_us_total.load(std::sync::atomic::Ordering::Relaxed), 0);
    }
}

#[test]
fn a_server_that_was_stopped_ends_no_lease_for_it() {
    let mut server = Server::new();
    let to = server.ask(acquire("a", "w1", TTL_MS));
    let lease = server.lease(to);
    server.stopped_ms(60_000);
    server.turn(Vec::new());
    server.run_ms(100);
    let renewal = server.ask(renew(&lease));
    assert_eq!(server.lease(renewal).token, lease.token, "a renewal that queued up meanwhile");
    assert!(server.notices.iter().any(|notice| matches!(notice, Notice::Stall { ms } if *ms > 50_000)));
    assert!(server.metrics.stall_us_total.load(std::sync::atomic::Ordering::Relaxed) > 59_000 * MS);
}

#[test]
fn a_disk_that_hangs_ends_no_lease_for_it() {
    let mut server = Server::new();
    let to = server.ask(acquire("a", "w1", TTL_MS));
    let lease = server.lease(to);
    server.disk_is_prompt = false;
    server.run_ms(60_000);
    server.commit();
    server.disk_is_prompt = true;
    server.run_ms(100);
    let renewal = server.ask(renew(&lease));
    assert_eq!(server.lease(renewal).token, lease.token);
}

#[test]
fn stall_then_renew_then_crash_in_the_same_boot() {
    let mut server = Server::new();
    let to = server.ask(acquire("a", "w1", TTL_MS));
    let lease = server.lease(to);
    server.stopped_ms(30_000);
    server.turn(Vec::new());
    server.run_ms(400);
    let renewal = server.ask(renew(&lease));
    server.lease(renewal);
    let renewed_us = server.true_us;
    server.crash(Restart::SameBoot, 10);
    server.free_after_ms("a");
    assert!(server.true_us >= renewed_us + TTL_MS * MS);
}

#[test]
fn without_a_stall_a_lease_ends_at_its_deadline() {
    let mut server = Server::new();
    let to = server.ask(acquire("a", "w1", TTL_MS));
    server.lease(to);
    let free_ms = server.free_after_ms("a");
    assert!((TTL_MS..=TTL_MS + 10).contains(&free_ms), "{free_ms} ms");
}
