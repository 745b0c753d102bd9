//! Files under power loss, failing disks and crashes at any call: whatever happened, what a start finds in the files is
//! what its journal says, byte for byte; what was acknowledged is in it; and no write is in it twice.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use leasehold_engine::{
    Engine, EngineOptions, FileChange, Metrics, Reading, Replay, SyncedFold, recover_files,
};
use leasehold_files::{DiskStore, FileStore};
use leasehold_journal::{Call, Chore, ChoreKind, Fault, FaultyDisk, FileJournal, Journal, Options};
use leasehold_state_machine::answer::{Answer, LeaseView, Outcome};
use leasehold_state_machine::codec::read_batch;
use leasehold_state_machine::command::{Acquire, Attachment, Command, Proof, Request, WriteFile};
use leasehold_state_machine::event::{Event, Seq};
use leasehold_state_machine::file::{FileBytes, FileName, Offset};
use leasehold_state_machine::ids::{HashKey, Secret};
use leasehold_state_machine::limits::Limits;
use leasehold_state_machine::resource::Resource;
use leasehold_state_machine::words::{Metadata, Mode, Owner, RequestId, Ttl, Wait};

/// splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }
}

/// A machine with its disk, and everything that happened on it.
struct World {
    random: Random,
    disk: FaultyDisk,
    boot: u8,
    now_us: u64,
    drawn: u64,
    lease: Option<LeaseView>,
    /// Every change that was ever handed to a journal and may be in it, in order.
    truth: Vec<(Seq, Effect)>,
    /// Asked, and not answered.
    open: Vec<Asked>,
    answered: Vec<(Asked, Outcome)>,
    tally: Tally,
}

#[derive(Clone)]
enum Effect {
    Write { number: u64, offset: usize, bytes: Arc<[u8]>, id: String },
    Delete { number: u64 },
}

/// A change of a file as its caller would send it again.
#[derive(Clone)]
struct Asked {
    id: String,
    name: String,
    /// None deletes.
    write: Option<(Offset, Vec<u8>)>,
}

#[derive(Default, Debug)]
struct Tally {
    starts: u64,
    rewritten: u64,
    snapshots: u64,
    power_losses: u64,
    errors: u64,
    torn: u64,
    acknowledged: u64,
    repeated: u64,
    removed: u64,
}

/// A process, from its start to its end.
struct Process {
    engine: Engine,
    journal: FileJournal<FaultyDisk>,
    store: DiskStore<FaultyDisk>,
    /// Durable, and not yet in a file.
    unapplied: VecDeque<(Seq, FileChange)>,
    chores: Vec<Chore>,
    asked: BTreeMap<Attachment, Option<Asked>>,
}

impl World {
    fn new(seed: u64) -> World {
        World {
            random: Random(seed),
            disk: FaultyDisk::new(seed),
            boot: 0,
            now_us: 1_000_000_000,
            drawn: 0,
            lease: None,
            truth: Vec::new(),
            open: Vec::new(),
            answered: Vec::new(),
            tally: Tally::default(),
        }
    }

    fn reading(&mut self) -> Reading {
        self.now_us += 1_000;
        Reading { raw_us: self.now_us, wall_ms: 1_790_000_000_000 + self.now_us / 1000 }
    }

    /// Arms a fault for some later call. The machine loses its power, or the process meets an error.
    fn arm(&mut self, within: u64) {
        let fault = match self.random.below(6) {
            0 => Fault::Error,
            1 => Fault::Full,
            2 => Fault::Short,
            _ => Fault::PowerLoss,
        };
        let call = match self.random.below(4) {
            0 => Call::Sync,
            1 => Call::Write,
            _ => Call::Any,
        };
        let nth = 1 + self.random.below(within);
        self.disk.fail_nth(call, nth, fault);
    }

    /// Starts until a start succeeds, and looks at what it found.
    fn start(&mut self) -> Process {
        loop {
            match self.try_start() {
                Some(process) => return process,
                None => self.died(),
            }
        }
    }

