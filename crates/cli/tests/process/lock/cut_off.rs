//! The server is frozen, killed, restarted, or has given the lock up: the command goes on while it may, and ends in time.

use rustix::process::Signal;

use super::holder::{Holder, lock};
use super::stage::{self, docile, is_alive, now_us, stubborn, until};
use crate::program::Place;

const TTL_US: u64 = 3_000_000;

#[test]
fn while_the_server_is_frozen_the_command_gets_sigterm_and_ends() {
    let place = Place::new();
    let server = place.serve();
    let story = place.path("story");
    let holder = Holder::start(&place, "holder", &mut lock(&server, &["a", "--ttl", "3s"], &docile(&story)));
    stage::lines(&story, 1);
    let frozen_us = now_us();
    server.signal(Signal::STOP);
    assert_eq!(stage::lines(&story, 2)[1], "terminated");
    let took_us = now_us() - frozen_us;
    // Its last confirmed renewal is a third of a TTL old at most when its time is half a TTL.
    assert!(took_us > TTL_US / 8 && took_us < TTL_US * 3 / 4, "{took_us}");
    let (status, said) = holder.wait();
    assert_eq!(status, Some(76));
    assert!(
        said.contains("lost a: the lease is lost: no renewal was confirmed in time; its command was ended"),
        "{said}"
    );
}

#[test]
fn a_command_that_ignores_sigterm_is_killed_before_the_ttl_is_over() {
    let place = Place::new();
    let server = place.serve();
    let pids = place.path("pids");
    let holder = Holder::start(&place, "holder", &mut lock(&server, &["a", "--ttl", "3s"], &stubborn(&pids)));
    let both: Vec<i32> = stage::lines(&pids, 2).iter().map(|pid| pid.parse().unwrap()).collect();
    let frozen_us = now_us();
    server.signal(Signal::STOP);
    until("both are dead", || !both.iter().any(|pid| is_alive(*pid)));
    assert!(now_us() - frozen_us < TTL_US);
    assert_eq!(holder.wait().0, Some(76));
}

#[test]
fn a_server_that_is_restarted_in_time_costs_nothing() {
    let place = Place::new();
    let server = place.serve();
    let address = server.address.to_string();
    let script =
        format!("echo $$ >{}; until [ -e {} ]; do sleep 0.02; done", place.text("pid"), place.text("go"));
    let holder = Holder::start(&place, "holder", &mut lock(&server, &["a", "--ttl", "10s"], &script));
    stage::lines(&place.path("pid"), 1);
    server.kill();
    let server = place.serve_with(&["--listen", &address]);
    let restarted_us = now_us();
    until("it could not have lived without a renewal", || now_us() > restarted_us + 6_000_000);
    assert_eq!(server.client().get_lock("a")["state"], "held");
    std::fs::write(place.path("go"), "").unwrap();
    assert_eq!(holder.wait(), (Some(0), String::new()));
    assert_eq!(server.client().get_lock("a")["state"], "free");
}

#[test]
fn a_lock_that_was_broken_ends_its_command() {
    let place = Place::new();
    let server = place.serve();
    let story = place.path("story");
    let holder = Holder::start(&place, "holder", &mut lock(&server, &["a", "--ttl", "3s"], &docile(&story)));
    stage::lines(&story, 1);
    let mut client = server.client();
    client.expect(200, "DELETE", "/v1/locks/a?reason=testing", None);
    assert_eq!(stage::lines(&story, 2)[1], "terminated");
    let (status, said) = holder.wait();
    assert_eq!(status, Some(76));
    assert!(said.contains("lost a: the lease was broken"), "{said}");
    assert_eq!(client.get_lock("a")["state"], "free", "its holder has stopped, and says so");
}

/// The command has ended in good order; that its lock could not be given back is worth a word, and no failure.
#[test]
fn a_release_that_gets_no_answer_is_said_and_bounded() {
    let place = Place::new();
    let server = place.serve();
    let script = format!(
        "echo $$ >{}; until [ -e {} ]; do sleep 0.02; done; exit 3",
        place.text("pid"),
        place.text("go")
    );
    let holder = Holder::start(&place, "holder", &mut lock(&server, &["a", "--ttl", "1m"], &script));
    stage::lines(&place.path("pid"), 1);
    server.signal(Signal::STOP);
    std::fs::write(place.path("go"), "").unwrap();
    let (status, said) = holder.wait();
    assert_eq!(status, Some(3), "{said}");
    assert!(said.starts_with("leasehold: could not release a: "), "{said}");
}

/// The inner command has a group of its own, and a lease that lasts much longer.
#[test]
fn a_lock_within_a_lock_ends_with_the_outer_one() {
    let place = Place::new();
    let server = place.serve();
    let pids = place.path("pids");
    std::fs::write(place.path("inner.sh"), stubborn(&pids)).unwrap();
    let script = format!("exec $leasehold lock inner --ttl 10m -- sh {}", place.text("inner.sh"));
    let mut command = lock(&server, &["outer", "--ttl", "3s"], &script);
    let holder = Holder::start(&place, "holder", command.env("leasehold", env!("CARGO_BIN_EXE_leasehold")));
    let both: Vec<i32> = stage::lines(&pids, 2).iter().map(|pid| pid.parse().unwrap()).collect();
    let frozen_us = now_us();
    server.signal(Signal::STOP);
    until("both are dead", || !both.iter().any(|pid| is_alive(*pid)));
    let took_us = now_us() - frozen_us;
    assert!(took_us < TTL_US, "{took_us}");
    assert_eq!(holder.wait().0, Some(76));
}
