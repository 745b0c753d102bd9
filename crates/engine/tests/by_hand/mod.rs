//! An engine that is driven by hand, with virtual clocks and a disk that can be held back, lose its tail, or fail.
//! There are no threads and no sleeps here: time passes when a test says so.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)]

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use leasehold_engine::{
    Batch, Chapter, Clock, Engine, EngineOptions, FileChange, Metrics, Notice, Reading, Recovered, Replay,
    Restored, Told,
};
use leasehold_files::{DiskStore, FileStore, MemoryDisk};
use leasehold_journal::Fold;
use leasehold_state_machine::answer::{Answer, LeaseView, Outcome, Refusal};
use leasehold_state_machine::command::{Acquire, Attachment, Command, Proof, Renew, Request, WriteFile};
use leasehold_state_machine::event::Seq;
use leasehold_state_machine::file::{FileBytes, FileName, Offset};
use leasehold_state_machine::ids::{HashKey, Secret};
use leasehold_state_machine::limits::Limits;
use leasehold_state_machine::resource::Resource;
use leasehold_state_machine::words::{Metadata, Mode, Owner, RequestId, Ttl, Wait};

pub const MS: u64 = 1000;
/// Between two turns when nothing else happens, as a driver would have it.
const STEP_US: u64 = 50 * MS;
/// How long an ordinary commit takes.
const COMMIT_US: u64 = 100;

/// A clock that stands still: nothing falls due, and nobody is woken by time.
pub struct Still;

impl Clock for Still {
    fn read(&self) -> Reading {
        Reading { raw_us: 1_000_000_000, wall_ms: 1_790_000_000_000 }
    }

    fn boot_id(&self) -> [u8; 16] {
        [7; 16]
    }
}

pub struct Server {
    pub engine: Engine,
    pub recovered: Recovered,
    pub metrics: Arc<Metrics>,
    pub notices: Vec<Notice>,
    pub told: Vec<Told>,
    /// The time of the world, which no restart and no wrong clock changes.
    pub true_us: u64,
    /// Whether batches become durable as soon as they are handed over.
    pub disk_is_prompt: bool,
    /// What would be found after a crash.
    pub disk: Vec<Vec<u8>>,
    in_flight: Option<Batch>,
    pub files: DiskStore<MemoryDisk>,
    /// Whether bytes are in their files as soon as they are durable.
    pub files_are_prompt: bool,
    /// Durable, and not yet in a file.
    unapplied: VecDeque<(Seq, FileChange)>,
    boot: u8,
    booted_us: u64,
    pub wall_skew_ms: i64,
    pub options: Options,
    answers: BTreeMap<Attachment, Outcome>,
    next: u64,
}

#[derive(Clone, Default)]
pub struct Options {
    pub restored: Option<Restored>,
    pub accept_clock: bool,
    pub batch_bytes_max: Option<usize>,
}

/// What happens between a crash and the next start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Restart {
    SameBoot,
    OtherBoot,
}

impl Server {
    pub fn new() -> Server {
        Server::with(Options::default())
    }

    pub fn with(options: Options) -> Server {
        let (true_us, booted_us) = (1_000_000 * MS, 0);
        let mut disk = Vec::new();
        let start = Start { boot: 1, booted_us, true_us, wall_skew_ms: 0 };
        let (engine, recovered, metrics) = start.engine(&mut disk, &options);
        let mut server = Server {
            engine,
            recovered,
            metrics,
            notices: Vec::new(),
            told: Vec::new(),
            true_us,
            disk_is_prompt: true,
            disk,
            in_flight: None,
            files: DiskStore::new(MemoryDisk::new()),
            files_are_prompt: true,
            unapplied: VecDeque::new(),
            boot: 1,
            booted_us,
            wall_skew_ms: 0,
            options,
            answers: BTreeMap::new(),
            next: 1,
        };
        server.turn(Vec::new());
        server
    }

    fn start(&self) -> Start {
        Start {
            boot: self.boot,
            booted_us: self.booted_us,
            true_us: self.true_us,
            wall_skew_ms: self.wall_skew_ms,
        }
    }

    pub fn raw_us(&self) -> u64 {
        self.true_us - self.booted_us
    }

