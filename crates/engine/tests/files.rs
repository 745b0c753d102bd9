//! Bytes enter a file after their batch is durable, and a write is acknowledged after that; nothing else waits for it.

mod by_hand;

use by_hand::{Options, Restart, Server, acquire, append, delete, get, renew, stat, write};
use leasehold_state_machine::answer::{Answer, FileView, Refusal, Written};
use leasehold_state_machine::event::Event;
use leasehold_state_machine::file::Offset;
use leasehold_state_machine::limits::FILE_INODE_FIRST;

const FIRST: u64 = FILE_INODE_FIRST;

fn file(server: &Server, to: leasehold_state_machine::command::Attachment) -> FileView {
    match server.answer(to) {
        Some(Ok(Answer::File(view))) => (**view).clone(),
        other => panic!("not a file: {other:?}"),
    }
}

fn wrote(offset: u64, length: u64, size: u64) -> Answer {
    Answer::Wrote(Written { offset, length, size })
}

#[test]
fn a_write_is_acknowledged_when_it_is_durable_and_in_the_file() {
    let mut server = Server::new();
    let to = server.ask(acquire("path:/a", "w1", 30_000));
    let lease = server.lease(to);
    (server.disk_is_prompt, server.files_are_prompt) = (false, false);
    let first = server.ask(append(&lease, "a", b"hello", None));
    let looked = server.ask(stat("a"));
    server.run_ms(150);
    assert!(server.answer(first).is_none());
    assert_eq!(server.content(FIRST), b"", "bytes enter the file only after their batch is durable");
    server.commit();
    assert!(server.answer(first).is_none() && server.answer(looked).is_none(), "nor before they are there");
    // Everything else goes on beside it.
    let other = server.ask(acquire("b", "w2", 30_000));
    let renewal = server.ask(renew(&lease));
    let missing = server.ask(stat("b"));
    let read = server.ask(get("path:/a"));
    server.commit();
    server.lease(other);
    server.lease(renewal);
    assert_eq!(server.answer(missing), Some(&Err(Refusal::NotFound("no such file"))));
    assert!(server.answer(read).is_some());

    assert!(server.apply_one());
    assert_eq!(server.answer(first), Some(&Ok(wrote(0, 5, 5))));
    assert_eq!((file(&server, looked).size, file(&server, looked).token), (5, lease.token));
    assert_eq!(server.content(FIRST), b"hello");
    assert!(server.engine.is_settled());
}

#[test]
fn a_repeat_waits_for_the_first_ones_bytes_too() {
    let mut server = Server::new();
    let to = server.ask(acquire("path:/a", "w1", 30_000));
    let lease = server.lease(to);
    server.files_are_prompt = false;
    let first = server.ask(append(&lease, "a", b"hello", Some("r")));
    let again = server.ask(append(&lease, "a", b"hello", Some("r")));
    assert!(server.answer(first).is_none() && server.answer(again).is_none());
    assert!(server.apply_one());
    assert_eq!(server.answer(first), Some(&Ok(wrote(0, 5, 5))));
    assert_eq!(server.answer(again), Some(&Ok(wrote(0, 5, 5))));
    assert!(!server.apply_one(), "there is one write");
}

#[test]
fn writes_to_different_files_do_not_wait_for_each_other() {
    let mut server = Server::new();
    let to = server.ask(acquire("path:/", "w1", 30_000));
    let lease = server.lease(to);
    server.files_are_prompt = false;
    let slow = server.ask(append(&lease, "slow", b"1", None));
    let quick = server.ask(append(&lease, "quick", b"2", None));
    // Whoever applies may take them in any order, but for those to one file.
    let seqs: Vec<u64> = server.told.iter().filter(|told| is_write(&told.2)).map(|told| told.0).collect();
    server.engine.applied(seqs[1]);
    server.run_ms(50);
    assert_eq!(server.answer(quick), Some(&Ok(wrote(0, 1, 1))));
    assert!(server.answer(slow).is_none());
    server.engine.applied(seqs[0]);
    server.run_ms(50);
    assert!(server.answer(slow).is_some());
}

fn is_write(event: &Event) -> bool {
    matches!(event, Event::FileWritten { .. })
}

