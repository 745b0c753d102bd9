//! The load that faults are tried under: clients that take turns with locks and files, repeat what got no answer under the
//! same request id, and write down everything they asked and heard.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

use leasehold_history::{Kind, Mode, Operation, Outcome};
use serde_json::{Value, json};

use super::namespace;
use super::written::proof_headers;
use crate::client::{Client, proof};
use crate::lock::stage::{now_us, until};

/// Files that everybody writes to.
pub const BOOKS: u64 = 3;
const HOT_LOCKS: u64 = 3;
const TTL_MS: u64 = 3_000;
const WAIT_MS: u64 = 1_500;
/// Longer than a wait; who hears nothing for so long asks again.
const PATIENCE: Duration = Duration::from_millis(3_000);

/// Where a client sits.
#[derive(Clone)]
pub struct Seat {
    pub server: SocketAddr,
    /// The network namespace that it lives in, if not in this process's own.
    pub namespace: Option<PathBuf>,
}

impl Seat {
    pub fn at(server: SocketAddr) -> Seat {
        Seat { server, namespace: None }
    }
}

/// Clients at work.
pub struct Crew {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    /// Requests that went out twice at once.
    twins: Arc<AtomicU64>,
    workers: Vec<JoinHandle<Vec<Operation>>>,
}

impl Crew {
    /// One client at each seat. The word goes into every name, so that crews do not meet.
    pub fn start(word: &str, seats: &[Seat]) -> Crew {
        let stop = Arc::new(AtomicBool::new(false));
        let (answered, twins) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let workers = (0_u64..).zip(seats).map(|(n, seat)| {
            let (word, seat) = (word.to_owned(), seat.clone());
            let (stop, answered) = (Arc::clone(&stop), Arc::clone(&answered));
            let twins = Arc::clone(&twins);
            spawn(move || {
                if let Some(path) = &seat.namespace {
                    namespace::enter(path);
                }
                let client = || Client::new(seat.server).patience(PATIENCE);
                Worker {
                    owner: format!("{word}-w{n}"),
                    word,
                    client: client(),
                    other: client(),
                    operations: Vec::new(),
                    ids: 0,
                    random: (n + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15),
                    stop,
                    answered,
                    twins,
                }
                .work()
            })
        });
        let workers = workers.collect();
        Crew { stop, answered, twins, workers }
    }

    /// How many requests went out on two connections at once.
    pub fn twins(&self) -> u64 {
        self.twins.load(Ordering::Relaxed)
    }

    /// How many answers there have been.
    pub fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// Waits for so many more answers: the server serves. However slowly; but not never.
    pub fn until_answered(&self, more: u64) {
        let enough = self.answered() + more;
        while self.answered() < enough {
            let before = self.answered();
            until("there is an answer again", || self.answered() > before);
        }
    }

    /// Everybody finishes what it is at, and hands over what it wrote down.
    pub fn finish(self) -> Vec<Operation> {
        self.stop.store(true, Ordering::Relaxed);
        self.workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    }
}

/// The name of a file.
pub fn book(word: &str, n: u64) -> String {
    format!("{word}-book{n}")
}

struct Worker {
    word: String,
    owner: String,
    client: Client,
    /// Has asked the same before, sometimes, and hangs up late.
    other: Client,
    operations: Vec<Operation>,
    ids: u64,
    random: u64,
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    twins: Arc<AtomicU64>,
}

/// A lock that was granted.
struct Held {
    lock: String,
    lease: Value,
}

impl Worker {
    fn work(mut self) -> Vec<Operation> {
        while !self.stopping() {
            match self.draw(10) {
                0..=2 => self.hot_lock(),
                3..=5 => self.write_book(),
                6 => self.look(),
                _ => self.own_lock(),
            }
        }
        self.operations
    }

    fn hot_lock(&mut self) {
        let number = self.draw(HOT_LOCKS);
        let lock = format!("{}-hot{number}", self.word);
        let mode = if self.draw(3) == 0 { Mode::Shared } else { Mode::Exclusive };
        if let Some(held) = self.acquire(&lock, mode) {
            self.release(&held);
        }
    }

    fn write_book(&mut self) {
        let number = self.draw(BOOKS);
        let book = book(&self.word, number);
        if let Some(held) = self.acquire(&format!("path:/{book}"), Mode::Exclusive) {
            for _ in 0..=self.draw(3) {
                self.append(&book, &held);
            }
            self.release(&held);
        }
    }

    fn own_lock(&mut self) {
        let lock = format!("{}-own", self.owner);
        if let Some(held) = self.acquire(&lock, Mode::Exclusive) {
            for _ in 0..self.draw(3) {
                self.renew(&held);
            }
            self.release(&held);
        }
    }

    fn acquire(&mut self, lock: &str, mode: Mode) -> Option<Held> {
        let id = self.fresh();
        let path = format!("/v1/locks/{}/acquire", encoded(lock));
        let mode_text = if mode == Mode::Shared { "shared" } else { "exclusive" };
        let body = json!({
            "owner_id": self.owner, "request_id": id, "ttl_ms": TTL_MS, "wait_ms": WAIT_MS, "mode": mode_text,
        });
        let mut asked = self.begin(Kind::Acquire, lock);
        asked.mode = mode;
        asked.request_id = Some(id);
        asked.ttl_us = Some(TTL_MS * 1000);
        asked.wait_us = Some(WAIT_MS * 1000);
        if self.draw(24) == 0 {
            // The same on another connection, which stays open and silent; its answer is never read.
            self.other.hang_up();
            let mut twin = asked.clone();
            twin.invoked_us = now_us();
            if self.other.begin("POST", &path, Some(&body)).is_ok() {
                self.operations.push(twin);
                self.twins.fetch_add(1, Ordering::Relaxed);
            }
            asked.number = self.ids();
        }
        let (outcome, lease) = self.until_known(
            asked,
            |client| client.post(&path, &body),
            |op, lease| {
                op.token = lease["fencing_token"].as_u64();
                op.lease = lease["lease_id"].as_str().map(str::to_owned);
                let stop_after_ms = lease["stop_after_ms"].as_u64().unwrap();
                op.until_us = Some(op.invoked_us + stop_after_ms * 1000);
            },
        );
        (outcome == Outcome::Done).then(|| Held { lock: lock.to_owned(), lease })
    }

