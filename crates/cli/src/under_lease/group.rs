//! A process group, as those who must end it see it. Signals it and says whether anybody is left in it; knows no time.
//!
//! The number of a group is free for others once nobody is in it. Whoever keeps a [`Group`] therefore either keeps its
//! leader from being reaped, or looks often whether it is empty and never signals it afterwards.

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

/// The group of this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group(Pid);

impl Group {
    /// The group that this process leads.
    pub fn led_by(leader: Pid) -> Group {
        Group(leader)
    }

    /// The process that leads it, or led it; also the group's number.
    pub fn leader(self) -> Pid {
        self.0
    }

    /// Sends a signal to everybody in it. Who has gone, or belongs to another user, does not hear it.
    pub fn signal(self, signal: Signal) {
        let _ = kill_process_group(self.0, signal);
    }

    /// Asks everybody in it to end; who is stopped wakes up for it.
    pub fn terminate(self) {
        self.signal(Signal::TERM);
        self.signal(Signal::CONT);
    }

    /// Ends everybody in it, stopped or not.
    pub fn kill(self) {
        self.signal(Signal::KILL);
    }

    /// Whether nobody is in it. Who has ended and was not reaped is in it still.
    pub fn is_empty(self) -> bool {
        test_kill_process_group(self.0) == Err(Errno::SRCH)
    }
}
