//! A server as a process of this machine: started, watched from outside, stopped while another is measured, killed at the end.
//! Knows nothing of locks.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{self, SignalKind};

/// What of a server's words is kept, for the case that it fails.
const SAID_BYTES_MAX: usize = 64 << 10;
/// How long a server may take to end when it is asked to.
const FAREWELL: Duration = Duration::from_secs(10);

/// A process and its children.
pub struct Process {
    child: Child,
    said: Arc<Mutex<String>>,
    ends_on: Option<Signal>,
}

impl Process {
    /// Starts it. What it says is read to the end, so that a full pipe never keeps it waiting.
    pub fn start(command: &mut Command) -> Result<Process, String> {
        let program = command.get_program().to_string_lossy().into_owned();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start {program}: {error}"))?;
        let said = Arc::default();
        if let Some(stdout) = child.stdout.take() {
            listen(stdout, &said);
        }
        if let Some(stderr) = child.stderr.take() {
            listen(stderr, &said);
        }
        started().insert(child.id());
        Ok(Process { child, said, ends_on: None })
    }

    /// For a server that has something to clear away outside its folder: it is asked to end, and killed only if it does not.
    pub fn ending_on(mut self, signal: Signal) -> Process {
        self.ends_on = Some(signal);
        self
    }

    /// What it said so far, on both streams.
    pub fn said(&self) -> String {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until this gives something, or fails with what the process said: when it ended, or after five minutes.
    pub fn wait_for<T>(
        &mut self,
        what: &str,
        mut probe: impl FnMut(&Process) -> Option<T>,
    ) -> Result<T, String> {
        let began = Instant::now();
        loop {
            if let Some(found) = probe(self) {
                return Ok(found);
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("it ended with {status} before {what}; it said:\n{}", self.said()));
            }
            if began.elapsed() > Duration::from_secs(300) {
                return Err(format!("no {what} within five minutes; it said:\n{}", self.said()));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits until somebody accepts connections there.
    pub fn wait_for_port(&mut self, address: SocketAddr) -> Result<(), String> {
        self.wait_for("open port", |_| TcpStream::connect(address).ok().map(drop))
    }

    /// The process and all that descend from it.
    pub fn pids(&self) -> Vec<u32> {
        family(self.child.id())
    }

    /// Seconds of CPU used so far, by all of them and by those that have ended.
    pub fn cpu_seconds(&self) -> f64 {
        self.pids().into_iter().map(cpu_seconds).sum()
    }

    /// Resident memory of all of them in bytes; what they share counts for each.
    pub fn resident_bytes(&self) -> u64 {
        self.memory_bytes("VmRSS:")
    }

    /// The most of it that each of them ever had.
    pub fn resident_bytes_max(&self) -> u64 {
        self.memory_bytes("VmHWM:")
    }

    fn memory_bytes(&self, line: &str) -> u64 {
        let memory = |pid: u32| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            let line = status.lines().find(|found| found.starts_with(line))?;
            line.split_whitespace().nth(1)?.parse::<u64>().ok()
        };
        self.pids().into_iter().filter_map(memory).sum::<u64>() * 1024
    }

    /// Stops it where it is, so that it takes nothing from another that is measured.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, every: Signal) {
        for pid in self.pids() {
            signal(pid, every);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        started().remove(&self.child.id());
        if let Some(ends_on) = self.ends_on {
            self.resume();
            signal(self.child.id(), ends_on);
            let began = Instant::now();
            while began.elapsed() < FAREWELL {
                if matches!(self.child.try_wait(), Ok(Some(_))) {
                    return;
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        self.signal(Signal::KILL);
        let _ = self.child.wait();
    }
}

/// From now on, when this program is interrupted or told to end, it takes with it what it has started: servers that are
/// stopped would not hear of it themselves.
pub fn end_together() -> Result<(), String> {
    let problem = |error: std::io::Error| format!("cannot listen for signals: {error}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(problem)?;
    let entered = runtime.enter();
    let mut interrupted = unix::signal(SignalKind::interrupt()).map_err(problem)?;
    let mut terminated = unix::signal(SignalKind::terminate()).map_err(problem)?;
    drop(entered);
    std::thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! { _ = interrupted.recv() => {}, _ = terminated.recv() => {} }
        });
        for pid in started().iter().flat_map(|pid| family(*pid)) {
            signal(pid, Signal::KILL);
        }
        std::process::exit(130);
    });
    Ok(())
}

/// The processes that were started and are not yet ended.
fn started() -> MutexGuard<'static, BTreeSet<u32>> {
    static STARTED: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());
    STARTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A process and all that descend from it.
fn family(head: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, stat(pid)?.get(1)?.parse().ok()?)))
        .collect();
    let mut pids = vec![head];
    let mut at = 0;
    while let Some(&parent) = pids.get(at) {
        pids.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        at += 1;
    }
    pids
}

fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

fn listen(stream: impl Read + Send + 'static, said: &Arc<Mutex<String>>) {
    let said = Arc::clone(said);
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
            if said.len() < SAID_BYTES_MAX {
                said.push_str(&line);
                said.push('\n');
            }
        }
    });
}

/// The fields of a process after its name: its state first, its parent second.
fn stat(pid: u32) -> Option<Vec<String>> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(stat.rsplit(')').next()?.split_whitespace().map(ToOwned::to_owned).collect())
}

/// Seconds of CPU that a process and those of its children that ended have used.
pub fn cpu_seconds(pid: u32) -> f64 {
    let Some(fields) = stat(pid) else { return 0.0 };
    let ticks: u64 = fields.iter().skip(11).take(4).filter_map(|field| field.parse::<u64>().ok()).sum();
    let told = ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
    // That is cut off at hundredths of a second, and has everything; the sum over its threads is exact, and has only those that
    // live. So the larger of them is nearer.
    told.max(live_cpu_seconds(pid).unwrap_or(0.0))
}

fn live_cpu_seconds(pid: u32) -> Option<f64> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
    let told = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("schedstat")).ok());
    let ns: u64 = told.filter_map(|told| told.split(' ').next()?.parse::<u64>().ok()).sum();
    Some(ns as f64 / 1e9)
}

/// A port of the loopback interface that nobody uses now.
pub fn free_port() -> Result<u16, String> {
    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    bound.map(|address| address.port()).map_err(|error| format!("there is no free port: {error}"))
}

/// Where a program is: on the path, or in one of these folders.
pub fn find(program: &str, folders: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join(program));
    on_path
        .chain(folders.iter().map(|folder| PathBuf::from(folder).join(program)))
        .find(|file| file.is_file())
}

/// What a program says of its version: the first line of its output.
pub fn version(program: &std::path::Path, argument: &str) -> Result<String, String> {
    let asked = Command::new(program).arg(argument).stdin(Stdio::null()).output();
    let output = asked.map_err(|error| format!("cannot start {}: {error}", program.display()))?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    said.lines()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .map(ToOwned::to_owned)
        .ok_or_else(|| format!("{} {argument} says nothing", program.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_counted_with_its_children_and_ends_with_them() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 600 & echo started; wait"]);
        let mut process = Process::start(&mut command).unwrap();
        process.wait_for("word", |process| process.said().contains("started").then_some(())).unwrap();
        let pids = process.pids();
        assert_eq!(pids.len(), 2, "{pids:?}");
        assert!(process.resident_bytes() > 0);
        drop(process);
        let child = pids[1];
        let began = Instant::now();
        while stat(child).is_some_and(|fields| fields[0] != "Z") {
            assert!(began.elapsed() < Duration::from_secs(60), "the child lives on");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_process_that_ends_early_says_why() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo no room >&2; exit 3"]);
        let mut process = Process::start(&mut command).unwrap();
        let error = process.wait_for("port", |_| None::<()>).unwrap_err();
        assert!(error.contains("exit status: 3"), "{error}");
    }
}
