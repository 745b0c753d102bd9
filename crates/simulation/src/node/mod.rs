//! One server: the same engine struct that the real one runs, over the real file journal on a simulated disk, driven as
//! the real driver drives it. It dies and starts again at any point; what it knows across that is on its disk.
//!
//! Here: the machine, its clocks, and what happens to it. Its lives are in `life.rs`, what comes in and goes out in
//! `door.rs`, the engine's turns in `turns.rs`, answers that are packed in `packed.rs`, batches and chores in `storage.rs`, the disk's
//! room in `room.rs`, the files in `files.rs`, a disk that spoils what it holds in `damage.rs`.

mod damage;
mod door;
mod files;
mod life;
mod packed;
mod room;
mod storage;
mod turns;

use std::collections::BTreeMap;
use std::sync::Arc;

use leasehold_engine::{Admission, Batch, Engine, Permit, Purpose, Reading, Replay};
use leasehold_journal::{FaultyDisk, FileJournal, Options};
use leasehold_state_machine::Machine;
use leasehold_state_machine::command::Request;
use leasehold_state_machine::event::Seq;

pub use self::door::Asked;
use self::files::Files;
use self::packed::Packed;
use crate::disk::GuardedDisk;
use crate::faults::FaultKind;
use crate::invariants::{Committed, Memory};
use crate::network::CallId;
use crate::plan::Plan;
use crate::random::Random;
use crate::world::{Happening, World};

/// The wall clock at the beginning of a run: some day in 2026.
const WALL_MS: u64 = 1_790_000_000_000;
/// In so many of a thousand runs snapshots are written from the state itself where that can be had; in the others, and where it
/// cannot, they are added up.
const PICTURES_PER_MILLE: u64 = 500;
const YEAR_MS: i64 = 365 * 24 * 3600 * 1000;

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// It alone: the machine and its page cache live on.
    Process,
    /// The machine loses power; another boot follows.
    Power,
}

/// The moment at which a death strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// At once.
    Now,
    /// When a batch has been handed to the disk.
    InAppend,
    /// When a batch is durable and nobody has been told.
    BeforeReplies,
    /// When durable bytes are put into a file.
    InFiles,
}

/// The server and its machine.
pub struct Node {
    disk: FaultyDisk,
    boot_id: [u8; 16],
    /// The real moment at which the boot clock read 0.
    boot_us: i64,
    wall_ahead_ms: i64,
    plan: Plan,
    options: Options,
    process: Option<Process>,
    life: u64,
    /// The state that all durable batches add up to, kept beside the server.
    truth: Replay,
    /// A batch that was with the disk when the process died.
    in_doubt: Option<InDoubt>,
    /// Disk errors still to come.
    errors_due: u64,
    /// A copy of the data directory, and what was known when it was made.
    copy: Option<Copy>,
    copying: Option<Copying>,
    /// Whether the operator says at every start that a copy was put back: until one start has written that down.
    restored: bool,
    /// Whether an old copy was ever put back: tokens then rest on the wall clock alone.
    was_restored: bool,
    /// Whether the boot clock was set ahead since the journal last took note of it.
    boot_clock_is_ahead: bool,
    /// Whether the wall clock was set since the journal last took note of it.
    wall_set_unseen: bool,
    /// Whether the wall clock was ever set.
    wall_was_set: bool,
    /// A death that waits for its worst moment.
    doom: Option<(Moment, Death)>,
    /// For how long the process stands still when the next renewal that has little time left comes in.
    stop_at_renewal_us: Option<u64>,
    /// Until when the disk is full of something else.
    full_until_us: u64,
    /// The last event when the whole state was last looked at.
    inspected: Seq,
    requests: u64,
    /// Chance for damage, which is nobody else's.
    damage_random: Random,
    /// The same for pictures of the state, if they are taken in this run.
    picture_random: Option<Random>,
    /// Whether answers are packed in this run.
    packs: bool,
}

struct Process {
    engine: Engine,
    journal: FileJournal<GuardedDisk>,
    disk: GuardedDisk,
    files: Files,
    arrivals: Vec<Request>,
    packed: Packed,
    calls: BTreeMap<u64, ServerCall>,
    by_call: BTreeMap<CallId, u64>,
    next_attachment: u64,
    /// Requests and closes that came while the process stood still.
    socket: Vec<Happening>,
    /// The batch with the disk, since when, and its events.
    appending: Option<Appending>,
    next_turn_us: Option<u64>,
    stopped_since_us: u64,
    stopped_until_us: u64,
    stalled_until_us: u64,
    last_take_us: u64,
    /// Who gets in.
    admission: Admission,
    /// Whether there is too little room on the disk to begin anything, and when that was last looked at.
    short_of_room: bool,
    room_looked_us: u64,
    /// Whether a chore found the disk full.
    full_disk_met: bool,
}

struct Appending {
    batch: Batch,
    events: Vec<Committed>,
}

struct InDoubt {
    payload: Arc<[u8]>,
    events: Vec<Committed>,
    /// Whether the journal had said that it is durable.
    certain: bool,
}

/// A copy of the data directory that is being made.
struct Copying {
    files: BTreeMap<String, Vec<u8>>,
    snapshots: Vec<String>,
    boot_id: [u8; 16],
}

/// A copy of the data directory.
struct Copy {
    files: BTreeMap<String, Vec<u8>>,
    memory: Memory,
}

struct ServerCall {
    call: Option<CallId>,
    is_acquire: bool,
    closed: bool,
    purpose: Purpose,
    /// Given back when the call is answered or stands in line.
    permit: Option<Permit>,
}

