//! Plays a story's steps on a machine: one server, everybody who calls it, and its journal.

use std::collections::BTreeMap;

use leasehold_state_machine::answer::{Answer, LeaseView, Reply};
use leasehold_state_machine::command::{
    Acquire, Attachment, Break, Command, List, Proof, Renew, Request, WriteFile,
};
use leasehold_state_machine::event::{Event, Seq};
use leasehold_state_machine::file::{FileBytes, FileName, Offset};
use leasehold_state_machine::ids::{HashKey, LeaseId, Secret, SessionId};
use leasehold_state_machine::limits::{FILE_INODE_FIRST, Limits};
use leasehold_state_machine::resource::Resource;
use leasehold_state_machine::time::Now;
use leasehold_state_machine::words::{Metadata, Mode, Owner, Reason, RequestId, Ttl, Wait};
use leasehold_state_machine::{Machine, Output, Rearm};

use super::line::{Step, duration_us};
use super::words::{Tokens, heard};

const WALL_MS: u64 = 1_790_000_000_000;
/// How far the horizon is kept ahead, and when a story's time 0 is on the boot clock.
const HORIZON_US: u64 = 2_000_000;
const START_US: u64 = 1_000_000_000;

/// Who heard something (nobody named: the step's own caller), and what.
type Heard = (Option<String>, Vec<String>);

pub struct Stage {
    machine: Machine,
    journal: Vec<Event>,
    /// A story's time 0 on the boot clock that now runs.
    zero_us: u64,
    now_us: u64,
    drawn: u64,
    /// Who made which call.
    callers: BTreeMap<Attachment, String>,
    /// The newest call of each caller.
    calls: BTreeMap<String, Attachment>,
    /// The newest lease that each caller was told of.
    leases: BTreeMap<String, LeaseView>,
    sessions: BTreeMap<String, SessionId>,
    /// The highest `seq` of `ended[]` that each session was told.
    ended: BTreeMap<String, Seq>,
    tokens: Tokens,
}

impl Stage {
    pub fn new() -> Self {
        let mut stage = Stage {
            machine: Machine::new(Limits::default()),
            journal: Vec::new(),
            zero_us: START_US,
            now_us: START_US,
            drawn: 0,
            callers: BTreeMap::new(),
            calls: BTreeMap::new(),
            leases: BTreeMap::new(),
            sessions: BTreeMap::new(),
            ended: BTreeMap::new(),
            tokens: Tokens::default(),
        };
        stage.machine.begin(stage.now());
        stage.record(Event::Founded { key: HashKey([1, 2]) });
        stage.keep_horizon();
        stage
    }

    fn now(&self) -> Now {
        let wall_ms = WALL_MS + self.now_us / 1000;
        Now { us: self.now_us, raw_us: self.now_us, wall_ms, wall_trusted: true }
    }

    fn record(&mut self, event: Event) {
        let mut out = Output::default();
        self.machine.record(event, &mut out);
        self.journal.extend(out.events.into_iter().map(|(_, event)| event));
    }

    fn keep_horizon(&mut self) {
        self.record(Event::Horizon { until_raw_us: self.now_us + HORIZON_US, length_us: HORIZON_US });
    }

    /// Plays a step; what was expected and what was heard instead.
    pub fn play(&mut self, step: &Step) -> Result<(), String> {
        let at_us = self.zero_us.wrapping_add(step.at_us);
        if at_us < self.now_us {
            return Err("  a story goes forward in time".into());
        }
        let (mut out, caller, word) = match step.command.as_str() {
            "restart" => (self.restart(step, at_us)?, None, "granted"),
            _ => {
                self.now_us = at_us;
                self.machine.begin(self.now());
                let mut out = Output::default();
                self.housekeep(&mut out);
                self.keep_horizon_after(&mut out);
                self.act(step, out)?
            }
        };
        self.machine.assert_invariants();
        self.journal.extend(out.events.drain(..).map(|(_, event)| event));
        let got = self.hear(&out.replies, caller, word, step)?;
        compare(&step.heard, &got)
    }

    fn keep_horizon_after(&mut self, out: &mut Output) {
        self.journal.extend(out.events.drain(..).map(|(_, event)| event));
        self.keep_horizon();
    }

    fn housekeep(&mut self, out: &mut Output) {
        let mut slices = 0;
        while self.machine.housekeep(out) {
            slices += 1;
            assert!(slices < 100, "a sweep of so little comes to an end");
            self.machine.begin(self.now());
        }
    }

