//! The disk of a server that is told to keep nothing: a directory in memory. Never fails, and forgets everything when it
//! is dropped.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasehold_journal::{Disk, DiskFile};

/// A handle to a directory in memory; clones share it.
#[derive(Clone, Debug, Default)]
pub struct MemoryDisk {
    files: Arc<Mutex<BTreeMap<String, MemoryFile>>>,
}

/// An open file in memory.
#[derive(Clone, Debug, Default)]
pub struct MemoryFile(Arc<Mutex<Vec<u8>>>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code that can panic runs under these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn not_found() -> io::Error {
    io::Error::from(io::ErrorKind::NotFound)
}

fn place(offset: u64) -> io::Result<usize> {
    usize::try_from(offset).map_err(io::Error::other)
}

impl MemoryDisk {
    /// An empty directory.
    pub fn new() -> MemoryDisk {
        MemoryDisk::default()
    }
}

impl Disk for MemoryDisk {
    type File = MemoryFile;

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(lock(&self.files).keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<MemoryFile> {
        lock(&self.files).get(name).cloned().ok_or_else(not_found)
    }

    fn create(&self, name: &str) -> io::Result<MemoryFile> {
        let mut files = lock(&self.files);
        if files.contains_key(name) {
            return Err(io::Error::from(io::ErrorKind::AlreadyExists));
        }
        Ok(files.entry(name.to_owned()).or_default().clone())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut files = lock(&self.files);
        let file = files.remove(from).ok_or_else(not_found)?;
        files.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        lock(&self.files).remove(name).map(|_| ()).ok_or_else(not_found)
    }

    fn sync_folder(&self) -> io::Result<()> {
        Ok(())
    }

    fn free_bytes(&self) -> io::Result<u64> {
        Ok(u64::MAX)
    }

    fn path(&self, name: &str) -> String {
        format!("memory/{name}")
    }
}

impl DiskFile for MemoryFile {
    fn len(&self) -> io::Result<u64> {
        Ok(lock(&self.0).len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let bytes = lock(&self.0);
        let from = place(offset)?;
        let found = bytes.get(from..from.saturating_add(buffer.len()));
        buffer.copy_from_slice(found.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?);
        Ok(())
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut file = lock(&self.0);
        let (from, to) = (place(offset)?, place(offset.saturating_add(bytes.len() as u64))?);
        if file.len() < to {
            file.resize(to, 0);
        }
        file[from..to].copy_from_slice(bytes);
        Ok(())
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        lock(&self.0).truncate(place(length)?);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}
