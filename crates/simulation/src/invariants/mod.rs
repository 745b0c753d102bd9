//! What must hold in every run: one invariant a file. Each watches what can be seen from outside (requests that went in,
//! events that the journal holds, replies that left, what clients believe) and says in a sentence what is wrong.

mod bounded;
mod confirmed;
mod determinism;
mod durability;
mod exclusion;
mod fail_fast;
mod fenced;
mod fencing;
mod fifo;
mod file_model;
mod files_acked;
mod files_read;
mod files_whole;
mod holder_only;
mod never_early;
mod no_ack_after_error;
mod one_effect;
mod progress;
mod promise;
mod register;
#[cfg(test)]
mod samples;
mod writer_only;

use std::collections::BTreeMap;
use std::fmt;

use leasehold_engine::{AdmissionLimits, Purpose, Released, Told, Unasked};
use leasehold_state_machine::Machine;
use leasehold_state_machine::answer::{Answer, Outcome, Refusal};
use leasehold_state_machine::command::{Command, WriteFile};
use leasehold_state_machine::event::{Event, Seq};

use crate::ledger::{AttemptId, Ledger};
use crate::plan::Plan;

pub use bounded::Sizes;
pub use exclusion::Belief;
pub use fail_fast::Holder;
pub use files_read::Read;
pub use progress::Left;
pub use register::Update;

/// An invariant that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which one.
    pub invariant: &'static str,
    /// What was seen.
    pub sentence: String,
}

impl Violation {
    pub(crate) fn new(invariant: &'static str, sentence: impl Into<String>) -> Violation {
        Violation { invariant, sentence: sentence.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.sentence)
    }
}

/// What an invariant says.
pub type Verdict = Result<(), Violation>;

/// An event that is in the journal.
#[derive(Clone, Debug)]
pub struct Committed {
    /// Its number.
    pub seq: Seq,
    /// The virtual time of the turn that decided it.
    pub at_us: u64,
    /// The life of the process that decided it.
    pub life: u64,
    /// The wall time of that turn.
    pub wall_ms: u64,
    /// What happened.
    pub event: Event,
}

/// A reply that has left the server.
#[derive(Clone, Debug)]
pub struct Reply<'a> {
    /// When.
    pub at_us: u64,
    /// The attempt it answers.
    pub to: AttemptId,
    /// What it says.
    pub outcome: &'a Outcome,
}

/// What the invariants that follow the journal knew when a copy of it was made.
#[derive(Clone, Debug)]
pub struct Memory {
    live: exclusion::Live,
    never_early: never_early::NeverEarly,
    durability: durability::Durability,
    one_effect: one_effect::OneEffect,
    confirmed: confirmed::Confirmed,
    fifo: fifo::Fifo,
    holder_only: holder_only::HolderOnly,
    writer_only: writer_only::WriterOnly,
    fenced: fenced::Fenced,
    files: file_model::FileModel,
}

/// All invariants, and what they look at together.
#[derive(Debug, Default)]
pub struct Watch {
    /// The one invariant that is heeded, if not all are.
    pub heeds: Option<&'static str>,
    /// What went in.
    pub ledger: Ledger,
    exclusion: exclusion::Exclusion,
    fail_fast: fail_fast::FailFast,
    fencing: fencing::Fencing,
    never_early: never_early::NeverEarly,
    durability: durability::Durability,
    one_effect: one_effect::OneEffect,
    confirmed: confirmed::Confirmed,
    fifo: fifo::Fifo,
    holder_only: holder_only::HolderOnly,
    writer_only: writer_only::WriterOnly,
    fenced: fenced::Fenced,
    control: fenced::Control,
    files: file_model::FileModel,
}

impl Watch {
    /// Heeds one invariant alone, or all.
    pub fn heeding(heeds: Option<&'static str>) -> Watch {
        Watch { heeds, ..Watch::default() }
    }

