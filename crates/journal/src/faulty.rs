//! A simulated disk that loses power, forgets what was not synced, and fails when told to. Deterministic: one seed,
//! one behaviour. Never touches the real disk.
//!
//! It is as unkind as the rules allow. What was written since the last sync survives a crash sector by sector or
//! not at all; names that were not synced with their folder survive one by one or not at all; and a sync that fails
//! leaves bytes that can be read and yet will never be on the disk unless they are written again.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::disk::{Disk, DiskFile};
use crate::fault::{Call, Counts, Fault, no_power};
use crate::limits::{DIRECT_ALIGN_BYTES, SECTOR_BYTES};
use crate::platter::{Inode, Renaming, State};

/// A handle to a simulated directory; clones share it.
#[derive(Clone)]
pub struct FaultyDisk {
    state: Arc<Mutex<State>>,
}

/// An open file of a [`FaultyDisk`]. A crash makes it useless.
pub struct FaultyFile {
    state: Arc<Mutex<State>>,
    inode: u64,
    life: u64,
    /// Whether it was opened with [`Disk::open_direct`]: then its rules are watched over.
    direct: bool,
}

impl FaultyDisk {
    /// An empty directory whose behaviour follows from the seed.
    pub fn new(seed: u64) -> Self {
        Self { state: Arc::new(Mutex::new(State::new(seed))) }
    }

    /// Makes the n-th such call from now fail; 1 is the next.
    pub fn fail_nth(&self, call: Call, nth: u64, fault: Fault) {
        lock(&self.state).armed.push((call, nth, fault));
    }

    /// Forgets all faults that have not yet taken effect.
    pub fn disarm(&self) {
        lock(&self.state).armed.clear();
    }

    /// The power goes and comes back: what was not synced survives in an arbitrary part, and open files are dead.
    pub fn crash(&self) {
        lock(&self.state).crash();
    }

