//! On a terminal: the command is in the foreground, Ctrl-C and Ctrl-Z do what they do, and scripts keep their terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::tcgetpgrp;

use super::stage::{self, is_alive, lines, state, until};
use crate::program::{Place, Server};

/// A terminal, and a session that has it.
struct Session {
    keyboard: File,
    screen: Arc<Mutex<String>>,
    child: Child,
}

impl Session {
    /// Runs a script of the shell as the leader of a session on a terminal of its own.
    fn start(server: &Server, script: &str) -> Session {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
        // Whoever leads a session that has no terminal gets the first one that it opens.
        let script = format!("exec <>{name} >&0 2>&0; {script}");
        let mut command = Command::new("setsid");
        server.environment(command.args(["sh", "-c", &script]));
        command.env("leasehold", env!("CARGO_BIN_EXE_leasehold")).env("PS1", "$ ").env("TERM", "dumb");
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let screen = Arc::<Mutex<String>>::default();
        watch(terminal.try_clone().unwrap(), Arc::clone(&screen));
        Session { keyboard: File::from(terminal), screen, child }
    }

    fn type_in(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    fn shows(&self, text: &str) {
        until(&format!("it shows {text}: {:?}", self.screen.lock().unwrap()), || {
            self.screen.lock().unwrap().contains(text)
        });
    }

    /// Waits until this group has the terminal.
    fn in_the_foreground(&self, group: i32) {
        until("it is in the foreground", || {
            tcgetpgrp(&self.keyboard).is_ok_and(|pid| pid.as_raw_nonzero().get() == group)
        });
    }

    fn leader(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    fn wait(mut self) -> Option<i32> {
        until("the session ends", || self.child.try_wait().unwrap().is_some());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A terminal that nobody has open any more reads as an error.
fn watch(terminal: OwnedFd, screen: Arc<Mutex<String>>) {
    std::thread::spawn(move || {
        let (mut terminal, mut bytes) = (File::from(terminal), [0; 4096]);
        while let Ok(count) = terminal.read(&mut bytes) {
            screen.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    });
}

/// The number that a command wrote there.
fn pid(place: &Place) -> i32 {
    lines(&place.path("pid"), 1)[0].parse().unwrap()
}

#[test]
fn the_command_is_in_the_foreground_and_ctrl_c_ends_it() {
    let place = Place::new();
    let server = place.serve();
    let script = format!("exec $leasehold lock a -- sh -c 'echo $$ >{}; exec sleep 1000'", place.text("pid"));
    let mut session = Session::start(&server, &script);
    let command = pid(&place);
    session.in_the_foreground(command);
    session.type_in("\x03");
    assert_eq!(session.wait(), Some(130));
    assert!(!is_alive(command));
    assert_eq!(server.client().get_lock("a")["state"], "free");
}

/// As the first process of a container, for example: nobody could ever continue us.
#[test]
fn where_no_shell_stands_above_ctrl_z_has_no_effect() {
    let place = Place::new();
    let server = place.serve();
    let script = format!("exec $leasehold lock a -- sh -c 'echo $$ >{}; exec cat'", place.text("pid"));
    let mut session = Session::start(&server, &script);
    let command = pid(&place);
    session.in_the_foreground(command);
    session.type_in("\x1a");
    session.shows("^Z");
    session.type_in("words\n");
    until("it goes on, and says what was typed", || {
        session.screen.lock().unwrap().matches("words").count() == 2
    });
    assert_ne!(state(session.leader()), Some('T'));
    session.type_in("\x03");
    assert_eq!(session.wait(), Some(130));
}

#[test]
fn ctrl_z_stops_both_gives_the_prompt_back_and_fg_goes_on() {
    let place = Place::new();
    let server = place.serve();
    let mut session = Session::start(&server, "exec sh -i");
    let shell = session.leader();
    session.shows("$ ");
    // One process: a shell that is just about to start another cannot be stopped.
    session.type_in(&format!(
        "$leasehold lock a --ttl 10m -- sh -c 'echo $$ >{}; exec sleep 1000'\n",
        place.text("pid")
    ));
    let command = pid(&place);
    session.in_the_foreground(command);
    session.type_in("\x1a");
    session.in_the_foreground(shell);
    assert_eq!(state(command), Some('T'));
    session.shows("leasehold: a is not renewed while we are stopped: its command is ended in ");
    session.type_in("fg\n");
    session.in_the_foreground(command);
    until("it goes on", || state(command) != Some('T'));
    session.type_in("\x03");
    session.in_the_foreground(shell);
    session.type_in("echo status=$?\n");
    session.shows("status=130");
    session.type_in("exit 5\n");
    assert_eq!(session.wait(), Some(5));
}

/// A stopped `leasehold` does not renew, and the promise holds: the command is dead in time.
#[test]
fn who_stays_stopped_for_too_long_loses_the_lock() {
    let place = Place::new();
    let server = place.serve();
    let mut session = Session::start(&server, "exec sh -i");
    let shell = session.leader();
    session.shows("$ ");
    session.type_in(&format!(
        "$leasehold lock a --ttl 3s -- sh -c 'trap \"echo terminated >>{0}; exit\" TERM; echo $$ >>{0}; read line'\n",
        place.text("pid")
    ));
    let command = pid(&place);
    session.in_the_foreground(command);
    session.type_in("\x1a");
    session.in_the_foreground(shell);
    let next = stage::stand_in_line(&server, "a");
    next.granted();
    assert!(!is_alive(command));
    assert_eq!(lines(&place.path("pid"), 2)[1], "terminated");
    session.type_in("fg\n");
    session.shows("leasehold: lost a: ");
    session.in_the_foreground(shell);
    session.type_in("echo status=$?\n");
    session.shows("status=76");
}

#[test]
fn a_command_in_the_background_that_wants_the_terminal_waits_for_fg() {
    let place = Place::new();
    let server = place.serve();
    let mut session = Session::start(&server, "exec sh -i");
    session.shows("$ ");
    let script = format!("echo $$ >{}; read line; echo got-$line", place.text("pid"));
    session.type_in(&format!("$leasehold lock a --ttl 10m -- sh -c '{script}' &\n"));
    let command = pid(&place);
    let both = [command, stage::parent(command)];
    until("both are stopped", || both.iter().all(|pid| state(*pid) == Some('T')));
    session.in_the_foreground(session.leader());
    session.type_in("fg\n");
    session.in_the_foreground(command);
    session.type_in("words\n");
    session.shows("got-words");
    session.in_the_foreground(session.leader());
}

/// In a script the shell has the terminal as well; the command gets it when it reaches for it, and it is given back.
#[test]
fn in_a_script_the_command_gets_the_terminal_when_it_reads() {
    let place = Place::new();
    let server = place.serve();
    let script = format!(
        "$leasehold lock a -- sh -c 'echo $$ >{}; read line; echo got-$line'; echo status=$?; read line; echo then-$line",
        place.text("pid")
    );
    let mut session = Session::start(&server, &script);
    let command = pid(&place);
    session.in_the_foreground(command);
    session.type_in("one\n");
    session.shows("got-one");
    session.shows("status=0");
    session.in_the_foreground(session.leader());
    session.type_in("two\n");
    session.shows("then-two");
    assert_eq!(session.wait(), Some(0));
}

#[test]
fn in_a_script_ctrl_c_reaches_the_script_and_the_command() {
    let place = Place::new();
    let server = place.serve();
    let script = format!(
        "trap 'echo interrupted' INT; $leasehold lock a -- sh -c 'echo $$ >{}; exec sleep 1000'; echo status=$?",
        place.text("pid")
    );
    let mut session = Session::start(&server, &script);
    let command = pid(&place);
    session.in_the_foreground(session.leader());
    until("it sleeps", || stage::name(command) == "sleep");
    session.type_in("\x03");
    session.shows("interrupted");
    session.shows("status=130");
    assert!(!is_alive(command));
}

#[test]
fn somebody_at_a_terminal_is_told_for_whom_it_waits() {
    let place = Place::new();
    let server = place.serve();
    server.client().acquire("a", &serde_json::json!({"owner_id": "alice", "ttl_ms": 600_000}));
    let mut session = Session::start(&server, "exec $leasehold lock a -- true");
    session.shows("leasehold: in line for a, held by alice");
    session.type_in("\x03");
    assert_eq!(session.wait(), Some(130));
}

#[test]
fn ctrl_z_in_line_stops_and_fg_stands_on() {
    let place = Place::new();
    let server = place.serve();
    let mut client = server.client();
    let lease = client.acquire("a", &serde_json::json!({"owner_id": "alice", "ttl_ms": 600_000}));
    let mut session = Session::start(&server, "exec sh -i");
    let shell = session.leader();
    session.shows("$ ");
    session.type_in("$leasehold lock a -- echo ran\n");
    session.shows("in line for a");
    session.type_in("\x1a");
    session.in_the_foreground(shell);
    session.type_in("fg\n");
    until("it is in the foreground", || {
        tcgetpgrp(&session.keyboard).is_ok_and(|pid| pid.as_raw_nonzero().get() != shell)
    });
    client.expect(200, "POST", "/v1/locks/a/release", Some(&crate::client::proof(&lease)));
    session.in_the_foreground(shell);
    session.type_in("echo status=$?\n");
    session.shows("status=0");
}