    fn act(
        &mut self,
        step: &Step,
        mut out: Output,
    ) -> Result<(Output, Option<Attachment>, &'static str), String> {
        let (command, word) = match step.command.as_str() {
            "tick" => return Ok((out, None, "granted")),
            "hold_grants" => {
                let for_ms = duration_us(step.need("for")?)? / 1000;
                self.record(Event::GrantsHeld { for_ms });
                return Ok((out, None, "granted"));
            }
            "resume_grants" => {
                self.machine.record(Event::GrantsResumed, &mut out);
                self.housekeep(&mut out);
                return Ok((out, None, "granted"));
            }
            "acquire" => (self.acquire(step)?, "granted"),
            "renew" => (
                Command::Renew(Renew {
                    proof: self.proof(step)?,
                    ttl: step.value("ttl").map(ttl).transpose()?,
                    metadata: step.value("note").map(note).transpose()?,
                }),
                "renewed",
            ),
            "release" => (Command::Release(self.proof(step)?), "granted"),
            "cancel" => {
                let (resource, owner) = (lock(step.word(0)?)?, owner(step.need("by")?)?);
                (Command::Cancel { resource, owner, request_id: id(step.need("id")?)? }, "granted")
            }
            "verify" => {
                let token = self.lease(step.need("of")?)?.token;
                (Command::Verify { resource: lock(step.word(0)?)?, token }, "granted")
            }
            "get" => (Command::Get { resource: lock(step.word(0)?)? }, "granted"),
            "list" => (Command::List(List { limit: 100, ..List::default() }), "granted"),
            "break" => (
                Command::Break(Box::new(Break {
                    resource: lock(step.word(0)?)?,
                    reason: Reason::parse("the operator said so").map_err(text)?,
                    force: step.flag("force"),
                    token: match step.value("of") {
                        Some(label) => Some(self.lease(label)?.token),
                        None => None,
                    },
                    request_id: step.value("id").map(id).transpose()?,
                    broken: Default::default(),
                })),
                "granted",
            ),
            "open" => (
                Command::OpenSession {
                    owner: owner(step.need("by")?)?,
                    ttl: ttl(step.need("ttl")?)?,
                    request_id: step.value("id").map(id).transpose()?,
                    metadata: Metadata::default(),
                },
                "granted",
            ),
            "keepalive" => {
                let label = step.word(0)?;
                let seen = step.flag("seen").then(|| self.ended.get(label).copied()).flatten();
                (Command::KeepAlive { session: self.session(label)?, seen }, "granted")
            }
            "close" => (Command::CloseSession { session: self.session(step.word(0)?)? }, "granted"),
            "append" | "write" => (self.write(step)?, "granted"),
            "delete" => {
                let request_id = step.value("id").map(id).transpose()?;
                let proof = self.file_proof(step)?;
                (Command::DeleteFile { name: name(step.word(0)?)?, proof, request_id }, "granted")
            }
            "stat" => (Command::StatFile { name: name(step.word(0)?)? }, "granted"),
            "files" => {
                let prefix = step.words.first().cloned().unwrap_or_default();
                (Command::ListFiles { prefix, limit: 100, cursor: None }, "granted")
            }
            "hangup" => {
                let gone = *self.calls.get(step.word(0)?).ok_or("  nobody of that name called")?;
                (Command::Detach { gone }, "granted")
            }
            "undelivered" => (Command::Abandon { lease: self.lease(step.word(0)?)?.lease }, "granted"),
            other => return Err(format!("  `{other}` is no command")),
        };
        self.drawn += 1;
        let attachment = Attachment(self.drawn);
        let caller = step.value("as").or(step.value("by")).unwrap_or("somebody").to_string();
        self.callers.insert(attachment, caller.clone());
        if step.command == "acquire" {
            self.calls.insert(caller, attachment);
        }
        let late_us = step.value("sent").map_or(Ok(0), duration_us)?;
        let mut waiting = Some(Request {
            attachment,
            arrived_raw_us: self.now_us - late_us,
            secret: Secret([self.drawn, !self.drawn]),
            command,
        });
        while let Some(request) = waiting {
            waiting = self.machine.decide(request, &mut out);
            self.machine.begin(self.now());
        }
        self.housekeep(&mut out);
        Ok((out, Some(attachment), word))
    }