    /// Gives the disk a size; writes that would need more fail with `ENOSPC`.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        lock(&self.state).capacity = bytes;
    }

    /// What has happened so far.
    pub fn counts(&self) -> Counts {
        lock(&self.state).counts
    }

    /// Bytes in all files, as programs see them.
    pub fn used_bytes(&self) -> u64 {
        lock(&self.state).used_bytes()
    }

    /// All files and their content, as programs see them.
    pub fn contents(&self) -> BTreeMap<String, Vec<u8>> {
        let state = lock(&self.state);
        let content = |inode| state.files.get(inode).map(|file| file.seen.clone()).unwrap_or_default();
        state.names.iter().map(|(name, inode)| (name.clone(), content(inode))).collect()
    }

    /// A new disk that durably holds these files.
    pub fn holding(seed: u64, contents: &BTreeMap<String, Vec<u8>>) -> Self {
        let disk = Self::new(seed);
        let mut state = lock(&disk.state);
        for (name, bytes) in contents {
            let file = Inode { seen: bytes.clone(), durable: bytes.clone(), unsynced: BTreeSet::new() };
            let inode = state.add(file);
            state.names.insert(name.clone(), inode);
            state.durable_names.insert(name.clone(), inode);
        }
        drop(state);
        disk
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn not_found() -> io::Error {
    io::Error::from(io::ErrorKind::NotFound)
}

impl Disk for FaultyDisk {
    type File = FaultyFile;

    fn list(&self) -> io::Result<Vec<String>> {
        let state = lock(&self.state);
        if state.power { Ok(state.names.keys().cloned().collect()) } else { Err(no_power()) }
    }

    fn open(&self, name: &str) -> io::Result<FaultyFile> {
        let state = lock(&self.state);
        if !state.power {
            return Err(no_power());
        }
        let inode = *state.names.get(name).ok_or_else(not_found)?;
        Ok(FaultyFile { state: Arc::clone(&self.state), inode, life: state.life, direct: false })
    }

    fn open_direct(&self, name: &str) -> io::Result<FaultyFile> {
        Ok(FaultyFile { direct: true, ..self.open(name)? })
    }

    fn create(&self, name: &str) -> io::Result<FaultyFile> {
        let mut state = lock(&self.state);
        if state.names.contains_key(name) {
            return Err(io::Error::from(io::ErrorKind::AlreadyExists));
        }
        let inode = state.add(Inode::default());
        state.change_names(Call::Create, Renaming { from: None, to: Some((name.to_owned(), inode)) })?;
        Ok(FaultyFile { state: Arc::clone(&self.state), inode, life: state.life, direct: false })
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = lock(&self.state);
        let inode = *state.names.get(from).ok_or_else(not_found)?;
        let change = Renaming { from: Some(from.to_owned()), to: Some((to.to_owned(), inode)) };
        state.change_names(Call::Rename, change)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = lock(&self.state);
        state.names.get(name).ok_or_else(not_found)?;
        state.change_names(Call::Remove, Renaming { from: Some(name.to_owned()), to: None })
    }

    fn sync_folder(&self) -> io::Result<()> {
        let mut state = lock(&self.state);
        state.counts.folder_syncs += 1;
        if let Some(fault) = state.begin(Call::SyncFolder)? {
            return Err(fault.error());
        }
        state.unsynced_names.clear();
        state.durable_names = state.names.clone();
        state.forget_unnamed();
        Ok(())
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let state = lock(&self.state);
        Ok(state.capacity.map_or(u64::MAX, |capacity| capacity.saturating_sub(state.used_bytes())))
    }

    fn path(&self, name: &str) -> String {
        format!("simulated/{name}")
    }
}

impl FaultyFile {
    /// The disk's state, if the file is still open.
    fn state(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = lock(&self.state);
        if state.power && state.life == self.life && state.files.contains_key(&self.inode) {
            Ok(state)
        } else {
            Err(no_power())
        }
    }
}

impl FaultyFile {
    /// Whether what goes past the cache keeps the rules.
    fn watch_over(&self, offset: u64, bytes: &[u8]) {
        if self.direct {
            let sectors = |at: usize| at.is_multiple_of(SECTOR_BYTES);
            let at = usize::try_from(offset).unwrap_or(usize::MAX);
            assert!(sectors(at) && sectors(bytes.len()), "past the cache go whole sectors");
            assert!(
                bytes.as_ptr().addr().is_multiple_of(DIRECT_ALIGN_BYTES),
                "out of memory that is aligned, and into it"
            );
        }
    }
}

impl DiskFile for FaultyFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.state()?.files.get(&self.inode).map_or(0, |file| file.seen.len() as u64))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.watch_over(offset, buffer);
        let state = self.state()?;
        let file = state.files.get(&self.inode).ok_or_else(not_found)?;
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes = file.seen.get(from..from.saturating_add(buffer.len()));
        buffer.copy_from_slice(bytes.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?);
        Ok(())
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.watch_over(offset, bytes);
        let mut state = self.state()?;
        state.counts.writes += 1;
        let fault = state.begin(Call::Write)?;
        let at = usize::try_from(offset).unwrap_or(usize::MAX);
        let length = state.files.get(&self.inode).map_or(0, |file| file.seen.len());
        let growth = at.saturating_add(bytes.len()).saturating_sub(length) as u64;
        if growth > 0 && state.capacity.is_some_and(|capacity| state.used_bytes() + growth > capacity) {
            return Err(Fault::Full.error());
        }
        let done = match fault {
            None => bytes.len(),
            Some(Fault::PowerLoss) => bytes.len() * state.below(2),
            // What is cut short is cut between sectors.
            Some(_) => ((at + state.below(bytes.len())) / SECTOR_BYTES * SECTOR_BYTES).saturating_sub(at),
        };
        if let Some(file) = state.files.get_mut(&self.inode) {
            file.write(at, &bytes[..done]);
        }
        fault.map_or(Ok(()), |fault| Err(fault.error()))
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        let mut state = self.state()?;
        state.counts.writes += 1;
        let fault = state.begin(Call::Write)?;
        // A length changes whole or not at all.
        let done = fault.is_none() || state.below(2) == 1;
        if let Some(file) = state.files.get_mut(&self.inode).filter(|_| done) {
            file.cut(usize::try_from(length).unwrap_or(usize::MAX));
        }
        fault.map_or(Ok(()), |fault| Err(fault.error()))
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.state()?;
        state.counts.syncs += 1;
        let fault = state.begin(Call::Sync)?;
        let mut file = state.files.remove(&self.inode).unwrap_or_default();
        match fault {
            None => {
                file.durable.resize(file.seen.len(), 0);
                std::mem::take(&mut file.unsynced).into_iter().for_each(|sector| file.settle(sector));
            }
            Some(Fault::PowerLoss) => {}
            Some(_) => {
                // The system reports the error once, and then takes the pages for clean.
                let sectors: Vec<usize> = std::mem::take(&mut file.unsynced).into_iter().collect();
                let reached = state.survivors(sectors.len());
                for (sector, _) in sectors.into_iter().zip(reached).filter(|(_, reached)| *reached) {
                    file.settle(sector);
                }
            }
        }
        state.files.insert(self.inode, file);
        fault.map_or(Ok(()), |fault| Err(fault.error()))
    }
}
