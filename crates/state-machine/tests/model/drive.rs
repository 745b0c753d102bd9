//! Takes the machine and the model through the same steps, and says where they part.

use std::collections::BTreeMap;

use leasehold_state_machine::answer::{Answer, Outcome, Refusal};
use leasehold_state_machine::command::{Attachment, Command, Request};
use leasehold_state_machine::event::{Event, Seq};
use leasehold_state_machine::ids::{HashKey, LeaseId, Secret, SessionId};
use leasehold_state_machine::limits::Limits;
use leasehold_state_machine::time::Now;
use leasehold_state_machine::token::EPOCH_MS;
use leasehold_state_machine::{Machine, Output, Rearm};

use super::judge::{Asked, Proof};
use super::resolve::Question;
use super::steps::{Step, What};
use super::told::{Told, told};
use super::{Ask, Effect, Model, REMEMBER_US};

const BOOT_ID_KEY: HashKey = HashKey([7, 11]);
/// Somewhere in 2026.
const WALL_MS: u64 = 1_780_000_000_000;

/// Both sides, and what the callers of a run would remember.
pub struct Pair {
    limits: Limits,
    machine: Machine,
    pub model: Model,
    now: Now,
    wall_off_ms: i64,
    journal: Vec<(u64, Event)>,
    pub grants: Vec<Grant>,
    pub sessions: Vec<SessionId>,
    pub session_owners: BTreeMap<[u64; 2], String>,
    /// `seq` and token of what each session was told to have ended.
    pub ended: BTreeMap<[u64; 2], Vec<(Seq, u64)>>,
    /// Every acquire and every change of a file that was sent.
    pub calls: Vec<Call>,
    /// What the journal says is in each file.
    contents: BTreeMap<u64, Vec<u8>>,
    last_token: u64,
    pub drawn: u64,
    pub compared: u64,
}

pub struct Grant {
    pub lease: LeaseId,
    pub session: SessionId,
    pub lock: String,
    pub owner: String,
    pub token: u64,
}

pub struct Call {
    pub attachment: Attachment,
    pub command: Command,
    pub asked: Asked,
}

impl Call {
    /// The same words once more.
    pub fn again(&self) -> Question {
        Question { command: self.command.clone(), asked: self.asked.clone() }
    }
}

impl Pair {
    pub fn new(limits: Limits) -> Self {
        let mut pair = Pair {
            limits,
            machine: Machine::new(limits),
            model: Model { limits, ..Model::default() },
            now: Now { us: 5_000_000, raw_us: 5_000_000, wall_ms: WALL_MS, wall_trusted: true },
            wall_off_ms: 0,
            journal: Vec::new(),
            grants: Vec::new(),
            sessions: Vec::new(),
            session_owners: BTreeMap::new(),
            ended: BTreeMap::new(),
            calls: Vec::new(),
            contents: BTreeMap::new(),
            last_token: 0,
            drawn: 0,
            compared: 0,
        };
        pair.machine.begin(pair.now);
        pair.model.now = pair.now;
        pair.record(Event::Founded { key: BOOT_ID_KEY });
        pair.keep_horizon();
        pair
    }

