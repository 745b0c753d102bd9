//! Nothing escapes before it is durable, and what escaped is still true after a crash.

mod by_hand;

use by_hand::{Options, Restart, Server, acquire, get, queue, release, renew};
use leasehold_engine::Replay;
use leasehold_journal::Fold;
use leasehold_state_machine::answer::Answer;
use leasehold_state_machine::event::Event;
use leasehold_state_machine::limits::{Limits, PICTURE_RECORDS_MAX};

#[test]
fn a_grant_is_answered_when_it_is_durable_and_not_before() {
    let mut server = Server::new();
    server.disk_is_prompt = false;
    let told = server.told.len();
    let to = server.ask(acquire("a", "w1", 30_000));
    server.run_ms(150);
    assert!(server.answer(to).is_none());
    assert_eq!(server.told.len(), told, "no event is told either");
    server.commit();
    assert_eq!(server.lease(to).owner.text(), "w1");
    assert!(server.told[told..].iter().any(|(_, _, event)| matches!(event, Event::Granted { .. })));
}

#[test]
fn a_refusal_waits_for_the_undurable_grant_it_speaks_of() {
    let mut server = Server::new();
    server.disk_is_prompt = false;
    server.ask(acquire("a", "w1", 30_000));
    let refused = server.ask(acquire("a", "w2", 30_000));
    let read = server.ask(get("a"));
    assert!(server.answer(refused).is_none() && server.answer(read).is_none());
    // The grant is in the batch in flight; the refusal speaks of that and of nothing later.
    assert!(server.commit_one(100));
    assert!(server.is_held(refused));
    assert!(server.answer(read).is_some());
}

#[test]
fn a_refusal_that_changes_nothing_costs_no_write() {
    let mut server = Server::new();
    server.ask(acquire("a", "w1", 30_000));
    server.commit();
    let records = server.disk.len();
    server.disk_is_prompt = false;
    let refused = server.ask(acquire("a", "w2", 30_000));
    assert!(server.is_held(refused), "at once, with the disk standing still");
    server.disk_is_prompt = true;
    assert_eq!(server.disk.len(), records);
}

#[test]
fn events_are_told_in_order_without_gaps_across_restarts() {
    let mut server = Server::new();
    for round in 0..5 {
        let to = server.ask(acquire("a", "w1", 30_000));
        let lease = server.lease(to);
        server.ask(queue("a", "w2", 500, 10_000, Some(&format!("r{round}"))));
        server.ask(release(&lease));
        server.run_ms(3_000);
        server.crash(if round % 2 == 0 { Restart::SameBoot } else { Restart::OtherBoot }, 700);
        server.run_ms(20_000);
    }
    let seqs: Vec<_> = server.told.iter().map(|(seq, _, _)| *seq).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    assert_eq!(server.told.last().unwrap().0, server.engine.machine().seq());
}

#[test]
fn a_lost_tail_takes_only_what_nobody_was_told() {
    let mut server = Server::new();
    let kept = server.ask(acquire("kept", "w1", 30_000));
    let kept = server.lease(kept);
    server.disk_is_prompt = false;
    let lost = server.ask(acquire("lost", "w1", 30_000));
    server.run_ms(100);
    assert!(server.answer(lost).is_none());
    server.crash(Restart::SameBoot, 100);
    server.disk_is_prompt = true;
    let again = server.ask(acquire("kept", "w2", 30_000));
    assert!(server.is_held(again), "what was told still holds");
    let renewed = server.ask(renew(&kept));
    assert_eq!(server.lease(renewed).token, kept.token);
    let free = server.ask(acquire("lost", "w2", 30_000));
    assert!(server.lease(free).token > kept.token);
}