#[test]
fn events_are_told_without_the_bytes() {
    let mut server = Server::new();
    let to = server.ask(acquire("path:/a", "w1", 30_000));
    let lease = server.lease(to);
    server.ask(append(&lease, "a", b"a secret, perhaps", None));
    server.ask(delete(&lease, "a"));
    let told: Vec<&Event> = server.told.iter().map(|(_, _, event)| event).collect();
    let told = told.iter().rev().take(2).collect::<Vec<_>>();
    assert!(matches!(told[0], Event::FileDeleted { .. }));
    assert!(matches!(told[1], Event::FileWritten { bytes, .. } if bytes.len() == 17));
    assert!(!format!("{told:?}").contains("secret"));
    assert_eq!(server.content(FIRST), b"", "the deleted file is gone");
}

/// A lease that ends in the middle of a batch: what was written before is there, what came after is refused.
#[test]
fn an_expiry_within_a_batch_parts_the_writes() {
    let mut server = Server::new();
    let to = server.ask(acquire("path:/a", "w1", 1_000));
    let lease = server.lease(to);
    server.disk_is_prompt = false;
    let before = server.ask(append(&lease, "a", b"before ", None));
    server.run_ms(1_100);
    let after = server.ask(append(&lease, "a", b"after", None));
    let next = server.ask(acquire("path:/a", "w2", 30_000));
    server.disk_is_prompt = true;
    server.commit();
    assert_eq!(server.answer(before), Some(&Ok(wrote(0, 7, 7))));
    assert_eq!(server.answer(after), Some(&Err(Refusal::LeaseExpired)));
    let next = server.lease(next);
    let written = server.ask(append(&next, "a", b"next", None));
    assert_eq!(server.answer(written), Some(&Ok(wrote(7, 4, 11))));
    assert_eq!(server.content(FIRST), b"before next");
}

#[test]
fn a_retry_after_a_crash_appends_nothing() {
    for kept in [true, false] {
        let mut server = Server::new();
        let to = server.ask(acquire("path:/a", "w1", 30_000));
        let lease = server.lease(to);
        server.disk_is_prompt = false;
        let lost = server.ask(append(&lease, "a", b"once", Some("r")));
        if kept {
            server.commit();
        }
        assert_eq!(server.answer(lost).is_some(), kept);
        server.crash(Restart::SameBoot, 100);
        server.disk_is_prompt = true;
        let again = server.ask(append(&lease, "a", b"once", Some("r")));
        server.commit();
        assert_eq!(server.answer(again), Some(&Ok(wrote(0, 4, 4))));
        let looked = server.ask(stat("a"));
        assert_eq!(file(&server, looked).size, 4);
    }
}

#[test]
fn the_largest_write_fits_into_every_journal() {
    for batch_bytes_max in [12 << 10, 64 << 10, 16 << 20] {
        let mut server =
            Server::with(Options { batch_bytes_max: Some(batch_bytes_max), ..Options::default() });
        let long = format!("path:/{}", "x".repeat(512));
        let to = server.ask(acquire(&long, &"o".repeat(256), 30_000));
        let lease = server.lease(to);
        let mut most = 1 << 20;
        let to = server.ask(write(&lease, &"x".repeat(512), Offset::At(0), &vec![7; most], Some("r")));
        if let Some(Err(Refusal::TooLarge { bytes_max, .. })) = server.answer(to) {
            most = *bytes_max as usize;
        }
        assert!(batch_bytes_max < 16 << 20 || most == 1 << 20);
        assert!(most >= 1024, "{most} bytes fit into batches of {batch_bytes_max}");
        // Several of them in one turn are cut into batches that the journal takes.
        server.disk_is_prompt = false;
        let asked: Vec<_> = (0..20)
            .map(|n| write(&lease, &"x".repeat(512), Offset::At(0), &vec![n; most], Some(&format!("r{n}"))))
            .map(|command| server.request(command))
            .collect();
        let last = asked[19].attachment;
        server.turn(asked);
        server.disk_is_prompt = true;
        while server.answer(last).is_none() {
            server.run_ms(1);
        }
        assert_eq!(server.answer(last), Some(&Ok(wrote(0, most as u64, most as u64))));
        assert!(server.disk.iter().all(|payload| payload.len() <= batch_bytes_max));
        assert_eq!(server.content(FIRST), vec![19; most]);
    }
}