    fn acquire(&self, step: &Step) -> Result<Command, String> {
        Ok(Command::Acquire(Acquire {
            resource: lock(step.word(0)?)?,
            owner: owner(step.need("by")?)?,
            ttl: step.value("ttl").map(ttl).transpose()?,
            mode: if step.flag("shared") { Mode::Shared } else { Mode::Exclusive },
            wait: Wait::from_ms(step.value("wait").map_or(Ok(0), duration_us)? / 1000).map_err(text)?,
            session: step.value("under").map(|label| self.session(label)).transpose()?,
            request_id: step.value("id").map(id).transpose()?,
            metadata: step.value("note").map_or(Ok(Metadata::default()), note)?,
        }))
    }

    fn write(&self, step: &Step) -> Result<Command, String> {
        let bytes = match step.value("length") {
            Some(length) => vec![b'-'; length.parse().map_err(text)?],
            None => step.words.get(1).map_or(Vec::new(), |text| text.clone().into_bytes()),
        };
        let offset = match step.value("at") {
            Some(offset) => Offset::At(offset.parse().map_err(text)?),
            None => Offset::End,
        };
        let request_id = step.value("id").map(id).transpose()?;
        let (name, proof) = (name(step.word(0)?)?, self.file_proof(step)?);
        Ok(Command::WriteFile(Box::new(WriteFile::new(
            name,
            offset,
            FileBytes::new(bytes),
            proof,
            request_id,
        ))))
    }