#[test]
fn any_prefix_of_the_journal_is_a_true_history() {
    let mut server = Server::with(Options { batch_bytes_max: Some(20 << 10), ..Options::default() });
    let mut leases = Vec::new();
    for n in 0..200 {
        let to = server.ask(acquire(&format!("lock-{n}"), "w1", 60_000));
        leases.push(server.lease(to));
    }
    for lease in leases.iter().step_by(2) {
        server.ask(release(lease));
    }
    let disk = server.disk.clone();
    for keep in 1..=disk.len() {
        server.crash_with_disk(disk[..keep].to_vec(), Restart::SameBoot, 0);
        server.engine.machine().assert_invariants();
    }
    assert_eq!(server.engine.machine().counts().leases, 100);
}

#[test]
fn after_a_storage_error_nothing_is_acknowledged() {
    let mut server = Server::new();
    let to = server.ask(acquire("a", "w1", 30_000));
    let lease = server.lease(to);
    server.disk_is_prompt = false;
    let undurable = server.ask(acquire("b", "w1", 30_000));
    server.engine.storage_failed();
    let renewal = server.ask(renew(&lease));
    server.run_ms(500);
    assert!(server.answer(undurable).is_none());
    assert!(server.answer(renewal).is_none(), "not even what the horizon would cover");
    assert!(server.engine.take_batch().is_none(), "and nothing is tried again");
}

#[test]
fn a_snapshot_of_the_replayed_journal_is_the_live_state_byte_for_byte() {
    let mut server = Server::new();
    for n in 0..50 {
        let to = server.ask(acquire(&format!("lock-{}", n % 7), "w1", 400 + n * 10));
        let line = queue(&format!("lock-{}", n % 7), "w2", 300, 900, Some(&format!("r{n}")));
        server.ask(line);
        if let Some(Ok(Answer::Lease(lease))) = server.answer(to).cloned()
            && n % 3 == 0
        {
            server.ask(release(&lease));
        }
        server.run_ms(130);
    }
    let mut replay = Replay::new(Limits::default());
    let half = server.disk.len() / 2;
    for payload in &server.disk[..half] {
        replay.replay(payload).unwrap();
    }
    // A background snapshot in the middle, from which another fold goes on.
    let mut snapshot = Vec::new();
    replay.write_snapshot(&mut snapshot).unwrap();
    let mut replay = Replay::new(Limits::default());
    replay.restore(&mut snapshot.as_slice()).unwrap();
    for payload in &server.disk[half..] {
        replay.replay(payload).unwrap();
    }
    let mut bytes = Vec::new();
    replay.machine().write_snapshot(&mut bytes);
    assert_eq!(bytes, server.snapshot());
    assert!(server.engine.machine().counts().tombstones > 0 && server.told.len() > 100);

    // So is a picture that was never added up, with what the batches say beside their events.
    let picture = server.engine.picture().expect("everything is durable, and there is little of it");
    let (mut added_up, mut pictured) = (Vec::new(), Vec::new());
    replay.write_snapshot(&mut added_up).unwrap();
    picture.with(replay.history().clone()).write_snapshot(&mut pictured).unwrap();
    assert_eq!(pictured, added_up);
}

#[test]
fn there_is_no_picture_of_what_is_not_durable_nor_of_very_much() {
    let mut server = Server::new();
    server.disk_is_prompt = false;
    server.ask(acquire("a", "w1", 30_000));
    assert!(server.engine.picture().is_none(), "a grant waits for the disk");
    server.commit();
    assert!(server.engine.picture().is_some());
    server.disk_is_prompt = true;
    for n in 0..PICTURE_RECORDS_MAX {
        server.ask(acquire(&format!("lock-{n}"), "w1", 60_000));
    }
    assert!(server.engine.picture().is_none());
    server.engine.storage_failed();
    assert!(server.engine.picture().is_none());
}

#[test]
fn a_journal_with_a_gap_is_refused() {
    let mut server = Server::new();
    server.ask(acquire("a", "w1", 30_000));
    server.ask(acquire("b", "w1", 30_000));
    let mut replay = Replay::new(Limits::default());
    replay.replay(&server.disk[0]).unwrap();
    let refused = replay.replay(server.disk.last().unwrap()).unwrap_err();
    assert!(refused.contains("follows event"), "{refused}");
}
