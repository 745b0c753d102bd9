//! One sample of every shape, with everything a shape can have and with as little as it can have. They are made of the
//! state machine's own answers and rendered by the code that renders real ones: what a shape has is seen here, not
//! told. They are the examples of the description, too.

use leasehold_state_machine::answer::{
    Answer, EndedView, FileView, Held, HolderView, LeaseView, SessionRow, SessionView, Snapshot, WaiterView,
    Written,
};
use leasehold_state_machine::event::{Ask, CancelFound, Event, LeaseName, Release, Under};
use leasehold_state_machine::file::FileName;
use leasehold_state_machine::ids::{LeaseId, Secret, SessionId};
use leasehold_state_machine::invalid::Invalid;
use leasehold_state_machine::limits::FILE_INODE_FIRST;
use leasehold_state_machine::resource::Resource;
use leasehold_state_machine::token::EPOCH_MS;
use leasehold_state_machine::words::{Metadata, Mode, Owner, Reason, Ttl};
use serde_json::Value;

use crate::http::pages;
use crate::wire::event_line::event_line;
use crate::wire::shapes::render;

/// A shape's name, and its samples.
#[derive(Debug)]
pub struct Shape {
    /// What the description calls it.
    pub name: &'static str,
    /// With everything it can have.
    pub full: Value,
    /// With as little as it can have.
    pub least: Value,
}

/// 2026-01-31T12:00:00Z.
const GRANTED_WALL_MS: u64 = 1_769_860_800_000;
/// The first token that was given then.
pub const TOKEN: u64 = (GRANTED_WALL_MS - EPOCH_MS) * 4096;
const SEQ: u64 = 42;

/// Every shape that an answer can have. A sample that could not be made is left out, which a test would notice.
pub fn shapes() -> Vec<Shape> {
    Words::new().map(|words| words.shapes()).unwrap_or_default()
}

/// The full sample of a shape; null if there is none, which a test would notice.
pub fn sample(name: &str) -> Value {
    shapes().into_iter().find(|shape| shape.name == name).map(|shape| shape.full).unwrap_or_default()
}

/// Who is in the way, as a refused acquire tells it.
pub fn held() -> Held {
    let (holders, waiters) = match Words::new() {
        Ok(words) => (vec![words.holder(false)], vec![words.waiter()]),
        Err(_) => (Vec::new(), Vec::new()),
    };
    Held { holders, waiters, retry_ms: 1500 }
}

/// The checked words that samples are made of.
struct Words {
    lock: Resource,
    file: FileName,
    holder: Owner,
    waiter: Owner,
    metadata: Metadata,
    reason: Reason,
}

impl Words {
    fn new() -> Result<Words, Invalid> {
        let entry = ("build".to_owned(), "1234".to_owned());
        Ok(Words {
            lock: Resource::parse("deploy")?,
            file: FileName::parse("reports/a.log")?,
            holder: Owner::parse("worker-1@host7")?,
            waiter: Owner::parse("worker-2@host9")?,
            metadata: Metadata::new([entry].into())?,
            reason: Reason::parse("host7 is gone")?,
        })
    }

    fn shapes(&self) -> Vec<Shape> {
        let both = |name, full: &Answer, least: &Answer| Shape { name, full: told(full), least: told(least) };
        let one = |name, answer: &Answer| both(name, answer, answer);
        let (locks, lock) = (self.locks(false), self.locks(true));
        let (sessions, session) = (self.sessions(false), self.session());
        let files = self.files(false);
        let within = |name, full: &Answer, least: &Answer, path: &str| {
            let part = |answer| told(answer).pointer(path).cloned().unwrap_or_default();
            Shape { name, full: part(full), least: part(least) }
        };
        vec![
            one("Lease", &self.lease()),
            one("Released", &Answer::Released { remaining_ms: None }),
            one("Cancelled", &Answer::Cancelled(CancelFound::Waiting)),
            one("Valid", &Answer::Valid { expires_in_ms: 29_000 }),
            both(
                "Snapshot",
                &Answer::Snapshot(self.snapshot(false).into()),
                &Answer::Snapshot(self.snapshot(true).into()),
            ),
            within("Holder", &locks, &lock, "/locks/0/holders/0"),
            within("Waiter", &locks, &locks, "/locks/0/waiters/0"),
            both("Locks", &locks, &lock),
            one("Broke", &Answer::Broke { tokens: vec![TOKEN], free_in_ms: 24_500 }),
            one("Session", &session),
            within("Ended", &session, &session, "/ended/0"),
            one("Closed", &Answer::Closed),
            both("Sessions", &sessions, &self.sessions(true)),
            within("SessionRow", &sessions, &sessions, "/sessions/0"),
            one("Wrote", &Answer::Wrote(Written { offset: 4090, length: 6, size: 4096 })),
            one("Deleted", &Answer::Deleted),
            both("Files", &files, &self.files(true)),
            within("File", &files, &files, "/files/0"),
            self.event(),
            page("Health", pages::health()),
            page("Ready", pages::ready()),
            page("Version", pages::version()),
        ]
    }

