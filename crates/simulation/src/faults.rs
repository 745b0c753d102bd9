//! The kinds of faults, and the account of those that took effect. Injects nothing itself; what is to happen in a run is
//! drawn in `plan.rs`.

macro_rules! kinds {
    (injected { $($(#[$doc:meta])* $name:ident = $text:literal,)* }
     met { $($(#[$met_doc:meta])* $met:ident = $met_text:literal,)* }) => {
        /// A kind of fault, or of what only faults bring about.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum FaultKind { $($(#[$doc])* $name,)* $($(#[$met_doc])* $met,)* }

        impl FaultKind {
            /// All of them.
            pub const ALL: &[FaultKind] = &[$(FaultKind::$name,)* $(FaultKind::$met,)*];

            /// The word in the account.
            pub fn text(self) -> &'static str {
                match self { $(FaultKind::$name => $text,)* $(FaultKind::$met => $met_text,)* }
            }

            /// Whether the simulation did it on purpose. What comes of that is counted too, so that it can be seen whether
            /// the faults met what they were meant for.
            pub fn is_injected(self) -> bool {
                match self { $(FaultKind::$name => true,)* $(FaultKind::$met => false,)* }
            }
        }
    };
}

kinds! {
    injected {
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
        /// It was never noticed.
        LostClose = "lost closes",
        /// A request met a network that let nothing through to the server.
        CutOffRequest = "requests cut off",
        /// A reply met a network that let nothing through from the server.
        CutOffReply = "replies cut off",
        /// The network between the server and one client, or all of them, was cut one way.
        OneWayPartition = "one-way partitions",
        /// It was cut both ways.
        TwoWayPartition = "two-way partitions",
        /// The server's machine was suspended.
        Suspend = "suspends",
        /// A client's machine was suspended.
        ClientSuspend = "client suspends",
        /// The process was stopped in the very moment in which a renewal came in that had little time left.
        StopAtRenewal = "stops at a renewal",
        /// The disk was full, and the process ended.
        DiskFull = "full disks",
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
        /// It died while bytes were put into a file.
        DiedInFiles = "deaths in files",
        /// It took long until durable bytes were in their file.
        SlowFile = "slow files",
        /// Power was lost, and a file came back longer than it was.
        LongFile = "files left too long",
        /// A write came under the request id of another.
        OtherBytes = "other bytes under the same id",
    }
    met {
        /// A start found a torn last record.
        TornRecord = "torn records",
        /// A power loss took unsynced sectors with it.
        LostSectors = "lost sectors",
        /// It was noticed after the same request had come in on a new connection.
        OvertakenClose = "overtaken closes",
        /// The disk ran short of room: what needs some was refused.
        ShortOfRoom = "requests refused for want of room",
        /// A lane was full: an explicit answer.
        LaneFull = "full lanes",
        /// One of the state machine's limits was reached: an explicit answer.
        LimitReached = "limits reached",
        /// A client took its stream for dead and opened another.
        Reconnect = "reconnects",
        /// A request came after its client had said that it has the answer.
        LateNumber = "requests after their answer was confirmed",
        /// A snapshot took the place of old segments.
        Snapshot = "snapshots",
        /// The journal was cut for a picture of the state, which was to become a snapshot.
        Picture = "pictures of the state",
        /// An answer was packed as soon as it was decided.
        Packed = "answers packed early",
        /// A start found writes that had to be made again.
        RewrittenFile = "rewritten files",
        /// A write arrived that an unfenced register would have let a holder of the past make.
        StaleWrite = "stale writes at the unfenced control",
        /// A write was refused because its writer no longer held the lock.
        FencedOff = "writes fenced off",
        /// An update that a holder of the past destroyed where nobody looks at tokens.
        LostUpdate = "updates lost at the unfenced control",
        /// An update that the register refused for its token.
        UpdateFencedOff = "updates fenced off",
        /// A copy of the data directory was begun anew because a snapshot was made meanwhile.
        BackupBegunAnew = "copies begun anew",
    }
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
    /// Updates that were made at the register.
    pub updates: u64,
    /// Virtual time that passed.
    pub simulated_us: u64,
    /// The part of it in which some session was alive and the server had something to keep.
    pub live_us: u64,
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

    /// All faults that were injected together.
    pub fn faults(&self) -> u64 {
        FaultKind::ALL.iter().filter(|kind| kind.is_injected()).map(|kind| self.of(*kind)).sum()
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
        self.updates += other.updates;
        self.simulated_us += other.simulated_us;
        self.live_us += other.live_us;
    }
}