    fn renew(&mut self, held: &Held) {
        let mut asked = self.begin(Kind::Renew, &held.lock);
        show(&mut asked, held);
        asked.ttl_us = Some(TTL_MS * 1000);
        let (path, body) = (format!("/v1/locks/{}/renew", encoded(&held.lock)), proof(&held.lease));
        self.until_known(
            asked,
            |client| client.post(&path, &body),
            |op, lease| {
                let stop_after_ms = lease["stop_after_ms"].as_u64().unwrap();
                op.until_us = Some(op.invoked_us + stop_after_ms * 1000);
            },
        );
    }

    fn release(&mut self, held: &Held) {
        let mut asked = self.begin(Kind::Release, &held.lock);
        show(&mut asked, held);
        let (path, body) = (format!("/v1/locks/{}/release", encoded(&held.lock)), proof(&held.lease));
        self.until_known(asked, |client| client.post(&path, &body), |_, _| {});
    }

    /// Whether or not it still believes in its lease: the file is fenced.
    fn append(&mut self, book: &str, held: &Held) {
        let id = self.fresh();
        let mut asked = self.begin(Kind::Append, book);
        show(&mut asked, held);
        asked.value = Some(id.clone());
        asked.request_id = Some(id.clone());
        let headers =
            proof_headers(&encoded(&held.lock), &held.lease) + &format!("Idempotency-Key: {id}\r\n");
        let path = format!("/v1/files/{book}/append");
        let bytes = format!("{id}\n");
        let send = |client: &mut Client| {
            client.begin_bytes("POST", &path, &headers, bytes.as_bytes())?;
            client.answer()
        };
        self.until_known(asked, send, |_, _| {});
    }

    /// Reads a file that everybody writes to.
    fn look(&mut self) {
        if self.draw(20) == 0 {
            let number = self.draw(BOOKS);
            let book = book(&self.word, number);
            let mut asked = self.begin(Kind::Read, &book);
            if let Ok(list) = read_book(&mut self.client, &book) {
                asked.list = Some(list);
                asked.answer(now_us(), Outcome::Done);
                self.operations.push(asked);
            }
        }
    }

    /// Asks until there is an answer that tells, or nobody wants one any more. Each attempt is written down.
    fn until_known(
        &mut self,
        asked: Operation,
        send: impl Fn(&mut Client) -> io::Result<(u16, Value)>,
        heard: impl Fn(&mut Operation, &Value),
    ) -> (Outcome, Value) {
        let mut attempt = asked.clone();
        loop {
            attempt.invoked_us = now_us();
            let answer = send(&mut self.client);
            let answered_us = now_us();
            match answer {
                Ok((status, answer)) => {
                    let outcome = outcome(status, &answer);
                    attempt.code = answer["code"].as_str().map(str::to_owned);
                    if outcome == Outcome::Done {
                        heard(&mut attempt, &answer);
                    }
                    attempt.answer(answered_us, outcome);
                    self.operations.push(attempt);
                    self.answered.fetch_add(1, Ordering::Relaxed);
                    if outcome != Outcome::Unknown {
                        return (outcome, answer);
                    }
                }
                // Nobody was there to hear it.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(_) => self.operations.push(attempt),
            }
            if self.stopping() {
                return (Outcome::Unknown, Value::Null);
            }
            sleep(Duration::from_millis(5));
            attempt = Operation { number: self.ids(), ..asked.clone() };
        }
    }

    fn begin(&mut self, kind: Kind, lock: &str) -> Operation {
        let number = self.ids();
        Operation::new(&self.owner, number, kind, lock, now_us())
    }

    fn ids(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    fn fresh(&mut self) -> String {
        let number = self.ids();
        format!("{}-{number}", self.owner)
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// The operation shows the lease.
fn show(operation: &mut Operation, held: &Held) {
    operation.token = held.lease["fencing_token"].as_u64();
    operation.lease = held.lease["lease_id"].as_str().map(str::to_owned);
}

fn outcome(status: u16, answer: &Value) -> Outcome {
    match status {
        200 => Outcome::Done,
        409 => Outcome::Refused,
        404 | 410 | 412 => Outcome::Lost,
        503 if answer["code"] == "busy" => Outcome::Refused,
        // Stopping, starting, or asked again on another connection: it may have been done.
        499 | 503 => Outcome::Unknown,
        _ => panic!("nobody expects {status} {answer}"),
    }
}

fn encoded(lock: &str) -> String {
    lock.replace('/', "%2F")
}

/// What was appended to a file, in order. A file that is not there holds nothing.
pub fn read_book(client: &mut Client, book: &str) -> io::Result<Vec<String>> {
    client.begin("GET", &format!("/v1/files/{book}"), None)?;
    let (status, bytes) = client.answer_bytes()?;
    match status {
        200 => Ok(String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()),
        404 => Ok(Vec::new()),
        _ => Err(io::Error::other(format!("{status}"))),
    }
}
