//! Files in one flat directory of a disk, each named by its number. Keeps a bounded number of them open, and remembers
//! which must be synced. Tries nothing again.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasehold_journal::{Disk, DiskFile, StorageError};

use crate::handles::Handles;
use crate::limits::{READ_HANDLES_MAX, SHELVES, WRITE_HANDLES_MAX};
use crate::store::FileStore;
use crate::stripes::Stripes;

/// Bytes by number, on a disk.
#[derive(Debug)]
pub struct DiskStore<D: Disk> {
    disk: D,
    /// Files are spread over these by number, so that writers of different ones seldom meet.
    shelves: Box<[Mutex<Shelf<D::File>>]>,
    readers: Mutex<Reads<D::File>>,
    stripes: Stripes,
    /// Whether files were made or taken away since the directory was last synced.
    names_changed: AtomicBool,
}

#[derive(Debug)]
struct Shelf<F> {
    open: Handles<F>,
    /// What was changed since it was last synced.
    ///
    /// A file may be closed before that. Its sync is done through another handle, to which the system still reports an
    /// error of the writing back, as long as nobody has been told of it.
    unsynced: BTreeSet<u64>,
}

#[derive(Debug)]
struct Reads<F> {
    open: Handles<Arc<F>>,
    /// How many files were taken away. What was opened before one was is not kept: it may be that one, and a file that is
    /// open takes up room also when it is gone.
    removed: u64,
}

impl<D> DiskStore<D>
where
    D: Disk + Sync,
    D::File: Sync,
{
    /// The files in this directory, which holds nothing else.
    pub fn new(disk: D) -> DiskStore<D> {
        let shelf = || Shelf { open: Handles::new(WRITE_HANDLES_MAX / SHELVES), unsynced: BTreeSet::new() };
        DiskStore {
            disk,
            shelves: (0..SHELVES).map(|_| Mutex::new(shelf())).collect(),
            readers: Mutex::new(Reads { open: Handles::new(READ_HANDLES_MAX), removed: 0 }),
            stripes: Stripes::new(),
            names_changed: AtomicBool::new(false),
        }
    }

    fn shelf(&self, number: u64) -> MutexGuard<'_, Shelf<D::File>> {
        lock(&self.shelves[(number % SHELVES as u64) as usize])
    }

    fn failed(&self, doing: &'static str, number: u64) -> impl FnOnce(io::Error) -> StorageError {
        StorageError::io(doing, self.path(number))
    }

    fn open_or_create(&self, number: u64) -> Result<D::File, StorageError> {
        match self.disk.open(&name(number)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let created = self.disk.create(&name(number)).map_err(self.failed("create", number));
                // When it is there: a sync beside this would otherwise take the note and miss the name.
                self.names_changed.store(true, SeqCst);
                created
            }
            opened => opened.map_err(self.failed("open", number)),
        }
    }

    /// Opens a file to look at it; none when it is not there.
    fn look(&self, number: u64) -> Result<Option<D::File>, StorageError> {
        match self.disk.open(&name(number)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => opened.map(Some).map_err(self.failed("open", number)),
        }
    }

    fn reader(&self, number: u64) -> Result<Option<Arc<D::File>>, StorageError> {
        let removed = {
            let mut reads = lock(&self.readers);
            match reads.open.get(number, || Err(())) {
                Ok(file) => return Ok(Some(Arc::clone(file))),
                Err(()) => reads.removed,
            }
        };
        // Nobody waits for this: who opens another, and who takes one away, has what he needs.
        let Some(file) = self.look(number)? else { return Ok(None) };
        let file = Arc::new(file);
        let mut reads = lock(&self.readers);
        if reads.removed == removed {
            let kept = reads.open.get(number, || Ok::<_, Infallible>(Arc::clone(&file)));
            return Ok(kept.ok().cloned());
        }
        Ok(Some(file))
    }
}

impl<D> FileStore for DiskStore<D>
where
    D: Disk + Sync,
    D::File: Sync,
{
    fn write(&self, number: u64, offset: u64, bytes: &[u8]) -> Result<(), StorageError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let mut shelf = self.shelf(number);
        shelf.unsynced.insert(number);
        let file = shelf.open.get(number, || self.open_or_create(number))?;
        let _writing = self.stripes.write(number);
        file.write_at(offset, bytes).map_err(self.failed("write to", number))
    }

    fn remove(&self, number: u64) -> Result<(), StorageError> {
        let mut shelf = self.shelf(number);
        shelf.open.close(number);
        shelf.unsynced.remove(&number);
        let removed = match self.disk.remove(&name(number)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => {
                self.names_changed.store(true, SeqCst);
                removed.map_err(self.failed("remove", number))
            }
        };
        let mut reads = lock(&self.readers);
        reads.open.close(number);
        reads.removed += 1;
        removed
    }

    fn read(&self, number: u64, offset: u64, buffer: &mut [u8]) -> Result<bool, StorageError> {
        let Some(file) = self.reader(number)? else { return Ok(false) };
        let read = self.stripes.read(number, || file.read_at(offset, buffer));
        read.map(|()| true).map_err(self.failed("read", number))
    }

    fn sync(&self) -> Result<u64, StorageError> {
        let mut synced = 0;
        for shelf in &self.shelves {
            let unsynced = std::mem::take(&mut lock(shelf).unsynced);
            for number in unsynced {
                // One that is gone by now needs no sync.
                if let Some(mut file) = self.look(number)? {
                    file.sync().map_err(self.failed("sync", number))?;
                    synced += 1;
                }
            }
        }
        if self.names_changed.swap(false, SeqCst) {
            let failed = StorageError::io("sync the directory", self.disk.path(""));
            self.disk.sync_folder().map_err(failed)?;
        }
        Ok(synced)
    }

    fn length(&self, number: u64) -> Result<Option<u64>, StorageError> {
        let file = self.look(number)?;
        file.map(|file| file.len()).transpose().map_err(self.failed("measure", number))
    }

    fn cut(&self, number: u64, length: u64) -> Result<(), StorageError> {
        let mut shelf = self.shelf(number);
        shelf.unsynced.insert(number);
        let file = shelf.open.get(number, || self.open_or_create(number))?;
        let _writing = self.stripes.write(number);
        file.cut(length).map_err(self.failed("cut", number))
    }

    fn numbers(&self) -> Result<Vec<u64>, StorageError> {
        let names = self.disk.list().map_err(StorageError::io("list", self.disk.path("")))?;
        let mut numbers: Vec<u64> = names.iter().filter_map(|name| number(name)).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    fn room(&self) -> Result<u64, StorageError> {
        self.disk.free_bytes().map_err(StorageError::io("measure the free space of", self.disk.path("")))
    }

    fn path(&self, number: u64) -> String {
        self.disk.path(&name(number))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What a panic leaves here is an open file too many or too few.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file is called by its number.
pub(crate) fn name(number: u64) -> String {
    number.to_string()
}

/// The number in a name; none for what is not ours.
pub(crate) fn number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|number| name(*number) == text)
}
