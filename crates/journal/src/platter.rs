//! What a simulated disk holds: bytes and names as programs see them, beside those that are really on the disk, and
//! what a crash makes of the difference. Hands out nothing by itself; see `faulty.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use crate::fault::{Call, Counts, Fault, no_power};
use crate::limits::SECTOR_BYTES;

pub(crate) struct State {
    pub random: u64,
    pub files: BTreeMap<u64, Inode>,
    pub next_inode: u64,
    /// The folder as programs see it.
    pub names: BTreeMap<String, u64>,
    /// The folder as it is on the disk.
    pub durable_names: BTreeMap<String, u64>,
    /// What leads from the one to the other, in order.
    pub unsynced_names: Vec<Renaming>,
    pub armed: Vec<(Call, u64, Fault)>,
    pub power: bool,
    /// Counts crashes: files opened in an earlier life are closed.
    pub life: u64,
    pub capacity: Option<u64>,
    pub counts: Counts,
}

#[derive(Clone, Default)]
pub(crate) struct Inode {
    /// The content as programs see it.
    pub seen: Vec<u8>,
    /// The content as it is on the disk.
    pub durable: Vec<u8>,
    /// Sectors that the next sync will bring to the disk.
    pub unsynced: BTreeSet<usize>,
}

/// A change of the folder: a name taken away, a name given.
#[derive(Clone)]
pub(crate) struct Renaming {
    pub from: Option<String>,
    pub to: Option<(String, u64)>,
}

impl State {
    /// An empty disk.
    pub fn new(seed: u64) -> Self {
        Self {
            random: seed,
            files: BTreeMap::new(),
            next_inode: 0,
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            unsynced_names: Vec::new(),
            armed: Vec::new(),
            power: true,
            life: 0,
            capacity: None,
            counts: Counts::default(),
        }
    }

    /// splitmix64.
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        if bound == 0 { 0 } else { usize::try_from(self.random() % bound as u64).unwrap_or(0) }
    }

    pub fn add(&mut self, file: Inode) -> u64 {
        self.next_inode += 1;
        self.files.insert(self.next_inode, file);
        self.next_inode
    }

    pub fn used_bytes(&self) -> u64 {
        let size = |inode| self.files.get(inode).map_or(0, |file| file.seen.len() as u64);
        self.names.values().map(size).sum()
    }

    /// Counts a call, and says whether it is to fail.
    pub fn begin(&mut self, call: Call) -> io::Result<Option<Fault>> {
        if !self.power {
            return Err(no_power());
        }
        self.counts.calls += 1;
        let mut fault = None;
        for (kind, nth, what) in &mut self.armed {
            if *kind == call || *kind == Call::Any {
                *nth -= 1;
                if *nth == 0 {
                    fault = Some(*what);
                }
            }
        }
        self.armed.retain(|(_, nth, _)| *nth > 0);
        if let Some(fault) = fault {
            self.counts.faults += 1;
            self.power = fault != Fault::PowerLoss;
        }
        Ok(fault)
    }

    /// Which of so many unsynced things survive: none, all, a beginning, an end, all but one, or any.
    pub fn survivors(&mut self, count: usize) -> Vec<bool> {
        let (shape, at) = (self.below(6), self.below(count + 1));
        (0..count)
            .map(|place| match shape {
                0 => false,
                1 => true,
                2 => place < at,
                3 => place >= at,
                4 => place != at,
                _ => self.random() & 1 == 0,
            })
            .collect()
    }

    pub fn crash(&mut self) {
        self.counts.crashes += 1;
        self.life += 1;
        self.power = true;
        self.armed.clear();
        let inodes: Vec<u64> = self.files.keys().copied().collect();
        for inode in inodes {
            let mut file = self.files.remove(&inode).unwrap_or_default();
            self.crash_file(&mut file);
            self.files.insert(inode, file);
        }
        let changes = std::mem::take(&mut self.unsynced_names);
        let survive = self.survivors(changes.len());
        for (change, survives) in changes.into_iter().zip(survive) {
            if survives {
                change.apply(&mut self.durable_names);
            } else {
                self.counts.names_lost += 1;
            }
        }
        self.names = self.durable_names.clone();
        self.forget_unnamed();
    }

    fn crash_file(&mut self, file: &mut Inode) {
        let sectors: Vec<usize> = std::mem::take(&mut file.unsynced).into_iter().collect();
        if file.seen.len() > file.durable.len() {
            let growth = file.seen.len() - file.durable.len();
            let grown = match self.below(3) {
                0 => 0,
                1 => growth,
                _ => self.below(growth + 1),
            };
            file.durable.resize(file.durable.len() + grown, 0);
        }
        if file.seen.len() < file.durable.len() && self.below(2) == 0 {
            file.durable.truncate(file.seen.len());
        }
        let survive = self.survivors(sectors.len());
        for (sector, survives) in sectors.into_iter().zip(survive) {
            if survives {
                self.counts.sectors_kept += 1;
                file.settle(sector);
            } else {
                self.counts.sectors_lost += 1;
            }
        }
        file.seen.clone_from(&file.durable);
    }

    pub fn forget_unnamed(&mut self) {
        let named: BTreeSet<u64> = self.names.values().chain(self.durable_names.values()).copied().collect();
        self.files.retain(|inode, _| named.contains(inode));
    }

    pub fn change_names(&mut self, call: Call, change: Renaming) -> io::Result<()> {
        let fault = self.begin(call)?;
        if let Some(fault) = fault {
            // An interrupted change of a folder may have happened all the same.
            if self.random() & 1 == 0 {
                change.apply(&mut self.names);
                self.unsynced_names.push(change);
            }
            return Err(fault.error());
        }
        change.apply(&mut self.names);
        self.unsynced_names.push(change);
        Ok(())
    }
}

impl Renaming {
    fn apply(&self, names: &mut BTreeMap<String, u64>) {
        if let Some(from) = &self.from {
            names.remove(from);
        }
        if let Some((to, inode)) = &self.to {
            names.insert(to.clone(), *inode);
        }
    }
}

impl Inode {
    pub fn write(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        if self.seen.len() < end {
            self.seen.resize(end, 0);
        }
        self.seen[offset..end].copy_from_slice(bytes);
        self.unsynced.extend(offset / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES));
    }

    pub fn cut(&mut self, length: usize) {
        assert!(length <= self.seen.len(), "a file is cut to a length that is not above its own");
        self.seen.truncate(length);
        self.unsynced.insert(length / SECTOR_BYTES);
    }

    /// Brings one sector to the disk, as far as the durable length goes.
    pub fn settle(&mut self, sector: usize) {
        let from = sector * SECTOR_BYTES;
        let to = (from + SECTOR_BYTES).min(self.durable.len()).min(self.seen.len());
        if from < to {
            self.durable[from..to].copy_from_slice(&self.seen[from..to]);
        }
    }
}
