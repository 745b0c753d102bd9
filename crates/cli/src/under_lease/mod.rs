//! A command that runs only while a lease lasts: three processes and the times between them. `leasehold` keeps the lease; the
//! command runs in a process group of its own; a watchdog ends that group when its time has come, whatever has become of
//! `leasehold`. docs/locking-a-command.md tells the whole story.
//!
//! Takes no lock and gives none back.

mod group;
mod timetable;

mod orders;
mod watch;
mod watchdog;

mod start;

mod leash;
mod signals;
mod terminal;

mod run;

use std::ffi::OsString;
use std::fmt::Arguments;
use std::io::Write;
use std::process::ExitCode;

pub use run::{Ran, Task, run, us};
pub use signals::Signals;

/// This very program, also when its file was replaced meanwhile.
const PROGRAM: &str = "/proc/self/exe";

/// The first argument of a watchdog. No person types it, and no help shows it.
const WATCHDOG: &str = ":watchdog";

/// The first argument of a process that is to become a command.
const START: &str = ":start";

/// If the program was started by itself, to be a watchdog or to become a command: how that ended.
pub fn inner_role(mut arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let role = arguments.nth(1)?;
    match role.to_str()? {
        WATCHDOG => Some(watchdog::run()),
        START => Some(start::run(arguments)),
        _ => None,
    }
}

/// Says something on standard error. That nobody reads it is no reason to fail, and to end the command for it.
pub fn say(sentence: Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "leasehold: {sentence}");
}
