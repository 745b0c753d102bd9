//! What went into the server, as the wire saw it: every attempt with its times. The invariants compare what came out
//! with this; it knows nothing of what the server made of it.

use std::collections::BTreeMap;

use leasehold_state_machine::command::{Command, WriteFile};
use leasehold_state_machine::ids::Secret;
use leasehold_state_machine::resource::Resource;
use leasehold_state_machine::words::{ClientId, RequestId};

/// How many bytes at the beginning of a write say which one it is. Shorter ones cannot be told apart.
pub const MARK_BYTES: usize = 8;

/// One attempt: in which life of the process, and its number there.
pub type AttemptId = (u64, u64);

/// One attempt of one call.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// When it reached the socket.
    pub socket_us: u64,
    /// When it was read from there and stamped.
    pub arrived_us: u64,
    /// When it was given to the engine.
    pub turned_us: Option<u64>,
    /// Whether it was certainly decided in that turn.
    pub certain: bool,
    /// When the server noticed that its connection had closed.
    pub closed_us: Option<u64>,
    /// The random bits it was given.
    pub secret: Secret,
    /// What was asked.
    pub command: Command,
    /// The owner and request id, if it has one.
    pub origin: Option<String>,
}

/// All attempts.
#[derive(Debug, Default)]
pub struct Ledger {
    attempts: BTreeMap<AttemptId, Attempt>,
    by_secret: BTreeMap<Secret, AttemptId>,
    by_origin: BTreeMap<String, Vec<AttemptId>>,
    /// Writes to files by their first bytes, which are no other write's.
    by_mark: BTreeMap<[u8; MARK_BYTES], Vec<AttemptId>>,
    /// The time that the server had left out of its own by the end of each turn, by life and real time.
    left_out_us: BTreeMap<(u64, u64), u64>,
    /// When each life of the process had recovered.
    lives: BTreeMap<u64, u64>,
    /// When the process or its disk stood still, from and to.
    pub standstills: Vec<(u64, u64)>,
}

impl Ledger {
    /// An attempt was taken in by the server's door.
    pub fn accepted(&mut self, id: AttemptId, attempt: Attempt) {
        self.by_secret.insert(attempt.secret, id);
        if let Some(origin) = &attempt.origin {
            self.by_origin.entry(origin.clone()).or_default().push(id);
        }
        if let Command::WriteFile(wanted) = &attempt.command
            && let Some(mark) = wanted.bytes.whole().first_chunk()
        {
            self.by_mark.entry(*mark).or_default().push(id);
        }
        self.attempts.insert(id, attempt);
    }

    /// An attempt was given to the engine.
    pub fn turned(&mut self, id: AttemptId, at_us: u64) {
        if let Some(attempt) = self.attempts.get_mut(&id) {
            attempt.turned_us = attempt.turned_us.or(Some(at_us));
        }
    }

    /// The server noticed that a connection had closed.
    pub fn closed(&mut self, id: AttemptId, at_us: u64) {
        if let Some(attempt) = self.attempts.get_mut(&id) {
            attempt.closed_us = attempt.closed_us.or(Some(at_us));
        }
    }

    /// So much was waiting for the disk that attempts since then may have been kept waiting themselves.
    pub fn choked(&mut self, life: u64, since_us: u64) {
        for attempt in self.attempts.range_mut((life, 0)..=(life, u64::MAX)).map(|(_, attempt)| attempt) {
            if attempt.turned_us.is_none_or(|at_us| at_us >= since_us) {
                attempt.certain = false;
            }
        }
    }

    /// A turn ended with so much time left out in all. Only news is kept.
    pub fn left_out(&mut self, life: u64, at_us: u64, left_out_us: u64) {
        if self.left_out_us_at(life, at_us) != left_out_us {
            self.left_out_us.insert((life, at_us), left_out_us);
        }
    }

    fn left_out_us_at(&self, life: u64, at_us: u64) -> u64 {
        self.left_out_us.range((life, 0)..=(life, at_us)).next_back().map_or(0, |(_, out_us)| *out_us)
    }

