//! The server's files, on the same disk as its journal. Durable changes go into them late, in order for each file; the
//! process dies between and in the middle; a start brings them in line with the journal; and before a snapshot takes the
//! place of records, what these changed is on the disk.

use std::collections::BTreeMap;

use leasehold_engine::{Engine, FileChange, FilesError, FilesRecovered, Replay, SyncedFold, recover_files};
use leasehold_files::{DiskStore, FileStore};
use leasehold_journal::{Call as DiskCall, Chore, ChoreDone, Disk, DiskFile, Fault, Fold};
use leasehold_state_machine::answer::{Answer, FileView, Refusal};
use leasehold_state_machine::command::Command;
use leasehold_state_machine::event::Seq;

use super::{Death, Moment, Node};
use crate::disk::GuardedDisk;
use crate::faults::FaultKind;
use crate::invariants::{Read, Reply};
use crate::world::{Happening, World};

/// The files as one process has them.
pub(super) struct Files {
    store: DiskStore<GuardedDisk>,
    /// Durable, and not yet in its file.
    unapplied: Vec<(Seq, FileChange)>,
}

impl Files {
    /// Those on a disk.
    pub(super) fn new(disk: &GuardedDisk) -> Files {
        Files { store: DiskStore::new(disk.clone()), unapplied: Vec::new() }
    }

    /// Brings them in line with the journal.
    pub(super) fn recover(&self, replay: &Replay, disk: &GuardedDisk) -> Result<FilesRecovered, FilesError> {
        recover_files(replay, disk, &self.store)
    }

    /// Looks at what a start made of them.
    pub(super) fn recovered(&self, world: &mut World, brought: Option<Result<FilesRecovered, FilesError>>) {
        match brought {
            Some(Ok(done)) => {
                if done.rewritten > 0 {
                    world.count(FaultKind::RewrittenFile);
                    world.tell("server", || format!("brings its files in line: {done:?}"));
                }
            }
            Some(Err(error)) => {
                let verdict = world.watch.files_refused(&error.to_string());
                world.check(verdict);
                return;
            }
            None => return,
        }
        let found = self.found();
        let verdict = world.watch.files_found(&found, |_| true);
        world.check(verdict);
    }

    fn found(&self) -> BTreeMap<u64, Vec<u8>> {
        let numbers = self.store.numbers().unwrap_or_default();
        numbers.into_iter().filter_map(|number| Some((number, self.whole(number)?))).collect()
    }

    fn whole(&self, number: u64) -> Option<Vec<u8>> {
        let length = self.store.length(number).ok()??;
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        self.store.read(number, 0, &mut bytes).ok()?.then_some(bytes)
    }

    /// A planted bug: the bytes of a batch that is not yet durable.
    pub(super) fn apply_early(&self, changes: &[(Seq, FileChange)]) {
        for (_, change) in changes {
            let _ = change.apply(&self.store);
        }
    }

    /// Runs a chore. Every durable change is in its file, and on the disk, before a snapshot is written.
    pub(super) fn run_chore(&mut self, chore: Chore, fold: impl Fold, engine: &mut Engine) -> ChoreDone {
        let Files { store, unapplied } = self;
        chore.run(&mut SyncedFold::new(fold, || {
            while !unapplied.is_empty() {
                let (seq, change) = unapplied.remove(0);
                change.apply(store)?;
                engine.applied(seq);
            }
            store.sync().map(|_| ())
        }))
    }

    /// A reply leaves that may speak of a file.
    pub(super) fn replied(&mut self, world: &mut World, life: u64, reply: &Reply<'_>) {
        match reply.outcome {
            Ok(Answer::File(view)) => {
                let after_us = world.file_random.below(20_000);
                world.after(after_us, Happening::FileRead { life, view: view.clone() });
            }
            Ok(Answer::Wrote(written)) => {
                let found = world.watch.changed(reply);
                let verdict = found.and_then(|found| match found {
                    Some((number, since)) if written.length > 0 => {
                        self.read(number, written.offset, written.length, |bytes| {
                            let offset = usize::try_from(written.offset).unwrap_or(usize::MAX);
                            world.watch.holds_write(&Read { number, since, offset, bytes })
                        })
                    }
                    _ => Ok(()),
                });
                world.check(verdict);
            }
            Ok(Answer::Deleted) => {
                let verdict = world.watch.changed(reply).map(|_| ());
                world.check(verdict);
            }
            Err(Refusal::LeaseExpired | Refusal::Released | Refusal::StaleToken { .. }) => {
                let attempt = world.watch.ledger.attempt(reply.to);
                if attempt.is_some_and(|attempt| matches!(attempt.command, Command::WriteFile(_))) {
                    world.count(FaultKind::FencedOff);
                }
            }
            _ => {}
        }
    }

    /// Reads bytes as one call does. Where a file ends too early, the bytes up to there.
    fn read<T>(&self, number: u64, offset: u64, length: u64, then: impl FnOnce(Option<&[u8]>) -> T) -> T {
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        match self.store.read(number, offset, &mut bytes) {
            Ok(true) => then(Some(&bytes)),
            _ => then(None),
        }
    }
}

