//! A server's lives: it starts on what its disk holds, and ends by a kill or a loss of power, in the middle of anything.

use std::collections::BTreeMap;
use std::sync::Arc;

use leasehold_engine::{Admission, Engine, EngineOptions, Metrics, Replay, Restored};
use leasehold_journal::{Call as DiskCall, Fault, FaultyDisk, FileJournal, Fold, Journal};
use leasehold_state_machine::ids::HashKey;

use super::files::Files;
use super::packed::Packed;
use super::{Appending, Copy, Copying, Death, InDoubt, Node, Process};
use crate::disk::GuardedDisk;
use crate::faults::FaultKind;
use crate::invariants::Violation;
use crate::network::Network;
use crate::story::tell_events;
use crate::workload;
use crate::world::{Happening, World};

/// The snapshots among the files of a data directory.
fn snapshots(files: &BTreeMap<String, Vec<u8>>) -> Vec<String> {
    files.keys().filter(|name| name.starts_with("snapshot-")).cloned().collect()
}

impl Node {
    /// Somebody begins to copy the data directory of the running server: first what lies in files.
    pub fn back_up(&mut self, world: &mut World) {
        if self.process.is_some() {
            world.tell("operator", || "begins to copy the data directory".into());
            let mut files = self.disk.contents();
            let snapshots = snapshots(&files);
            files.retain(|name, _| name.parse::<u64>().is_ok());
            self.copying = Some(Copying { files, snapshots, boot_id: self.boot_id });
            let after_us = world.more_random.below(3_000_000);
            world.after(after_us, Happening::BackupEnds);
        }
    }

    /// Then the journal, as the server's own backup copies it. It may be newer than the files by now, as long as it still has
    /// all that they may lack: with a snapshot made meanwhile the copy is begun anew.
    pub fn backup_ends(&mut self, world: &mut World) {
        let Some(Copying { mut files, snapshots: before, boot_id }) = self.copying.take() else { return };
        if self.process.is_none() || boot_id != self.boot_id {
            return;
        }
        if snapshots(&self.disk.contents()) != before {
            world.count(FaultKind::BackupBegunAnew);
            return self.back_up(world);
        }
        let target = FaultyDisk::new(0);
        if let Err(error) = leasehold_journal::backup(&self.disk, &target) {
            let sentence = format!("the data directory of a running server cannot be copied: {error}");
            world.check(Err(Violation::new("durability", sentence)));
            return;
        }
        world.tell("operator", || "has a copy of the data directory".into());
        files.append(&mut target.contents());
        self.copy = Some(Copy { files, memory: world.watch.remember() });
    }

    /// Somebody puts the copy back in place of what there is.
    pub fn restore(&mut self, world: &mut World) {
        let (Some(copy), true) = (self.copy.take(), self.process.is_some()) else { return };
        self.die(world, Death::Process);
        world.count(FaultKind::Restored);
        world.tell("operator", || "puts the copy of the data directory back".into());
        self.disk = FaultyDisk::holding(world.random.number(), &copy.files);
        self.in_doubt = None;
        self.copying = None;
        self.restored = true;
        self.was_restored = true;
        world.watch.restore(copy.memory);
        if self.wall_was_set {
            world.forget_tokens();
        }
        // What is on the copy is the truth from now on.
        let mut truth = Replay::new(self.plan.limits);
        let disk = GuardedDisk::new(FaultyDisk::holding(0, &copy.files));
        if let Err(error) = FileJournal::open(disk, self.options.clone(), &mut truth) {
            let sentence = format!("a copy of the data directory cannot be opened: {error}");
            world.check(Err(Violation::new("durability", sentence)));
        }
        self.truth = truth;
    }

