//! The watchdog by itself: it ends a group in time, hears no signal, and touches nobody else's group.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, getsid, kill_process};

use super::stage::{self, docile, is_alive, now_us, stubborn, until};
use crate::program::{Place, leasehold};

struct Watchdog {
    child: Child,
    orders: Option<ChildStdin>,
    notices: ChildStdout,
}

impl Watchdog {
    fn start() -> Watchdog {
        let mut command = leasehold();
        command.args([":watchdog", "x"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (orders, notices) = (child.stdin.take(), child.stdout.take().unwrap());
        let mut watchdog = Watchdog { child, orders, notices };
        watchdog.expect(b"r");
        watchdog
    }

    fn tell(&mut self, order: &str) {
        self.orders.as_mut().unwrap().write_all(order.as_bytes()).unwrap();
    }

    fn guard(&mut self, leader: &Child, term_us: u64, kill_us: u64) {
        self.tell(&format!("guard {} 60000000\nby {term_us} {kill_us}\n", leader.id()));
        self.expect(b"g");
    }

    fn expect(&mut self, notices: &[u8]) {
        let mut heard = vec![0; notices.len()];
        self.notices.read_exact(&mut heard).unwrap();
        assert_eq!(String::from_utf8_lossy(&heard), String::from_utf8_lossy(notices));
    }

    fn ends(mut self) {
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn led(script: &str) -> Child {
    Command::new("sh").args(["-c", script]).process_group(0).spawn().unwrap()
}

fn pids(place: &Place, count: usize) -> Vec<i32> {
    stage::lines(&place.path("pids"), count).iter().map(|line| line.parse().unwrap()).collect()
}

#[test]
fn sends_sigterm_at_one_time_and_sigkill_at_the_next_to_the_whole_group() {
    let place = Place::new();
    let mut command = led(&stubborn(&place.path("pids")));
    let both = pids(&place, 2);
    let mut watchdog = Watchdog::start();
    let (term_us, kill_us) = (now_us() + 200_000, now_us() + 400_000);
    watchdog.guard(&command, term_us, kill_us);
    watchdog.expect(b"t");
    assert!(now_us() >= term_us);
    assert!(both.iter().all(|pid| is_alive(*pid)));
    watchdog.expect(b"k");
    assert!(now_us() >= kill_us);
    command.wait().unwrap();
    until("the child is dead too", || !both.iter().any(|pid| is_alive(*pid)));
    watchdog.tell("done\n");
    watchdog.ends();
}

#[test]
fn a_renewal_moves_the_time() {
    let place = Place::new();
    let mut command = led(&docile(&place.path("story")));
    stage::lines(&place.path("story"), 1);
    let mut watchdog = Watchdog::start();
    let begun_us = now_us();
    watchdog.guard(&command, begun_us + 300_000, begun_us + 600_000);
    watchdog.tell(&format!("by {} {}\n", begun_us + 900_000, begun_us + 60_000_000));
    watchdog.expect(b"t");
    assert!(now_us() >= begun_us + 900_000);
    assert_eq!(command.wait().unwrap().code(), Some(0));
    watchdog.ends();
}

#[test]
fn left_alone_it_ends_the_group_and_itself() {
    let place = Place::new();
    let mut command = led(&docile(&place.path("story")));
    stage::lines(&place.path("story"), 1);
    let mut watchdog = Watchdog::start();
    watchdog.guard(&command, now_us() + 60_000_000, now_us() + 90_000_000);
    watchdog.orders = None;
    watchdog.expect(b"t");
    assert_eq!(command.wait().unwrap().code(), Some(0));
    assert_eq!(stage::lines(&place.path("story"), 2)[1], "terminated");
    watchdog.ends();
}

#[test]
fn a_stopped_command_is_woken_to_end_and_killed_as_it_is() {
    let place = Place::new();
    let mut command = led(&docile(&place.path("story")));
    let pid = stage::lines(&place.path("story"), 1)[0].parse().unwrap();
    stage::send(pid, Signal::STOP);
    until("it is stopped", || stage::state(pid) == Some('T'));
    let mut watchdog = Watchdog::start();
    watchdog.guard(&command, now_us(), now_us() + 60_000_000);
    assert_eq!(command.wait().unwrap().code(), Some(0));

    let mut command = led(&docile(&place.path("another")));
    let pid = stage::lines(&place.path("another"), 1)[0].parse().unwrap();
    stage::send(pid, Signal::STOP);
    until("it is stopped", || stage::state(pid) == Some('T'));
    let mut watchdog = Watchdog::start();
    watchdog.guard(&command, now_us(), now_us());
    assert_eq!(command.wait().unwrap().code(), None);
    assert_eq!(stage::lines(&place.path("another"), 1).len(), 1, "it did nothing more");
}

#[test]
fn goes_when_the_group_is_empty_and_leaves_those_alone_who_are_in_no_group_of_it() {
    let place = Place::new();
    let story = place.path("story");
    let mut command = led(&format!("echo $$ >{0}; sleep 1000 & echo $! >>{0}", story.display()));
    let left_behind = stage::lines(&story, 2)[1].parse().unwrap();
    let mut watchdog = Watchdog::start();
    watchdog.guard(&command, now_us() + 60_000_000, now_us() + 90_000_000);
    command.wait().unwrap();
    assert!(is_alive(left_behind));
    assert_eq!(watchdog.child.try_wait().unwrap(), None, "somebody is left in the group");
    stage::send(left_behind, Signal::KILL);
    watchdog.ends();
}

#[test]
fn hears_no_signal_and_has_a_session_of_its_own() {
    let mut watchdog = Watchdog::start();
    let pid = Pid::from_child(&watchdog.child);
    assert_eq!(getsid(Some(pid)).unwrap(), pid);
    for signal in
        [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::TSTP, Signal::USR1, Signal::PIPE]
    {
        kill_process(pid, signal).unwrap();
    }
    let place = Place::new();
    let mut command = led(&docile(&place.path("story")));
    stage::lines(&place.path("story"), 1);
    watchdog.guard(&command, now_us(), now_us() + 60_000_000);
    assert_eq!(command.wait().unwrap().code(), Some(0));
    watchdog.ends();
}

#[test]
fn without_orders_it_goes_and_nonsense_is_as_good_as_none() {
    let mut watchdog = Watchdog::start();
    watchdog.orders = None;
    watchdog.ends();

    let place = Place::new();
    let mut command = led(&docile(&place.path("story")));
    stage::lines(&place.path("story"), 1);
    let mut watchdog = Watchdog::start();
    watchdog.guard(&command, now_us() + 60_000_000, now_us() + 90_000_000);
    watchdog.tell("what?\n");
    assert_eq!(command.wait().unwrap().code(), Some(0));
    watchdog.ends();
}
