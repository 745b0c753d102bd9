//! The journal as the server's storage threads use it: one batch at a time, chores beside it, and the end of the process
//! at the first error.

use leasehold_engine::{Pictured, Replay};
use leasehold_journal::{Call as DiskCall, Chore, ChoreDone, ChoreKind, Fault, Fold, Journal};
use leasehold_planted::{Bug, planted};
use leasehold_state_machine::codec::read_batch;
use leasehold_state_machine::event::Event;

use super::{Appending, Death, Moment, Node};
use crate::faults::FaultKind;
use crate::invariants::{Committed, Sizes, Violation};
use crate::story::tell_events;
use crate::world::{Happening, World};

impl Node {
    pub(super) fn begin_append(&mut self, world: &mut World) {
        let life = self.life;
        let origin_us = self.boot_us;
        let Some(process) = &mut self.process else { return };
        if process.appending.is_some() {
            return;
        }
        let Some(batch) = process.engine.take_batch() else { return };
        process.packed.hand_out(batch.packed);
        if batch.payload.len() * 4 > self.plan.batch_bytes_max {
            world.watch.ledger.choked(life, process.last_take_us);
        }
        process.last_take_us = world.now_us;
        let mut events = Vec::new();
        let read = read_batch(&batch.payload, &mut |_, stamp, seq, event| {
            let at_us = i64::try_from(stamp.raw_us).unwrap_or(0) + origin_us;
            let at_us = u64::try_from(at_us).unwrap_or(0);
            events.push(Committed { seq, at_us, life, wall_ms: stamp.wall_ms, event });
        });
        if let Err(error) = read {
            let sentence = format!("a batch cannot be read back: {error}");
            world.check(Err(Violation::new("determinism", sentence)));
        }
        let mut commit_us = world.random.between(100, 3_000);
        if world.unlucky(world.weather.slow_sync) {
            world.count(FaultKind::SlowSync);
            commit_us = world.random.between(300_000, 5_000_000);
        }
        if world.unlucky(world.weather.hung_sync) {
            world.count(FaultKind::HungSync);
            commit_us = world.random.between(5_000_000, 40_000_000);
        }
        if commit_us >= 300_000 {
            world.watch.ledger.standstills.push((world.now_us, world.now_us + commit_us));
            world.tell("disk", || format!("takes {} ms for a sync", commit_us / 1000));
        }
        if planted(Bug::FileBytesBeforeSync) {
            process.files.apply_early(&batch.changes);
        }
        process.appending = Some(Appending { batch, events });
        world.after(commit_us, Happening::BatchDone { life, begun_us: world.now_us });
        self.meets_its_doom(world, Moment::InAppend);
    }

    /// The disk has finished with the batch.
    pub fn batch_done(&mut self, world: &mut World, life: u64, begun_us: u64) {
        let reading = self.reading(world.now_us);
        if life != self.life {
            return;
        }
        let Some(process) = &mut self.process else { return };
        // The journal's own thread finishes; but in a stopped process nothing does.
        if process.stopped_until_us > world.now_us {
            world.at(process.stopped_until_us, Happening::BatchDone { life, begun_us });
            return;
        }
        let Some(appending) = process.appending.take() else { return };
        if self.errors_due > 0 {
            self.errors_due = 0;
            world.count(FaultKind::DiskError);
            let call = *world.random.pick(&[DiskCall::Write, DiskCall::Sync]);
            let fault = *world.random.pick(&[Fault::Error, Fault::Full, Fault::Short]);
            self.disk.fail_nth(call, 1, fault);
        }
        if let Err(error) = process.journal.append(&appending.batch.payload) {
            process.engine.storage_failed();
            // Whatever else it does before it ends, nobody hears of it.
            process.engine.turn(reading, &mut process.arrivals);
            let verdict = world.watch.silent(&process.engine.released());
            world.check(verdict);
            if self.disk_is_full() {
                world.count(FaultKind::DiskFull);
            }
            world.tell("server", || format!("exits: {error}"));
            self.doubt(appending, false);
            self.die(world, Death::Process);
            return;
        }
        self.restored = false;
        (self.wall_set_unseen, self.boot_clock_is_ahead) = (false, false);
        let last_seq = appending.batch.last_seq;
        world.tally.writes += appending.batch.changes.len() as u64;
        world.tally.grants += appending.events.iter().filter(|event| is_grant(event)).count() as u64;
        if world.trace_is_on() {
            tell_events(world, &appending.events);
        }
        let verdict = world.watch.committed(&appending.events);
        world.check(verdict);
        if world.violation.is_some() {
            return;
        }
        let _ = self.truth.replay(&appending.batch.payload);
        if self.meets_its_doom(world, Moment::BeforeReplies) {
            return;
        }
        let Some(process) = &mut self.process else { return };
        process.engine.durable(last_seq, world.now_us - begun_us);
        process.packed.durable();
        self.changes_are_durable(world, appending.batch.changes);
        if !self.take_picture(world) {
            return;
        }
        let Some(process) = &mut self.process else { return };
        for chore in process.journal.chores() {
            let after_us = world.random.between(10, 3_000_000);
            world.after(after_us, Happening::ChoreRuns { life, chore: Box::new(chore), picture: None });
        }
        // The engine hears of it with its next turn.
        let soon_us = world.random.between(1, 200);
        self.turn_at(world, world.now_us + soon_us);
    }

