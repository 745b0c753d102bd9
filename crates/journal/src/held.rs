//! A journal's files held open while they are copied: what a running server trims away meanwhile can still be read. Shows
//! them as a directory of its own. Never changes anything.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::disk::{Disk, DiskFile};
use crate::error::{OpenError, StorageError};
use crate::inventory::Inventory;

/// The newest snapshot of a journal as it was at the beginning, and every segment since.
pub(crate) struct Held<D: Disk> {
    disk: D,
    /// The last record of the snapshot; 0 without one.
    through: u64,
    files: Arc<Mutex<BTreeMap<String, HeldFile<D::File>>>>,
}

impl<D: Disk> Clone for Held<D> {
    fn clone(&self) -> Self {
        Self { disk: self.disk.clone(), through: self.through, files: Arc::clone(&self.files) }
    }
}

impl<D: Disk> Held<D> {
    /// Takes hold of what there is. What is trimmed away at this very moment is an error that says `NotFound`.
    pub fn begin(disk: &D) -> Result<Self, OpenError> {
        let inventory = Inventory::take(disk)?;
        let snapshot = inventory.newest_snapshot();
        let through = snapshot.map_or(0, |(index, _)| *index);
        let held = Self { disk: disk.clone(), through, files: Arc::default() };
        if let Some((_, name)) = snapshot {
            held.hold(name)?;
        }
        held.follow()?;
        Ok(held)
    }

    /// Takes hold of segments that have come since. Must be called often: one that comes and goes between two calls is
    /// missed, and the copy will not be sound.
    pub fn follow(&self) -> Result<(), OpenError> {
        let inventory = Inventory::take(&self.disk)?;
        let held = |name: &String| lock(&self.files).contains_key(name);
        for (_, name) in inventory.segments.iter().filter(|(first, _)| *first > self.through) {
            if !held(name) {
                self.hold(name)?;
            }
        }
        Ok(())
    }

    fn hold(&self, name: &str) -> Result<(), StorageError> {
        let file = self.disk.open(name).map_err(StorageError::io("open", self.disk.path(name)))?;
        lock(&self.files).insert(name.to_owned(), HeldFile(Arc::new(Mutex::new(file))));
        Ok(())
    }
}

/// A file that is held open.
pub(crate) struct HeldFile<F>(Arc<Mutex<F>>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read_only() -> io::Error {
    io::Error::new(io::ErrorKind::ReadOnlyFilesystem, "what is being copied is not changed")
}

impl<D: Disk> Disk for Held<D> {
    type File = HeldFile<D::File>;

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(lock(&self.files).keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Self::File> {
        let file = lock(&self.files).get(name).map(|file| HeldFile(Arc::clone(&file.0)));
        file.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    fn create(&self, _name: &str) -> io::Result<Self::File> {
        Err(read_only())
    }

    fn rename(&self, _from: &str, _to: &str) -> io::Result<()> {
        Err(read_only())
    }

    fn remove(&self, _name: &str) -> io::Result<()> {
        Err(read_only())
    }

    fn sync_folder(&self) -> io::Result<()> {
        Err(read_only())
    }

    fn free_bytes(&self) -> io::Result<u64> {
        self.disk.free_bytes()
    }

    fn path(&self, name: &str) -> String {
        self.disk.path(name)
    }
}

impl<F: DiskFile> DiskFile for HeldFile<F> {
    fn len(&self) -> io::Result<u64> {
        lock(&self.0).len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        lock(&self.0).read_at(offset, buffer)
    }

    fn write_at(&mut self, _offset: u64, _bytes: &[u8]) -> io::Result<()> {
        Err(read_only())
    }

    fn cut(&mut self, _length: u64) -> io::Result<()> {
        Err(read_only())
    }

    fn sync(&mut self) -> io::Result<()> {
        Err(read_only())
    }
}
