//! A lock service that does everything right, in a few lines: the source of good histories of any length. It knows nothing of
//! the judge; time, chance and trouble are drawn from a seed.

use std::collections::BTreeMap;

use leasehold_history::{History, Kind, Mode, Operation, Outcome};

/// What a run is like.
#[derive(Clone, Copy)]
pub struct Climate {
    pub clients: usize,
    pub locks: u64,
    pub operations: usize,
    /// In a hundred: answers that are lost on the way.
    pub lost_answers: u64,
    /// Whether resources overlap in all the ways there are.
    pub varied: bool,
}

#[derive(Clone)]
struct Lease {
    client: usize,
    lock: u64,
    mode: Mode,
    token: u64,
    deadline_us: u64,
}

struct Waiter {
    client: usize,
    op: Operation,
    lock: u64,
}

/// The service and its clients.
pub struct Service {
    climate: Climate,
    seed: u64,
    now_us: u64,
    token: u64,
    numbers: Vec<u64>,
    leases: Vec<Lease>,
    /// By lock, in line.
    line: Vec<Waiter>,
    /// Register: value and highest token.
    registers: BTreeMap<u64, (String, u64)>,
    files: BTreeMap<u64, Vec<String>>,
    history: Vec<Operation>,
}

const TTL_US: u64 = 5_000;

impl Service {
    pub fn history(climate: Climate, seed: u64) -> History {
        let mut service = Service {
            climate,
            seed: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            now_us: 1_000,
            token: 100,
            numbers: vec![0; climate.clients],
            leases: Vec::new(),
            line: Vec::new(),
            registers: BTreeMap::new(),
            files: BTreeMap::new(),
            history: Vec::new(),
        };
        while service.history.len() < climate.operations {
            service.step();
        }
        History::new(service.history)
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.seed % below
    }

    fn text(&self, lock: u64) -> String {
        match (self.climate.varied, lock % 4) {
            (false, _) => format!("lock-{lock}"),
            (true, 0) => format!("lock-{lock}"),
            (true, 1) => {
                ["path:/", "path:/a", "path:/a/b", "path:/a/bc", "path:/c"][lock as usize / 4 % 5].into()
            }
            (true, 2) => format!("range:{}:{}-{}", lock / 32, lock % 32, lock % 32 + 1 + lock % 11),
            (true, _) => format!("inode:{}", lock / 32),
        }
    }

    /// The service's own idea of what overlaps, written out by kind.
    fn overlap(&self, a: u64, b: u64) -> bool {
        if !self.climate.varied || (a.is_multiple_of(4) || b.is_multiple_of(4)) {
            return a == b;
        }
        let range = |n: u64| match n % 4 {
            2 => Some((n / 32, n % 32, n % 32 + 1 + n % 11)),
            3 => Some((n / 32, 0, u64::MAX)),
            _ => None,
        };
        match (range(a), range(b)) {
            (Some((i, f, t)), Some((j, g, u))) => i == j && f < u && g < t,
            (None, None) => {
                let (a, b) = (self.text(a) + "/", self.text(b) + "/");
                let root = |path: &str| path == "path://";
                root(&a) || root(&b) || a.starts_with(&b) || b.starts_with(&a)
            }
            _ => false,
        }
    }

    fn expire(&mut self) {
        let now_us = self.now_us;
        self.leases.retain(|lease| now_us < lease.deadline_us);
    }

    /// Whether nothing that lives, and nobody who came before, is in the way.
    fn is_free(&self, lock: u64, mode: Mode, before: usize) -> bool {
        let blocks = |other: u64, in_mode: Mode| self.overlap(other, lock) && in_mode.conflicts(mode);
        !self.leases.iter().any(|lease| blocks(lease.lock, lease.mode))
            && !self.line[..before].iter().any(|waiter| blocks(waiter.lock, waiter.op.mode))
    }

    fn begin(&mut self, client: usize, kind: Kind, lock: u64) -> Operation {
        self.numbers[client] += 1;
        let on_the_way_us = 1 + self.draw(40);
        let text = if kind == Kind::Append { format!("file-{lock}") } else { self.text(lock) };
        Operation::new(
            &format!("w{client}"),
            self.numbers[client],
            kind,
            &text,
            self.now_us.saturating_sub(on_the_way_us),
        )
    }

    /// It was decided now; the answer travels, or is lost.
    fn answer(&mut self, mut op: Operation, outcome: Outcome) -> Outcome {
        let lost = self.draw(100) < self.climate.lost_answers;
        let outcome = if lost { Outcome::Unknown } else { outcome };
        if !lost {
            let on_the_way_us = 1 + self.draw(40);
            op.answer(self.now_us + on_the_way_us, outcome);
        } else if op.kind == Kind::Acquire {
            op.token = None;
        }
        if lost && op.kind == Kind::Read {
            return outcome;
        }
        self.history.push(op);
        outcome
    }

    fn grant(&mut self, client: usize, lock: u64, mut op: Operation) {
        self.token += 1 + self.draw(3);
        let deadline_us = self.now_us + TTL_US;
        self.leases.push(Lease { client, lock, mode: op.mode, token: self.token, deadline_us });
        op.token = Some(self.token);
        op.ttl_us = Some(TTL_US);
        op.until_us = Some(op.invoked_us + TTL_US / 2);
        self.answer(op, Outcome::Done);
    }

