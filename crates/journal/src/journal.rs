//! What the layers above ask of any journal: of files, of memory, later of a cluster. Knows no kind of journal.

use std::io;

use crate::error::StorageError;

/// Keeps batches in order. A batch is opaque: what it says, and the clock readings it carries, are its writer's.
pub trait Journal: Send {
    /// Makes one batch durable and returns its index, one more than the last. After the first error every later
    /// call fails too, and nothing is tried again (a batch that is too large is refused before it becomes one).
    fn append(&mut self, payload: &[u8]) -> Result<u64, StorageError>;

    /// The largest batch that [`Journal::append`] takes.
    fn batch_bytes_max(&self) -> usize;

    /// Bytes that can still be written to where the journal lives. Writers keep a reserve, so that a full disk is
    /// an answer to a request and not a storage error.
    fn room(&self) -> Result<u64, StorageError>;

    /// Background work that is due now. Each chore is handed out once, and its outcome must come back.
    fn chores(&mut self) -> Vec<Chore>;

    /// Takes in what came of a chore. A chore that failed stops the journal like a failed append.
    fn chore_done(&mut self, done: ChoreDone) -> Result<(), StorageError>;

    /// Whether this is the moment for [`Journal::cut`]: a snapshot is about to become due, and whoever knows the state as of the
    /// last batch can spare the journal from adding it up a second time.
    fn wants_cut(&self) -> bool {
        false
    }

    /// Ends what a snapshot would cover with the last batch, and gives the chore that makes that snapshot: its fold must be the
    /// state as of that batch, and is only written out. None: there will be no snapshot now, and nothing was lost by asking.
    fn cut(&mut self) -> Result<Option<Chore>, StorageError> {
        Ok(None)
    }

    /// How much the journal holds, for metrics.
    fn extent(&self) -> Extent;
}

/// How much a journal holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extent {
    /// Index of the last durable batch; 0 when there is none.
    pub last_index: u64,
    /// Index through which the newest snapshot holds; 0 when there is none.
    pub snapshot_index: u64,
    /// Segments in use.
    pub segments: u64,
    /// Bytes of the segments and the snapshot on disk.
    pub bytes: u64,
}

/// The state that batches add up to, as the journal sees it: something that can be read in, moved on and written
/// out. Supplied by the layer above; a chore is given a fresh one, or after a [`Journal::cut`] one that is there already.
pub trait Fold {
    /// Takes the state from a snapshot. Called at most once, before any [`Fold::replay`].
    fn restore(&mut self, snapshot: &mut dyn io::Read) -> Result<(), String>;
    /// Applies one batch.
    fn replay(&mut self, payload: &[u8]) -> Result<(), String>;
    /// Writes the state out. Many small writes are fine.
    fn write_snapshot(&mut self, out: &mut dyn io::Write) -> io::Result<()>;
}

/// What a chore does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChoreKind {
    /// Zero-fills the next segment, so that no append has to. The fold is left alone.
    PrepareSegment,
    /// Reads the last snapshot and the closed segments into the fold, unless it was cut for; writes a new snapshot, drops what
    /// it replaces.
    Snapshot,
}

/// A job that runs beside the journal, on any thread, without touching it.
pub struct Chore {
    kind: ChoreKind,
    job: Box<Job>,
}

type Job = dyn FnOnce(&mut dyn Fold) -> Result<Outcome, StorageError> + Send;

impl Chore {
    pub(crate) fn new(
        kind: ChoreKind,
        job: impl FnOnce(&mut dyn Fold) -> Result<Outcome, StorageError> + Send + 'static,
    ) -> Self {
        Self { kind, job: Box::new(job) }
    }

    /// What it does.
    pub fn kind(&self) -> ChoreKind {
        self.kind
    }

    /// Does it. The fold must be fresh, or for a chore of [`Journal::cut`] the state as of then.
    pub fn run(self, fold: &mut dyn Fold) -> ChoreDone {
        ChoreDone { kind: self.kind, outcome: (self.job)(fold) }
    }

    /// Leaves a snapshot for later: its fold cannot be had.
    pub fn put_off(self) -> ChoreDone {
        assert!(self.kind == ChoreKind::Snapshot, "nothing else can wait");
        ChoreDone { kind: self.kind, outcome: Ok(Outcome::SnapshotPutOff) }
    }
}

impl std::fmt::Debug for Chore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Chore").field(&self.kind).finish()
    }
}

/// What came of a chore; to be given to [`Journal::chore_done`].
#[derive(Debug)]
pub struct ChoreDone {
    pub(crate) kind: ChoreKind,
    pub(crate) outcome: Result<Outcome, StorageError>,
}

impl ChoreDone {
    /// What the chore did.
    pub fn kind(&self) -> ChoreKind {
        self.kind
    }

    /// Why it failed, if it did.
    pub fn error(&self) -> Option<&StorageError> {
        self.outcome.as_ref().err()
    }
}

#[derive(Debug)]
pub(crate) enum Outcome {
    /// A file of zeros lies ready under this temporary name.
    SegmentReady { name: String },
    /// Everything through the index is in this snapshot, and the files before it are gone.
    SnapshotPublished { name: String, index: u64, bytes: u64 },
    /// There was no room for a snapshot, or no state to be written, and everything is as it was.
    SnapshotPutOff,
}