impl Node {
    /// A machine with an empty disk.
    pub fn new(world: &mut World, plan: &Plan) -> Node {
        let mut options = Options::new(world.random.bytes());
        options.segment_bytes = plan.segment_bytes;
        options.batch_bytes_max = plan.batch_bytes_max;
        options.snapshot_after_bytes = plan.segment_bytes * 2;
        Node {
            disk: FaultyDisk::new(world.random.number()),
            boot_id: world.random.bytes(),
            boot_us: -i64::try_from(world.random.between(1_000_000, 90_000_000_000)).unwrap_or(0),
            wall_ahead_ms: 0,
            plan: plan.clone(),
            options,
            process: None,
            life: 0,
            truth: Replay::new(plan.limits),
            in_doubt: None,
            errors_due: 0,
            doom: None,
            copy: None,
            copying: None,
            restored: false,
            was_restored: false,
            boot_clock_is_ahead: false,
            wall_set_unseen: false,
            wall_was_set: false,
            stop_at_renewal_us: None,
            full_until_us: 0,
            inspected: 0,
            requests: 0,
            damage_random: Random::new(world.file_random.clone().number()),
            picture_random: Some(Random::new(!world.file_random.clone().number()))
                .filter(|random| random.clone().chance(PICTURES_PER_MILLE)),
            packs: world.file_random.clone().number().is_multiple_of(2),
        }
    }

    /// The state of the running engine.
    pub fn machine(&self) -> Option<&Machine> {
        self.process.as_ref().map(|process| process.engine.machine())
    }

    /// Calls on open connections that have had no answer.
    pub fn unanswered(&self) -> usize {
        let Some(process) = &self.process else { return 0 };
        process.calls.values().filter(|call| !call.closed).count()
    }

    /// Whether it runs and has sessions to keep.
    pub fn is_live(&self) -> bool {
        self.machine().is_some_and(|machine| machine.counts().sessions > 0)
    }

    /// Whether it runs.
    pub fn is_up(&self) -> bool {
        self.process.is_some()
    }

    pub(super) fn reading(&self, now_us: u64) -> Reading {
        let raw_us = i64::try_from(now_us).unwrap_or(i64::MAX) - self.boot_us;
        let wall_ms = i64::try_from(WALL_MS + now_us / 1000).unwrap_or(0) + self.wall_ahead_ms;
        Reading { raw_us: u64::try_from(raw_us).unwrap_or(0), wall_ms: u64::try_from(wall_ms).unwrap_or(0) }
    }

    pub(super) fn real_us(&self, raw_us: u64) -> u64 {
        u64::try_from(i64::try_from(raw_us).unwrap_or(i64::MAX).saturating_add(self.boot_us)).unwrap_or(0)
    }

    /// The whole process stands still. False if there is none.
    pub fn stop(&mut self, world: &mut World, for_us: u64) -> bool {
        let until_us = world.now_us + for_us;
        let Some(process) = &mut self.process else { return false };
        world.count(FaultKind::ProcessStop);
        let begun_us =
            if process.stopped_until_us > world.now_us { process.stopped_since_us } else { world.now_us };
        process.stopped_since_us = begun_us;
        process.stopped_until_us = process.stopped_until_us.max(until_us);
        world.watch.ledger.standstills.push((world.now_us, until_us));
        world.tell("server", || format!("stands still for {} ms", for_us / 1000));
        // Then it reads its sockets, whatever else is due.
        self.turn_at(world, until_us);
        true
    }

    /// The whole process stands still from the moment in which a renewal comes in that has little time left.
    pub fn stop_at_renewal(&mut self, for_us: u64) {
        self.stop_at_renewal_us = Some(for_us);
    }

    /// The engine alone stands still.
    pub fn stall(&mut self, world: &mut World, for_us: u64) {
        let until_us = world.now_us + for_us;
        if let Some(process) = &mut self.process {
            world.count(FaultKind::EngineStall);
            process.stalled_until_us = process.stalled_until_us.max(until_us);
            world.watch.ledger.standstills.push((world.now_us, until_us));
            world.tell("server", || format!("'s engine stands still for {} ms", for_us / 1000));
        }
    }

    /// Somebody sets the wall clock.
    pub fn set_wall_clock(&mut self, world: &mut World) {
        // Both clocks wrong by the same in one absence is more than any rule could see through.
        if self.boot_clock_is_ahead {
            return;
        }
        world.count(FaultKind::WallJump);
        let by_ms = match world.random.below(4) {
            0 => YEAR_MS,
            1 => -YEAR_MS,
            2 => i64::try_from(world.random.below(100_000)).unwrap_or(0),
            _ => -i64::try_from(world.random.below(100_000)).unwrap_or(0),
        };
        self.set_wall_by(world, by_ms);
        world.tell("server", || format!("'s wall clock is set by {by_ms} ms"));
    }

    pub(super) fn set_wall_by(&mut self, world: &mut World, by_ms: i64) {
        self.wall_ahead_ms += by_ms;
        self.wall_was_set = true;
        self.wall_set_unseen = true;
        if self.was_restored {
            world.forget_tokens();
        }
    }

    /// A death strikes now, or at its worst moment.
    pub fn doom(&mut self, world: &mut World, moment: Moment, death: Death) {
        if moment == Moment::Now {
            self.die(world, death);
        } else {
            self.doom = Some((moment, death));
        }
    }

    /// Dies if a death has waited for this moment.
    pub(super) fn meets_its_doom(&mut self, world: &mut World, at: Moment) -> bool {
        match self.doom {
            Some((moment, death)) if moment == at && !world.healing => {
                self.doom = None;
                self.die(world, death);
                true
            }
            _ => false,
        }
    }

    /// A write or sync soon fails.
    pub fn fail_disk(&mut self) {
        self.errors_due = 1;
    }
}
