//! The world around one lock: a server with a disk, two clients, and messages on their way. Time passes in steps; the server
//! keeps up with it or stands still; it may die at any moment, with or without what was being written.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use leasehold_engine::{Batch, Engine, EngineOptions, Metrics, Reading, Replay};
use leasehold_journal::Fold;
use leasehold_state_machine::answer::{Answer, Outcome};
use leasehold_state_machine::codec::read_batch;
use leasehold_state_machine::command::{Attachment, Command, Request};
use leasehold_state_machine::ids::{HashKey, Secret};
use leasehold_state_machine::limits::Limits;

use crate::client::{Client, Wish};
use crate::judge::Judge;

pub const TTL_MS: u64 = 1_500;
/// How much time passes at once: a lease is due for renewal after one such step, lost after two, over after three.
const STEP_US: u64 = 500_000;
/// A server that keeps up takes a turn this often.
const TURN_US: u64 = 100_000;
const CRASHES_MAX: u32 = 1;
const START_RAW_US: u64 = 1_000_000_000;
const START_WALL_MS: u64 = 1_790_000_000_000;

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A client sends something.
    Send(usize, Wish),
    /// A request reaches the server, which takes a turn.
    Arrive(usize),
    /// A request is lost, and its client notices.
    LoseRequest(usize),
    /// What was being written is durable.
    Sync,
    /// An answer reaches its client.
    Hear(usize),
    /// An answer is lost, and its client notices.
    LoseAnswer(usize),
    /// Time passes, and the server and its disk keep up.
    Pass,
    /// Time passes, and the server stands still.
    StandStill,
    /// The server dies; what was being written is on the disk, or not.
    Crash { written: bool },
    /// It starts again.
    Restart,
}

/// A request on its way.
#[derive(Clone, Debug)]
struct Sent {
    client: usize,
    wish: Wish,
    request: u64,
    sent_us: u64,
    command: Command,
}

/// A request that has arrived.
#[derive(Clone, Copy, Debug)]
struct Attempt {
    client: usize,
    wish: Wish,
    request: u64,
    sent_us: u64,
    arrived_us: u64,
}

pub struct World {
    now_us: u64,
    engine: Option<Engine>,
    /// What is durable.
    batches: Vec<Arc<[u8]>>,
    writing: Option<Batch>,
    requests: Vec<Sent>,
    answers: Vec<(Attempt, Outcome)>,
    attempts: BTreeMap<u64, Attempt>,
    next_attempt: u64,
    /// When the first attempt of each request arrived.
    first_us: BTreeMap<(usize, u64), u64>,
    clients: [Client; 2],
    crashes: u32,
    pub judge: Judge,
}

/// All that the future depends on. The journal stands for what it adds up to.
impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let replay = self.replay();
        f.debug_struct("World")
            .field("now_us", &self.now_us)
            .field("engine", &self.engine)
            .field("disk", &(replay.machine(), replay.traces()))
            .field("writing", &self.writing)
            .field("requests", &self.requests)
            .field("answers", &self.answers)
            .field("attempts", &self.attempts)
            .field("first_us", &self.first_us)
            .field("clients", &self.clients)
            .field("crashes", &self.crashes)
            .field("judge", &self.judge)
            .finish()
    }
}

impl World {
    pub fn new() -> World {
        let mut world = World {
            now_us: 0,
            engine: None,
            batches: Vec::new(),
            writing: None,
            requests: Vec::new(),
            answers: Vec::new(),
            attempts: BTreeMap::new(),
            next_attempt: 1,
            first_us: BTreeMap::new(),
            clients: [Client::new(0), Client::new(1)],
            crashes: 0,
            judge: Judge::default(),
        };
        world.start();
        world.sync();
        world
    }

    /// Everything that can happen next.
    pub fn open(&self) -> Vec<Action> {
        let mut open = Vec::new();
        for (number, client) in self.clients.iter().enumerate() {
            open.extend(client.wishes(self.now_us).into_iter().map(|wish| Action::Send(number, wish)));
        }
        for place in 0..self.requests.len() {
            open.extend(self.engine.is_some().then_some(Action::Arrive(place)));
            open.push(Action::LoseRequest(place));
        }
        for place in 0..self.answers.len() {
            open.extend([Action::Hear(place), Action::LoseAnswer(place)]);
        }
        open.push(Action::StandStill);
        if self.engine.is_none() {
            open.push(Action::Restart);
            return open;
        }
        open.push(Action::Pass);
        open.extend(self.writing.is_some().then_some(Action::Sync));
        if self.crashes < CRASHES_MAX {
            open.push(Action::Crash { written: true });
            open.extend(self.writing.is_some().then_some(Action::Crash { written: false }));
        }
        open
    }

