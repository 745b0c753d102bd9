//! What the command finds around it: its environment, its files, its signals; and what it leaves behind.

use std::io::Write;
use std::process::Stdio;

use rustix::process::Signal;

use super::holder::{Holder, lock};
use super::stage::{self, is_alive, until};
use crate::program::{Place, leasehold, stderr, stdout};

#[test]
fn the_command_finds_its_lease_in_the_environment() {
    let place = Place::new();
    let server = place.serve();
    let script = "echo $LEASEHOLD_LOCK; echo $LEASEHOLD_LEASE_ID; echo $LEASEHOLD_TOKEN; echo $LEASEHOLD_OWNER; \
                  echo $LEASEHOLD_SERVER; exec \"$0\" renew";
    let mut command = leasehold();
    command.args([
        "lock",
        "name:a b",
        "--owner",
        "me",
        "--",
        "sh",
        "-c",
        script,
        env!("CARGO_BIN_EXE_leasehold"),
    ]);
    let output = server.environment(&mut command).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let told = stdout(&output);
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!((lines[0], lines[3]), ("a b", "me"), "in its canonical form");
    assert!(lines[1].len() > 20 && lines[2].parse::<u64>().unwrap() > 0, "{told}");
    assert_eq!(lines[4], format!("http://{}", server.address));
}

#[test]
fn standard_input_and_output_are_the_commands_own() {
    let place = Place::new();
    let server = place.serve();
    let mut command = lock(&server, &["a"], "cat; echo err >&2");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&[b'x'; 100_000]).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.stdout.len(), 100_000);
    assert_eq!(stderr(&output), "err\n");
}

/// A pipe that somebody else keeps open would hold a shell's `$(…)` up.
#[test]
fn nobody_but_the_command_keeps_its_output_open() {
    let place = Place::new();
    let server = place.serve();
    let script = format!("until [ -e {} ]; do sleep 0.02; done", place.text("go"));
    let output = std::fs::File::create(place.path("output")).unwrap();
    let holder = Holder::start(&place, "holder", lock(&server, &["a"], &script).stdout(output));
    let watchdog = holder.watchdog();
    let open = |pid: i32| -> Vec<std::path::PathBuf> {
        let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
        fds.map(|fd| std::fs::read_link(fd.unwrap().path()).unwrap()).collect()
    };
    until("it guards", || open(watchdog).iter().any(|file| file.ends_with("anon_inode:[pidfd]")));
    let (files, ours) = (open(watchdog), open(holder.pid()));
    for name in ["output", "holder.stderr"] {
        assert!(ours.contains(&place.path(name)) && !files.contains(&place.path(name)), "{files:?}");
    }
    std::fs::write(place.path("go"), "").unwrap();
    assert_eq!(holder.wait().0, Some(0));
    assert!(!is_alive(watchdog), "nothing of us is left behind");
}

#[test]
fn it_is_held_until_all_that_the_command_left_in_its_group_has_ended() {
    let place = Place::new();
    let server = place.serve();
    let pids = place.path("pids");
    let script = format!("sleep 1000 & echo $! >>{0}; (sleep 1000 & echo $! >>{0}); exit 5", pids.display());
    let mut holder = Holder::start(&place, "holder", &mut lock(&server, &["a", "--ttl", "6s"], &script));
    let left: Vec<i32> = stage::lines(&pids, 2).iter().map(|pid| pid.parse().unwrap()).collect();
    let begun_us = stage::now_us();
    until("it would have been lost without renewals", || stage::now_us() > begun_us + 4_000_000);
    assert!(holder.is_running(), "{}", holder.errors());
    assert_eq!(server.client().get_lock("a")["state"], "held");
    stage::send(left[0], Signal::KILL);
    until("one has gone", || !is_alive(left[0]));
    assert!(holder.is_running() && server.client().get_lock("a")["state"] == "held", "{}", holder.errors());
    stage::send(left[1], Signal::KILL);
    assert_eq!(holder.wait().0, Some(5));
    assert_eq!(server.client().get_lock("a")["state"], "free");
}

/// The system would do so for a group that nobody looks after.
#[test]
fn what_was_left_behind_stopped_is_continued() {
    let place = Place::new();
    let server = place.serve();
    let script =
        "sh -c 'kill -STOP $$; exit 1' & until grep -q 'State:.T' /proc/$!/status; do :; done; exit 6";
    let holder = Holder::start(&place, "holder", &mut lock(&server, &["a"], script));
    assert_eq!(holder.wait().0, Some(6));
}

#[test]
fn what_was_ignored_stays_ignored_and_nothing_else_is() {
    let place = Place::new();
    let server = place.serve();
    let show = "grep -E 'SigIgn|SigBlk' /proc/self/status";
    let ignored = |setting: &str| -> Vec<u64> {
        let program = env!("CARGO_BIN_EXE_leasehold");
        let script = format!("{setting} exec {program} lock a -- sh -c \"{show}\"");
        let mut command = std::process::Command::new("sh");
        let output = server.environment(command.args(["-c", &script])).output().unwrap();
        let numbers = stdout(&output);
        let numbers = numbers.lines().map(|line| line.rsplit('\t').next().unwrap().to_owned());
        // Only those that have names: the rest is the libraries' own.
        numbers.map(|number| u64::from_str_radix(&number, 16).unwrap() & 0x7fff_ffff).collect()
    };
    assert_eq!(ignored(""), [0, 0]);
    assert_eq!(ignored("trap '' HUP INT;"), [0, 0b11]);
}

#[test]
fn the_command_has_a_group_of_its_own_in_our_session() {
    let place = Place::new();
    let server = place.serve();
    let output = lock(&server, &["a"], "cut -d' ' -f1,5,6 /proc/$$/stat; cut -d' ' -f1,5,6 /proc/$PPID/stat")
        .output()
        .unwrap();
    let told = stdout(&output);
    let mut lines =
        told.lines().map(|line| line.split(' ').map(|n| n.parse::<i32>().unwrap()).collect::<Vec<_>>());
    let (command, ours) = (lines.next().unwrap(), lines.next().unwrap());
    assert_eq!(command[0], command[1], "it leads a group");
    assert_eq!(command[2], ours[2], "in our session");
    assert_ne!(command[1], ours[1]);
}
