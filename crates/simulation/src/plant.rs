//! Bugs put in on purpose, to prove that the invariants can see. Each is a small lie of the driver, the disk or a client
//! around the unchanged engine; a run has at most one, and an ordinary run has none.

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// A batch is called durable when it is handed over, not when it is.
    EarlyReplies,
    /// The disk says that it has synced and has not.
    LyingDisk,
    /// Clients count a lease from the arrival of the answer, not from the sending of the request.
    BeliefFromArrival,
    /// Clients count a lease from the last sending of its request, not from that of the attempt which is answered.
    BeliefFromRetry,
    /// A client that has lost a lease believes in it again when a renewal succeeds late.
    LateSuccessRevives,
    /// A client takes no notice of half the TTL: it believes until the very deadline it was told.
    BeliefToDeadline,
    /// After a restart the boot clock reads more than it should, and the wall clock agrees.
    ClockAheadAtRestart,
    /// The data directory is lost at a power loss and the server begins a new one.
    ForgottenJournal,
    /// A connection that closes late detaches the newer attempt of the same request.
    DetachesTheNewest,
    /// A request id that comes a second time is taken for a new one.
    IdsIgnored,
    /// After a stop of the process time is made up for before the socket is read.
    StopsCounted,
    /// The engine is not turned when its time has come, only when somebody asks.
    DeafToTime,
    /// Bytes are put into files when their batch is handed to the disk, not when it is durable.
    BytesBeforeSync,
    /// A write is told done when it is durable, before its bytes are in the file.
    WritesToldEarly,
    /// The request id of a write that comes a second time is taken for a new one.
    WriteIdsIgnored,
    /// A start leaves in a file what lies behind its end.
    RecoveryDoesNotCut,
    /// A snapshot is published before the files are on the disk.
    SnapshotBeforeFiles,
    /// A write by a holder of the past is let through under the token of today's.
    Unfenced,
}
