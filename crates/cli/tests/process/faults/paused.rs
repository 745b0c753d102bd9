//! Clients that are stopped between their last look at the lease and the write that it protects, for longer than the TTL. No
//! look can help them: an ordinary file takes the late write, and that is the control, which must fail. A fenced file
//! refuses it.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, getpid, kill_process};
use serde_json::{Value, json};

use super::needs;
use super::written::proof_headers;
use crate::client::{Client, proof};
use crate::lock::stage::{now_us, state, until};
use crate::program::Place;

const WORKERS: usize = 3;
/// Each worker is stopped so often.
const PAUSES: usize = 2;
const TTL_MS: u64 = 1_000;
const LOCK: &str = "path:%2Fregister";

const SERVER: &str = "LEASEHOLD_TEST_PAUSED_SERVER";
const PLAIN: &str = "LEASEHOLD_TEST_PAUSED_PLAIN";
const NAME: &str = "LEASEHOLD_TEST_PAUSED_NAME";

/// One turn with the lock: both files, and what the fenced one said.
fn write(client: &mut Client, lease: &Value, plain: &Path) -> u16 {
    let line = format!("{}\n", lease["fencing_token"]);
    let mut file = OpenOptions::new().create(true).append(true).open(plain).unwrap();
    file.write_all(line.as_bytes()).unwrap();
    client
        .begin_bytes("POST", "/v1/files/register/append", &proof_headers(LOCK, lease), line.as_bytes())
        .unwrap();
    client.answer_bytes().unwrap().0
}

fn acquire(client: &mut Client, owner: &str, ttl_ms: u64) -> Value {
    let body = json!({"owner_id": owner, "ttl_ms": ttl_ms, "wait_ms": 600_000});
    client.acquire(LOCK, &body)
}

/// Another process that takes turns; stops itself where it hurts, and says what became of its write.
struct Worker {
    name: String,
    process: Child,
    woken: usize,
    said: BufReader<ChildStdout>,
}

impl Worker {
    fn start(server: SocketAddr, plain: &Path, name: &str) -> Worker {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "faults::paused::worker", "--ignored", "--nocapture", "--test-threads=1"])
            .envs([(SERVER, server.to_string()), (PLAIN, plain.display().to_string()), (NAME, name.into())])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(process.stdout.take().unwrap());
        Worker { name: name.to_owned(), process, woken: 0, said }
    }

    fn is_stopped(&self) -> bool {
        state(i32::try_from(self.process.id()).unwrap()) == Some('T')
    }

    /// What the fenced file said to each of its late writes.
    fn finish(&mut self) -> Vec<u16> {
        let lines = self.said.by_ref().lines().map_while(Result::ok);
        let answers = lines.filter_map(|line| line.split("says: ").nth(1).map(|said| said.parse().unwrap()));
        let answers = answers.collect();
        assert!(self.process.wait().unwrap().success());
        answers
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_fenced_file_refuses_late_writes_that_an_ordinary_file_takes() {
    if !needs::met(&[]) {
        return;
    }
    let place = Place::new();
    let server = place.serve();
    let plain = place.path("plain");
    let mut client = server.client();
    let mut workers: Vec<_> =
        (0..WORKERS).map(|n| Worker::start(server.address, &plain, &format!("worker{n}"))).collect();
    let mut woken = 0;
    while woken < WORKERS * PAUSES {
        until("a worker has stopped", || workers.iter().any(Worker::is_stopped));
        // Their time runs out one after the other, and the next one writes and keeps the lock.
        let lease = acquire(&mut client, "successor", 600_000);
        assert_eq!(write(&mut client, &lease, &plain), 200);
        for worker in workers.iter_mut().filter(|worker| worker.is_stopped()) {
            worker.woken += 1;
            fs::write(go(&plain, &worker.name, worker.woken), "").unwrap();
            let lines = || fs::read_to_string(&plain).unwrap().lines().count();
            let before = lines();
            kill_process(Pid::from_child(&worker.process), Signal::CONT).unwrap();
            until("it has written late", || lines() > before);
            woken += 1;
        }
        client.expect(200, "POST", &format!("/v1/locks/{LOCK}/release"), Some(&proof(&lease)));
    }
    let late: Vec<u16> = workers.iter_mut().flat_map(Worker::finish).collect();
    assert_eq!(late.len(), WORKERS * PAUSES);
    assert!(late.iter().all(|status| matches!(status, 410 | 412)), "late writes were told {late:?}");

    client.begin("GET", "/v1/files/register", None).unwrap();
    let (status, fenced) = client.answer_bytes().unwrap();
    assert_eq!(status, 200);
    let fenced = tokens(&String::from_utf8(fenced).unwrap());
    assert!(fenced.is_sorted_by(|a, b| a < b), "the fenced file has {fenced:?}");
    let plain = tokens(&fs::read_to_string(&plain).unwrap());
    let stale = (1..plain.len()).filter(|n| plain[..*n].iter().any(|earlier| *earlier > plain[*n])).count();
    println!("paused: {stale} late writes in the ordinary file, 0 in the fenced one, {} turns", plain.len());
    assert_eq!(stale, WORKERS * PAUSES, "the control takes every late write: {plain:?}");
    assert_eq!(fenced.len(), plain.len() - stale);
}

/// The file that is there when a worker is woken for the n-th time.
fn go(plain: &Path, name: &str, woken: usize) -> PathBuf {
    plain.with_file_name(format!("{name}-{woken}"))
}

fn tokens(text: &str) -> Vec<u64> {
    text.lines().map(|line| line.parse().unwrap()).collect()
}

/// Not a test of its own: the other process.
#[test]
#[ignore = "started by the test above in a process of its own"]
fn worker() {
    let [server, plain, name] = [SERVER, PLAIN, NAME].map(|name| std::env::var(name).unwrap());
    let mut client = Client::new(server.parse().unwrap());
    let mut paused = 0;
    while paused < PAUSES {
        let sent_us = now_us();
        let lease = acquire(&mut client, &name, TTL_MS);
        let until_us = sent_us + lease["stop_after_ms"].as_u64().unwrap() * 1000;
        if now_us() >= until_us {
            // Waited for too long: it asks whether it still has time.
            let (status, _) = client.post(&format!("/v1/locks/{LOCK}/renew"), &proof(&lease)).unwrap();
            if status != 200 {
                continue;
            }
        }
        // It holds the lease. What comes between this look and the write, no look can see.
        kill_process(getpid(), Signal::STOP).unwrap();
        paused += 1;
        // The signal may take a moment to reach this thread.
        until("it was woken", || go(Path::new(&plain), &name, paused).exists());
        println!("says: {}", write(&mut client, &lease, Path::new(&plain)));
        let _ = client.post(&format!("/v1/locks/{LOCK}/release"), &proof(&lease));
    }
}
