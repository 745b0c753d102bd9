//! `leasehold` is killed with SIGKILL, or its watchdog is: the command is dead before anybody else can have the lock.

use rustix::process::Signal;

use super::holder::{Holder, lock};
use super::stage::{self, docile, is_alive, now_us, stubborn, until};
use crate::program::Place;

const TTL_US: u64 = 3_000_000;

#[test]
fn a_command_that_ignores_sigterm_and_its_children_are_dead_before_the_ttl_is_over() {
    let place = Place::new();
    let server = place.serve();
    let pids = place.path("pids");
    let script = format!("echo $LEASEHOLD_TOKEN >{}; {}", place.text("token"), stubborn(&pids));
    let holder = Holder::start(&place, "holder", &mut lock(&server, &["a", "--ttl", "3s"], &script));
    let both: Vec<i32> = stage::lines(&pids, 2).iter().map(|pid| pid.parse().unwrap()).collect();
    let token: u64 = stage::lines(&place.path("token"), 1)[0].parse().unwrap();
    let next = stage::stand_in_line(&server, "a");
    let killed_us = now_us();
    holder.kill();
    until("both are dead", || !both.iter().any(|pid| is_alive(*pid)));
    let took_us = now_us() - killed_us;
    assert!(took_us < TTL_US, "{took_us}");
    assert!(next.granted() > token);
}

#[test]
fn whoever_gets_the_lock_next_finds_the_command_dead() {
    let place = Place::new();
    let server = place.serve();
    let pids = place.path("pids");
    let holder = Holder::start(&place, "holder", &mut lock(&server, &["a", "--ttl", "3s"], &stubborn(&pids)));
    let both: Vec<i32> = stage::lines(&pids, 2).iter().map(|pid| pid.parse().unwrap()).collect();
    let next = stage::stand_in_line(&server, "a");
    holder.kill();
    next.granted();
    assert!(!both.iter().any(|pid| is_alive(*pid)));
}

#[test]
fn a_command_that_can_end_in_good_order_does_so_at_once() {
    let place = Place::new();
    let server = place.serve();
    let story = place.path("story");
    let holder = Holder::start(&place, "holder", &mut lock(&server, &["a", "--ttl", "10m"], &docile(&story)));
    let pid = stage::lines(&story, 1)[0].parse().unwrap();
    let watchdog = holder.watchdog();
    holder.kill();
    assert_eq!(stage::lines(&story, 2)[1], "terminated");
    until("both are dead", || !is_alive(pid) && !is_alive(watchdog));
}

#[test]
fn a_watchdog_that_was_killed_is_replaced() {
    let place = Place::new();
    let server = place.serve();
    let pids = place.path("pids");
    let holder = Holder::start(&place, "holder", &mut lock(&server, &["a", "--ttl", "3s"], &stubborn(&pids)));
    let both: Vec<i32> = stage::lines(&pids, 2).iter().map(|pid| pid.parse().unwrap()).collect();
    let first = holder.watchdog();
    stage::send(first, Signal::KILL);
    until("there is another", || !is_alive(first) && holder.watchdog() != first);
    let second = holder.watchdog();
    until("it knows its time", || {
        std::fs::read_dir(format!("/proc/{second}/fd")).is_ok_and(|fds| {
            fds.flatten().any(|fd| fd.path().read_link().is_ok_and(|to| to.ends_with("anon_inode:[pidfd]")))
        })
    });
    assert!(both.iter().all(|pid| is_alive(*pid)), "{}", holder.errors());
    let killed_us = now_us();
    holder.kill();
    until("both are dead", || !both.iter().any(|pid| is_alive(*pid)));
    assert!(now_us() - killed_us < TTL_US);
}

/// Between its birth and the word that starts it, a command's process does nothing but wait.
#[test]
fn a_command_that_was_not_told_to_start_never_does() {
    let place = Place::new();
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut command = crate::program::leasehold();
    command.args([":start", "touch", &place.text("ran")]).stdin(std::os::fd::OwnedFd::from(theirs));
    let mut child = command.spawn().unwrap();
    drop(command);
    assert_eq!(child.try_wait().unwrap(), None);
    drop(ours);
    assert!(!child.wait().unwrap().success());
    assert!(!place.path("ran").exists());
}
