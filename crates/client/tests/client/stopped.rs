//! Two processes, one of which is stopped for longer than its TTL: the real signal, the real clock.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use leasehold_client::{Client, Lock, LockOptions, Standing};
use rustix::process::{Pid, Signal, kill_process};

use crate::server::Server;

const TTL: Duration = Duration::from_secs(3);
const SERVER: &str = "LEASEHOLD_TEST_HOLDER_OF";

/// Another process that holds the lock, and answers one line for each that it is given.
struct Holder {
    process: Child,
    ask: ChildStdin,
    told: BufReader<ChildStdout>,
}

impl Holder {
    fn start(server: &Server) -> Holder {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "stopped::holder", "--ignored", "--nocapture", "--test-threads=1"])
            .env(SERVER, server.address.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (ask, told) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        Holder { process, ask, told: BufReader::new(told) }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    fn ask(&mut self, what: &str) -> String {
        writeln!(self.ask, "{what}").unwrap();
        self.hear()
    }

    /// What it says next, beside the words of the test harness.
    fn hear(&mut self) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(self.told.read_line(&mut line).unwrap(), 0, "the holder has gone");
            if let Some(said) = line.split("says: ").nth(1) {
                return said.trim().to_owned();
            }
        }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test]
async fn a_process_that_was_stopped_past_its_ttl_sees_at_its_first_look_that_it_lost() {
    let server = Server::start();
    let mut holder = Holder::start(&server);
    let token: u64 = holder.hear().parse().unwrap();
    assert_eq!(holder.ask("look"), "held");
    holder.signal(Signal::STOP);
    let other = server.client("other").await;
    let guard = Lock::new(&other, "deploy").lock(TTL, LockOptions::default()).await.unwrap();
    assert!(guard.token().unwrap() > token);
    let before = other.get("deploy").await.unwrap();

    // The words wait for it; it reads them when it is woken, and looks.
    writeln!(holder.ask, "look").unwrap();
    holder.signal(Signal::CONT);
    assert_eq!(holder.hear(), "lost");
    assert_eq!(holder.ask("renew"), "Err(Ended(Expired))");
    assert_eq!(holder.ask("release"), "Err(Ended(Expired))");
    assert_eq!(holder.ask("unlock"), "Err(Ended(Lost))");
    let after = other.get("deploy").await.unwrap();
    assert_eq!((after.version, after.holders.len()), (before.version, 1), "nothing was changed");
    assert!(guard.token().is_ok());
}

/// Not a test of its own: the other process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "started by the test above in a process of its own"]
async fn holder() {
    let server = std::env::var(SERVER).expect("the test above starts this, with a server");
    let client = Client::builder(&server).owner("holder").connect().await.unwrap();
    let guard = Lock::new(&client, "deploy").lock(TTL, LockOptions::default()).await.unwrap();
    let claim = guard.lease().claim().unwrap();
    println!("says: {}", claim.fencing_token);
    let mut guard = Some(guard);
    for line in std::io::stdin().lines() {
        let said = match (line.unwrap().as_str(), &guard) {
            ("look", Some(guard)) if guard.standing() == Standing::Lost => "lost".into(),
            ("look", Some(_)) => "held".into(),
            ("renew", _) => format!("{:?}", client.renew(&claim, None, None).await.map(drop)),
            ("release", _) => format!("{:?}", client.release(&claim).await),
            ("unlock", Some(_)) => format!("{:?}", guard.take().unwrap().unlock().await),
            (other, _) => panic!("nobody knows how to {other}"),
        };
        println!("says: {said}");
    }
}