    fn try_start(&mut self) -> Option<Process> {
        self.tally.starts += 1;
        if self.random.below(3) == 0 {
            self.arm(12);
        }
        let faults = self.disk.counts().faults;
        let options = Options {
            journal_id: [9; 16],
            segment_bytes: 32 << 10,
            batch_bytes_max: 24 << 10,
            snapshot_after_bytes: 64 << 10,
        };
        let mut replay = Replay::new(Limits::default());
        let opened = FileJournal::open(self.disk.clone(), options, &mut replay);
        let store = DiskStore::new(self.disk.clone());
        let recovered = opened.map(|(journal, recovery)| {
            let files = recover_files(&replay, &self.disk, &store);
            (journal, recovery, files)
        });
        let failed = self.disk.counts().faults > faults;
        self.disk.disarm();
        if failed {
            return None;
        }
        let (journal, recovery, files) = recovered.expect("what a crash left can be opened");
        let files = files.expect("and the files can be brought in line with it");
        self.tally.torn += u64::from(recovery.torn.is_some());
        self.tally.rewritten += files.rewritten;
        self.tally.removed += files.removed;
        self.compare(&replay, &store);
        let options = EngineOptions {
            founding_key: HashKey([1, 2]),
            restored: None,
            accept_clock: false,
            batch_bytes_max: journal.batch_bytes_max(),
            metrics: Arc::new(Metrics::default()),
        };
        let reading = self.reading();
        let (engine, _) = Engine::recover(replay, [self.boot; 16], reading, options);
        Some(Process {
            engine,
            journal,
            store,
            unapplied: VecDeque::new(),
            chores: Vec::new(),
            asked: BTreeMap::new(),
        })
    }

    /// The files hold what the journal adds up to, and nothing that was acknowledged is missing from that.
    fn compare(&mut self, replay: &Replay, store: &DiskStore<FaultyDisk>) {
        let seq = replay.machine().seq();
        self.truth.retain(|(at, _)| *at <= seq);
        let mut contents: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        let mut ids = BTreeSet::new();
        for (_, effect) in &self.truth {
            match effect {
                Effect::Write { number, offset, bytes, id } => {
                    let content = contents.entry(*number).or_default();
                    content.resize(content.len().max(offset + bytes.len()), 0);
                    content[*offset..offset + bytes.len()].copy_from_slice(bytes);
                    assert!(ids.insert(id.clone()), "{id} was carried out twice");
                }
                Effect::Delete { number } => {
                    contents.remove(number).expect("what is deleted was there");
                }
            }
        }
        let sizes: BTreeMap<u64, u64> = replay.machine().file_sizes().collect();
        let expected: BTreeMap<u64, u64> =
            contents.iter().map(|(number, content)| (*number, content.len() as u64)).collect();
        assert_eq!(sizes, expected);
        assert_eq!(store.numbers().unwrap(), contents.keys().copied().collect::<Vec<_>>());
        for (number, content) in &contents {
            let mut bytes = vec![0; store.length(*number).unwrap().unwrap() as usize];
            assert!(store.read(*number, 0, &mut bytes).unwrap());
            assert!(bytes == *content, "file {number} does not hold what was journaled");
        }
        for (asked, outcome) in &self.answered {
            if let (Ok(Answer::Wrote(_)), Some(_)) = (outcome, &asked.write) {
                assert!(ids.contains(&asked.id), "{} was acknowledged and is lost", asked.id);
            }
        }
    }

    /// The process is dead, and the machine perhaps too.
    fn died(&mut self) {
        self.disk.disarm();
        // A machine without power answers nothing.
        let dark = leasehold_journal::Disk::list(&self.disk).is_err();
        if dark || self.random.below(4) == 0 {
            self.tally.power_losses += 1;
            self.disk.crash();
            self.boot = self.boot.wrapping_add(1);
        } else {
            self.tally.errors += 1;
        }
    }

    fn request(&mut self, command: Command) -> Request {
        self.drawn += 1;
        Request {
            attachment: Attachment(self.drawn),
            arrived_raw_us: self.now_us,
            secret: Secret([self.drawn, !self.drawn]),
            command,
        }
    }