    /// Grants whoever can go on, in order; lets go whoever has waited long enough.
    fn look_at_the_line(&mut self) {
        let mut place = 0;
        while place < self.line.len() {
            let (lock, mode) = (self.line[place].lock, self.line[place].op.mode);
            let until_us = self.line[place].op.invoked_us + self.line[place].op.wait_us.unwrap_or(0);
            if until_us < self.now_us {
                let waiter = self.line.remove(place);
                self.answer(waiter.op, Outcome::Refused);
            } else if self.is_free(lock, mode, place) {
                let waiter = self.line.remove(place);
                self.grant(waiter.client, waiter.lock, waiter.op);
            } else {
                place += 1;
            }
        }
    }

    fn step(&mut self) {
        self.now_us += self.draw(30);
        self.expire();
        let client = usize::try_from(self.draw(self.climate.clients as u64)).unwrap();
        let own = self.leases.iter().position(|lease| lease.client == client);
        let in_line = self.line.iter().any(|waiter| waiter.client == client);
        match (own, self.draw(10)) {
            (Some(own), 0..=3) => self.release(client, own),
            (Some(own), 4) => self.renew(client, own),
            (Some(own), 5..=7) => self.write(client, own),
            (Some(_), _) => {}
            (None, 0) => self.read(client),
            (None, 1) if self.draw(20) == 0 => self.stale(client),
            (None, 2) if self.draw(40) == 0 => self.break_one(client),
            (None, _) if !in_line => self.ask(client),
            _ => {}
        }
        self.look_at_the_line();
    }

    fn ask(&mut self, client: usize) {
        let lock = self.draw(self.climate.locks);
        let mut op = self.begin(client, Kind::Acquire, lock);
        op.mode = if self.draw(3) == 0 { Mode::Shared } else { Mode::Exclusive };
        op.request_id = Some(format!("r{}", op.number));
        if self.is_free(lock, op.mode, self.line.len()) {
            self.grant(client, lock, op);
        } else if self.draw(4) == 0 {
            self.answer(op, Outcome::Refused);
        } else {
            op.wait_us = Some(500 + self.draw(4_000));
            op.queued_us = Some(self.now_us + 1 + self.draw(20));
            self.line.push(Waiter { client, op, lock });
        }
    }

    fn release(&mut self, client: usize, own: usize) {
        let lease = self.leases.remove(own);
        let mut op = self.begin(client, Kind::Release, lease.lock);
        op.token = Some(lease.token);
        let mut again = self.begin(client, Kind::Release, lease.lock);
        again.token = op.token;
        // Whoever does not hear asks again, and hears that it is gone.
        if self.answer(op, Outcome::Done) == Outcome::Unknown {
            self.answer(again, Outcome::Lost);
        }
    }

    fn renew(&mut self, client: usize, own: usize) {
        self.leases[own].deadline_us = self.now_us + TTL_US;
        let lease = self.leases[own].clone();
        let mut op = self.begin(client, Kind::Renew, lease.lock);
        op.token = Some(lease.token);
        op.ttl_us = Some(TTL_US);
        op.until_us = Some(op.invoked_us + TTL_US / 2);
        self.answer(op, Outcome::Done);
    }

    /// To a register or a file that has the lock's number, as far as the lease is one that a writer has.
    fn write(&mut self, client: usize, own: usize) {
        let lease = self.leases[own].clone();
        if lease.mode == Mode::Shared || (self.climate.varied && !lease.lock.is_multiple_of(4)) {
            return;
        }
        let kind = if self.draw(2) == 0 { Kind::Write } else { Kind::Append };
        let mut op = self.begin(client, kind, lease.lock);
        op.token = Some(lease.token);
        let value = format!("{}-{}", op.client, op.number);
        op.value = Some(value.clone());
        if kind == Kind::Write {
            self.registers.insert(lease.lock, (value, lease.token));
        } else {
            self.files.entry(lease.lock).or_default().push(value);
        }
        self.answer(op, Outcome::Done);
    }

    /// Somebody writes under a token of long ago.
    fn stale(&mut self, client: usize) {
        let Some((lock, (_, highest))) = self.registers.iter().next().map(|(l, r)| (*l, r.clone())) else {
            return;
        };
        let mut op = self.begin(client, Kind::Write, lock);
        op.token = Some(highest - 1);
        op.value = Some("stale".into());
        self.answer(op, Outcome::Lost);
    }

    fn read(&mut self, client: usize) {
        let lock = self.draw(self.climate.locks);
        if self.draw(50) == 0 {
            let mut op = self.begin(client, Kind::Append, lock);
            op.kind = Kind::Read;
            let file = self.files.entry(lock).or_default();
            op.list = Some(file.iter().take(1000).cloned().collect());
            if file.len() <= 1000 {
                self.answer(op, Outcome::Done);
            }
            return;
        }
        let mut op = self.begin(client, Kind::Read, lock);
        op.value = self.registers.get(&lock).map(|(value, _)| value.clone());
        self.answer(op, Outcome::Done);
    }

    fn break_one(&mut self, client: usize) {
        let lock = self.draw(self.climate.locks);
        let op = self.begin(client, Kind::Break, lock);
        let gone: Vec<bool> = self.leases.iter().map(|lease| self.overlap(lease.lock, lock)).collect();
        let mut gone = gone.into_iter();
        self.leases.retain(|_| !gone.next().unwrap());
        self.answer(op, Outcome::Done);
    }
}
