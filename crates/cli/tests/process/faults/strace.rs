//! Makes chosen system calls of chosen threads fail, take long, or be the last: `strace` on the real binary, whose log is
//! the proof that it happened.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use rustix::process::{Pid, Signal, kill_process};

use super::needs::missing;
use crate::lock::stage::until;
use crate::program::{PATIENCE, Server, clear};

/// Calls that write and calls that sync. (Which of several names a call has depends on the machine.)
pub const WRITES: &str = "pwrite64";
pub const SYNCS: [&str; 2] = ["fdatasync", "fsync"];
/// Calls that change files, one kind each: strace counts each by itself.
pub const CHANGES: [&str; 7] = [
    "pwrite64",
    "fdatasync",
    "fsync",
    "ftruncate",
    "?mkdir,?mkdirat",
    "?rename,?renameat,?renameat2",
    "?unlink,?unlinkat",
];
/// All of these, and the opening of files.
pub const FILES: &str = "openat,pwrite64,fdatasync,fsync,ftruncate,?mkdir,?mkdirat,?rename,?renameat,?renameat2,?unlink,?unlinkat";
/// Calls with which answers leave.
pub const ANSWERS: &str = "writev,sendto,sendmsg";

/// As many threads put bytes into files.
const FILES_THREADS: usize = 4;

/// What is done to which calls.
pub struct Injection<'a> {
    /// Names of calls.
    pub calls: &'a str,
    /// `signal=SIGKILL`, `error=EIO`, `retval=100`, `delay_exit=300000`.
    pub effect: &'a str,
    /// Which of them, counted from 1 by each thread and for each name: `7`, `1+`.
    pub when: String,
}

impl Injection<'_> {
    fn arguments(&self, log: &Path) -> Vec<String> {
        let Injection { calls, effect, when } = self;
        let log = log.to_str().unwrap();
        let inject = format!("inject={calls}:{effect}:when={when}");
        ["-ttt", "-e", "signal=none", "-e", &format!("trace={calls}"), "-e", &inject, "-o", log]
            .map(str::to_owned)
            .to_vec()
    }

    /// The program, traced from its first call on. Its process is the program's own, and not strace's.
    pub fn command(&self, log: &Path) -> Command {
        let mut command = Command::new("strace");
        command.args(["-D", "-f"]).args(self.arguments(log)).arg(env!("CARGO_BIN_EXE_leasehold"));
        clear(&mut command);
        command
    }
}

/// A strace that is attached to threads of a server.
pub struct Tracer {
    strace: Child,
    /// Read no more, but open: it has a last word for whoever it lets go of.
    _said: BufReader<ChildStderr>,
    log: PathBuf,
}

impl Tracer {
    /// Attaches to all threads of this name. What they do from now on counts. With `journal` go both that take batches to the
    /// disk, now the one and now the other.
    pub fn attach(server: &Server, thread: &str, injection: &Injection, log: PathBuf) -> Tracer {
        let mut ids = Vec::new();
        // A thread gives itself its name, a moment after it has begun.
        let (names, many) = match thread {
            "journal" => (vec!["journal", "stand-in"], 2),
            "files" => (vec!["files"], FILES_THREADS),
            other => (vec![other], 1),
        };
        until(&format!("the server has {many} threads called {}", names.join(" or ")), || {
            ids = names.iter().flat_map(|name| threads(server.pid(), name)).collect();
            ids.len() >= many
        });
        let mut command = Command::new("strace");
        command.args(injection.arguments(&log));
        for id in &ids {
            command.args(["-p", id]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut strace = command.spawn().unwrap();
        let mut said = BufReader::new(strace.stderr.take().unwrap());
        for _ in &ids {
            let mut line = String::new();
            said.read_line(&mut line).unwrap();
            if !line.contains(" attached") {
                let _ = strace.kill();
                let _ = strace.wait();
                panic!("{}", missing(&format!("strace cannot attach ({})", line.trim_end())));
            }
        }
        Tracer { strace, _said: said, log }
    }

    /// What was seen of a server that has ended.
    pub fn finish(mut self) -> Trace {
        let begun = Instant::now();
        while self.strace.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < PATIENCE, "strace does not end");
            sleep(Duration::from_millis(1));
        }
        Trace::read(&self.log)
    }

    /// Lets go of a server that goes on.
    pub fn detach(self) -> Trace {
        kill_process(Pid::from_child(&self.strace), Signal::TERM).unwrap();
        self.finish()
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        let _ = self.strace.kill();
        let _ = self.strace.wait();
    }
}

/// What strace has seen.
pub struct Trace {
    text: String,
}

impl Trace {
    pub fn read(log: &Path) -> Trace {
        Trace { text: fs::read_to_string(log).unwrap_or_default() }
    }

    /// The call that a thread was about to make when the process was killed.
    pub fn last_call(&self) -> Option<String> {
        let line = self.text.lines().rfind(|line| line.ends_with("= ?") || line.contains("<unfinished"))?;
        name(line)
    }

    /// How many calls there were, by name.
    pub fn calls(&self) -> BTreeMap<String, u64> {
        let mut calls = BTreeMap::new();
        for name in self.text.lines().filter(|line| !line.contains("resumed>")).filter_map(name) {
            *calls.entry(name).or_default() += 1;
        }
        calls
    }

    /// How many calls failed or were cut short because strace said so, and when each began.
    pub fn injected(&self) -> Vec<(String, SystemTime)> {
        self.marked("(INJECTED)")
    }

    /// How many calls strace made take long.
    pub fn delayed(&self) -> usize {
        self.marked("(DELAYED)").len()
    }

    fn marked(&self, mark: &str) -> Vec<(String, SystemTime)> {
        let marked = self.text.lines().filter(|line| line.contains(mark));
        marked.filter_map(|line| Some((name(line)?, time(line)?))).collect()
    }
}

/// The end of the log.
impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<&str> = self.text.lines().collect();
        f.write_str(&lines[lines.len().saturating_sub(5)..].join("\n"))
    }
}

/// The name of the call in a line of the log: `[thread] time name(…` or `[thread] time <... name resumed>…`.
fn name(line: &str) -> Option<String> {
    if let Some((_, resumed)) = line.split_once("<... ") {
        return resumed.split(' ').next().map(str::to_owned);
    }
    let (before, _) = line.split_once('(')?;
    before.split_whitespace().next_back().map(str::to_owned)
}

/// When the call in a line began.
fn time(line: &str) -> Option<SystemTime> {
    let text = line.split_whitespace().find(|word| word.contains('.'))?;
    Some(SystemTime::UNIX_EPOCH + Duration::from_secs_f64(text.parse().ok()?))
}

/// The threads of a process that have this name.
fn threads(pid: u32, name: &str) -> Vec<String> {
    let mut found = Vec::new();
    for task in fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
        let task = task.unwrap().path();
        if fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.trim_end() == name) {
            found.push(task.file_name().unwrap().to_str().unwrap().to_owned());
        }
    }
    found
}
