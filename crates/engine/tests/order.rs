//! Who comes when: held-back requests, a full backlog, wake-ups, an old copy put back, clocks that are not believed.

mod by_hand;

use std::sync::atomic::Ordering::Relaxed;

use by_hand::{MS, Options, Restart, Server, acquire, queue, release, renew, share};
use leasehold_engine::{Notice, Restored};
use leasehold_state_machine::answer::{Answer, Refusal};
use leasehold_state_machine::command::{Attachment, Command};
use leasehold_state_machine::event::Event;

#[test]
fn a_full_backlog_keeps_new_work_waiting_in_order_and_still_answers_renewals() {
    let mut server = Server::with(Options { batch_bytes_max: Some(64 << 10), ..Options::default() });
    let to = server.ask(acquire("mine", "w0", 30_000));
    let lease = server.lease(to);
    server.disk_is_prompt = false;
    let asked: Vec<Attachment> =
        (0..1_000).map(|n| server.ask(acquire(&format!("lock-{n}"), "w1", 30_000))).collect();
    let decided = server.engine.machine().counts().leases;
    assert!(decided < 1_000, "the rest was not decided");
    let renewal = server.ask(renew(&lease));
    assert_eq!(server.lease(renewal).token, lease.token);
    let wake_us = server.engine.wake_raw_us().unwrap();
    assert!(wake_us > server.raw_us(), "and nobody turns in circles for want of room");

    while server.commit_one(100) {
        server.turn(Vec::new());
    }
    let tokens: Vec<_> = asked.iter().map(|to| server.lease(*to).token).collect();
    assert!(tokens.is_sorted(), "in the order of arrival");
    assert!(server.disk.iter().all(|payload| payload.len() <= 64 << 10));
}

#[test]
fn a_caller_who_left_before_he_was_decided_leaves_nothing_behind() {
    let mut server = Server::with(Options { batch_bytes_max: Some(64 << 10), ..Options::default() });
    server.disk_is_prompt = false;
    server.ask(acquire("a", "w1", 30_000));
    let mut asked = 1;
    while server.engine.machine().counts().leases == asked {
        assert!(asked < 5_000, "the backlog never fills");
        server.ask(acquire(&format!("lock-{asked}"), "w1", 30_000));
        asked += 1;
    }
    let gone = server.ask(queue("a", "w2", 30_000, 30_000, None));
    server.ask(Command::Detach { gone });
    server.disk_is_prompt = true;
    server.run_ms(500);
    assert_eq!(server.engine.machine().counts().waiters, 0);
}

#[test]
fn a_caller_who_left_while_held_back_leaves_nothing_behind() {
    let mut server = Server::new();
    server.ask(share("a", "w0", 30_000));
    for _ in 0..4 {
        let crowd = (0..2_500).map(|_| server.request(share("a", "w1", 1_000))).collect();
        server.turn(crowd);
    }
    server.run_ms(990);
    server.stopped_ms(20);
    // All but one lease are over, and more of them than one turn ends: the request is held back.
    let comes = server.request(queue("a", "w2", 30_000, 30_000, None));
    let goes = server.request(Command::Detach { gone: comes.attachment });
    server.turn(vec![comes, goes]);
    assert!(server.engine.machine().counts().leases > 1, "the request met more than one turn ends");
    assert_eq!(server.engine.wake_raw_us(), Some(server.raw_us()), "the next turn comes at once");
    for _ in 0..5 {
        server.turn(Vec::new());
    }
    assert_eq!(server.engine.machine().counts().leases, 1);
    assert_eq!(server.engine.machine().counts().waiters, 0);
    assert!(server.told.iter().any(|(_, _, event)| matches!(event, Event::Dequeued { .. })));
}

