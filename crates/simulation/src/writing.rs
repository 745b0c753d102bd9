//! What a client does with files: under the leases it holds, and now and then under one that it has lost, that is shared or
//! that does not cover them. Repeats what had no answer, with a request id or without. Looks at no clock before it
//! writes: whether it may is the server's to judge.

use std::collections::BTreeMap;

use leasehold_state_machine::answer::{Answer, Outcome};
use leasehold_state_machine::command::{Command, Proof, WriteFile};
use leasehold_state_machine::file::{FileBytes, FileName, Offset};
use leasehold_state_machine::resource::{Kind, Resource};
use leasehold_state_machine::words::RequestId;

use crate::client::{Alarm, Client};
use crate::faults::FaultKind;
use crate::ledger::MARK_BYTES;
use crate::network::{CallId, Network, Purpose};
use crate::random::Random;
use crate::task::Phase;
use crate::world::World;

/// Names under the paths that are locked, some of them where a folder would be.
const NAMES: [&str; 6] = ["a/b/c", "a/bc", "a/b", "log", "x/y/z", "x/y"];
/// Paths that are locked beside those that everybody wants.
const PATHS: [&str; 4] = ["path:/log", "path:/x/y/z", "path:/x", "path:/a/bc"];
/// Bytes of a file that are locked.
const RANGES: [&str; 5] = ["0-100", "50-400", "100-1000", "400-4096", "0-4096"];
/// How many leases of the past a client remembers.
const PAST_MAX: usize = 6;

/// What a client knows of files.
#[derive(Debug, Default)]
pub struct Desk {
    /// Number and size, as they were last told.
    known: BTreeMap<FileName, (u64, u64)>,
    /// What it was granted, long over or not.
    past: Vec<Proof>,
    /// Counts its writes, for their marks.
    writes: u32,
}

impl Desk {
    /// Something to lock that has to do with files; none if it should be what everybody wants.
    pub fn resource(&self, random: &mut Random) -> Option<Resource> {
        let numbers: Vec<u64> = self.known.values().map(|(number, _)| *number).collect();
        let text = match random.below(10) {
            0..=2 => (*random.pick(&PATHS)).to_owned(),
            3 if !numbers.is_empty() => format!("inode:{}", random.pick(&numbers)),
            4..=5 if !numbers.is_empty() => {
                format!("range:{}:{}", random.pick(&numbers), random.pick(&RANGES))
            }
            _ => return None,
        };
        Resource::parse(&text).ok()
    }

    /// A file for this lock: mostly one that it covers.
    fn name(&self, random: &mut Random, held: &Resource) -> FileName {
        let covered: Vec<FileName> = NAMES.iter().filter_map(|text| FileName::parse(text).ok()).collect();
        let fitting: Vec<&FileName> = match held.kind() {
            Kind::Path(_) => covered.iter().filter(|name| held.covers(name.path())).collect(),
            Kind::Bytes(bytes) => self
                .known
                .iter()
                .filter(|(_, (number, _))| *number == bytes.inode)
                .map(|(name, _)| name)
                .collect(),
            Kind::Name(_) => Vec::new(),
        };
        if fitting.is_empty() || random.chance(60) {
            return random.pick(&covered).clone();
        }
        (*random.pick(&fitting)).clone()
    }

    /// Bytes that no other write begins with; or none, or too many.
    fn bytes(&mut self, random: &mut Random, client: usize) -> FileBytes {
        let length = match random.below(100) {
            0..=2 => return FileBytes::new(Vec::new()),
            3 => 3_000,
            4..=14 => random.between(MARK_BYTES as u64, 1_800),
            _ => random.between(MARK_BYTES as u64, 300),
        };
        self.writes += 1;
        let mark = (u64::try_from(client).unwrap_or(0) << 32) | u64::from(self.writes);
        let fill = mark.to_le_bytes()[0] ^ 0x5a;
        let mut bytes = mark.to_be_bytes().to_vec();
        bytes.resize(usize::try_from(length).unwrap_or(MARK_BYTES), fill);
        FileBytes::new(bytes)
    }

    fn offset(&self, random: &mut Random, name: &FileName, held: &Resource) -> Offset {
        let size = self.known.get(name).map_or(0, |(_, size)| *size);
        match (held.kind(), random.below(20)) {
            (_, 0) => Offset::At(size + random.below(50)),
            (Kind::Bytes(held), 1..=15) => Offset::At(held.start.min(size) + random.below(100)),
            (_, 1..=9) => Offset::At(random.below(size + 1)),
            _ => Offset::End,
        }
    }
}

impl Client {
    /// It was granted a lease: it will write under it, a few times.
    pub fn takes_up_the_pen(&mut self, world: &mut World, number: u64) {
        if !world.files {
            return;
        }
        let Some(lease) = self.tasks.get(&number).and_then(|task| task.lease) else { return };
        let proof = self.proof(number, lease);
        // Few locks have to do with files; nearly all writes should.
        let named = matches!(proof.resource.kind(), Kind::Name(_));
        if named && !world.file_random.chance(50) {
            return;
        }
        self.desk.past.push(proof);
        if self.desk.past.len() > PAST_MAX {
            self.desk.past.remove(0);
        }
        let (after_us, left) = (world.file_random.between(500, 300_000), world.file_random.below(8));
        self.wake_after(world, after_us, Alarm::Write { task: number, left });
    }