    /// The bytes of a file, put together from the journal.
    fn holds(&self, number: u64) -> String {
        let mut bytes: Vec<u8> = Vec::new();
        for event in &self.journal {
            match event {
                Event::FileWritten { number: of, offset, bytes: new, .. } if *of == number => {
                    let (start, end) = (*offset as usize, (*offset + new.len()) as usize);
                    bytes.resize(bytes.len().max(end), 0);
                    bytes[start..end].copy_from_slice(&new.whole());
                }
                _ => {}
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Everything of a lease for a file: its own lock, unless the step names another.
    fn file_proof(&self, step: &Step) -> Result<Proof, String> {
        let lease = self.lease(step.value("of").unwrap_or(step.need("by")?))?;
        let resource = step.value("lock").map_or(Ok(lease.resource.clone()), lock)?;
        self.proof_for(step, resource)
    }

    /// Everything of a lease, with what the step says differently.
    fn proof(&self, step: &Step) -> Result<Proof, String> {
        self.proof_for(step, lock(step.word(0)?)?)
    }

    fn proof_for(&self, step: &Step, resource: Resource) -> Result<Proof, String> {
        let by = step.need("by")?;
        let lease = self.lease(step.value("of").unwrap_or(by))?;
        let id = if step.flag("guessed") { Secret([0, 0]) } else { lease.lease.secret };
        Ok(Proof {
            resource,
            owner: owner(by)?,
            lease: LeaseId { slot: lease.lease.slot, secret: id },
            token: match step.value("token_of") {
                Some(label) => self.lease(label)?.token,
                None => lease.token,
            },
        })
    }

    fn lease(&self, label: &str) -> Result<&LeaseView, String> {
        self.leases.get(label).ok_or_else(|| format!("  {label} was never granted anything"))
    }

    fn session(&self, label: &str) -> Result<SessionId, String> {
        self.sessions.get(label).copied().ok_or_else(|| format!("  there was never a session {label}"))
    }

    /// The server dies, and another reads its journal.
    fn restart(&mut self, step: &Step, at_us: u64) -> Result<Output, String> {
        let rearm = match step.word(0)? {
            "same-boot" => Rearm::SameBoot,
            "elsewhere" => Rearm::Elsewhere,
            other => return Err(format!("  a restart is `same-boot` or `elsewhere`, not {other}")),
        };
        let mut machine = Machine::new(Limits::default());
        for event in &self.journal {
            machine.apply(self.now().wall_ms, event);
        }
        self.machine = machine;
        self.now_us = at_us;
        if step.word(0)? == "elsewhere" {
            // Another boot clock, which has nothing to do with the old one.
            self.now_us = START_US / 10;
            self.zero_us = self.now_us.wrapping_sub(step.at_us);
        }
        let mut out = Output::default();
        self.machine.recover(self.now(), rearm, &mut out);
        self.machine.begin(self.now());
        self.housekeep(&mut out);
        self.keep_horizon_after(&mut out);
        Ok(out)
    }

    /// What everybody heard, each with the caller's name before it; the step's own caller needs none.
    fn hear(
        &mut self,
        replies: &[Reply],
        caller: Option<Attachment>,
        word: &str,
        step: &Step,
    ) -> Result<Vec<Heard>, String> {
        let mut got = Vec::new();
        for reply in replies {
            let name = self.callers.get(&reply.to).cloned().ok_or("  a reply to nobody")?;
            let own = caller == Some(reply.to);
            match &reply.outcome {
                Ok(Answer::Lease(view)) => {
                    self.leases.insert(name.clone(), (**view).clone());
                }
                Ok(Answer::Session(view)) => {
                    let label = step.word(0)?.to_string();
                    self.sessions.insert(label.clone(), view.session);
                    if let Some(last) = view.ended.last() {
                        self.ended.insert(label, last.seq);
                    }
                }
                _ => {}
            }
            let mut words = heard(&reply.outcome, if own { word } else { "granted" }, &mut self.tokens);
            if let Ok(Answer::File(view)) = &reply.outcome {
                words.push(format!("holds={}", self.holds(view.number)));
            }
            got.push((if own { None } else { Some(name) }, words));
        }
        let waits = step.command == "acquire" && replies.iter().all(|reply| Some(reply.to) != caller);
        if waits {
            let behind = self.behind(step)?;
            got.push((None, vec!["queued".into(), format!("behind={behind}")]));
        }
        Ok(got)
    }

    /// How many holders and earlier waiters the newest in line stands behind.
    fn behind(&mut self, step: &Step) -> Result<usize, String> {
        let mut out = Output::default();
        let attachment = Attachment(0);
        let command = Command::Get { resource: lock(step.word(0)?)? };
        let request = Request { attachment, arrived_raw_us: self.now_us, secret: Secret([0, 0]), command };
        assert!(self.machine.decide(request, &mut out).is_none(), "a get is answered at once");
        let Ok(Answer::Snapshot(snapshot)) = &out.replies[0].outcome else {
            return Err("  a get has a snapshot for an answer".into());
        };
        let place = snapshot
            .waiters
            .iter()
            .position(|view| view.attached && view.owner.text() == step.value("by").unwrap_or_default());
        Ok(snapshot.holders.len() + place.ok_or("  nobody of that name is in line")?)
    }
}

/// Every expectation is met by one thing heard, and nothing else was heard.
fn compare(expected: &[Vec<String>], got: &[Heard]) -> Result<(), String> {
    let meets = |want: &[String], words: &[String]| {
        want.first() == words.first() && want[1..].iter().all(|word| words[1..].contains(word))
    };
    let mut left: Vec<&Heard> = got.iter().collect();
    for want in expected {
        let found = left.iter().position(|(name, words)| match name {
            None => meets(want, words),
            Some(name) => want.first() == Some(name) && want.len() > 1 && meets(&want[1..], words),
        });
        match found {
            Some(index) => {
                left.remove(index);
            }
            None => return Err(difference(expected, got)),
        }
    }
    if left.is_empty() { Ok(()) } else { Err(difference(expected, got)) }
}

fn difference(expected: &[Vec<String>], got: &[Heard]) -> String {
    let expected: Vec<String> = expected.iter().map(|words| words.join(" ")).collect();
    let got: Vec<String> = got
        .iter()
        .map(|(name, words)| match name {
            Some(name) => format!("{name} {}", words.join(" ")),
            None => words.join(" "),
        })
        .collect();
    let or_nothing = |list: Vec<String>| if list.is_empty() { "nothing".into() } else { list.join("; ") };
    format!("    expected: {}\n    got:      {}", or_nothing(expected), or_nothing(got))
}

fn text(error: impl std::fmt::Display) -> String {
    format!("  {error}")
}

/// A resource; `inode:file2` and `range:file2:0-10` are of the second file that was ever made.
fn lock(word: &str) -> Result<Resource, String> {
    let mut word = word.to_string();
    if let Some((kind, rest)) = word.split_once(":file") {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let number: u64 = rest[..digits].parse().map_err(text)?;
        word = format!("{kind}:{}{}", FILE_INODE_FIRST + number - 1, &rest[digits..]);
    }
    Resource::parse(&word).map_err(text)
}

fn name(word: &str) -> Result<FileName, String> {
    FileName::parse(word).map_err(text)
}

fn owner(word: &str) -> Result<Owner, String> {
    Owner::parse(word).map_err(text)
}

fn id(word: &str) -> Result<RequestId, String> {
    RequestId::parse(word).map_err(text)
}

fn ttl(word: &str) -> Result<Ttl, String> {
    Ttl::from_ms(duration_us(word)? / 1000).map_err(text)
}

fn note(word: &str) -> Result<Metadata, String> {
    Metadata::new([("note".to_string(), word.to_string())].into()).map_err(text)
}
