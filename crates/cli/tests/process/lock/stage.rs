//! What these tests need of the operating system: its boot-time clock, processes that are alive or not, and patience.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

use crate::client::Client;
use crate::program::{PATIENCE, Server};

/// The clock that leases are counted on.
pub fn now_us() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    u64::try_from(time.tv_sec).unwrap() * 1_000_000 + u64::try_from(time.tv_nsec).unwrap() / 1_000
}

/// Waits for something to come true; fails only if it never does.
pub fn until(what: &str, mut happened: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !happened() {
        assert!(begun.elapsed() < PATIENCE, "it never came true: {what}");
        sleep(Duration::from_millis(2));
    }
}

/// Waits for a file with at least this many lines, and gives them.
pub fn lines(path: &Path, count: usize) -> Vec<String> {
    let read = || fs::read_to_string(path).unwrap_or_default();
    until(&format!("{} has {count} lines", path.display()), || read().matches('\n').count() >= count);
    read().lines().map(str::to_owned).collect()
}

/// A process as the system knows it: the letter of its state, or none if there is no such process.
pub fn state(pid: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(')').next()?.trim_start().chars().next()
}

/// Whether it still can do anything. Who has ended and was not reaped cannot.
pub fn is_alive(pid: i32) -> bool {
    !matches!(state(pid), None | Some('Z' | 'X'))
}

pub fn send(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

/// The same to one that may have ended meanwhile.
pub fn send_if_there(pid: i32, signal: Signal) {
    let _ = kill_process(Pid::from_raw(pid).unwrap(), signal);
}

/// A command for `sh -c` that writes its number and that of a child of its own to a file, and goes on until it is killed:
/// neither of them ends for SIGTERM.
pub fn stubborn(path: &Path) -> String {
    format!(
        "trap '' TERM; sleep 1000 & echo $$ >>{0}; echo $! >>{0}; while :; do sleep 0.05; done",
        path.display()
    )
}

/// The same for one that ends for SIGTERM, and says so first.
pub fn docile(path: &Path) -> String {
    format!(
        "trap 'echo terminated >>{0}; exit 0' TERM; echo $$ >>{0}; while :; do sleep 0.05; done",
        path.display()
    )
}

/// The processes whose parent this is.
pub fn children(parent: i32) -> Vec<i32> {
    let listed = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
    listed.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// The parent of a process.
pub fn parent(pid: i32) -> i32 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap().trim().parse().unwrap()
}

/// What the system calls a process.
pub fn name(pid: i32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned()
}

/// Waits in line for a lock until it is granted; gives the lease.
pub fn stand_in_line(server: &Server, lock: &str) -> Standing {
    let mut client = server.client();
    let body = json!({"owner_id": "next", "ttl_ms": 600_000, "wait_ms": 600_000, "request_id": "next-1"});
    client.begin("POST", &format!("/v1/locks/{lock}/acquire"), Some(&body)).unwrap();
    let mut looking = server.client();
    until("it is in line", || !looking.get_lock(lock)["waiters"].as_array().unwrap().is_empty());
    Standing { client }
}

/// Somebody in line.
pub struct Standing {
    client: Client,
}

impl Standing {
    /// The token it is granted with.
    pub fn granted(mut self) -> u64 {
        let (status, lease) = self.client.answer().unwrap();
        assert_eq!(status, 200, "{lease}");
        lease["fencing_token"].as_u64().unwrap()
    }
}
