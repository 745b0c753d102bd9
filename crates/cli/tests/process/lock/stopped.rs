//! `leasehold` is stopped past its time, alone or with everything it started, and woken again.

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;

use super::holder::{Holder, lock};
use super::stage::{self, docile, is_alive, now_us, state, stubborn, until};
use crate::client::Client;
use crate::program::Place;

const TTL_US: u64 = 3_000_000;

fn holder_of(client: &mut Client) -> Value {
    client.get_lock("a")["holders"][0].clone()
}

#[test]
fn the_command_is_dead_in_time_and_the_late_holder_changes_nothing() {
    let place = Place::new();
    let server = place.serve();
    let mut client = server.client();
    let pids = place.path("pids");
    let script = format!("echo $LEASEHOLD_TOKEN >{}; {}", place.text("token"), stubborn(&pids));
    let holder = Holder::start(&place, "holder", &mut lock(&server, &["a", "--ttl", "3s"], &script));
    let both: Vec<i32> = stage::lines(&pids, 2).iter().map(|pid| pid.parse().unwrap()).collect();
    let token: u64 = stage::lines(&place.path("token"), 1)[0].parse().unwrap();
    let next = stage::stand_in_line(&server, "a");
    let stopped_us = now_us();
    holder.send(Signal::STOP);
    until("both are dead", || !both.iter().any(|pid| is_alive(*pid)));
    let took_us = now_us() - stopped_us;
    assert!(took_us < TTL_US, "{took_us}");
    let higher = next.granted();
    assert!(higher > token);

    let before = holder_of(&mut client);
    holder.send(Signal::CONT);
    let (status, said) = holder.wait();
    assert_eq!(status, Some(76), "{said}");
    assert!(said.starts_with("leasehold: lost a: "), "{said}");
    let after = holder_of(&mut client);
    assert_eq!(after["fencing_token"], higher);
    assert_eq!(
        (after["owner_id"].clone(), after["acquired_at"].clone()),
        (before["owner_id"].clone(), before["acquired_at"].clone())
    );
}

#[test]
fn a_command_that_ends_for_sigterm_gets_it() {
    let place = Place::new();
    let server = place.serve();
    let story = place.path("story");
    let holder = Holder::start(&place, "holder", &mut lock(&server, &["a", "--ttl", "3s"], &docile(&story)));
    stage::lines(&story, 1);
    holder.send(Signal::STOP);
    assert_eq!(stage::lines(&story, 2)[1], "terminated");
    holder.send(Signal::CONT);
    assert_eq!(holder.wait().0, Some(76));
}

/// The command's group and `leasehold` are stopped; the watchdog, which is out of their reach, kills who is stopped.
#[test]
fn a_stopped_command_is_killed_as_it_is() {
    let place = Place::new();
    let server = place.serve();
    let ticks = place.path("ticks");
    let script =
        format!("trap '' TERM; echo $$ >{0}; while :; do echo tick >>{0}; sleep 0.02; done", ticks.display());
    let holder = Holder::start(&place, "holder", &mut lock(&server, &["a", "--ttl", "3s"], &script));
    let pid: i32 = stage::lines(&ticks, 3)[0].parse().unwrap();
    let stopped_us = now_us();
    holder.send(Signal::STOP);
    kill_process_group(Pid::from_raw(pid).unwrap(), Signal::STOP).unwrap();
    until("it is dead", || !is_alive(pid));
    assert!(now_us() - stopped_us < TTL_US);
    holder.send(Signal::CONT);
    assert_eq!(holder.wait().0, Some(76));
}

/// Nobody is left to end it; whoever of the two is woken first does so before the command can do anything.
#[test]
fn everything_is_stopped_past_the_ttl_and_the_first_to_wake_ends_the_command() {
    for watchdog_first in [true, false] {
        let place = Place::new();
        let server = place.serve();
        let mut client = server.client();
        let ticks = place.path("ticks");
        let script = format!(
            "trap '' TERM; echo $$ >{0}; while :; do echo tick >>{0}; sleep 0.02; done",
            ticks.display()
        );
        let holder = Holder::start(&place, "holder", &mut lock(&server, &["a", "--ttl", "3s"], &script));
        let pid: i32 = stage::lines(&ticks, 3)[0].parse().unwrap();
        let watchdog = holder.watchdog();
        let next = stage::stand_in_line(&server, "a");
        stage::send(watchdog, Signal::STOP);
        holder.send(Signal::STOP);
        kill_process_group(Pid::from_raw(pid).unwrap(), Signal::STOP).unwrap();
        // A shell that is just starting another program waits for that, which is stopped.
        let is_stopped = |pid: i32| matches!(state(pid), Some('T' | 'D'));
        until("they are stopped", || [watchdog, holder.pid(), pid].into_iter().all(is_stopped));
        let higher = next.granted();
        let done = std::fs::read_to_string(&ticks).unwrap();

        match watchdog_first {
            true => stage::send(watchdog, Signal::CONT),
            false => holder.send(Signal::CONT),
        }
        until("it is dead", || !is_alive(pid));
        assert_eq!(std::fs::read_to_string(&ticks).unwrap(), done, "it has done nothing more");
        holder.send(Signal::CONT);
        // It may have gone already, its work done.
        stage::send_if_there(watchdog, Signal::CONT);
        assert_eq!(holder.wait().0, Some(76));
        assert_eq!(holder_of(&mut client)["fencing_token"], higher);
    }
}

#[test]
fn a_short_stop_costs_nothing() {
    let place = Place::new();
    let server = place.serve();
    let script =
        format!("echo $$ >{}; until [ -e {} ]; do sleep 0.02; done", place.text("pid"), place.text("go"));
    let holder = Holder::start(&place, "holder", &mut lock(&server, &["a", "--ttl", "1m"], &script));
    stage::lines(&place.path("pid"), 1);
    holder.send(Signal::STOP);
    until("it is stopped", || state(holder.pid()) == Some('T'));
    holder.send(Signal::CONT);
    std::fs::write(place.path("go"), "").unwrap();
    assert_eq!(holder.wait(), (Some(0), String::new()));
}

/// Stopping a command is somebody's decision; the lock is renewed for it.
#[test]
fn a_command_that_was_stopped_keeps_its_lock() {
    let place = Place::new();
    let server = place.serve();
    let pid = place.path("pid");
    let script =
        format!("echo $$ >{}; until [ -e {} ]; do sleep 0.02; done", pid.display(), place.text("go"));
    let holder = Holder::start(&place, "holder", &mut lock(&server, &["a", "--ttl", "6s"], &script));
    let pid = stage::lines(&pid, 1)[0].parse().unwrap();
    stage::send(pid, Signal::STOP);
    let begun_us = now_us();
    until("it would have been lost without renewals", || now_us() > begun_us + 4_000_000);
    assert_eq!((state(pid), server.client().get_lock("a")["state"].as_str()), (Some('T'), Some("held")));
    std::fs::write(place.path("go"), "").unwrap();
    stage::send(pid, Signal::CONT);
    assert_eq!(holder.wait(), (Some(0), String::new()));
}
