//! Colour: on a terminal, and nowhere else.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::asking::told;
use crate::program::{Place, Server, leasehold, stdout};

/// A terminal: the side of whoever sits at it, and the side of a command.
pub fn open_terminal() -> (File, OwnedFd) {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let inside = open(&name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    (File::from(terminal), inside)
}

/// What a command shows on a terminal.
fn on_a_terminal(server: &Server, command: &mut Command) -> String {
    let (mut terminal, inside) = open_terminal();
    let mut child =
        server.environment(command).env("TERM", "xterm").stdin(Stdio::null()).stdout(inside).spawn().unwrap();
    // The command still holds our end of it open; a terminal that nobody holds reads as an error.
    drop(std::mem::replace(command, leasehold()));
    let mut shown = Vec::new();
    let _ = terminal.read_to_end(&mut shown);
    assert!(child.wait().unwrap().success());
    String::from_utf8(shown).unwrap()
}

#[test]
fn only_a_terminal_is_shown_colour() {
    let place = Place::new();
    let server = place.serve();
    told(&server, &["acquire", "a", "--owner", "alice", "--ttl", "10m", "--shared"]);
    for arguments in [&["ls"][..], &["get", "a"], &["sessions"], &["--help"], &["acquire", "--help"]] {
        let shown = on_a_terminal(&server, leasehold().args(arguments));
        assert!(shown.contains("\x1b["), "{arguments:?}: {shown:?}");
        let shown = on_a_terminal(&server, leasehold().args(arguments).env("NO_COLOR", "1"));
        assert!(!shown.contains("\x1b["), "{arguments:?}: {shown:?}");
        let piped = stdout(&server.ask(arguments));
        assert!(!piped.contains('\x1b'), "{arguments:?}: {piped:?}");
    }
    let shown = on_a_terminal(&server, leasehold().args(["ls", "--json"]));
    assert!(!shown.contains("\x1b["), "programs read JSON, wherever it goes: {shown:?}");
    server.stop();
}