    /// A batch became durable, or a start found it on the disk.
    pub fn committed(&mut self, events: &[Committed]) -> Verdict {
        for event in events {
            self.files.committed(event);
            self.control.committed(event);
            let verdicts = [
                self.durability.committed(event),
                self.fencing.committed(event),
                self.exclusion.committed(event, &self.files),
                self.fail_fast.committed(event, &self.files),
                self.never_early.committed(event),
                self.one_effect.committed(event, &self.ledger),
                self.confirmed.committed(event),
                self.fifo.committed(event, &self.ledger, &self.files),
                self.holder_only.committed(event),
                self.writer_only.committed(event, &self.ledger),
                self.fenced.committed(event),
            ];
            self.heed(verdicts)?;
        }
        Ok(())
    }

    /// A reply left the server.
    pub fn replied(&mut self, reply: &Reply<'_>) -> Verdict {
        let verdicts = [
            self.durability.replied(reply, &self.ledger),
            self.never_early.replied(reply, &self.ledger),
            self.one_effect.replied(reply, &self.ledger),
            self.confirmed.replied(reply, &self.ledger),
            self.holder_only.replied(reply, &self.ledger),
            self.writer_only.replied(reply, &self.ledger),
            promise::judge(reply, &self.ledger),
            match reply.outcome {
                Ok(Answer::File(view)) => files_read::told(&self.files, view),
                Ok(Answer::Files { files, .. }) => {
                    files.iter().try_for_each(|view| files_read::told(&self.files, view))
                }
                _ => Ok(()),
            },
        ];
        self.heed(verdicts)
    }

    /// The first verdict that counts. Each invariant has seen everything by then, whatever the others say of it.
    fn heed<const N: usize>(&self, verdicts: [Verdict; N]) -> Verdict {
        let counts = |violation: &Violation| self.heeds.is_none_or(|only| only == violation.invariant);
        verdicts.into_iter().filter_map(Result::err).find(counts).map_or(Ok(()), Err)
    }

    /// Notices that nobody asked for left the server.
    pub fn unasked(&self, notices: &[Unasked]) -> Verdict {
        self.durability.unasked(notices)
    }

    /// Something leaves a server, or nothing, whose disk has failed.
    pub fn silent(&self, left: &Released) -> Verdict {
        no_ack_after_error::judge(left)
    }

    /// Somebody is let in at the door, or not.
    pub fn let_in(
        &self,
        purpose: Purpose,
        inside: usize,
        limits: &AdmissionLimits,
        refused: Option<&Refusal>,
    ) -> Verdict {
        bounded::judge_door(purpose, inside, limits, refused)
    }

    /// How much there is of everything.
    pub fn within_bounds(&self, sizes: &Sizes, plan: &Plan) -> Verdict {
        bounded::judge(sizes, plan)
    }

    /// Events were told to those who watch.
    pub fn told(&mut self, events: &[Told]) -> Verdict {
        self.durability.told(events)
    }

    /// A start has read the journal. `last` is the last event it found, `possible` those it may end with.
    pub fn recovered(&mut self, last: Seq, possible: &[Seq]) -> Verdict {
        self.durability.recovered(last, possible)
    }

    /// What a copy of the data directory, made now, would take back.
    pub fn remember(&self) -> Memory {
        Memory {
            live: self.exclusion.live(),
            never_early: self.never_early.clone(),
            durability: self.durability.clone(),
            one_effect: self.one_effect.clone(),
            confirmed: self.confirmed.clone(),
            fifo: self.fifo.clone(),
            holder_only: self.holder_only.clone(),
            writer_only: self.writer_only.clone(),
            fenced: self.fenced.clone(),
            files: self.files.clone(),
        }
    }

    /// An old copy of the data directory was put back. What clients believe, and the tokens, are not taken back.
    pub fn restore(&mut self, memory: Memory) {
        self.fail_fast.restore(self.exclusion.restore(memory.live));
        self.never_early = memory.never_early;
        self.durability = memory.durability;
        self.one_effect = memory.one_effect;
        self.confirmed = memory.confirmed;
        self.fifo = memory.fifo;
        self.holder_only = memory.holder_only;
        self.writer_only = memory.writer_only;
        self.fenced = memory.fenced;
        self.files = memory.files;
    }