    /// Starts the process.
    pub fn start(&mut self, world: &mut World) {
        if self.process.is_some() {
            return;
        }
        self.try_a_damaged_copy(world);
        let disk = GuardedDisk::new(self.disk.clone());
        let power = world.random.chance(500);
        if world.unlucky(world.weather.died_opening) {
            let mut calls = world.random.below(6);
            if world.unlucky_with_files(500) {
                calls += world.file_random.below(30);
            }
            if power {
                self.disk.fail_nth(DiskCall::Any, calls + 1, Fault::PowerLoss);
            } else if world.random.chance(300) {
                self.disk.fail_nth(DiskCall::Any, calls + 1, Fault::Error);
            } else {
                disk.die_after(calls);
            }
        }
        let faults = self.disk.counts().faults;
        let mut replay = Replay::new(self.plan.limits);
        let files = Files::new(&disk);
        let opened = FileJournal::open(disk.clone(), self.options.clone(), &mut replay);
        let brought = opened.is_ok().then(|| files.recover(&replay, &disk));
        let died = disk.is_dead() || self.disk.counts().faults > faults;
        disk.die_after(u64::MAX);
        self.disk.disarm();
        if died {
            world.count(FaultKind::DiedOpening);
            world.tell("server", || "dies while starting".into());
            if power {
                self.lose_power(world);
            }
            let soon_us = world.random.between(10_000, 2_000_000);
            world.after(soon_us, Happening::Start);
            return;
        }
        if self.disk_is_full() && (opened.is_err() || brought.as_ref().is_some_and(Result::is_err)) {
            world.count(FaultKind::DiskFull);
            world.tell("server", || "cannot start on a full disk".into());
            world.after(1_000_000, Happening::Start);
            return;
        }
        let (journal, recovery) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                let sentence = format!("the server does not start on what its crash left: {error}");
                world.check(Err(Violation::new("durability", sentence)));
                return;
            }
        };
        if recovery.torn.is_some() {
            world.count(FaultKind::TornRecord);
        }
        self.life += 1;
        if !self.settle_doubt(world, &replay) {
            return;
        }
        files.recovered(world, brought);
        let verdict = world.watch.compare("after a restart", self.truth.machine(), replay.machine());
        world.check(verdict);

        let reading = self.reading(world.now_us);
        let options = EngineOptions {
            founding_key: HashKey([world.random.number(), world.random.number()]),
            restored: self
                .restored
                .then_some(Restored { for_ms: Some(workload::ttl_us_max(world.is_quiet()) / 1000) }),
            accept_clock: false,
            batch_bytes_max: self.plan.batch_bytes_max,
            metrics: Arc::new(Metrics::default()),
        };
        let (engine, recovered) = Engine::recover(replay, self.boot_id, reading, options);
        world.tell("server", || {
            format!(
                "starts (life {}, {}): {} leases, {} expired meanwhile, {} waiters{}",
                self.life,
                if recovered.same_boot { "the same boot" } else { "elsewhere" },
                recovered.leases,
                recovered.expired,
                recovered.waiters,
                if recovery.torn.is_some() { ", a torn record dropped" } else { "" }
            )
        });
        world.watch.ledger.started(self.life, world.now_us);
        self.process = Some(Process {
            engine,
            journal,
            disk,
            files,
            arrivals: Vec::new(),
            packed: Packed::default(),
            calls: BTreeMap::new(),
            by_call: BTreeMap::new(),
            next_attachment: 0,
            socket: Vec::new(),
            appending: None,
            next_turn_us: None,
            stopped_since_us: 0,
            stopped_until_us: 0,
            stalled_until_us: 0,
            last_take_us: world.now_us,
            admission: Admission::new(self.plan.admission),
            short_of_room: false,
            room_looked_us: 0,
            full_disk_met: false,
        });
        self.hand_over(world);
    }

    /// Finds out whether the batch that was with the disk at the crash is there, and whether all others are.
    fn settle_doubt(&mut self, world: &mut World, replay: &Replay) -> bool {
        let found = replay.machine().seq();
        let known = self.truth.machine().seq();
        let mut possible = Vec::new();
        let doubt = self.in_doubt.take();
        let last = doubt.as_ref().and_then(|doubt| doubt.events.last()).map(|event| event.seq);
        if doubt.as_ref().is_none_or(|doubt| !doubt.certain) {
            possible.push(known);
        }
        possible.extend(last);
        if let Some(doubt) = doubt
            && Some(found) == last
        {
            let events = doubt.events;
            if world.trace_is_on() {
                tell_events(world, &events);
            }
            let verdict = world.watch.committed(&events);
            world.check(verdict);
            if world.violation.is_some() {
                return false;
            }
            let _ = self.truth.replay(&doubt.payload);
        }
        let verdict = world.watch.recovered(found, &possible);
        let fine = verdict.is_ok();
        world.check(verdict);
        fine
    }

    /// The process ends, one way or the other, and comes back after a while.
    pub fn die(&mut self, world: &mut World, death: Death) {
        let Some(mut process) = self.process.take() else { return };
        world.count(if death == Death::Power { FaultKind::PowerLoss } else { FaultKind::Kill });
        world.tell("server", || match death {
            Death::Power => "loses power".into(),
            Death::Process => "is killed".into(),
        });
        if let Some(appending) = process.appending.take() {
            let mut certain = false;
            let how = world.random.below(3);
            if how > 0 {
                if how == 1 {
                    world.count(FaultKind::DiedInAppend);
                    let calls = world.random.below(3);
                    match death {
                        Death::Power => self.disk.fail_nth(DiskCall::Any, calls + 1, Fault::PowerLoss),
                        Death::Process => process.disk.die_after(calls),
                    }
                }
                certain = process.journal.append(&appending.batch.payload).is_ok();
            }
            self.doubt(appending, certain);
        }
        process.disk.die();
        self.disk.disarm();
        if death == Death::Power {
            self.lose_power(world);
        }
        for call in process.calls.values().filter(|call| !call.closed).filter_map(|call| call.call) {
            Network::reset(world, call);
        }
        self.come_back(world);
    }

    pub(super) fn doubt(&mut self, appending: Appending, certain: bool) {
        let payload = appending.batch.payload;
        self.in_doubt = Some(InDoubt { payload, events: appending.events, certain });
    }

    pub(super) fn lose_power(&mut self, world: &mut World) {
        let before = self.disk.counts();
        self.disk.crash();
        if self.disk.counts().sectors_lost > before.sectors_lost {
            world.count(FaultKind::LostSectors);
        }
        self.leave_a_file_too_long(world);
        self.boot_id = world.random.bytes();
        // A fresh boot, or another machine that has been up for long.
        let most_us = *world.random.pick(&[60_000_000, 200_000_000_000]);
        let up_us = i64::try_from(world.random.between(1_000_000, most_us)).unwrap_or(0);
        self.boot_us = i64::try_from(world.now_us).unwrap_or(0) - up_us;
    }

    /// What happens while it is away, and when it starts again.
    fn come_back(&mut self, world: &mut World) {
        let away_us = match world.random.below(3) {
            0 => world.random.between(1_000, 300_000),
            1 => world.random.between(100_000, 5_000_000),
            _ => world.random.between(1_000_000, 40_000_000),
        };
        let away_us = if world.healing { 100_000 } else { away_us };
        if !world.healing {
            match world.random.below(10) {
                0 if !self.boot_clock_is_ahead => {
                    world.count(FaultKind::Disagreement);
                    let by_ms = i64::try_from(world.random.between(1_100, 10_000_000)).unwrap_or(0);
                    let by_ms = if world.random.chance(500) { by_ms } else { -by_ms };
                    self.set_wall_by(world, by_ms);
                }
                1 => {
                    world.count(FaultKind::BootClockBack);
                    let by_us =
                        world.random.between(1, 60_000_000).min(self.reading(world.now_us).raw_us / 2);
                    self.boot_us += i64::try_from(by_us).unwrap_or(0);
                }
                2 if !self.wall_set_unseen => {
                    world.count(FaultKind::BootClockAhead);
                    self.boot_clock_is_ahead = true;
                    self.boot_us -= i64::try_from(world.random.between(1_100_000, 60_000_000)).unwrap_or(0);
                }
                _ => {}
            }
        }
        world.after(away_us, Happening::Start);
    }
}
