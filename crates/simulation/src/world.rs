//! Virtual time: a queue of what happens next, and what every part of a run shares. Time moves only from one happening
//! to the next, so a run is as fast as its work and as long as it likes.

use std::collections::BTreeMap;

use leasehold_engine::Pictured;
use leasehold_journal::{Chore, ChoreDone};
use leasehold_state_machine::answer::{FileView, Outcome};
use leasehold_state_machine::command::Command;

use crate::client::Alarm;
use crate::faults::{FaultKind, Tally};
use crate::invariants::{Violation, Watch};
use crate::network::{CallId, Partition};
use crate::plan::{Disaster, Plan, Weather};
use crate::random::{Random, Sources};
use crate::record::Record;
use crate::register::{Errand, Register};
use crate::run::Order;
use crate::stream::Mark;
use crate::trace::Trace;

/// Something that happens at a moment of virtual time.
pub enum Happening {
    /// A request reaches the server's socket.
    RequestArrives {
        /// The call it belongs to; none for a copy that somebody else replays.
        call: Option<CallId>,
        /// Whose request it is.
        from: usize,
        /// What is asked.
        command: Command,
        /// Which answers its client has, if it came on a stream.
        mark: Option<Box<Mark>>,
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
        /// The state that it writes out, if the journal was cut for it.
        picture: Option<Box<Pictured>>,
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
    /// Something reaches the register outside of the server.
    AtRegister(Box<Errand>),
    /// Something comes back from there.
    FromRegister(Box<Errand>),
    /// A copy of the data directory is finished.
    BackupEnds,
    /// Somebody else no longer fills the disk.
    RoomAgain,
    /// A look at the whole state.
    Inspect,
    /// The faults stop.
    Heal,
}

/// How many in a thousand of the small things that would go wrong do so in a silence.
const SILENCE_PER_MILLE: u64 = 10;

/// What every part of a run shares.
pub struct World {
    /// Virtual time: the real time of the run, which no clock in it shows exactly.
    pub now_us: u64,
    /// The source of chance.
    pub random: Random,
    /// Chance for all that has to do with files.
    pub file_random: Random,
    /// Chance for what came later still.
    pub more_random: Random,
    /// Whether clients write files.
    pub files: bool,
    /// When clients begin things, if not all the time.
    bursts: Vec<(u64, u64)>,
    /// Where the network is cut.
    pub partitions: Vec<Partition>,
    /// The register outside of the server.
    pub register: Register,
    /// Whether clients use it.
    pub registers: bool,
    /// The story.
    pub trace: Trace,
    /// What clients asked and heard, if it is wanted.
    pub record: Record,
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
    /// The first invariant that did not hold.
    pub violation: Option<Violation>,
    queue: BTreeMap<(u64, u64), Happening>,
    order: u64,
}

impl World {
    /// The beginning of time.
    pub fn new(sources: Sources, plan: &Plan, order: &Order) -> World {
        World {
            now_us: 0,
            random: sources.random,
            file_random: sources.files,
            more_random: sources.more,
            files: plan.files,
            bursts: plan.bursts.clone(),
            partitions: Vec::new(),
            register: Register::default(),
            registers: plan.register,
            trace: Trace::new(order.trace),
            record: Record::new(order.history),
            tally: Tally::default(),
            watch: Watch::heeding(order.heeds),
            weather: plan.weather.clone(),
            healing: false,
            pace: plan.pace,
            lull_until_us: 0,
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

    /// An old copy of the data was put back and the wall clock set: tokens may come a second time.
    pub fn forget_tokens(&mut self) {
        self.watch.forget_tokens();
        self.register.forget_tokens();
    }

    /// Counts a fault that took effect.
    pub fn count(&mut self, kind: FaultKind) {
        self.tally.count(kind);
    }

    /// Whether all invariants are heeded, the server's own assertions among them.
    pub fn heeds_all(&self) -> bool {
        self.watch.heeds.is_none()
    }

    /// Takes in what an invariant says.
    pub fn check(&mut self, verdict: Result<(), Violation>) {
        if let Err(violation) = verdict
            && self.violation.is_none()
            && self.watch.heeds.is_none_or(|invariant| invariant == violation.invariant)
        {
            self.trace.tell(self.now_us, "VIOLATED", || violation.to_string());
            self.violation = Some(violation);
        }
    }

    /// Whether something goes wrong now, given how often per thousand it does.
    pub fn unlucky(&mut self, per_mille: u64) -> bool {
        !self.healing && self.random.chance(per_mille) && self.strikes_now()
    }

    /// In a silence small things go wrong far more rarely than in a burst: else a lease of a day would never end, because
    /// the server died every few minutes and gave it another day each time.
    fn strikes_now(&mut self) -> bool {
        self.silence_us() == 0 || self.more_random.chance(SILENCE_PER_MILLE)
    }

    /// The same for what came later.
    pub fn unlucky_with_more(&mut self, per_mille: u64) -> bool {
        !self.healing && self.more_random.chance(per_mille) && self.strikes_now()
    }

    /// Whether the run is one of short bursts and long silences.
    pub fn is_quiet(&self) -> bool {
        !self.bursts.is_empty()
    }

    /// How long it is until clients begin things again; 0 while they do.
    pub fn silence_us(&self) -> u64 {
        let coming = self.bursts.iter().find(|(_, to_us)| *to_us > self.now_us);
        coming.map_or(0, |(from_us, _)| from_us.saturating_sub(self.now_us))
    }

    /// The same for what has to do with files.
    pub fn unlucky_with_files(&mut self, per_mille: u64) -> bool {
        self.files && !self.healing && self.file_random.chance(per_mille) && self.strikes_now()
    }
}