    /// The wall clock was set: tokens no longer grow across a lost or restored data directory.
    pub fn forget_tokens(&mut self) {
        self.fencing = fencing::Fencing::default();
    }

    /// The state that a replay gives, and the state that is or should be the same.
    pub fn compare(&self, what: &str, replayed: &Machine, other: &Machine) -> Verdict {
        determinism::compare(what, replayed, other)
    }

    /// The files on the disk, by number; `settled` says which must be as the journal has them.
    pub fn files_found(&self, found: &BTreeMap<u64, Vec<u8>>, settled: impl FnMut(u64) -> bool) -> Verdict {
        files_whole::judge(&self.files, found, settled)
    }

    /// The server does not start on what is left of its files.
    pub fn files_refused(&self, why: &str) -> Verdict {
        Err(files_whole::refused(why))
    }

    /// Somebody read bytes of a file.
    pub fn read(&self, read: &Read<'_>) -> Verdict {
        files_read::judge(&self.files, read)
    }

    /// A change of a file is told done; in which file, and by which event, its bytes must be there now.
    pub fn changed(&self, reply: &Reply<'_>) -> Result<Option<(u64, Seq)>, Violation> {
        match self.ledger.attempt(reply.to) {
            Some(attempt) => files_acked::judge(&self.files, &attempt.command, reply.outcome),
            None => Ok(None),
        }
    }

    /// What a file holds where a write that is told done has put its bytes.
    pub fn holds_write(&self, read: &Read<'_>) -> Verdict {
        files_acked::held(files_read::judge(&self.files, read))
    }

    /// Up to when whoever sends this renewal has been promised what it renews; 0 if it is no renewal.
    pub fn promised_to_us(&self, command: &Command) -> u64 {
        self.never_early.promised_to_us(command)
    }

    /// Whether a request comes in after its client has said that it has the answer.
    pub fn is_late(&self, command: &Command) -> bool {
        self.confirmed.is_late(command)
    }

    /// A write arrives. Whether a register without a fence would now be overwritten by a holder of the past.
    pub fn control_is_overwritten(&mut self, write: &WriteFile) -> bool {
        self.control.write(write)
    }

    /// A client believes from now on that it holds a lease.
    pub fn believes(&mut self, now_us: u64, belief: Belief) -> Verdict {
        self.exclusion.believes(now_us, belief, &self.files)
    }

    /// A client's keeper has taken in an answer that speaks for a lease.
    pub fn keeps(&mut self, now_us: u64, holder: Holder) -> Verdict {
        self.fail_fast.keeps(now_us, holder)
    }

    /// A client has stopped.
    pub fn stops(&mut self, now_us: u64, token: u64) {
        self.exclusion.stops(token);
        self.fail_fast.stops(now_us, token);
    }

    /// A look at the line of a server that is up. Nobody stands in it with nothing in the way, unless nothing is granted.
    pub fn looked_at_the_line(&mut self, now_us: u64, life: u64, granting: bool) -> Verdict {
        self.fifo.looked_at(now_us, life, granting, &self.ledger, &self.files)
    }

    /// Leases were ended so long after their deadline.
    pub fn swept_late(&self, now_us: u64, by_ms: u64) -> Verdict {
        let calm = !self.ledger.stood_still(now_us.saturating_sub(3_000_000), now_us);
        progress::judge_lateness(calm, by_ms)
    }

    /// The faults stopped a while ago; what is left?
    pub fn progressed(&self, left: &Left) -> Verdict {
        progress::judge(left)
    }

    /// Pairs of clients that believed at once because a break was forced or an old copy was put back.
    pub fn excepted_overlaps(&self) -> u64 {
        self.exclusion.excepted_overlaps
    }
}