    pub fn happen(&mut self, action: Action) {
        match action {
            Action::Send(number, wish) => {
                let client = &mut self.clients[number];
                let command = client.send(wish, self.now_us);
                let (sent_us, request) = (self.now_us, client.request);
                self.requests.push(Sent { client: number, wish, request, sent_us, command });
            }
            Action::Arrive(place) => self.arrive(place),
            Action::LoseRequest(place) => {
                let sent = self.requests.remove(place);
                self.clients[sent.client].waits = false;
            }
            Action::Sync => self.sync(),
            Action::Hear(place) => self.hear(place),
            Action::LoseAnswer(place) => {
                let (attempt, _) = self.answers.remove(place);
                self.clients[attempt.client].waits = false;
            }
            Action::Pass => {
                for _ in 0..STEP_US / TURN_US {
                    self.sync();
                    self.now_us += TURN_US;
                    self.turn(Vec::new());
                }
                self.sync();
            }
            Action::StandStill => self.now_us += STEP_US,
            Action::Crash { written } => self.crash(written),
            Action::Restart => {
                self.start();
                let leases = self.engine.as_ref().map_or(0, |engine| engine.machine().counts().leases);
                self.judge.restarted(leases);
            }
        }
        let [one, other] = &self.clients;
        self.judge.lost |= one.has_lost(self.now_us) || other.has_lost(self.now_us);
        self.judge.two_believe |= one.believes(self.now_us) && other.believes(self.now_us);
    }

    fn reading(&self) -> Reading {
        Reading { raw_us: START_RAW_US + self.now_us, wall_ms: START_WALL_MS + self.now_us / 1000 }
    }

    fn replay(&self) -> Replay {
        let mut replay = Replay::new(Limits::default());
        for batch in &self.batches {
            replay.replay(batch).unwrap();
        }
        replay
    }

    fn start(&mut self) {
        let options = EngineOptions {
            founding_key: HashKey([1, 2]),
            restored: None,
            accept_clock: false,
            batch_bytes_max: 1 << 20,
            metrics: Arc::new(Metrics::default()),
        };
        let (engine, _) = Engine::recover(self.replay(), [7; 16], self.reading(), options);
        self.engine = Some(engine);
        self.take_up();
    }

    fn arrive(&mut self, place: usize) {
        let Sent { client, wish, request, sent_us, command } = self.requests.remove(place);
        let (number, arrived_us) = (self.next_attempt, self.now_us);
        self.next_attempt += 1;
        self.attempts.insert(number, Attempt { client, wish, request, sent_us, arrived_us });
        self.first_us.entry((client, request)).or_insert(arrived_us);
        self.turn(vec![Request {
            attachment: Attachment(number),
            arrived_raw_us: START_RAW_US + self.now_us,
            secret: Secret([number, 9]),
            command,
        }]);
    }

    fn turn(&mut self, mut arrivals: Vec<Request>) {
        let reading = self.reading();
        if let Some(engine) = &mut self.engine {
            engine.turn(reading, &mut arrivals);
        }
        self.take_up();
    }

    /// Hands what was decided to the disk, and to the network what may leave.
    fn take_up(&mut self) {
        let Some(engine) = &mut self.engine else { return };
        if self.writing.is_none() {
            self.writing = engine.take_batch();
        }
        let released = engine.released();
        for reply in released.replies {
            let Some(attempt) = self.attempts.remove(&reply.to.0) else { continue };
            if let Ok(Answer::Lease(view)) = &reply.outcome {
                // A repeat of an acquire keeps nothing alive.
                let first_us = self.first_us.get(&(attempt.client, attempt.request));
                let from_us = match attempt.wish {
                    Wish::Renew => attempt.arrived_us,
                    _ => first_us.copied().unwrap_or(attempt.arrived_us),
                };
                if attempt.wish == Wish::Acquire {
                    self.judge.told(attempt.client, attempt.request, view.token);
                }
                self.judge.promised(view.token, START_RAW_US + from_us + TTL_MS * 1000);
            }
            self.answers.push((attempt, reply.outcome));
        }
        for gone in released.gone {
            self.attempts.remove(&gone.0);
        }
    }

    fn sync(&mut self) {
        while let Some(batch) = self.writing.take() {
            let last_seq = batch.last_seq;
            self.keep(batch);
            self.engine.iter_mut().for_each(|engine| engine.durable(last_seq, 1_000));
            self.take_up();
        }
    }

    /// A batch is on the disk.
    fn keep(&mut self, batch: Batch) {
        let judge = &mut self.judge;
        let read = read_batch(&batch.payload, &mut |_, stamp, _, event| judge.durable(stamp.raw_us, &event));
        assert!(read.is_ok(), "what the engine writes can be read");
        self.batches.push(batch.payload);
    }

    fn crash(&mut self, written: bool) {
        self.crashes += 1;
        self.engine = None;
        match self.writing.take() {
            Some(batch) if written => self.keep(batch),
            Some(_) => self.judge.decision_lost = true,
            None => {}
        }
        // Whoever was being served sees its connection break.
        for attempt in std::mem::take(&mut self.attempts).into_values() {
            self.clients[attempt.client].waits = false;
        }
    }

    fn hear(&mut self, place: usize) {
        let (attempt, outcome) = self.answers.remove(place);
        let client = &mut self.clients[attempt.client];
        client.waits = false;
        // What answers a request that was given up is not listened to.
        if attempt.request != client.request {
            return;
        }
        match outcome {
            Ok(Answer::Lease(view)) => {
                client.hear(attempt.wish, attempt.sent_us, self.now_us, &view);
                self.judge.renewed |= attempt.wish == Wish::Renew;
            }
            Ok(_) => {}
            Err(_) => client.hear_no(),
        }
    }
}