    /// Gives the journal a picture of the state if it wants one and there is one. Whether the process lives on.
    fn take_picture(&mut self, world: &mut World) -> bool {
        let life = self.life;
        let Some(process) = &mut self.process else { return false };
        let Some(random) = self.picture_random.as_mut().filter(|_| process.journal.wants_cut()) else {
            return true;
        };
        let Some(picture) = process.engine.picture() else { return true };
        if picture.seq() != self.truth.machine().seq() {
            let sentence = "a picture of the state holds what is not durable".to_owned();
            world.check(Err(Violation::new("durability", sentence)));
            return false;
        }
        let mut pictured = picture.with(self.truth.history().clone());
        let (mut written, mut added_up) = (Vec::new(), Vec::new());
        let both = pictured.write_snapshot(&mut written).and(self.truth.write_snapshot(&mut added_up));
        if both.is_err() || written != added_up {
            let sentence = "a picture of the state is not what the journal adds up to".to_owned();
            world.check(Err(Violation::new("determinism", sentence)));
            return false;
        }
        match process.journal.cut() {
            Ok(Some(chore)) => {
                world.count(FaultKind::Picture);
                let after_us = random.between(10, 3_000_000);
                let picture = Some(Box::new(pictured));
                world.after(after_us, Happening::ChoreRuns { life, chore: Box::new(chore), picture });
                true
            }
            Ok(None) => true,
            Err(error) => {
                world.tell("server", || format!("exits: {error}"));
                self.die(world, Death::Process);
                false
            }
        }
    }

    /// A background chore runs.
    pub fn run_chore(&mut self, world: &mut World, life: u64, chore: Chore, picture: Option<Box<Pictured>>) {
        if life != self.life {
            return;
        }
        let Some(process) = &mut self.process else { return };
        if process.stopped_until_us > world.now_us {
            let again = Happening::ChoreRuns { life, chore: Box::new(chore), picture };
            world.at(process.stopped_until_us, again);
            return;
        }
        let death = if world.random.chance(500) { Death::Power } else { Death::Process };
        let dies = world.unlucky(world.weather.died_in_chore);
        let faults = self.disk.counts().faults;
        if dies {
            let mut calls = world.random.below(10);
            if world.files {
                calls += world.file_random.below(10);
            }
            match death {
                Death::Process if world.random.chance(300) => {
                    self.disk.fail_nth(DiskCall::Any, calls + 1, Fault::Error);
                }
                Death::Power => self.disk.fail_nth(DiskCall::Any, calls + 1, Fault::PowerLoss),
                Death::Process => process.disk.die_after(calls),
            }
        }
        let is_snapshot = chore.kind() == ChoreKind::Snapshot;
        let done = match picture {
            Some(pictured) => process.files.run_chore(chore, *pictured, &mut process.engine),
            None => process.files.run_chore(chore, Replay::new(self.plan.limits), &mut process.engine),
        };
        let died = process.disk.is_dead() || self.disk.counts().faults > faults;
        process.disk.die_after(u64::MAX);
        self.disk.disarm();
        if died {
            world.count(FaultKind::DiedInChore);
            self.die(world, death);
            return;
        }
        process.full_disk_met |= done.error().is_some() && self.full_until_us > 0;
        if is_snapshot && done.error().is_none() {
            world.count(FaultKind::Snapshot);
        }
        let after_us = world.random.between(1, 500_000);
        if world.files {
            // Writes that went into their files with it can be answered.
            self.turn_at(world, world.now_us + 100);
        }
        world.after(after_us, Happening::ChoreEnds { life, done: Box::new(done) });
    }

    /// The journal hears of a chore.
    pub fn chore_ends(&mut self, world: &mut World, life: u64, done: ChoreDone) {
        if life != self.life {
            return;
        }
        let Some(process) = &mut self.process else { return };
        if let Err(error) = process.journal.chore_done(done) {
            if process.full_disk_met {
                world.count(FaultKind::DiskFull);
                world.tell("server", || format!("exits: {error}"));
                self.die(world, Death::Process);
                return;
            }
            let sentence = format!("a chore failed on a sound disk: {error}");
            world.check(Err(Violation::new("durability", sentence)));
        }
    }

    /// Looks at the whole state: the tables' own invariants, and that a replay gives the same.
    pub fn inspect(&mut self, world: &mut World) {
        let Some(process) = &self.process else { return };
        let machine = process.engine.machine();
        let granting = machine.grants_held().is_none();
        let verdict = world.watch.looked_at_the_line(world.now_us, self.life, granting);
        world.check(verdict);
        if machine.seq() == self.inspected {
            return;
        }
        if world.heeds_all() {
            machine.assert_invariants();
        }
        if machine.seq() == self.truth.machine().seq() {
            let verdict = world.watch.compare("in service", self.truth.machine(), machine);
            world.check(verdict);
            self.inspected = machine.seq();
        }
        let journal_bytes = process.journal.extent().bytes;
        let calls = process.calls.values().filter(|call| call.permit.is_some()).count();
        let sizes = Sizes { counts: machine.counts(), journal_bytes, calls };
        let verdict = world.watch.within_bounds(&sizes, &self.plan);
        world.check(verdict);
        self.inspect_files(world);
    }
}

fn is_grant(event: &Committed) -> bool {
    matches!(event.event, Event::Granted { .. })
}