    /// The server's own time between two turns of one life.
    pub fn server_time_us(&self, life: u64, from_us: u64, to_us: u64) -> u64 {
        let out_us = self.left_out_us_at(life, to_us).saturating_sub(self.left_out_us_at(life, from_us));
        (to_us - from_us).saturating_sub(out_us)
    }

    /// A life of the process began.
    pub fn started(&mut self, life: u64, at_us: u64) {
        self.lives.insert(life, at_us);
    }

    /// When a life of the process began.
    pub fn began_us(&self, life: u64) -> u64 {
        self.lives.get(&life).copied().unwrap_or(0)
    }

    /// Whether the server restarted, or stood still more than once, between two moments.
    pub fn was_rough(&self, from_us: u64, to_us: u64) -> bool {
        let stood =
            self.standstills.iter().filter(|(begun_us, ended_us)| *ended_us >= from_us && *begun_us <= to_us);
        stood.count() > 1 || self.lives.values().any(|at_us| (from_us..=to_us).contains(at_us))
    }

    /// Whether the server restarted or stood still between two moments.
    pub fn stood_still(&self, from_us: u64, to_us: u64) -> bool {
        self.standstills.iter().any(|(begun_us, ended_us)| *ended_us >= from_us && *begun_us <= to_us)
            || self.lives.values().any(|at_us| (from_us..=to_us).contains(at_us))
    }

    /// One attempt.
    pub fn attempt(&self, id: AttemptId) -> Option<&Attempt> {
        self.attempts.get(&id)
    }

    /// The attempt that was given these random bits.
    pub fn by_secret(&self, secret: Secret) -> Option<&Attempt> {
        self.attempts.get(self.by_secret.get(&secret)?)
    }

    /// Everybody who asked for a write of these bytes.
    pub fn writers<'a>(&'a self, bytes: &[u8]) -> impl Iterator<Item = &'a WriteFile> {
        let ids = bytes.first_chunk().and_then(|mark| self.by_mark.get(mark)).map_or(&[][..], Vec::as_slice);
        ids.iter().filter_map(|id| match &self.attempts.get(id)?.command {
            Command::WriteFile(wanted) => Some(&**wanted),
            _ => None,
        })
    }

    /// The newest attempt of a request that was given to the engine in this life, no later than `until_us`; the request is
    /// named by the random bits of its first attempt.
    pub fn newest(&self, secret: Secret, resource: &Resource, life: u64, until_us: u64) -> Option<&Attempt> {
        let first = self.by_secret(secret)?;
        let all = match &first.origin {
            Some(origin) => self.by_origin.get(origin).map_or(&[][..], Vec::as_slice),
            None => std::slice::from_ref(self.by_secret.get(&secret)?),
        };
        all.iter()
            .filter(|(of, _)| *of == life)
            .filter_map(|id| self.attempts.get(id))
            .filter(|attempt| matches!(&attempt.command, Command::Acquire(ask) if ask.resource == *resource))
            .filter(|attempt| attempt.turned_us.is_some_and(|at_us| at_us <= until_us))
            .max_by_key(|attempt| attempt.turned_us)
    }
}

/// The owner and request id of a command, as one text; or whose number it is.
pub fn origin(command: &Command) -> Option<String> {
    let of = |owner: &str, id: &RequestId| match id {
        RequestId::Chosen(text) => format!("{owner}/{text}"),
        RequestId::Numbered(client, number) => numbered(client, *number),
    };
    match command {
        Command::Acquire(ask) => ask.request_id.as_ref().map(|id| of(ask.owner.text(), id)),
        Command::OpenSession { owner, request_id, .. } => request_id.as_ref().map(|id| of(owner.text(), id)),
        Command::Cancel { owner, request_id, .. } => Some(of(owner.text(), request_id)),
        Command::CancelNumber { client, number } => Some(numbered(client, *number)),
        Command::WriteFile(write) => write.request_id.as_ref().map(|id| of(write.proof.owner.text(), id)),
        Command::DeleteFile { proof, request_id, .. } => {
            request_id.as_ref().map(|id| of(proof.owner.text(), id))
        }
        Command::Break(wish) => wish.request_id.as_ref().map(|id| of("", id)),
        _ => None,
    }
}