    /// An alarm set by [`Client::takes_up_the_pen`].
    pub fn write_on(&mut self, world: &mut World, network: &mut Network, number: u64, left: u64) {
        let holding = self.tasks.get(&number).filter(|task| task.phase == Phase::Holding);
        let Some(lease) = holding.and_then(|task| task.lease).filter(|_| !world.healing) else { return };
        let proof = self.proof(number, lease);
        self.change_a_file(world, network, &proof);
        if left > 0 {
            let after_us = match world.file_random.below(3) {
                0 => world.file_random.below(200),
                1 => world.file_random.between(200, 20_000),
                _ => world.file_random.between(20_000, 1_000_000),
            };
            self.wake_after(world, after_us, Alarm::Write { task: number, left: left - 1 });
        }
    }

    /// Looks at a file, or writes under a lease of the past.
    pub fn turns_to_files(&mut self, world: &mut World, network: &mut Network) {
        let past = world.file_random.below(2 * PAST_MAX as u64);
        let past = usize::try_from(past).ok().and_then(|past| self.desk.past.get(past).cloned());
        match past {
            Some(proof) if world.file_random.chance(600) => self.change_a_file(world, network, &proof),
            _ => {
                let text = world.file_random.pick(&NAMES);
                let Ok(name) = FileName::parse(text) else { return };
                let command = if world.more_random.chance(300) {
                    Command::ListFiles { prefix: String::new(), limit: 100, cursor: None }
                } else {
                    Command::StatFile { name }
                };
                self.send(world, network, (0, Purpose::File), command, 2_000_000);
            }
        }
    }

    fn change_a_file(&mut self, world: &mut World, network: &mut Network, proof: &Proof) {
        let mut proof = proof.clone();
        let random = &mut world.file_random;
        let name = self.desk.name(random, &proof.resource);
        match random.below(60) {
            0 => proof.token += 1,
            1 => proof.lease.secret.0[0] ^= 1,
            _ => {}
        }
        let request_id = random.chance(650).then(|| self.fresh_id_for_a_file());
        let command = match random.below(100) {
            0..=7 => Command::DeleteFile { name, proof, request_id },
            8..=19 => Command::StatFile { name },
            _ => {
                let offset = self.desk.offset(random, &name, &proof.resource);
                let bytes = self.desk.bytes(random, self.number);
                Command::WriteFile(Box::new(WriteFile::new(name, offset, bytes, proof, request_id)))
            }
        };
        // Some of those without an id try again all the same, and may write twice.
        let stubborn = request_id_of(&command).is_some() || random.chance(300);
        let tries = if stubborn { 5 } else { 0 };
        self.send_change(world, network, command, tries);
    }

    fn fresh_id_for_a_file(&mut self) -> RequestId {
        let number = self.fresh();
        let Ok(id) = RequestId::parse(&format!("f{number}")) else { unreachable!("a short word is an id") };
        id
    }

    fn send_change(&mut self, world: &mut World, network: &mut Network, command: Command, tries: u64) {
        let patience_us = match world.file_random.below(4) {
            0 => world.file_random.between(1_000, 100_000),
            _ => world.file_random.between(300_000, 2_000_000),
        };
        let call = self.send(world, network, (0, Purpose::File), command.clone(), patience_us);
        self.errands.insert(call, (command, tries));
    }

    /// An answer about a file.
    pub fn file_answered(&mut self, world: &mut World, network: &mut Network, id: CallId, outcome: &Outcome) {
        let asked = self.errands.remove(&id);
        match (&asked, outcome) {
            (_, Ok(Answer::File(view))) => {
                self.desk.known.insert(view.name.clone(), (view.number, view.size));
            }
            (Some((Command::WriteFile(wanted), _)), Ok(Answer::Wrote(written))) => {
                if let Some((_, size)) = self.desk.known.get_mut(&wanted.name) {
                    *size = written.size;
                }
            }
            (Some((Command::DeleteFile { name, .. }, _)), Ok(Answer::Deleted)) => {
                self.desk.known.remove(name);
            }
            _ => {}
        }
        if let Some((Command::WriteFile(wanted), _)) = &asked
            && wanted.request_id.is_some()
            && outcome.is_ok()
            && world.unlucky_with_more(60)
        {
            world.count(FaultKind::OtherBytes);
            let WriteFile { name, offset, proof, request_id, .. } = *wanted.clone();
            let bytes = self.desk.bytes(&mut world.more_random, self.number);
            let other = WriteFile::new(name, offset, bytes, proof, request_id);
            self.send_change(world, network, Command::WriteFile(Box::new(other)), 0);
        }
        // Some ask again though they were told, as after a restart of their own.
        if let Some((command, _)) = asked
            && request_id_of(&command).is_some()
            && world.unlucky_with_files(60)
        {
            self.send_change(world, network, command, 0);
        }
    }

    /// No answer about a file.
    pub fn file_failed(&mut self, world: &mut World, network: &mut Network, id: CallId) {
        if let Some((command, tries)) = self.errands.remove(&id)
            && tries > 0
        {
            self.send_change(world, network, command, tries - 1);
        }
    }
}

fn request_id_of(command: &Command) -> Option<&RequestId> {
    match command {
        Command::WriteFile(write) => write.request_id.as_ref(),
        Command::DeleteFile { request_id, .. } => request_id.as_ref(),
        _ => None,
    }
}

/// Whether a lock is on bytes that are there only as long as their file.
pub fn is_of_a_file(resource: &Resource) -> bool {
    use leasehold_state_machine::limits::FILE_INODE_FIRST;
    matches!(resource.kind(), Kind::Bytes(held) if held.inode >= FILE_INODE_FIRST)
}
