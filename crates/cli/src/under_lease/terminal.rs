//! The terminal that `leasehold` was started from: lends it to the command's group, as a shell does with a job, and takes it back.
//! Never takes it from anybody but the command.

use std::fs::{File, OpenOptions};
use std::io::IsTerminal;

use nix::sys::signal::{SigSet, SigmaskHow, Signal as Masked};
use rustix::process::{Pid, getpgrp, getpid};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

use super::group::Group;

/// A controlling terminal.
pub struct Terminal {
    tty: File,
    own: Pid,
    /// The command reads and writes it; it wants it back whenever we have it.
    wanted: bool,
}

impl Terminal {
    /// None where there is none: in a service, in cron.
    pub fn open() -> Option<Terminal> {
        let tty = OpenOptions::new().read(true).write(true).open("/dev/tty").ok()?;
        // Typed at a prompt, on its own: the command gets the terminal at once. In a script or a pipeline others have it
        // too, and the command gets it when it reaches for it.
        let alone = getpgrp() == getpid();
        let wanted = alone && std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        Some(Terminal { tty, own: getpgrp(), wanted })
    }

    /// Whether it is ours to lend.
    pub fn is_ours(&self) -> bool {
        tcgetpgrp(&self.tty) == Ok(self.own)
    }

    /// The command has reached for it.
    pub fn wanted(&mut self) {
        self.wanted = true;
    }

    /// Lends it to the command, if the command wants it and it is ours.
    pub fn lend(&self, group: Group) {
        if self.wanted && self.is_ours() {
            self.hand(group.leader());
        }
    }

    /// Takes it back from the command, or from a group that the command had made and that is no more.
    pub fn take_back(&self, group: Group) {
        let lent = tcgetpgrp(&self.tty).map(Group::led_by);
        if lent.is_ok_and(|holder| holder == group || holder.is_empty()) {
            self.hand(self.own);
        }
    }

    fn hand(&self, to: Pid) {
        // Who hands it on without having it is stopped by SIGTTOU, unless that is blocked.
        let mut blocked = SigSet::empty();
        blocked.add(Masked::SIGTTOU);
        let before = blocked.thread_swap_mask(SigmaskHow::SIG_BLOCK);
        let _ = tcsetpgrp(&self.tty, to);
        if let Ok(before) = before {
            let _ = before.thread_set_mask();
        }
    }
}