impl Node {
    /// A batch has become durable: what it changes in files is due.
    pub(super) fn changes_are_durable(&mut self, world: &mut World, changes: Vec<(Seq, FileChange)>) {
        let life = self.life;
        let Some(process) = &mut self.process else { return };
        for (seq, change) in changes {
            let mut after_us = world.file_random.between(10, 5_000);
            if world.unlucky_with_files(20) {
                world.count(FaultKind::SlowFile);
                after_us = world.file_random.between(100_000, 5_000_000);
            }
            world.after(after_us, Happening::ChangeDue { life });
            process.files.unapplied.push((seq, change));
        }
    }

    /// One change goes into its file: whichever, but for each file in order.
    pub fn change_is_due(&mut self, world: &mut World, life: u64) {
        if life != self.life {
            return;
        }
        let reading = self.reading(world.now_us);
        let Some(process) = &mut self.process else { return };
        if process.stopped_until_us > world.now_us {
            world.at(process.stopped_until_us, Happening::ChangeDue { life });
            return;
        }
        let unapplied = &mut process.files.unapplied;
        // A snapshot may have been first.
        if unapplied.is_empty() {
            return;
        }
        let any = usize::try_from(world.file_random.below(unapplied.len() as u64)).unwrap_or(0);
        let number = unapplied[any].1.number;
        let first = unapplied.iter().position(|(_, change)| change.number == number).unwrap_or(any);
        let (seq, change) = unapplied.remove(first);

        let doom = self.doom.filter(|(moment, _)| *moment == Moment::InFiles && !world.healing);
        let calls = world.file_random.below(3);
        match doom {
            Some((_, Death::Power)) => self.disk.fail_nth(DiskCall::Any, calls + 1, Fault::PowerLoss),
            Some((_, Death::Process)) if calls == 2 => self.disk.fail_nth(DiskCall::Write, 1, Fault::Short),
            Some((_, Death::Process)) => process.disk.die_after(calls),
            None if self.errors_due > 0 => {
                self.errors_due = 0;
                world.count(FaultKind::DiskError);
                let fault = *world.file_random.pick(&[Fault::Error, Fault::Full, Fault::Short]);
                self.disk.fail_nth(DiskCall::Write, 1, fault);
            }
            None => {}
        }
        let applied = change.apply(&process.files.store);
        if let Some((_, death)) = doom {
            self.doom = None;
            world.count(FaultKind::DiedInFiles);
            self.die(world, death);
            return;
        }
        self.disk.disarm();
        if let Err(error) = applied {
            process.engine.storage_failed();
            process.engine.turn(reading, &mut process.arrivals);
            let verdict = world.watch.silent(&process.engine.released());
            world.check(verdict);
            if self.disk_is_full() {
                world.count(FaultKind::DiskFull);
            }
            world.tell("server", || format!("exits: {error}"));
            self.die(world, Death::Process);
            return;
        }
        process.engine.applied(seq);
        let soon_us = world.file_random.between(1, 200);
        self.turn_at(world, world.now_us + soon_us);
    }

    /// Somebody reads a file, up to the size that was told.
    pub fn read_file(&mut self, world: &mut World, life: u64, view: &FileView) {
        let Some(process) = self.process.as_ref().filter(|_| life == self.life) else { return };
        if view.size == 0 {
            return;
        }
        let offset = world.file_random.below(view.size);
        let length = view.size - offset;
        let (number, since) = (view.number, view.version);
        let verdict = process.files.read(number, offset, length, |bytes| {
            let offset = usize::try_from(offset).unwrap_or(usize::MAX);
            world.watch.read(&Read { number, since, offset, bytes })
        });
        world.check(verdict);
    }

    /// Looks at the files that nothing is on its way to.
    pub(super) fn inspect_files(&mut self, world: &mut World) {
        let Some(process) = &self.process else { return };
        let found = process.files.found();
        let waits = |number| process.files.unapplied.iter().any(|(_, change)| change.number == number);
        let verdict = world.watch.files_found(&found, |number| !waits(number));
        world.check(verdict);
    }

    /// Power was lost, and some file came back longer than it was.
    pub(super) fn leave_a_file_too_long(&mut self, world: &mut World) {
        if !world.unlucky_with_files(300) {
            return;
        }
        let names = self.disk.list().unwrap_or_default();
        let names: Vec<String> = names.into_iter().filter(|name| name.parse::<u64>().is_ok()).collect();
        if names.is_empty() {
            return;
        }
        let name = world.file_random.pick(&names).clone();
        let length = usize::try_from(world.file_random.between(1, 3_000)).unwrap_or(1);
        let Ok(mut file) = self.disk.open(&name) else { return };
        let written = file.len().and_then(|end| file.write_at(end, &vec![0xee; length]));
        if written.and_then(|()| file.sync()).is_ok() {
            world.count(FaultKind::LongFile);
            world.tell("disk", || format!("gives file {name} {length} bytes too many"));
        }
    }
}