    fn asking(&mut self, process: &mut Process) -> Vec<Request> {
        let Some(lease) = self.lease.clone() else {
            let request = self.request(acquire());
            process.asked.insert(request.attachment, None);
            return vec![request];
        };
        let proof = Proof {
            resource: lease.resource.clone(),
            owner: lease.owner.clone(),
            lease: lease.lease,
            token: lease.token,
        };
        let mut asked: Vec<Asked> = Vec::new();
        for _ in 0..self.random.below(4) {
            asked.push(self.new_change());
        }
        // Who heard nothing asks again; who heard something may do so too, and hears the same.
        let unheard = |asked: &Asked| process.asked.values().flatten().all(|other| other.id != asked.id);
        asked.extend(self.open.iter().filter(|asked| unheard(asked)).cloned());
        if !self.answered.is_empty() && self.random.below(4) == 0 {
            let at = self.random.below(self.answered.len() as u64) as usize;
            asked.push(self.answered[at].0.clone());
        }
        asked
            .into_iter()
            .map(|asked| {
                let name = FileName::parse(&asked.name).unwrap();
                let id = Some(RequestId::parse(&asked.id).unwrap());
                let command = match &asked.write {
                    Some((offset, bytes)) => {
                        let bytes = FileBytes::new(bytes.as_slice());
                        Command::WriteFile(Box::new(WriteFile::new(name, *offset, bytes, proof.clone(), id)))
                    }
                    None => Command::DeleteFile { name, proof: proof.clone(), request_id: id },
                };
                if self.open.iter().all(|open| open.id != asked.id) {
                    self.open.push(asked.clone());
                }
                let request = self.request(command);
                process.asked.insert(request.attachment, Some(asked));
                request
            })
            .collect()
    }

    fn new_change(&mut self) -> Asked {
        self.drawn += 1;
        let id = format!("r{}", self.drawn);
        let name = format!("f{}", self.random.below(5));
        if self.random.below(25) == 0 {
            return Asked { id, name, write: None };
        }
        let offset = match self.random.below(3) {
            0 => Offset::End,
            // Mostly over what is there: that is where a crash could leave a mixture.
            _ => Offset::At(self.random.below(3_000)),
        };
        let length = 1 + self.random.below(1_800) as usize;
        let bytes = (0..length).map(|at| (self.drawn as usize * 31 + at) as u8).collect();
        Asked { id, name, write: Some((offset, bytes)) }
    }

    /// Lives until something fails, or until it is killed. An error: it died.
    fn live(&mut self, process: &mut Process) -> Result<(), String> {
        self.arm(400);
        for _ in 0..20 + self.random.below(150) {
            let mut arrivals = self.asking(process);
            let reading = self.reading();
            process.engine.turn(reading, &mut arrivals);
            if self.random.below(3) > 0 {
                self.commit(process)?;
            }
            for _ in 0..self.random.below(6) {
                apply_one(process)?;
            }
            if self.random.below(3) == 0 {
                self.do_chores(process)?;
            }
            self.hear(process);
        }
        Err("killed".into())
    }

    fn commit(&mut self, process: &mut Process) -> Result<(), String> {
        let Some(batch) = process.engine.take_batch() else { return Ok(()) };
        read_batch(&batch.payload, &mut |_, _, seq, event| match event {
            Event::FileWritten { number, offset, bytes, request, .. } => {
                // The id is hashed in the event; the bytes tell which one it was.
                let _ = request.expect("every write here has an id");
                let of = |asked: &&Asked| {
                    asked.write.as_ref().is_some_and(|(_, written)| written[..] == bytes.whole()[..])
                };
                let id = self.open.iter().find(of).expect("somebody asked for it").id.clone();
                let effect = Effect::Write { number, offset: offset as usize, bytes: bytes.whole(), id };
                self.truth.push((seq, effect));
            }
            Event::FileDeleted { number, .. } => self.truth.push((seq, Effect::Delete { number })),
            _ => {}
        })
        .unwrap();
        process.journal.append(&batch.payload).map_err(|error| error.to_string())?;
        process.engine.durable(batch.last_seq, 100);
        process.unapplied.extend(batch.changes);
        process.chores.extend(process.journal.chores());
        Ok(())
    }

