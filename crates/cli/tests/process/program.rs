//! The program under test: run to its end, or served from and killed when it is dropped.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::client::Client;

/// Long enough for any machine; only a test that fails takes it.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The program with nothing in its environment that it would listen to.
pub fn leasehold() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold"));
    clear(&mut command);
    command
}

/// Takes what the program would listen to out of a command's environment.
pub fn clear(command: &mut Command) {
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("LEASEHOLD_"))
    {
        command.env_remove(name);
    }
}

/// Runs the program to its end.
pub fn run(arguments: &[&str]) -> Output {
    leasehold().args(arguments).stdin(Stdio::null()).output().unwrap()
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A folder for one test's data and logs.
pub struct Place {
    folder: TempDir,
}

impl Place {
    pub fn new() -> Place {
        Place { folder: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    pub fn data(&self) -> String {
        self.text("data")
    }

    /// Serves from this place on a free port.
    pub fn serve(&self) -> Server {
        self.serve_with(&["--listen", "127.0.0.1:0"])
    }

    pub fn serve_with(&self, arguments: &[&str]) -> Server {
        self.serve_by(leasehold(), arguments)
    }

    /// Serves by a command that becomes the program, or runs it.
    pub fn serve_by(&self, command: Command, arguments: &[&str]) -> Server {
        self.try_serve(command, arguments).unwrap_or_else(|status| {
            let log = fs::read_to_string(self.path("stderr")).unwrap();
            panic!("the server did not start ({status}): {log}")
        })
    }

    /// The same where the server may end before it serves.
    pub fn try_serve(&self, mut command: Command, arguments: &[&str]) -> Result<Server, ExitStatus> {
        let errors = fs::OpenOptions::new().create(true).append(true).open(self.path("stderr")).unwrap();
        command.arg("serve").args(arguments);
        if !arguments.contains(&"--data") {
            command.args(["--data", &self.data()]);
        }
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut lines = Vec::new();
        while !lines.last().is_some_and(|line: &String| line.starts_with("try: ")) {
            let mut line = String::new();
            if out.read_line(&mut line).unwrap() == 0 {
                return Err(child.wait().unwrap());
            }
            lines.push(line.trim_end().to_owned());
        }
        let (_, address) = lines[0].split_once("://").unwrap();
        Ok(Server { address: address.parse().unwrap(), lines, child: Some(child), out })
    }
}

/// A process that serves.
pub struct Server {
    pub address: SocketAddr,
    /// What it printed when it had started.
    pub lines: Vec<String>,
    child: Option<Child>,
    out: BufReader<ChildStdout>,
}

impl Server {
    pub fn client(&self) -> Client {
        Client::new(self.address)
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The command finds this server.
    pub fn environment<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("LEASEHOLD_SERVER", self.url())
    }

    /// Runs the program to its end, with this server to ask.
    pub fn ask(&self, arguments: &[&str]) -> Output {
        self.environment(leasehold().args(arguments)).stdin(Stdio::null()).output().unwrap()
    }

    /// Starts the program, with this server to ask.
    pub fn start(&self, arguments: &[&str]) -> Child {
        let mut command = leasehold();
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        self.environment(&mut command).spawn().unwrap()
    }

    /// Waits until so many stand in line.
    pub fn until_waiting(&self, lock: &str, count: usize) {
        let begun = Instant::now();
        let mut client = self.client();
        while client.get_lock(lock)["waiters"].as_array().unwrap().len() != count {
            assert!(begun.elapsed() < PATIENCE, "{count} never stood in line for {lock}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// How it has ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.as_mut().unwrap().try_wait().unwrap()
    }

    /// Memory that its process has, in bytes.
    pub fn resident_bytes(&self) -> u64 {
        let pid = self.pid();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
    }

    pub fn signal(&self, signal: Signal) {
        let pid = self.child.as_ref().map(Pid::from_child).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Waits for its end; its exit status, and how long that took.
    pub fn wait(mut self) -> (Option<i32>, Duration) {
        let begun = Instant::now();
        let mut child = self.child.take().unwrap();
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                return (status.code(), begun.elapsed());
            }
            if begun.elapsed() > PATIENCE {
                let _ = child.kill();
                panic!("the server does not end");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends it in good order; what it printed after its first lines.
    pub fn stop(mut self) -> String {
        self.signal(Signal::TERM);
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        assert_eq!(self.wait().0, Some(0));
        rest
    }

    /// Ends it as a crash would.
    pub fn kill(mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Flips one bit of a file.
pub fn flip_bit(path: &Path, offset: u64) {
    let mut bytes = fs::read(path).unwrap();
    bytes[usize::try_from(offset).unwrap()] ^= 1;
    fs::write(path, bytes).unwrap();
}
