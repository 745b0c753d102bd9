//! Signals to `leasehold` are the command's; SIGTERM hands the lock over.

use rustix::process::Signal;

use super::holder::{Holder, lock};
use super::stage::{self, docile, until};
use crate::program::Place;

#[test]
fn signals_are_passed_on_to_the_whole_group() {
    let place = Place::new();
    let server = place.serve();
    let story = place.path("story");
    let script = format!(
        "for s in HUP INT QUIT USR1 USR2 ALRM WINCH; do trap \"echo $s >>{0}\" $s; done; echo ready >>{0}; \
         until [ -e {1} ]; do sleep 0.02; done",
        story.display(),
        place.text("go")
    );
    let holder = Holder::start(&place, "holder", &mut lock(&server, &["a"], &script));
    stage::lines(&story, 1);
    let sent = [
        (Signal::HUP, "HUP"),
        (Signal::INT, "INT"),
        (Signal::QUIT, "QUIT"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
        (Signal::ALARM, "ALRM"),
        (Signal::WINCH, "WINCH"),
    ];
    for (count, (signal, name)) in sent.into_iter().enumerate() {
        holder.send(signal);
        assert_eq!(stage::lines(&story, count + 2)[count + 1], name);
    }
    std::fs::write(place.path("go"), "").unwrap();
    assert_eq!(holder.wait().0, Some(0));
}

#[test]
fn sigterm_stops_the_command_and_the_next_in_line_has_the_lock_at_once() {
    let place = Place::new();
    let server = place.serve();
    for (script, status) in [
        (docile(&place.path("docile")), 0),
        (format!("echo $$ >{}; exec sleep 1000", place.text("docile")), 143),
    ] {
        std::fs::write(place.path("docile"), "").unwrap();
        // Only a release can free it in time.
        let first = Holder::start(&place, "first", &mut lock(&server, &["a", "--ttl", "10m"], &script));
        stage::lines(&place.path("docile"), 1);
        let next = format!("echo $LEASEHOLD_TOKEN >{}", place.text("next"));
        let second = Holder::start(&place, "second", &mut lock(&server, &["a"], &next));
        until("it is in line", || !server.client().get_lock("a")["waiters"].as_array().unwrap().is_empty());
        first.send(Signal::TERM);
        assert_eq!(first.wait().0, Some(status));
        assert_eq!(second.wait().0, Some(0));
        stage::lines(&place.path("next"), 1);
    }
}

#[test]
fn a_command_that_takes_its_time_to_end_keeps_its_lock_until_it_has() {
    let place = Place::new();
    let server = place.serve();
    let story = place.path("story");
    let script = format!(
        "trap 'echo asked >>{0}; until [ -e {1} ]; do sleep 0.02; done; exit 4' TERM; echo $$ >>{0}; \
         while :; do sleep 0.02; done",
        story.display(),
        place.text("go")
    );
    let holder = Holder::start(&place, "holder", &mut lock(&server, &["a", "--ttl", "6s"], &script));
    stage::lines(&story, 1);
    holder.send(Signal::TERM);
    assert_eq!(stage::lines(&story, 2)[1], "asked");
    let asked_us = stage::now_us();
    until("it would have been lost without renewals", || stage::now_us() > asked_us + 4_000_000);
    assert_eq!(server.client().get_lock("a")["state"], "held");
    std::fs::write(place.path("go"), "").unwrap();
    assert_eq!(holder.wait().0, Some(4));
}

/// Who is stopped cannot obey.
#[test]
fn a_stopped_command_is_woken_for_sigterm() {
    let place = Place::new();
    let server = place.serve();
    let story = place.path("story");
    let holder = Holder::start(&place, "holder", &mut lock(&server, &["a", "--ttl", "10m"], &docile(&story)));
    let pid = stage::lines(&story, 1)[0].parse().unwrap();
    stage::send(pid, Signal::STOP);
    until("it is stopped", || stage::state(pid) == Some('T'));
    holder.send(Signal::TERM);
    assert_eq!(holder.wait().0, Some(0));
    assert_eq!(stage::lines(&story, 2)[1], "terminated");
}
