//! Virtual time: a queue of what happens next, and what every part of a run shares. Time moves only from one happening
//! to the next, so a run is as fast as its work and as long as it likes.

use std::collections::BTreeMap;

use leasehold_journal::{Chore, ChoreDone};
use leasehold_state_machine::answer::{FileView, Outcome};
use leasehold_state_machine::command::Command;

use crate::client::Alarm;
use crate::faults::{Disaster, FaultKind, Tally, Weather};
use crate::invariants::{Violation, Watch};
use crate::network::CallId;
use crate::random::Random;
use crate::trace::Trace;

/// Something that happens at a moment of virtual time.
pub enum Happening {
    /// A request reaches the server's socket.
    RequestArrives {
        /// The call it belongs to; none for a copy that somebody else replays.
        call: Option<CallId>,
        /// What is asked.
        command: Command,
        /// Since when it has lain in the socket of a process that stood still.
        since_us: Option<u64>,
    },
    /// The server notices that a connection has closed.
    CloseArrives(CallId),
    /// A connection that nobody waits on closes.
    StrayCloses {
        /// In which life of the process.
        life: u64,
        /// Which attempt.
        attachment: u64,
    },
    /// A reply reaches its caller.
    ReplyArrives(CallId, Box<Outcome>),
    /// A caller learns that its connection is gone.
    ResetArrives(CallId),
    /// The server starts.
    Start,
    /// The engine turns, if this is still the turn it waits for.
    Turn {
        /// In which life of the process.
        life: u64,
    },
    /// The disk has finished with a batch.
    BatchDone {
        /// In which life of the process.
        life: u64,
        /// When it was handed over.
        begun_us: u64,
    },
    /// A chore runs.
    ChoreRuns {
        /// In which life of the process.
        life: u64,
        /// The chore.
        chore: Box<Chore>,
    },
    /// The journal hears of a chore.
    ChoreEnds {
        /// In which life of the process.
        life: u64,
        /// What came of it.
        done: Box<ChoreDone>,
    },
    /// A durable change is put into its file.
    ChangeDue {
        /// In which life of the process.
        life: u64,
    },
    /// Somebody who was told of a file reads it.
    FileRead {
        /// In which life of the process.
        life: u64,
        /// What was told.
        view: Box<FileView>,
    },
    /// A client's alarm goes off.
    Alarm {
        /// Whose.
        client: usize,
        /// What for.
        alarm: Alarm,
    },
    /// A large thing goes wrong.
    Disaster(Disaster),
    /// A look at the whole state.
    Inspect,
    /// The faults stop.
    Heal,
}

/// What every part of a run shares.
pub struct World {
    /// Virtual time: the real time of the run, which no clock in it shows exactly.
    pub now_us: u64,
    /// The source of chance.
    pub random: Random,
    /// Chance for all that has to do with files.
    pub file_random: Random,
    /// Whether clients write files.
    pub files: bool,
    /// The story.
    pub trace: Trace,
    /// What took effect.
    pub tally: Tally,
    /// The invariants.
    pub watch: Watch,
    /// How often small things go wrong.
    pub weather: Weather,
    /// Whether the faults have stopped.
    pub healing: bool,
    /// How much longer than usual clients take between one thing and the next.
    pub pace: u64,
    /// Until when nobody begins anything.
    pub lull_until_us: u64,
    /// The one invariant that is heeded, if not all are.
    heeds: Option<&'static str>,
    /// The first invariant that did not hold.
    pub violation: Option<Violation>,
    queue: BTreeMap<(u64, u64), Happening>,
    order: u64,
}

impl World {
    /// The beginning of time.
    pub fn new(
        (random, file_random): (Random, Random),
        weather: Weather,
        trace: Trace,
        heeds: Option<&'static str>,
    ) -> World {
        World {
            now_us: 0,
            random,
            file_random,
            files: false,
            trace,
            tally: Tally::default(),
            watch: Watch::default(),
            weather,
            healing: false,
            pace: 1,
            lull_until_us: 0,
            heeds,
            violation: None,
            queue: BTreeMap::new(),
            order: 0,
        }
    }

    /// Lets something happen at a moment, or now if that has passed.
    pub fn at(&mut self, at_us: u64, happening: Happening) {
        self.order += 1;
        self.queue.insert((at_us.max(self.now_us), self.order), happening);
    }

    /// Lets something happen after a while.
    pub fn after(&mut self, after_us: u64, happening: Happening) {
        self.at(self.now_us + after_us, happening);
    }

    /// Moves on to what happens next.
    pub fn next(&mut self) -> Option<Happening> {
        let ((at_us, _), happening) = self.queue.pop_first()?;
        self.now_us = at_us;
        Some(happening)
    }

    /// Tells a line of the story.
    pub fn tell(&mut self, who: &str, what: impl FnOnce() -> String) {
        self.trace.tell(self.now_us, who, what);
    }

    /// Whether anybody listens to the story.
    pub fn trace_is_on(&self) -> bool {
        self.trace.is_on()
    }

    /// Counts a fault that took effect.
    pub fn count(&mut self, kind: FaultKind) {
        self.tally.count(kind);
    }

    /// Whether all invariants are heeded, the server's own assertions among them.
    pub fn heeds_all(&self) -> bool {
        self.heeds.is_none()
    }

    /// Takes in what an invariant says.
    pub fn check(&mut self, verdict: Result<(), Violation>) {
        if let Err(violation) = verdict
            && self.violation.is_none()
            && self.heeds.is_none_or(|invariant| invariant == violation.invariant)
        {
            self.trace.tell(self.now_us, "VIOLATED", || violation.to_string());
            self.violation = Some(violation);
        }
    }

    /// Whether something goes wrong now, given how often per thousand it does.
    pub fn unlucky(&mut self, per_mille: u64) -> bool {
        !self.healing && self.random.chance(per_mille)
    }

    /// The same for what has to do with files.
    pub fn unlucky_with_files(&mut self, per_mille: u64) -> bool {
        self.files && !self.healing && self.file_random.chance(per_mille)
    }
}