    /// One turn, now.
    pub fn turn(&mut self, mut arrivals: Vec<Request>) {
        self.engine.turn(self.start().reading(), &mut arrivals);
        assert!(arrivals.is_empty());
        self.hand_over();
        if self.disk_is_prompt {
            self.commit();
        }
    }

    fn hand_over(&mut self) {
        if self.in_flight.is_none() {
            self.in_flight = self.engine.take_batch();
        }
        let released = self.engine.released();
        for reply in released.replies {
            assert!(self.answers.insert(reply.to, reply.outcome).is_none(), "answered twice");
        }
        self.told.extend(released.chapters.iter().flat_map(Chapter::read));
        self.notices.extend(self.engine.take_notices());
    }

    /// The disk finishes everything that was handed to it, and that was decided meanwhile.
    pub fn commit(&mut self) {
        while self.commit_one(COMMIT_US) {}
    }

    /// The disk finishes the batch in flight, having taken this long over it.
    pub fn commit_one(&mut self, commit_us: u64) -> bool {
        self.hand_over();
        let Some(batch) = self.in_flight.take() else { return false };
        self.disk.push(batch.payload.to_vec());
        self.engine.durable(batch.last_seq, commit_us);
        self.unapplied.extend(batch.changes);
        while self.files_are_prompt && self.apply_one() {}
        self.hand_over();
        true
    }

    /// The oldest change that is durable gets into its file.
    pub fn apply_one(&mut self) -> bool {
        let Some((seq, change)) = self.unapplied.pop_front() else { return false };
        change.apply(&self.files).unwrap();
        self.engine.applied(seq);
        self.hand_over();
        true
    }

    /// What is in a file.
    pub fn content(&self, number: u64) -> Vec<u8> {
        let mut bytes = vec![0; self.files.length(number).unwrap().unwrap_or(0) as usize];
        self.files.read(number, 0, &mut bytes).unwrap();
        bytes
    }

    /// Time passes, with turns as often as a driver makes them.
    pub fn run_ms(&mut self, ms: u64) {
        let end_us = self.true_us + ms * MS;
        while self.true_us < end_us {
            self.true_us = (self.true_us + STEP_US).min(end_us);
            self.turn(Vec::new());
        }
    }

    /// Time passes while the whole process stands still.
    pub fn stopped_ms(&mut self, ms: u64) {
        self.true_us += ms * MS;
    }

    /// Sends a request; a turn takes it in.
    pub fn ask(&mut self, command: Command) -> Attachment {
        let attachment = Attachment(self.next);
        let request = self.request(command);
        self.turn(vec![request]);
        attachment
    }

    pub fn request(&mut self, command: Command) -> Request {
        let (attachment, secret) = (Attachment(self.next), Secret([self.next, !self.next]));
        self.next += 1;
        Request { attachment, arrived_raw_us: self.raw_us(), secret, command }
    }

    /// The answer to a request, if it has come.
    pub fn answer(&self, to: Attachment) -> Option<&Outcome> {
        self.answers.get(&to)
    }

    pub fn lease(&self, to: Attachment) -> LeaseView {
        match self.answer(to) {
            Some(Ok(Answer::Lease(lease))) => (**lease).clone(),
            other => panic!("not a lease: {other:?}"),
        }
    }

    pub fn is_held(&self, to: Attachment) -> bool {
        matches!(self.answer(to), Some(Err(Refusal::Held(_))))
    }

    /// The process dies. What was not durable is lost; everybody's connection is.
    pub fn crash(&mut self, restart: Restart, away_ms: u64) {
        self.crash_with_disk(self.disk.clone(), restart, away_ms);
    }

    pub fn crash_with_disk(&mut self, disk: Vec<Vec<u8>>, restart: Restart, away_ms: u64) {
        self.disk = disk;
        self.in_flight = None;
        self.unapplied.clear();
        self.true_us += away_ms * MS;
        if restart == Restart::OtherBoot {
            self.boot += 1;
            self.booted_us = self.true_us - 5_000 * MS;
        }
        (self.engine, self.recovered, self.metrics) = self.start().engine(&mut self.disk, &self.options);
        self.turn(Vec::new());
    }

