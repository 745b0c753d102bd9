//! What goes wrong in a run: drawn from the seed before it begins, and counted when it takes effect. Injects nothing
//! itself. Each seed leaves some kinds out, so that every kind also meets a world in which the others are silent.

use leasehold_state_machine::limits::Limits;

use crate::random::Random;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// A kind of fault.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum FaultKind { $($(#[$doc])* $name,)* }

        impl FaultKind {
            /// All of them.
            pub const ALL: &[FaultKind] = &[$(FaultKind::$name,)*];

            /// The word in the line of totals.
            pub fn text(self) -> &'static str {
                match self { $(FaultKind::$name => $text,)* }
            }
        }
    };
}

kinds! {
    /// The process was killed; the machine and its page cache lived on.
    Kill = "kills",
    /// The machine lost power; another boot followed.
    PowerLoss = "power losses",
    /// It died while a batch was being written.
    DiedInAppend = "deaths in append",
    /// It died while a chore was running.
    DiedInChore = "deaths in chores",
    /// It died while it was starting.
    DiedOpening = "deaths at start",
    /// A start found a torn last record.
    TornRecord = "torn records",
    /// A power loss took unsynced sectors with it.
    LostSectors = "lost sectors",
    /// A bit of a record in the middle of the journal was spoilt.
    DamagedRecord = "damaged records",
    /// A write or a sync failed.
    DiskError = "disk errors",
    /// A sync took 0.3 to 5 s.
    SlowSync = "slow syncs",
    /// A sync took longer than that.
    HungSync = "hung syncs",
    /// The whole process stood still.
    ProcessStop = "stops",
    /// The engine alone stood still.
    EngineStall = "stalls",
    /// The wall clock was set.
    WallJump = "wall jumps",
    /// The wall clock was set while the server was away, so that the clocks disagree on how long.
    Disagreement = "clock disagreements",
    /// The boot clock of the same boot read less after a restart: a machine put back to an earlier moment.
    BootClockBack = "boot clocks set back",
    /// The boot clock of the same boot read more after a restart than the wall clock bears out.
    BootClockAhead = "boot clocks set ahead",
    /// Nobody asked anything for longer than the horizon.
    Lull = "lulls",
    /// A request did not arrive.
    LostRequest = "lost requests",
    /// A reply did not arrive.
    LostReply = "lost replies",
    /// A request arrived seconds late.
    DelayedRequest = "late requests",
    /// A reply arrived seconds late.
    DelayedReply = "late replies",
    /// A request arrived twice.
    DuplicatedRequest = "doubled requests",
    /// A connection's end was noticed seconds late.
    LateClose = "late closes",
    /// It was noticed after the same request had come in on a new connection.
    OvertakenClose = "overtaken closes",
    /// It was never noticed.
    LostClose = "lost closes",
    /// A client stood still.
    ClientPause = "client pauses",
    /// A client's alarm went off late.
    LateAlarm = "late alarms",
    /// A holder went away without a word.
    ClientDeath = "client deaths",
    /// An operator broke a lease with force.
    ForcedBreak = "forced breaks",
    /// An old copy of the data directory was put back.
    Restored = "restored copies",
    /// A snapshot took the place of old segments.
    Snapshot = "snapshots",
    /// It died while bytes were put into a file.
    DiedInFiles = "deaths in files",
    /// It took long until durable bytes were in their file.
    SlowFile = "slow files",
    /// A start found writes that had to be made again.
    RewrittenFile = "rewritten files",
    /// Power was lost, and a file came back longer than it was.
    LongFile = "files left too long",
    /// A write arrived that an unfenced register would have let a holder of the past make.
    StaleWrite = "stale writes at the unfenced control",
    /// A write was refused because its writer no longer held the lock.
    FencedOff = "writes fenced off",
}

/// What took effect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    faults: Vec<u64>,
    /// Requests that reached the server.
    pub operations: u64,
    /// Leases granted.
    pub grants: u64,
    /// Writes to files that were made.
    pub writes: u64,
    /// Virtual time that passed.
    pub simulated_us: u64,
}

impl Tally {
    /// Counts a fault that took effect.
    pub fn count(&mut self, kind: FaultKind) {
        self.faults.resize(FaultKind::ALL.len(), 0);
        self.faults[kind as usize] += 1;
    }

    /// How often a kind took effect.
    pub fn of(&self, kind: FaultKind) -> u64 {
        self.faults.get(kind as usize).copied().unwrap_or(0)
    }

    /// All faults together.
    pub fn faults(&self) -> u64 {
        self.faults.iter().sum()
    }

    /// Adds another run's.
    pub fn add(&mut self, other: &Tally) {
        self.faults.resize(FaultKind::ALL.len(), 0);
        for (sum, more) in self.faults.iter_mut().zip(&other.faults) {
            *sum += more;
        }
        self.operations += other.operations;
        self.grants += other.grants;
        self.writes += other.writes;
        self.simulated_us += other.simulated_us;
    }
}