fn numbered(client: &ClientId, number: u64) -> String {
    format!("#{}/{number}", client.text())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use leasehold_state_machine::command::{Acquire, Proof};
    use leasehold_state_machine::file::{FileBytes, FileName, Offset};
    use leasehold_state_machine::ids::LeaseId;
    use leasehold_state_machine::words::{Metadata, Mode, Owner, Wait};

    fn attempt(secret: u64, command: Command) -> Attempt {
        Attempt {
            socket_us: 0,
            arrived_us: 0,
            turned_us: Some(0),
            certain: true,
            closed_us: None,
            secret: Secret([secret, 0]),
            origin: origin(&command),
            command,
        }
    }

    /// Attempt 1 of life 1 releases this token.
    pub(crate) fn with_release(token: u64) -> Ledger {
        let mut ledger = Ledger::default();
        let proof = Proof {
            resource: Resource::parse("a").unwrap(),
            owner: Owner::parse("w").unwrap(),
            lease: LeaseId { slot: 0, secret: Secret([token, 0]) },
            token,
        };
        ledger.accepted((1, 1), attempt(0, Command::Release(proof)));
        ledger
    }

    /// Attempt 1 of life 1 writes these bytes to `a`, under this proof.
    pub(crate) fn with_write(proof: Proof, bytes: &[u8]) -> Ledger {
        let (name, id) = (FileName::parse("a").unwrap(), RequestId::parse("w1").unwrap());
        let write = WriteFile::new(name, Offset::End, FileBytes::new(bytes), proof, Some(id));
        let mut ledger = Ledger::default();
        ledger.accepted((1, 1), attempt(1, Command::WriteFile(Box::new(write))));
        ledger
    }

    /// Attempts 1, 2, … of life 1, given to the engine at their own number of microseconds, wait for `a`.
    pub(crate) fn with_acquires(id: Option<&str>, count: u64) -> Ledger {
        with_waits(id, count, 1000)
    }

    /// The same, for as long as this.
    pub(crate) fn with_waits(id: Option<&str>, count: u64, wait_ms: u64) -> Ledger {
        let mut ledger = Ledger::default();
        ledger.started(1, 0);
        for n in 1..=count {
            let acquire = Acquire {
                resource: Resource::parse("a").unwrap(),
                owner: Owner::parse("w").unwrap(),
                ttl: None,
                mode: Mode::Exclusive,
                wait: Wait::from_ms(wait_ms).unwrap(),
                session: None,
                request_id: id.map(|id| RequestId::parse(id).unwrap()),
                metadata: Metadata::default(),
            };
            let attempt = Attempt { turned_us: Some(n), ..attempt(n, Command::Acquire(acquire)) };
            ledger.accepted((1, n), attempt);
        }
        ledger
    }

    #[test]
    fn finds_the_newest_attempt_of_a_request() {
        let ledger = with_acquires(Some("r"), 3);
        let resource = Resource::parse("a").unwrap();
        let newest = |until_us| ledger.newest(Secret([1, 0]), &resource, 1, until_us).map(|a| a.turned_us);
        assert_eq!(newest(2), Some(Some(2)));
        assert_eq!(newest(9), Some(Some(3)));
        assert_eq!(newest(0), None);
    }

    #[test]
    fn leaves_out_what_the_server_left_out() {
        let mut ledger = Ledger::default();
        ledger.left_out(1, 10, 0);
        ledger.left_out(1, 20, 4);
        ledger.left_out(1, 30, 7);
        assert_eq!(ledger.server_time_us(1, 10, 30), 13);
        assert_eq!(ledger.server_time_us(1, 20, 30), 7);
    }
}
