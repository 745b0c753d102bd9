//! The server's disk: the journal's simulated one behind a guard that can end the process at any call (the page cache
//! lives on). The loss of power itself is the simulated disk's own.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasehold_journal::{Call, Disk, DiskFile, Fault, FaultyDisk, FaultyFile};

/// A handle to the disk as one process has it; the process's death makes it useless.
#[derive(Clone)]
pub struct GuardedDisk {
    inner: FaultyDisk,
    guard: Arc<Mutex<Guard>>,
}

/// An open file of a process.
pub struct GuardedFile {
    inner: FaultyFile,
    disk: GuardedDisk,
}

#[derive(Debug, Default)]
struct Guard {
    /// How many more changing calls the process lives for.
    calls_left: Option<u64>,
    dead: bool,
}

impl GuardedDisk {
    /// The disk as a new process sees it.
    pub fn new(inner: FaultyDisk) -> GuardedDisk {
        GuardedDisk { inner, guard: Arc::default() }
    }

    /// The process dies at the call after so many more.
    pub fn die_after(&self, calls: u64) {
        self.guard().calls_left = Some(calls);
    }

    /// The process is dead.
    pub fn die(&self) {
        self.guard().dead = true;
    }

    /// Whether the process has died.
    pub fn is_dead(&self) -> bool {
        self.guard().dead
    }

    fn guard(&self) -> MutexGuard<'_, Guard> {
        self.guard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn alive(&self) -> io::Result<()> {
        if self.guard().dead { Err(dead()) } else { Ok(()) }
    }

    /// Counts a changing call. An error: the process has died before it.
    fn pass(&self) -> io::Result<()> {
        let mut guard = self.guard();
        match &mut guard.calls_left {
            Some(0) => guard.dead = true,
            Some(left) => *left -= 1,
            None => {}
        }
        if guard.dead { Err(dead()) } else { Ok(()) }
    }
}

fn dead() -> io::Error {
    io::Error::other("the process is dead")
}

impl Disk for GuardedDisk {
    type File = GuardedFile;

    fn list(&self) -> io::Result<Vec<String>> {
        self.alive()?;
        self.inner.list()
    }

    fn open(&self, name: &str) -> io::Result<GuardedFile> {
        self.alive()?;
        Ok(GuardedFile { inner: self.inner.open(name)?, disk: self.clone() })
    }

    fn open_direct(&self, name: &str) -> io::Result<GuardedFile> {
        self.alive()?;
        Ok(GuardedFile { inner: self.inner.open_direct(name)?, disk: self.clone() })
    }

    fn create(&self, name: &str) -> io::Result<GuardedFile> {
        self.pass()?;
        Ok(GuardedFile { inner: self.inner.create(name)?, disk: self.clone() })
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.pass()?;
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.pass()?;
        self.inner.remove(name)
    }

    fn sync_folder(&self) -> io::Result<()> {
        self.pass()?;
        self.inner.sync_folder()
    }

    fn free_bytes(&self) -> io::Result<u64> {
        self.inner.free_bytes()
    }

    fn path(&self, name: &str) -> String {
        self.inner.path(name)
    }
}

impl DiskFile for GuardedFile {
    fn len(&self) -> io::Result<u64> {
        self.disk.alive()?;
        self.inner.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.disk.alive()?;
        self.inner.read_at(offset, buffer)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let lived = !self.disk.is_dead();
        let passed = self.disk.pass();
        if passed.is_err() && lived && offset.is_multiple_of(1024) {
            // A process can die with a write half done.
            self.disk.inner.fail_nth(Call::Write, 1, Fault::Short);
            let _ = self.inner.write_at(offset, bytes);
        }
        passed?;
        self.inner.write_at(offset, bytes)
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.disk.pass()?;
        self.inner.cut(length)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.disk.pass()?;
        self.inner.sync()
    }
}
