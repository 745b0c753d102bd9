//! After a restart: brings the files in line with the journal. Every write since the journal's snapshot is made again, in
//! order, so that bytes end as they were journaled whatever a crash left of them; what was written before was on the disk
//! before the snapshot was. Refuses to start on files that lack bytes, before it has changed anything.

use std::collections::BTreeMap;
use std::fmt;

use leasehold_files::FileStore;
use leasehold_journal::{Disk, Entry, OpenError, StorageError, dump};
use leasehold_planted::{Bug, planted};
use leasehold_state_machine::codec::read_batch;
use leasehold_state_machine::event::Event;

use crate::file_change::FileChange;
use crate::replay::Replay;

/// What was done to the files at a start, for the person who reads the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilesRecovered {
    /// Files there are.
    pub files: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Writes since the snapshot that were made again.
    pub rewritten: u64,
    /// Files that were longer than the journal says.
    pub cut: u64,
    /// Files that the journal does not know, or knows to be deleted.
    pub removed: u64,
}

/// Why the files cannot be brought in line with the journal.
#[derive(Debug)]
pub enum FilesError {
    /// The journal could not be read a second time.
    Journal(OpenError),
    /// The operating system refused an operation.
    Storage(StorageError),
    /// A file lacks bytes that were on the disk.
    Short {
        /// The file.
        path: String,
        /// Bytes found.
        found: u64,
        /// Bytes it must have at least.
        expected: u64,
    },
}

impl From<StorageError> for FilesError {
    fn from(error: StorageError) -> Self {
        FilesError::Storage(error)
    }
}

impl fmt::Display for FilesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FilesError::Journal(error) => error.fmt(f),
            FilesError::Storage(error) => error.fmt(f),
            FilesError::Short { path, found, expected } => write!(
                f,
                "{path} is damaged at byte {found}: it has {found} bytes and should have {expected} at least. Nothing \
                 was changed. Keep a copy of the directory, check the disk, and put a backup back"
            ),
        }
    }
}

impl std::error::Error for FilesError {}

/// Brings the files in line with a journal that has just been opened in this directory, and replayed. To be done before
/// anything is answered.
pub fn recover_files<D: Disk>(
    replay: &Replay,
    journal: &D,
    files: &dyn FileStore,
) -> Result<FilesRecovered, FilesError> {
    let live: BTreeMap<u64, u64> = replay.machine().file_sizes().collect();
    let traces = replay.file_traces();
    for (number, expected) in traces.sizes.iter().filter(|(number, _)| live.contains_key(number)) {
        let found = files.length(*number)?.unwrap_or(0);
        if found < *expected {
            return Err(FilesError::Short { path: files.path(*number), found, expected: *expected });
        }
    }

    let mut done =
        FilesRecovered { files: live.len() as u64, bytes: live.values().sum(), ..Default::default() };
    if traces.writes > 0 {
        done.rewritten = rewrite(journal, &live, files)?;
    }
    for (number, size) in &live {
        match files.length(*number)?.unwrap_or(0) {
            found if found > *size && planted(Bug::FileNotCut) => {}
            found if found > *size => {
                files.cut(*number, *size)?;
                done.cut += 1;
            }
            found => assert!(found == *size, "every byte since the snapshot was written again"),
        }
    }
    for number in files.numbers()?.into_iter().filter(|number| !live.contains_key(number)) {
        files.remove(number)?;
        done.removed += 1;
    }
    Ok(done)
}

/// Makes every write since the snapshot again; how many. Those to files that are deleted by now are left out.
fn rewrite<D: Disk>(
    journal: &D,
    live: &BTreeMap<u64, u64>,
    files: &dyn FileStore,
) -> Result<u64, FilesError> {
    let mut written = Ok(0);
    let read = dump(journal, &mut |entry| {
        let Entry::Record { payload, .. } = entry else { return Ok(()) };
        let visited = read_batch(payload, &mut |_, _, _, event| {
            if let (Ok(count), Event::FileWritten { number, .. }) = (&written, &event)
                && live.contains_key(number)
                && let Some(change) = FileChange::of(&event)
            {
                let count = count + 1;
                written = change.apply(files).map(|()| count);
            }
        });
        visited.map_err(|error| error.to_string())?;
        written.as_ref().map(|_| ()).map_err(ToString::to_string)
    });
    match (written, read) {
        (Err(error), _) => Err(FilesError::Storage(error)),
        (_, Err(error)) => Err(FilesError::Journal(error)),
        (Ok(count), Ok(_)) => Ok(count),
    }
}