    pub fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Pass { us } => self.pass(*us, *us)?,
            Step::PassToDue { off_us } => {
                let due_us = self.model.next_due_us().unwrap_or(self.now.us).saturating_add_signed(*off_us);
                let us = due_us.saturating_sub(self.now.us);
                self.pass(us, us)?;
            }
            Step::Stall { us } => self.pass(0, *us)?,
            Step::SetWall { off_ms, trusted } => {
                self.wall_off_ms = *off_ms;
                self.now.wall_trusted = *trusted;
                self.pass(0, 0)?;
            }
            Step::Ask { what, late_us } => {
                if let Some(question) = self.resolve(what) {
                    let (out, asked) = self.put(question, *late_us);
                    self.settle(out, &asked)?;
                }
            }
            Step::AskUnswept { off_us, what } => self.ask_unswept(*off_us, what)?,
            Step::Restart { same_boot, away_us, from_snapshot } => {
                self.restart(*same_boot, *away_us, *from_snapshot)?;
            }
            Step::HoldGrants { held } if *held != self.model.grants_held => {
                self.model.grants_held = *held;
                let event = if *held { Event::GrantsHeld { for_ms: 1000 } } else { Event::GrantsResumed };
                self.record(event);
                self.pass(0, 0)?;
            }
            Step::HoldGrants { .. } => {}
        }
        self.machine.assert_invariants();
        self.compare_files()?;
        self.compare_counts()
    }

    fn record(&mut self, event: Event) {
        let mut out = Output::default();
        self.machine.record(event, &mut out);
        assert!(out.replies.is_empty(), "the engine's own events answer nobody");
        self.take_events(out.events).expect("events in order");
    }

    /// Keeps the horizon ahead of the raw time, as the engine does.
    fn keep_horizon(&mut self) {
        if self.model.horizon_until_raw_us < self.now.raw_us + 1_000_000 {
            let until_raw_us = self.now.raw_us + 2_000_000;
            self.model.horizon_until_raw_us = until_raw_us;
            self.model.horizon_length_us = 2_000_000;
            self.record(Event::Horizon { until_raw_us, length_us: 2_000_000 });
        }
    }

    fn pass(&mut self, us: u64, raw_us: u64) -> Result<(), String> {
        self.advance(us, raw_us);
        let out = self.housekeep();
        self.compare(out)?;
        self.compare_memory()?;
        self.compare_due()
    }

    /// A new turn begins, and nothing has been swept yet.
    fn advance(&mut self, us: u64, raw_us: u64) {
        self.now.us += us;
        self.now.raw_us += raw_us;
        self.now.wall_ms = (WALL_MS + self.now.raw_us / 1000).saturating_add_signed(self.wall_off_ms);
        self.machine.begin(self.now);
        self.model.now = self.now;
        self.keep_horizon();
        self.model.pass();
    }

    fn housekeep(&mut self) -> Output {
        let mut out = Output::default();
        let mut slices = 0;
        while self.machine.housekeep(&mut out) {
            slices += 1;
            assert!(slices < 100, "a sweep of so little comes to an end");
            self.machine.begin(self.now);
        }
        out
    }

    /// Puts a question to both.
    fn put(&mut self, question: Question, late_us: u64) -> (Output, Asked) {
        let Question { command, asked } = question;
        self.drawn += 1;
        let attachment = Attachment(self.drawn);
        let secret = Secret([self.drawn, !self.drawn]);
        let arrived_raw_us = self.now.raw_us.saturating_sub(late_us);
        if matches!(asked, Asked::Acquire { .. } | Asked::Write { .. } | Asked::Delete { .. }) {
            self.calls.push(Call { attachment, command: command.clone(), asked: asked.clone() });
        }
        self.model.judge(attachment, arrived_raw_us, secret, asked.clone());
        let mut out = Output::default();
        let mut waiting = Some(Request { attachment, arrived_raw_us, secret, command });
        while let Some(request) = waiting {
            waiting = self.machine.decide(request, &mut out);
            if waiting.is_some() {
                self.machine.begin(self.now);
            }
        }
        (out, asked)
    }

    fn settle(&mut self, mut out: Output, asked: &Asked) -> Result<(), String> {
        let more = self.housekeep();
        out.events.extend(more.events);
        out.replies.extend(more.replies);
        self.look_at_snapshot(asked, &mut out)?;
        self.compare(out)?;
        self.compare_due()
    }

    /// "At the deadline it is over, swept or not": the sweep comes only after the question. Who is granted something
    /// in this turn is granted it by its end; until then it may still be seen in line.
    fn ask_unswept(&mut self, off_us: u64, what: &What) -> Result<(), String> {
        let Some(question) = self.resolve(what).filter(|question| self.is_blind_to_sweeps(&question.asked))
        else {
            return Ok(());
        };
        let due_us = self.model.next_due_us().unwrap_or(self.now.us) + off_us;
        self.advance(due_us - self.now.us, due_us - self.now.us);
        let (mut out, asked) = self.put(question, 0);
        for (_, told) in &mut self.model.telling {
            if let Told::Held(crowd) = told {
                *crowd = None;
            }
        }
        if let Asked::Get { .. } = asked {
            let shown = out.replies.pop().ok_or("a get is answered at once")?;
            let Ok(Answer::Snapshot(snapshot)) = shown.outcome else { return Err("a get shows".into()) };
            self.model.telling.pop();
            let live = |token| self.model.leases.iter().any(|lease| lease.stands() && lease.token == token);
            if let Some(over) = snapshot.holders.iter().find(|holder| !live(holder.token)) {
                return Err(format!("a get shows {over:?}, which is over"));
            }
            return self.settle(out, &Asked::List);
        }
        self.settle(out, &asked)
    }

    /// Whether the answer is the same before the sweep as after it. Taking back what a sweep would have granted is not.
    fn is_blind_to_sweeps(&self, asked: &Asked) -> bool {
        match asked {
            // A limit counts what has not been swept.
            _ if self.limits != Limits::default() => false,
            // What a sweep would grant under this session has its heartbeat before the grant, or after it.
            // A deleted file's number is known while somebody stands on it, swept or not.
            Asked::Get { lock } | Asked::Verify { lock, .. } if !self.model.exists(lock) => false,
            _ if self.model.heartbeat_of(asked).is_some_and(|session| self.model.waits_under(session)) => {
                false
            }
            Asked::Acquire { ask: Ask { owner, .. }, id: Some(id), .. }
            | Asked::Open { owner, id: Some(id), .. }
            | Asked::Write { proof: Proof { owner, .. }, id: Some(id), .. }
            | Asked::Delete { proof: Proof { owner, .. }, id: Some(id), .. } => {
                self.model.request(owner, id).is_none_or(|known| known.effect != Effect::Waits)
            }
            Asked::Acquire { .. }
            | Asked::Renew { .. }
            | Asked::Release(_)
            | Asked::Verify { .. }
            | Asked::Get { .. }
            | Asked::Open { .. }
            | Asked::KeepAlive { .. }
            | Asked::KeepAliveOwn { .. }
            | Asked::Write { .. }
            | Asked::Delete { .. }
            | Asked::Stat { .. }
            | Asked::ListFiles => true,
            _ => false,
        }
    }

    /// `version`, `seq` and `last_token` of a snapshot, which the model does not know, against the journal.
    fn look_at_snapshot(&mut self, asked: &Asked, out: &mut Output) -> Result<(), String> {
        let Asked::Get { lock } = asked else { return Ok(()) };
        let [reply] = &mut out.replies[..] else { return Err("a get has one answer".into()) };
        if reply.outcome == Err(Refusal::NotFound("no file of ours has this inode number")) {
            return Ok(());
        }
        let Ok(Answer::Snapshot(snapshot)) = &mut reply.outcome else {
            return Err(format!("a get answered {:?}", reply.outcome));
        };
        let of_lock = |event: &Event| lock_of(event) == Some(lock.as_str());
        let exactly = |text: &str| text == lock;
        let remembered = snapshot.holders.iter().any(|holder| exactly(holder.resource.text()))
            || snapshot.waiters.iter().any(|waiter| exactly(waiter.resource.text()));
        let last_change = self.journal.iter().rposition(|(_, event)| of_lock(event)).map(|at| at as Seq + 1);
        let last_token = self.journal.iter().rev().find_map(|(_, event)| match event {
            Event::Granted { token, ask, .. } if exactly(ask.resource.text()) => Some(*token),
            _ => None,
        });
        if snapshot.seq != self.journal.len() as Seq {
            return Err(format!("seq {} after {} events", snapshot.seq, self.journal.len()));
        }
        if remembered && Some(snapshot.version) != last_change {
            return Err(format!("version {}, last change {last_change:?}", snapshot.version));
        }
        let held = snapshot.holders.iter().any(|holder| exactly(holder.resource.text()));
        if held && snapshot.last_token != last_token {
            return Err(format!("last token {:?}, granted {last_token:?}", snapshot.last_token));
        }
        if snapshot.holders.is_empty() && snapshot.waiters.is_empty() {
            let forgotten = snapshot.version == snapshot.seq && snapshot.last_token.is_none();
            if !forgotten {
                return Err(format!("a free lock is not remembered, but: {snapshot:?}"));
            }
        }
        (snapshot.version, snapshot.seq, snapshot.last_token) = (0, 0, None);
        Ok(())
    }

    /// Events in order, tokens by the contract's formula.
    fn take_events(&mut self, events: Vec<(Seq, Event)>) -> Result<(), String> {
        for (seq, event) in events {
            self.journal.push((self.now.wall_ms, event.clone()));
            if seq != self.journal.len() as Seq {
                return Err(format!("event {seq} is number {} of the journal", self.journal.len()));
            }
            if let Event::FileWritten { number, offset, bytes, .. } = &event {
                let content = self.contents.entry(*number).or_default();
                let (first, last) = (*offset as usize, (*offset + bytes.len()) as usize);
                content.resize(content.len().max(last), 0);
                content[first..last].copy_from_slice(&bytes.whole());
            }
            if let Event::Forgotten { .. } = event {
                self.model.forget();
            }
            if let Event::Granted { token, .. } = event {
                let clock = if self.now.wall_trusted { (self.now.wall_ms - EPOCH_MS) * 4096 } else { 0 };
                let expected = clock.max(self.last_token + 1);
                if token != expected {
                    return Err(format!("token {token}, expected {expected}"));
                }
                self.last_token = token;
            }
        }
        Ok(())
    }

    fn compare(&mut self, out: Output) -> Result<(), String> {
        self.take_events(out.events)?;
        let mut got: BTreeMap<Attachment, Told> = BTreeMap::new();
        for reply in out.replies {
            self.compared += 1;
            if reply.after > self.machine.seq() {
                return Err(format!("a reply waits for event {} of {}", reply.after, self.machine.seq()));
            }
            let promise = matches!(reply.outcome, Ok(Answer::Lease(_) | Answer::Session(_)));
            let into_file = matches!(reply.outcome, Ok(Answer::Wrote(_) | Answer::File(_)));
            if reply.applied.is_some() != into_file || reply.applied > Some(self.machine.seq()) {
                return Err(format!("what must be in a file first: {reply:?}"));
            }
            if reply.promises_time != promise {
                return Err(format!("whether it promises time: {reply:?}"));
            }
            self.remember(&reply.outcome);
            if got.insert(reply.to, told(&reply.outcome)).is_some() {
                return Err(format!("{:?} was answered twice", reply.to));
            }
        }
        for (to, want) in std::mem::take(&mut self.model.telling) {
            let Some(got) = got.remove(&to) else {
                return Err(format!("{to:?} should be told {want:?}, but heard nothing"));
            };
            let stale = |told: &Told| matches!(told, Told::StaleToken { .. });
            if !(want.allows(&got) || stale(&want) && stale(&got)) {
                return Err(format!("{to:?} should be told\n    {want:?}, but was told\n    {got:?}"));
            }
            if let Told::Lease(lease) = &got {
                self.model.learn_token(lease.secret, lease.token.unwrap());
            }
        }
        match got.into_iter().next() {
            Some((to, told)) => Err(format!("{to:?} should hear nothing, but was told {told:?}")),
            None => Ok(()),
        }
    }

    /// Nothing is kept for much longer than ten minutes. That nothing goes earlier is seen in the answers.
    fn compare_memory(&self) -> Result<(), String> {
        let late_us =
            self.model.oldest_us().map_or(0, |at_us| self.now.us.saturating_sub(at_us + REMEMBER_US));
        if late_us > 2_000_000 {
            Err(format!("something should be forgotten since {late_us} µs"))
        } else {
            Ok(())
        }
    }

    /// The machine may look too early, never too late.
    fn compare_due(&self) -> Result<(), String> {
        let (due, want) = (self.machine.next_due_us(), self.model.next_due_us());
        if want.is_some() && due.is_none_or(|due| Some(due) > want) {
            return Err(format!("next due at {want:?}, but the machine waits until {due:?}"));
        }
        if due.is_some_and(|due| due <= self.now.us) {
            return Err(format!("due at {due:?}, it is {} and everything was swept", self.now.us));
        }
        Ok(())
    }

    /// What the journal adds up to is what the model's files hold.
    fn compare_files(&self) -> Result<(), String> {
        let counts = self.machine.counts();
        let live = || self.model.files.iter().filter(|file| !file.deleted);
        let bytes: u64 = live().map(|file| file.content.len() as u64).sum();
        if (counts.files, counts.file_bytes) != (live().count(), bytes) {
            return Err(format!("files: {counts:?}, in the model {} with {bytes} bytes", live().count()));
        }
        for file in live() {
            if self.contents.get(&file.number) != Some(&file.content) {
                return Err(format!("{} holds {:?}", file.name, self.contents.get(&file.number)));
            }
        }
        Ok(())
    }

    fn compare_counts(&self) -> Result<(), String> {
        let counts = self.machine.counts();
        let leases = self.model.leases.iter().filter(|lease| lease.stands()).count();
        let opened = self.model.sessions.iter().filter(|session| session.ended.is_none()).count();
        let want = (leases, self.model.waiters.len(), opened);
        let got = (counts.leases, counts.waiters, counts.opened_sessions);
        if got == want {
            Ok(())
        } else {
            Err(format!("(leases, waiters, sessions): {want:?}, counted {got:?}"))
        }
    }

    /// What a caller keeps of its answer.
    fn remember(&mut self, outcome: &Outcome) {
        match outcome {
            Ok(Answer::Lease(view)) if self.grants.iter().all(|grant| grant.lease != view.lease) => {
                self.grants.push(Grant {
                    lease: view.lease,
                    session: view.session,
                    lock: view.resource.text().into(),
                    owner: view.owner.text().into(),
                    token: view.token,
                });
            }
            Ok(Answer::Session(view)) if matches!(view.session, SessionId::Opened { .. }) => {
                let key = view.session.secret().0;
                if !self.sessions.contains(&view.session) {
                    self.sessions.push(view.session);
                    self.session_owners.insert(key, view.owner.text().into());
                }
                self.ended.insert(key, view.ended.iter().map(|end| (end.seq, end.token)).collect());
            }
            _ => {}
        }
    }

    fn restart(&mut self, same_boot: bool, away_us: u64, from_snapshot: bool) -> Result<(), String> {
        let mut live = Vec::new();
        self.machine.write_snapshot(&mut live);
        let mut pictured = Vec::new();
        let picture = self.machine.picture().ok_or("there is no picture of a small state")?;
        picture.write_in_pieces(&mut pictured, &mut |_| {});
        if live != pictured {
            return Err("a picture of the state is written otherwise than the state".into());
        }
        let mut again = Machine::new(self.limits);
        for (wall_ms, event) in &self.journal {
            again.apply(*wall_ms, event);
        }
        let mut replayed = Vec::new();
        again.write_snapshot(&mut replayed);
        if live != replayed {
            return Err("the replayed journal gives another state than the one that wrote it".into());
        }
        if from_snapshot {
            again = Machine::read_snapshot(&live, self.limits).map_err(|error| error.to_string())?;
            let mut reread = Vec::new();
            again.write_snapshot(&mut reread);
            if live != reread {
                return Err("a snapshot that was read back is written differently".into());
            }
        }
        self.machine = again;
        let raw_us = if same_boot { self.now.raw_us + away_us } else { 1_000_000 };
        self.now = Now { us: raw_us, raw_us, ..self.now };
        let rearm = if same_boot { Rearm::SameBoot } else { Rearm::Elsewhere };
        let mut out = Output::default();
        self.machine.recover(self.now, rearm, &mut out);
        self.model.restart(self.now, same_boot);
        self.model.horizon_until_raw_us = 0;
        self.compare(out)?;
        self.machine.assert_invariants();
        self.pass(0, 0)
    }
}

fn lock_of(event: &Event) -> Option<&str> {
    match event {
        Event::Granted { ask, .. } | Event::Queued { ask, .. } => Some(ask.resource.text()),
        Event::Dequeued { resource, .. } => Some(resource.text()),
        Event::Updated { lease, .. }
        | Event::Released { lease, .. }
        | Event::Expired { lease }
        | Event::Broken { lease, .. } => Some(lease.resource.text()),
        _ => None,
    }
}
