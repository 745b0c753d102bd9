//! What watchers may still hear of after a restart is what they could have heard of before it.

mod by_hand;

use by_hand::{Restart, Server, acquire, queue, release};
use leasehold_engine::{History, Replay, Told};
use leasehold_journal::Fold;
use leasehold_state_machine::answer::Answer;
use leasehold_state_machine::limits::Limits;

/// What a feed would have kept that heard all of this.
fn live(told: &[Told]) -> History {
    let mut history = History::new();
    for (seq, wall_ms, event) in told {
        history.note(*seq, *wall_ms, event);
    }
    history
}

/// Grants, lines, timeouts, releases, expiries and crashes.
fn busy_server() -> Server {
    let mut server = Server::new();
    for n in 0..60 {
        let lock = format!("lock-{}", n % 7);
        let to = server.ask(acquire(&lock, "w1", 400 + n * 10));
        server.ask(queue(&lock, "w2", 300, 900, Some(&format!("r{n}"))));
        if let Some(Ok(Answer::Lease(lease))) = server.answer(to).cloned()
            && n % 3 == 0
        {
            server.ask(release(&lease));
        }
        server.run_ms(130);
        if n % 20 == 19 {
            server.crash(if n % 40 == 19 { Restart::SameBoot } else { Restart::OtherBoot }, 700);
            server.run_ms(100);
        }
    }
    server
}

#[test]
fn the_history_of_a_replayed_journal_is_the_live_one() {
    let server = busy_server();
    let live = live(&server.told);
    for kind in ["granted", "queued", "dequeued", "released", "expired"] {
        assert!(live.since(0).any(|moment| moment.kind().text() == kind), "{kind} is among them");
    }
    let mut replay = Replay::new(Limits::default());
    for payload in &server.disk {
        replay.replay(payload).unwrap();
    }
    assert_eq!(*replay.history(), live);
    assert_eq!(replay.take_history(), live);
    assert!(replay.history().is_empty());
}

#[test]
fn a_snapshot_at_any_place_loses_nothing_of_it() {
    let server = busy_server();
    let live = live(&server.told);
    let step = (server.disk.len() / 40).max(1);
    for place in (0..=server.disk.len()).step_by(step) {
        let mut replay = Replay::new(Limits::default());
        for payload in &server.disk[..place] {
            replay.replay(payload).unwrap();
        }
        let mut snapshot = Vec::new();
        replay.write_snapshot(&mut snapshot).unwrap();
        let mut replay = Replay::new(Limits::default());
        replay.restore(&mut snapshot.as_slice()).unwrap();
        for payload in &server.disk[place..] {
            replay.replay(payload).unwrap();
        }
        assert_eq!(*replay.history(), live, "{place}");
    }
}