#[test]
fn ten_thousand_leases_due_at_once_are_ended_in_slices_and_the_engine_asks_for_more_turns() {
    let mut server = Server::new();
    for n in 0..10_000 {
        let request = server.request(acquire(&format!("lock-{n}"), "w1", 1_000));
        server.turn(vec![request]);
    }
    server.disk_is_prompt = true;
    server.true_us += 1_000 * MS;
    server.turn(Vec::new());
    // Ending them may take a stall's rest first; then slice by slice, each wanting the next at once.
    let mut turns = 0;
    while server.engine.machine().counts().leases > 0 {
        let wake_us = server.engine.wake_raw_us().unwrap();
        server.true_us += wake_us.saturating_sub(server.raw_us());
        server.turn(Vec::new());
        turns += 1;
        assert!(turns < 100);
    }
    assert_eq!(server.metrics.expired_total.load(Relaxed), 10_000);
}

#[test]
fn the_engine_wakes_for_the_next_deadline_and_sleeps_when_nobody_lives() {
    let mut server = Server::new();
    assert_eq!(server.engine.wake_raw_us(), None);
    let to = server.ask(acquire("a", "w1", 130));
    let lease = server.lease(to);
    assert_eq!(server.engine.wake_raw_us(), Some(server.raw_us() + 100 * MS));
    server.run_ms(100);
    assert_eq!(server.engine.wake_raw_us(), Some(server.raw_us() + 30 * MS));
    server.ask(release(&lease));
    let wake_us = server.engine.wake_raw_us().unwrap();
    assert!(wake_us > server.raw_us() + 60_000 * MS, "only to forget");
}

#[test]
fn a_release_and_the_next_grant_are_one_record() {
    let mut server = Server::new();
    let to = server.ask(acquire("a", "w1", 30_000));
    let lease = server.lease(to);
    let next = server.ask(queue("a", "w2", 30_000, 30_000, None));
    server.commit();
    let records = server.disk.len();
    server.ask(release(&lease));
    assert_eq!(server.lease(next).owner.text(), "w2");
    assert_eq!(server.disk.len(), records + 1);
}

#[test]
fn an_old_copy_grants_nothing_for_the_largest_ttl_across_restarts_too() {
    let mut server = Server::new();
    let to = server.ask(acquire("a", "w1", 7_000));
    let lease = server.lease(to);
    server.ask(release(&lease));

    server.options.restored = Some(Restored::default());
    server.crash(Restart::OtherBoot, 1_000);
    assert_eq!(server.recovered.grants_held_ms, Some(7_000));
    let refused = server.ask(acquire("a", "w2", 1_000));
    assert!(matches!(server.answer(refused), Some(Err(Refusal::Unavailable { .. }))));
    server.run_ms(5_000);

    server.options.restored = None;
    server.crash(Restart::SameBoot, 100);
    assert_eq!(server.recovered.grants_held_ms, Some(7_000), "it starts anew");
    server.run_ms(6_900);
    let refused = server.ask(acquire("a", "w2", 1_000));
    assert!(matches!(server.answer(refused), Some(Err(Refusal::Unavailable { .. }))));
    server.run_ms(150);
    let granted = server.ask(acquire("a", "w2", 1_000));
    assert!(server.lease(granted).token > lease.token);
    assert!(server.told.iter().any(|(_, _, event)| matches!(event, Event::GrantsResumed)));

    server.crash(Restart::SameBoot, 100);
    assert_eq!(server.recovered.grants_held_ms, None);
}

#[test]
fn tokens_after_an_old_copy_are_larger_than_all_that_it_does_not_know() {
    const DAYS_MS: u64 = 3 * 24 * 3_600_000;
    let token = |server: &mut Server| {
        let to = server.ask(acquire("a", "w1", 100));
        let token = server.lease(to).token;
        server.run_ms(200);
        token
    };
    let mut server = Server::new();
    let first = token(&mut server);
    let copy = server.disk.clone();
    server.options.accept_clock = true;
    server.crash(Restart::OtherBoot, DAYS_MS);
    server.options.accept_clock = false;
    let lost = token(&mut server);
    assert!(lost > first + DAYS_MS * 4_000, "it carries the time");

    // Put back without a word the copy's journal lets expect no such time.
    server.crash_with_disk(copy.clone(), Restart::OtherBoot, 1_000);
    assert!(server.recovered.doubt.is_some());
    server.options.restored = Some(Restored { for_ms: Some(1) });
    server.crash_with_disk(copy, Restart::OtherBoot, 1_000);
    assert_eq!(server.recovered.doubt, None);
    server.run_ms(100);
    assert!(token(&mut server) > lost);

    // From then on a leap is doubted as ever, also at the starts that follow.
    server.options.restored = None;
    server.crash(Restart::SameBoot, 100);
    assert_eq!(server.recovered.doubt, None);
    server.wall_skew_ms = 365 * 24 * 3_600_000;
    let before = token(&mut server);
    assert_eq!(token(&mut server), before + 1);
}

