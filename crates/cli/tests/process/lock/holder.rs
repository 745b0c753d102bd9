//! A `leasehold lock` or `elect` under test. Dropped, it is killed as anything may be; its watchdog then ends what it ran.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

use super::stage;
use crate::program::{PATIENCE, Place, Server, leasehold};

pub struct Holder {
    child: Child,
    errors: PathBuf,
}

/// `leasehold lock …` of this server, not yet started.
pub fn lock(server: &Server, arguments: &[&str], script: &str) -> Command {
    asking(server, "lock", arguments, script)
}

/// `leasehold elect …` of this server, not yet started.
pub fn elect(server: &Server, arguments: &[&str], script: &str) -> Command {
    asking(server, "elect", arguments, script)
}

fn asking(server: &Server, what: &str, arguments: &[&str], script: &str) -> Command {
    let mut command = leasehold();
    server.environment(command.arg(what).args(arguments).args(["--", "sh", "-c", script]));
    command
}

impl Holder {
    /// Starts it; what it says goes to a file of this name.
    pub fn start(place: &Place, name: &str, command: &mut Command) -> Holder {
        let errors = place.path(&format!("{name}.stderr"));
        let child = command.stdin(Stdio::null()).stderr(fs::File::create(&errors).unwrap()).spawn().unwrap();
        Holder { child, errors }
    }

    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    pub fn send(&self, signal: Signal) {
        stage::send(self.pid(), signal);
    }

    /// Its watchdog.
    pub fn watchdog(&self) -> i32 {
        let found =
            || stage::children(self.pid()).into_iter().find(|pid| stage::name(*pid) == "lease-watchdog");
        stage::until("there is a watchdog", || found().is_some());
        found().unwrap()
    }

    /// What it has said so far.
    pub fn errors(&self) -> String {
        fs::read_to_string(&self.errors).unwrap()
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits for its end; its exit status and what it said.
    pub fn wait(mut self) -> (Option<i32>, String) {
        let begun = Instant::now();
        while self.is_running() {
            assert!(begun.elapsed() < PATIENCE, "it does not end: {}", self.errors());
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        (self.child.wait().unwrap().code(), self.errors())
    }

    /// As the worst may come.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // A test that failed may have left its watchdog stopped, and the command to itself.
        for child in stage::children(self.pid()) {
            let _ = kill_process(Pid::from_raw(child).unwrap(), Signal::CONT);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