    fn lease(&self) -> Answer {
        let lease = LeaseId { slot: 0, secret: Secret([0x7b1f_c0de_51ab_3a90, 0x2c64_e0d1_98f7_6b35]) };
        Answer::Lease(Box::new(LeaseView {
            resource: self.lock.clone(),
            owner: self.holder.clone(),
            session: SessionId::Own(lease),
            lease,
            token: TOKEN,
            mode: Mode::Exclusive,
            ttl: Ttl::default(),
            expires_in_ms: 30_000,
            renew_after_ms: 10_000,
            stop_after_ms: 15_000,
            acquired_wall_ms: GRANTED_WALL_MS,
            expires_wall_ms: GRANTED_WALL_MS + 30_000,
            version: SEQ,
            seq: SEQ,
            metadata: self.metadata.clone(),
            repeatable: true,
        }))
    }

    fn holder(&self, broken: bool) -> HolderView {
        HolderView {
            resource: self.lock.clone(),
            owner: self.holder.clone(),
            mode: Mode::Exclusive,
            token: TOKEN,
            acquired_wall_ms: GRANTED_WALL_MS,
            expires_wall_ms: GRANTED_WALL_MS + 30_000,
            expires_in_ms: 24_500,
            metadata: self.metadata.clone(),
            broken,
        }
    }

    fn waiter(&self) -> WaiterView {
        WaiterView {
            resource: self.lock.clone(),
            owner: self.waiter.clone(),
            mode: Mode::Shared,
            position: 1,
            waiting_ms: 1200,
            attached: true,
        }
    }

    /// `least`: of a lock that nobody remembers.
    fn snapshot(&self, least: bool) -> Snapshot {
        Snapshot {
            resource: self.lock.clone(),
            holders: if least { Vec::new() } else { vec![self.holder(false)] },
            waiters: if least { Vec::new() } else { vec![self.waiter()] },
            last_token: (!least).then_some(TOKEN),
            version: SEQ,
            seq: SEQ + 1,
        }
    }

    /// `least`: the last page, of leases that nobody broke.
    fn locks(&self, least: bool) -> Answer {
        let broken = Snapshot { holders: vec![self.holder(!least)], ..self.snapshot(false) };
        Answer::Locks { locks: vec![broken], next_cursor: (!least).then(|| "deploy-2".to_owned()) }
    }

    fn session(&self) -> Answer {
        Answer::Session(Box::new(SessionView {
            session: SessionId::Opened {
                slot: 0,
                secret: Secret([0x90c1_77e4_0b6d_12fa, 0x5d3e_8a27_4416_c9b8]),
            },
            owner: self.holder.clone(),
            ttl: Ttl::default(),
            expires_in_ms: 30_000,
            renew_after_ms: 10_000,
            stop_after_ms: 15_000,
            ended: vec![EndedView {
                resource: self.lock.clone(),
                token: TOKEN,
                reason: Release::Broken.text(),
                seq: SEQ,
            }],
            seq: SEQ + 1,
            metadata: self.metadata.clone(),
        }))
    }

    fn sessions(&self, least: bool) -> Answer {
        let row = SessionRow {
            owner: self.holder.clone(),
            ttl: Ttl::default(),
            expires_in_ms: 24_500,
            leases: 3,
            waiters: 1,
            metadata: self.metadata.clone(),
        };
        Answer::Sessions { sessions: vec![row], next_cursor: (!least).then(|| "17".to_owned()), seq: SEQ }
    }

    fn files(&self, least: bool) -> Answer {
        let file = FileView {
            name: self.file.clone(),
            number: FILE_INODE_FIRST,
            size: 4096,
            token: TOKEN,
            created_wall_ms: GRANTED_WALL_MS,
            written_wall_ms: GRANTED_WALL_MS + 1500,
            version: SEQ,
        };
        Answer::Files { files: vec![file], next_cursor: (!least).then(|| "reports/b.log".to_owned()) }
    }

    /// A lease that was broken, and a request that took its place in line.
    fn event(&self) -> Shape {
        let lease = LeaseName {
            slot: 0,
            token: TOKEN,
            resource: self.lock.clone(),
            owner: self.holder.clone(),
            mode: Mode::Exclusive,
        };
        let ask = Ask {
            secret: Secret([0, 0]),
            resource: self.lock.clone(),
            owner: self.waiter.clone(),
            mode: Mode::Shared,
            under: Under::Own(Ttl::default()),
            request: None,
            metadata: Metadata::default(),
        };
        let line = |event| value(&event_line(SEQ, GRANTED_WALL_MS, &event));
        Shape {
            name: "Event",
            full: line(Event::Broken { lease, reason: self.reason.clone(), force: false }),
            least: line(Event::Queued { ticket: 1, ask, wait: Default::default() }),
        }
    }
}

fn told(answer: &Answer) -> Value {
    value(&render(answer))
}

fn page(name: &'static str, body: Vec<u8>) -> Shape {
    Shape { name, full: value(&body), least: value(&body) }
}

/// What was rendered, read again; null if it is no JSON, which a test would notice.
pub fn value(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_default()
}