    /// How long it takes, in true time from now, until somebody else can have the lock. Its last holder is silent.
    pub fn free_after_ms(&mut self, lock: &str) -> u64 {
        let begun_us = self.true_us;
        for _ in 0..10_000 {
            let to = self.ask(acquire(lock, "next", 30_000));
            self.commit();
            if !self.is_held(to) {
                assert!(matches!(self.answer(to), Some(Ok(Answer::Lease(_)))), "{:?}", self.answer(to));
                return (self.true_us - begun_us) / MS;
            }
            self.run_ms(10);
        }
        panic!("{lock} is never free");
    }

    pub fn snapshot(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.engine.machine().write_snapshot(&mut bytes);
        bytes
    }
}

struct Start {
    boot: u8,
    booted_us: u64,
    true_us: u64,
    wall_skew_ms: i64,
}

impl Start {
    fn reading(&self) -> Reading {
        let wall_ms = 1_790_000_000_000 + self.true_us / 1000;
        Reading {
            raw_us: self.true_us - self.booted_us,
            wall_ms: wall_ms.checked_add_signed(self.wall_skew_ms).unwrap(),
        }
    }

    fn engine(&self, disk: &mut [Vec<u8>], options: &Options) -> (Engine, Recovered, Arc<Metrics>) {
        let mut replay = Replay::new(Limits::default());
        for payload in disk {
            replay.replay(payload).unwrap();
        }
        let metrics = Arc::new(Metrics::default());
        let options = EngineOptions {
            founding_key: HashKey([1, 2]),
            restored: options.restored,
            accept_clock: options.accept_clock,
            batch_bytes_max: options.batch_bytes_max.unwrap_or(16 << 20),
            metrics: metrics.clone(),
        };
        let (engine, recovered) = Engine::recover(replay, [self.boot; 16], self.reading(), options);
        (engine, recovered, metrics)
    }
}

pub fn owner(text: &str) -> Owner {
    Owner::parse(text).unwrap()
}

pub fn acquire(lock: &str, by: &str, ttl_ms: u64) -> Command {
    Command::Acquire(asking(lock, by, ttl_ms, 0, None))
}

pub fn queue(lock: &str, by: &str, ttl_ms: u64, wait_ms: u64, id: Option<&str>) -> Command {
    Command::Acquire(asking(lock, by, ttl_ms, wait_ms, id))
}

pub fn share(lock: &str, by: &str, ttl_ms: u64) -> Command {
    Command::Acquire(Acquire { mode: Mode::Shared, ..asking(lock, by, ttl_ms, 0, None) })
}

fn asking(lock: &str, by: &str, ttl_ms: u64, wait_ms: u64, id: Option<&str>) -> Acquire {
    Acquire {
        resource: Resource::parse(lock).unwrap(),
        owner: owner(by),
        ttl: Some(Ttl::from_ms(ttl_ms).unwrap()),
        mode: Mode::Exclusive,
        wait: Wait::from_ms(wait_ms).unwrap(),
        session: None,
        request_id: id.map(|id| RequestId::parse(id).unwrap()),
        metadata: Metadata::default(),
    }
}

pub fn proof(lease: &LeaseView) -> Proof {
    Proof {
        resource: lease.resource.clone(),
        owner: lease.owner.clone(),
        lease: lease.lease,
        token: lease.token,
    }
}

pub fn renew(lease: &LeaseView) -> Command {
    Command::Renew(Renew { proof: proof(lease), ttl: None, metadata: None })
}

pub fn release(lease: &LeaseView) -> Command {
    Command::Release(proof(lease))
}

pub fn append(lease: &LeaseView, name: &str, bytes: &[u8], id: Option<&str>) -> Command {
    write(lease, name, Offset::End, bytes, id)
}

pub fn write(lease: &LeaseView, name: &str, offset: Offset, bytes: &[u8], id: Option<&str>) -> Command {
    let id = id.map(|id| RequestId::parse(id).unwrap());
    Command::WriteFile(Box::new(WriteFile::new(file(name), offset, FileBytes::new(bytes), proof(lease), id)))
}

pub fn delete(lease: &LeaseView, name: &str) -> Command {
    Command::DeleteFile { name: file(name), proof: proof(lease), request_id: None }
}

pub fn stat(name: &str) -> Command {
    Command::StatFile { name: file(name) }
}

pub fn file(name: &str) -> FileName {
    FileName::parse(name).unwrap()
}

pub fn get(lock: &str) -> Command {
    Command::Get { resource: Resource::parse(lock).unwrap() }
}