    fn do_chores(&mut self, process: &mut Process) -> Result<(), String> {
        for chore in std::mem::take(&mut process.chores) {
            let (kind, faults) = (chore.kind(), self.disk.counts().faults);
            let Process { unapplied, store, engine, .. } = process;
            let sync = || {
                while let Some((seq, change)) = unapplied.pop_front() {
                    change.apply(store)?;
                    engine.applied(seq);
                }
                store.sync().map(|_| ())
            };
            let done = chore.run(&mut SyncedFold::new(Replay::new(Limits::default()), sync));
            process.journal.chore_done(done).map_err(|error| error.to_string())?;
            self.tally.snapshots += u64::from(kind == ChoreKind::Snapshot);
            // A snapshot that found no room is put off; everything else that fails is the end.
            let failed = self.disk.counts().faults > faults;
            assert!(!failed || kind == ChoreKind::Snapshot, "a failure is not passed over");
        }
        Ok(())
    }

    fn hear(&mut self, process: &mut Process) {
        for reply in process.engine.released().replies {
            match process.asked.remove(&reply.to).expect("somebody asked") {
                None => match reply.outcome {
                    Ok(Answer::Lease(lease)) => self.lease = Some(*lease),
                    other => panic!("{other:?}"),
                },
                Some(asked) => {
                    self.open.retain(|open| open.id != asked.id);
                    self.answer(asked, reply.outcome);
                }
            }
        }
    }

    fn answer(&mut self, asked: Asked, outcome: Outcome) {
        // A refused request leaves no trace and may be judged otherwise the next time.
        if outcome.is_err() {
            return;
        }
        self.tally.acknowledged += 1;
        match self.answered.iter().find(|(other, _)| other.id == asked.id) {
            Some((_, first)) => {
                assert_eq!(*first, outcome, "a repeat is told what the first one was told");
                self.tally.repeated += 1;
            }
            None => self.answered.push((asked, outcome)),
        }
    }
}

fn apply_one(process: &mut Process) -> Result<(), String> {
    if let Some((seq, change)) = process.unapplied.pop_front() {
        change.apply(&process.store).map_err(|error| error.to_string())?;
        process.engine.applied(seq);
    }
    Ok(())
}

fn acquire() -> Command {
    Command::Acquire(Acquire {
        resource: Resource::parse("path:/").unwrap(),
        owner: Owner::parse("w").unwrap(),
        ttl: Some(Ttl::from_ms(86_400_000).unwrap()),
        mode: Mode::Exclusive,
        wait: Wait::default(),
        session: None,
        request_id: Some(RequestId::parse("lease").unwrap()),
        metadata: Metadata::default(),
    })
}

#[test]
fn files_hold_what_was_journaled_whatever_happened() {
    let seeds = std::env::var("LEASEHOLD_SEEDS").map_or(60, |text| text.parse().unwrap());
    let mut tally = Tally::default();
    for seed in 0..seeds {
        let mut world = World::new(seed);
        for _ in 0..12 {
            let mut process = world.start();
            assert!(world.live(&mut process).is_err());
            world.died();
        }
        world.start();
        let Tally {
            starts,
            rewritten,
            snapshots,
            power_losses,
            errors,
            torn,
            acknowledged,
            repeated,
            removed,
        } = world.tally;
        tally.starts += starts;
        tally.rewritten += rewritten;
        tally.snapshots += snapshots;
        tally.power_losses += power_losses;
        tally.errors += errors;
        tally.torn += torn;
        tally.acknowledged += acknowledged;
        tally.repeated += repeated;
        tally.removed += removed;
    }
    println!("{tally:?}");
    for (what, count) in [
        ("writes made again", tally.rewritten),
        ("snapshots", tally.snapshots),
        ("power losses", tally.power_losses),
        ("errors", tally.errors),
        ("torn records", tally.torn),
        ("acknowledged", tally.acknowledged),
        ("repeats", tally.repeated),
        ("files removed at a start", tally.removed),
    ] {
        assert!(count > 0, "no {what}: {tally:?}");
    }
}
