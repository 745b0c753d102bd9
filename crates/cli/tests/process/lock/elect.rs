//! `elect`: the command runs whenever this process leads, with a new token each time.

use std::path::Path;

use rustix::process::Signal;

use super::holder::{Holder, elect};
use super::stage::{self, is_alive, lines, until};
use crate::program::{Place, Server};

/// Writes its number and token each time it is started, and goes on until it is ended.
fn leading(path: &Path) -> String {
    format!("echo $$ $LEASEHOLD_TOKEN >>{}; while :; do sleep 0.05; done", path.display())
}

/// What it wrote the n-th time.
fn term(path: &Path, count: usize) -> (i32, u64) {
    let line = lines(path, count)[count - 1].clone();
    let (pid, token) = line.split_once(' ').unwrap();
    (pid.parse().unwrap(), token.parse().unwrap())
}

fn until_in_line(server: &Server, count: usize) {
    let mut client = server.client();
    until("they are in line", || client.get_lock("boss")["waiters"].as_array().unwrap().len() == count);
}

#[test]
fn a_leader_is_killed_and_a_follower_leads_when_its_command_is_dead() {
    let place = Place::new();
    let server = place.serve();
    let (one, two) = (place.path("one"), place.path("two"));
    let leader =
        Holder::start(&place, "leader", &mut elect(&server, &["boss", "--ttl", "3s"], &leading(&one)));
    let (pid, token) = term(&one, 1);
    let follower =
        Holder::start(&place, "follower", &mut elect(&server, &["boss", "--ttl", "3s"], &leading(&two)));
    until_in_line(&server, 1);
    let killed_us = stage::now_us();
    leader.kill();
    let (_, higher) = term(&two, 1);
    assert!(!is_alive(pid), "the old leader's command is dead");
    assert!(higher > token);
    // Within the TTL, and what it takes to start a command on a busy machine.
    assert!(stage::now_us() - killed_us < 3_000_000 + 2_000_000);
    follower.send(Signal::TERM);
    assert_eq!(follower.wait().0, Some(143));
}

#[test]
fn sigterm_resigns_and_a_follower_leads_at_once() {
    let place = Place::new();
    let server = place.serve();
    let (one, two) = (place.path("one"), place.path("two"));
    let leader =
        Holder::start(&place, "leader", &mut elect(&server, &["boss", "--ttl", "10m"], &leading(&one)));
    let (_, token) = term(&one, 1);
    let follower =
        Holder::start(&place, "follower", &mut elect(&server, &["boss", "--ttl", "10m"], &leading(&two)));
    until_in_line(&server, 1);
    leader.send(Signal::TERM);
    assert_eq!(leader.wait().0, Some(143));
    assert!(term(&two, 1).1 > token);
    follower.send(Signal::TERM);
    assert_eq!(follower.wait().0, Some(143));
    assert_eq!(server.client().get_lock("boss")["state"], "free");
}

#[test]
fn whoever_has_lost_stands_in_line_again_and_leads_anew() {
    let place = Place::new();
    let server = place.serve();
    let story = place.path("story");
    let leader =
        Holder::start(&place, "leader", &mut elect(&server, &["boss", "--ttl", "3s"], &leading(&story)));
    let (first, token) = term(&story, 1);
    server.client().expect(200, "DELETE", "/v1/locks/boss?reason=testing", None);
    let (second, higher) = term(&story, 2);
    assert!(!is_alive(first) && is_alive(second) && higher > token);
    assert!(leader.errors().contains("lost boss: the lease was broken"), "{}", leader.errors());
    leader.send(Signal::TERM);
    assert_eq!(leader.wait().0, Some(143));
}

#[test]
fn a_server_that_was_away_for_long_costs_leadership_and_not_the_process() {
    let place = Place::new();
    let server = place.serve();
    let address = server.address.to_string();
    let story = place.path("story");
    let leader =
        Holder::start(&place, "leader", &mut elect(&server, &["boss", "--ttl", "3s"], &leading(&story)));
    let (first, token) = term(&story, 1);
    server.kill();
    until("its command is dead", || !is_alive(first));
    let server = place.serve_with(&["--listen", &address]);
    assert!(term(&story, 2).1 > token);
    leader.send(Signal::TERM);
    assert_eq!(leader.wait().0, Some(143));
    server.stop();
}

#[test]
fn a_command_that_ends_by_itself_ends_the_term_and_the_process() {
    let place = Place::new();
    let server = place.serve();
    let story = place.path("story");
    let script = format!(
        "echo $$ 0 >{}; until [ -e {} ]; do sleep 0.02; done; exit 9",
        story.display(),
        place.text("go")
    );
    let leader = Holder::start(&place, "leader", &mut elect(&server, &["boss", "--ttl", "10m"], &script));
    lines(&story, 1);
    let follower = Holder::start(&place, "follower", &mut elect(&server, &["boss"], "exit 8"));
    until_in_line(&server, 1);
    std::fs::write(place.path("go"), "").unwrap();
    assert_eq!((leader.wait().0, follower.wait().0), (Some(9), Some(8)));
}

#[test]
fn a_follower_that_is_told_to_go_leaves_the_line() {
    let place = Place::new();
    let server = place.serve();
    let story = place.path("story");
    let leader = Holder::start(&place, "leader", &mut elect(&server, &["boss"], &leading(&story)));
    term(&story, 1);
    let follower = Holder::start(&place, "follower", &mut elect(&server, &["boss"], "true"));
    until_in_line(&server, 1);
    follower.send(Signal::INT);
    assert_eq!(follower.wait().0, Some(130));
    assert!(server.client().get_lock("boss")["waiters"].as_array().unwrap().is_empty());
    leader.send(Signal::TERM);
    assert_eq!(leader.wait().0, Some(143));
}

/// SIGHUP means "read your settings again" to many: it is the command's, and no wish to end.
#[test]
fn only_sigterm_and_sigint_keep_it_from_standing_in_line_again() {
    let place = Place::new();
    let server = place.serve();
    let story = place.path("story");
    let script = format!("trap 'echo hup >>{0}' HUP; {1}", place.text("heard"), leading(&story));
    let leader = Holder::start(&place, "leader", &mut elect(&server, &["boss", "--ttl", "3s"], &script));
    let (_, token) = term(&story, 1);
    leader.send(Signal::HUP);
    lines(&place.path("heard"), 1);
    server.client().expect(200, "DELETE", "/v1/locks/boss?reason=testing", None);
    assert!(term(&story, 2).1 > token);
    leader.send(Signal::TERM);
    assert_eq!(leader.wait().0, Some(143));
}