#[test]
fn an_old_copy_is_told_the_time_for_good() {
    const DAYS_MS: u64 = 3 * 24 * 3_600_000;
    let mut server = Server::new();
    let to = server.ask(acquire("a", "w1", 100));
    server.lease(to);
    let copy = server.disk.clone();
    server.run_ms(3_600_000);
    let to = server.ask(acquire("a", "w1", 100));
    let lost = server.lease(to).token;

    server.options.restored = Some(Restored { for_ms: Some(1) });
    server.crash_with_disk(copy, Restart::OtherBoot, 1_000);
    server.run_ms(100);
    // It was idle, and is started again much later: now the clock is doubted, and no token was given meanwhile.
    server.options.restored = None;
    server.crash(Restart::OtherBoot, DAYS_MS);
    assert!(server.recovered.doubt.is_some());
    let to = server.ask(acquire("b", "w1", 100));
    assert!(server.lease(to).token > lost);
}

#[test]
fn an_operator_says_how_long_an_old_copy_grants_nothing() {
    let restored = Some(Restored { for_ms: Some(90_000) });
    let server = Server::with(Options { restored, ..Options::default() });
    assert_eq!(server.recovered.grants_held_ms, Some(90_000));
}

#[test]
fn a_wall_clock_that_leaps_ahead_is_reported_and_kept_out_of_tokens() {
    const YEAR_MS: i64 = 365 * 24 * 3_600_000;
    let mut server = Server::new();
    let token = |server: &mut Server| {
        let to = server.ask(acquire("a", "w1", 100));
        let token = server.lease(to).token;
        server.run_ms(200);
        token
    };
    let before = token(&mut server);
    server.wall_skew_ms = YEAR_MS;
    let during = token(&mut server);
    assert_eq!(during, before + 1);
    server.run_ms(1_000);
    let doubts = server.notices.iter().filter(|notice| matches!(notice, Notice::ClockDoubted { .. }));
    assert_eq!(doubts.count(), 1, "once, not with every turn");

    // The doubt outlives a restart, because the journal knows which readings were trusted.
    server.crash(Restart::SameBoot, 100);
    assert!(server.recovered.doubt.is_some());
    assert_eq!(token(&mut server), during + 1);
    server.options.accept_clock = true;
    server.crash(Restart::SameBoot, 100);
    assert_eq!(server.recovered.doubt, None);
    assert!(token(&mut server) > during + 4096 * 1_000_000, "the operator vouches for it");

    server.wall_skew_ms = -YEAR_MS;
    server.options.accept_clock = false;
    server.crash(Restart::SameBoot, 100);
    let last = server.engine.machine().last_token();
    assert_eq!(token(&mut server), last + 1, "set back: tokens grow all the same");
}

#[test]
fn the_remaining_time_is_measured_when_a_lease_is_released() {
    let mut server = Server::new();
    let to = server.ask(acquire("a", "w1", 30_000));
    let lease = server.lease(to);
    server.run_ms(1_000);
    let released = server.ask(release(&lease));
    assert_eq!(server.answer(released), Some(&Ok(Answer::Released { remaining_ms: Some(29_000) })));
    let reading = server.metrics.remaining.read();
    assert_eq!((reading.count, reading.sum), (1, 29_000.0));
}