/// How often small things go wrong, per thousand.
#[derive(Clone, Debug, Default)]
pub struct Weather {
    /// Requests lost.
    pub lost_request: u64,
    /// Replies lost.
    pub lost_reply: u64,
    /// Requests late.
    pub delayed: u64,
    /// Replies late.
    pub delayed_reply: u64,
    /// Requests doubled.
    pub duplicated: u64,
    /// Closes noticed late.
    pub late_close: u64,
    /// Closes never noticed.
    pub lost_close: u64,
    /// Slow syncs.
    pub slow_sync: u64,
    /// Hung syncs.
    pub hung_sync: u64,
    /// Deaths in chores.
    pub died_in_chore: u64,
    /// Deaths at start.
    pub died_opening: u64,
    /// Alarms of clients that go off late.
    pub late_alarm: u64,
    /// Holders that go away without a word.
    pub client_death: u64,
}

/// A large thing that goes wrong at a given time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disaster {
    /// The process is killed.
    Kill,
    /// The machine loses power.
    PowerLoss,
    /// The next write or sync fails.
    DiskError,
    /// The process stands still.
    ProcessStop,
    /// The engine stands still.
    EngineStall,
    /// The wall clock is set.
    WallJump,
    /// The data directory is copied.
    Backup,
    /// The copy is put back.
    Restore,
    /// Everybody is silent.
    Lull,
    /// One client stands still.
    ClientPause,
}

/// Everything about a run that is drawn before it begins.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Small things.
    pub weather: Weather,
    /// Large things, each with its time.
    pub disasters: Vec<(u64, Disaster)>,
    /// When the faults stop.
    pub heal_at_us: u64,
    /// How many clients there are.
    pub clients: usize,
    /// The state machine's bounds.
    pub limits: Limits,
    /// The size of the journal's segments.
    pub segment_bytes: u64,
    /// The largest batch.
    pub batch_bytes_max: usize,
    /// How much longer than usual clients take between one thing and the next.
    pub pace: u64,
    /// How far clients' clocks may err in their rate, in millionths.
    pub drift_ppm: u64,
    /// Whether clients write files.
    pub files: bool,
}

impl Plan {
    /// Draws one. What has to do with files is drawn from a stream of its own, so that runs without them are as they
    /// were before there were any.
    pub fn draw(random: &mut Random, file_random: &mut Random) -> Plan {
        let mut rate = |often: u64| {
            let rate = random.between(1, often.max(2));
            if random.chance(600) { rate } else { 0 }
        };
        let weather = Weather {
            lost_request: rate(60),
            lost_reply: rate(60),
            delayed: rate(30),
            delayed_reply: rate(30),
            duplicated: rate(60),
            late_close: rate(600),
            lost_close: rate(200),
            slow_sync: rate(20),
            hung_sync: rate(4),
            died_in_chore: rate(200),
            died_opening: rate(300),
            late_alarm: rate(20),
            client_death: rate(200),
        };
        // A few runs are long enough for old answers to be forgotten.
        let pace = if random.chance(30) { 12 } else { 1 };
        let heal_at_us = random.between(30, 90) * 1_000_000 * pace;
        let kinds = [
            (Disaster::Kill, 6),
            (Disaster::PowerLoss, 5),
            (Disaster::DiskError, 2),
            (Disaster::ProcessStop, 5),
            (Disaster::EngineStall, 4),
            (Disaster::WallJump, 3),
            (Disaster::Lull, 2),
            (Disaster::ClientPause, 5),
        ];
        let mut disasters = Vec::new();
        for (disaster, most) in kinds {
            if random.chance(650) {
                for _ in 0..random.between(1, most + 1) {
                    disasters.push((random.between(500_000, heal_at_us), disaster));
                }
            }
        }
        if random.chance(100) {
            let at_us = random.between(500_000, heal_at_us);
            disasters.push((at_us, Disaster::Backup));
            disasters.push((random.between(at_us, heal_at_us), Disaster::Restore));
        }
        // In bursts, too: what follows a crash closely finds what the crash left half done.
        for n in 0..disasters.len() {
            if random.chance(250) {
                let (at_us, _) = disasters[n];
                let (_, other) = *random.pick(&disasters);
                disasters.push((at_us + random.between(1_000, 3_000_000), other));
            }
        }
        disasters.retain(|(at_us, _)| *at_us < heal_at_us);
        let (segment_bytes, batch_bytes_max) =
            *random.pick(&[(16 << 10, 12 << 10), (32 << 10, 24 << 10), (128 << 10, 96 << 10)]);
        let mut limits = Limits::default();
        if random.chance(80) {
            limits.request_ids_max = usize::try_from(random.between(5, 60)).unwrap_or(60);
        }
        if random.chance(80) {
            limits.waiters_per_lock_max = 2;
        }
        Plan {
            weather,
            disasters,
            heal_at_us,
            clients: usize::try_from(random.between(2, 9)).unwrap_or(2),
            limits,
            segment_bytes,
            batch_bytes_max,
            pace,
            drift_ppm: if random.chance(700) { 10_000 } else { 0 },
            files: file_random.chance(700),
        }
    }
}
