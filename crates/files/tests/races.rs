//! What happens beside each other in a store, made to happen in the worst order: a disk that lets the test in at any call.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_files::limits::SHELVES;
use leasehold_files::{DiskStore, FileStore, MemoryDisk, MemoryFile};
use leasehold_journal::{Disk, DiskFile};

const FIRST: u64 = 1 << 52;
/// How long anybody waits for somebody else before it is called a failure.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Open,
    Create,
    Remove,
    Sync,
    SyncFolder,
}

/// Comes between a call and its doing. Told of the call and of the file's name.
type Hook = Box<dyn Fn(Call, &str) + Send + Sync>;

/// A directory in memory that says when it is asked, and knows which names a loss of power would leave.
#[derive(Clone)]
struct HookedDisk {
    disk: MemoryDisk,
    hook: Arc<Hook>,
    durable_names: Arc<Mutex<BTreeSet<String>>>,
}

struct HookedFile {
    file: MemoryFile,
    name: String,
    hook: Arc<Hook>,
}

impl HookedDisk {
    fn new(hook: impl Fn(Call, &str) + Send + Sync + 'static) -> HookedDisk {
        HookedDisk { disk: MemoryDisk::new(), hook: Arc::new(Box::new(hook)), durable_names: Arc::default() }
    }

    fn survives(&self, number: u64) -> bool {
        self.durable_names.lock().unwrap().contains(&number.to_string())
    }

    fn file(&self, name: &str, file: MemoryFile) -> HookedFile {
        HookedFile { file, name: name.to_owned(), hook: Arc::clone(&self.hook) }
    }
}

impl Disk for HookedDisk {
    type File = HookedFile;

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn open(&self, name: &str) -> io::Result<HookedFile> {
        (self.hook)(Call::Open, name);
        self.disk.open(name).map(|file| self.file(name, file))
    }

    fn create(&self, name: &str) -> io::Result<HookedFile> {
        (self.hook)(Call::Create, name);
        self.disk.create(name).map(|file| self.file(name, file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        (self.hook)(Call::Remove, name);
        self.disk.remove(name)
    }

    fn sync_folder(&self) -> io::Result<()> {
        *self.durable_names.lock().unwrap() = self.disk.list()?.into_iter().collect();
        (self.hook)(Call::SyncFolder, "");
        Ok(())
    }

    fn free_bytes(&self) -> io::Result<u64> {
        self.disk.free_bytes()
    }

    fn path(&self, name: &str) -> String {
        self.disk.path(name)
    }
}

impl DiskFile for HookedFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_at(offset, buffer)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(offset, bytes)
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.file.cut(length)
    }

    fn sync(&mut self) -> io::Result<()> {
        (self.hook)(Call::Sync, &self.name);
        self.file.sync()
    }
}

/// A word from one thread to another, heard once.
struct Word(Mutex<Sender<()>>, Mutex<Receiver<()>>);

impl Word {
    fn new() -> Arc<Word> {
        let (say, hear) = channel();
        Arc::new(Word(Mutex::new(say), Mutex::new(hear)))
    }

    fn say(&self) {
        self.0.lock().unwrap().send(()).unwrap();
    }

    fn await_it(&self) {
        self.1.lock().unwrap().recv_timeout(PATIENCE).expect("somebody waits for somebody who waits for it");
    }
}

/// A file that is made while a sync is at its end belongs to the next sync, with its name.
#[test]
fn a_file_made_beside_a_sync_is_not_forgotten_by_the_next() {
    let (early, late) = (FIRST + 1, FIRST + SHELVES as u64);
    let (passed, making, synced) = (Word::new(), Word::new(), Word::new());
    let disk = HookedDisk::new({
        let (passed, making, synced) = (Arc::clone(&passed), Arc::clone(&making), Arc::clone(&synced));
        let first_round = Mutex::new(BTreeSet::from(["sync", "folder"]));
        let once = move |what| first_round.lock().unwrap().remove(what);
        move |call, name| match call {
            // The sync has been where the late file will be, and comes to the early one.
            Call::Sync if name == early.to_string() && once("sync") => {
                passed.say();
                making.await_it();
            }
            Call::Create if name == late.to_string() => {
                making.say();
                synced.await_it();
            }
            Call::SyncFolder if once("folder") => synced.say(),
            _ => {}
        }
    });
    let store = DiskStore::new(disk.clone());
    store.write(early, 0, b"early").unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            passed.await_it();
            store.write(late, 0, b"late").unwrap();
        });
        store.sync().unwrap();
    });
    assert!(disk.survives(early) && !disk.survives(late));
    assert_eq!(store.sync().unwrap(), 1);
    assert!(disk.survives(late), "its bytes are on the disk and its name is not");
}

/// A file that is opened to be read while it is taken away is not kept open, or its room would not be given back.
#[test]
fn a_file_that_is_read_while_it_is_removed_is_not_kept_open() {
    let reader: Arc<Mutex<Option<Arc<DiskStore<HookedDisk>>>>> = Arc::default();
    let disk = HookedDisk::new({
        let reader = Arc::clone(&reader);
        move |call, _| {
            if call == Call::Remove {
                let store = reader.lock().unwrap().take().expect("one file is removed once");
                assert!(store.read(FIRST, 0, &mut [0; 5]).unwrap(), "it is still there");
            }
        }
    });
    let store = Arc::new(DiskStore::new(disk));
    *reader.lock().unwrap() = Some(Arc::clone(&store));
    store.write(FIRST, 0, b"hello").unwrap();
    store.remove(FIRST).unwrap();
    assert!(!store.read(FIRST, 0, &mut [0; 5]).unwrap(), "it is read from a handle that should be closed");
}

/// Who opens a file to read it, however long that takes, keeps nobody from writing, reading or removing another.
#[test]
fn opening_a_file_to_read_it_keeps_nobody_waiting() {
    let (opening, done) = (Word::new(), Word::new());
    let reading = Arc::new(Mutex::new(false));
    let disk = HookedDisk::new({
        let (opening, done, reading) = (Arc::clone(&opening), Arc::clone(&done), Arc::clone(&reading));
        move |call, name| {
            if call == Call::Open && name == FIRST.to_string() && *reading.lock().unwrap() {
                opening.say();
                done.await_it();
            }
        }
    });
    let store = DiskStore::new(disk);
    for number in FIRST..FIRST + 3 {
        store.write(number, 0, b"hello").unwrap();
    }
    *reading.lock().unwrap() = true;
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| store.read(FIRST, 0, &mut [0; 5]).unwrap());
        opening.await_it();
        store.write(FIRST, 5, b"!").unwrap();
        assert!(store.read(FIRST + 1, 0, &mut [0; 5]).unwrap());
        store.remove(FIRST + 2).unwrap();
        done.say();
        assert!(slow.join().unwrap());
    });
}
