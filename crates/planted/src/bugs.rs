//! The bugs: what is wrong, and where in the code.

macro_rules! bugs {
    ($(#[doc = $text:literal] $bug:ident = $name:literal in $file:literal,)*) => {
        /// A bug that can be put in.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Bug { $(#[doc = $text] $bug,)* }

        #[cfg(feature = "planted-bugs")]
        impl Bug {
            /// All of them.
            pub const ALL: &[Bug] = &[$(Bug::$bug,)*];

            /// The name that it is chosen by.
            pub fn name(self) -> &'static str {
                match self { $(Bug::$bug => $name,)* }
            }

            /// What is wrong, in a sentence or two.
            pub fn text(self) -> &'static str {
                match self { $(Bug::$bug => $text.trim_ascii(),)* }
            }

            /// The file that it is put into.
            pub fn file(self) -> &'static str {
                match self { $(Bug::$bug => $file,)* }
            }

            /// The bug with this name.
            pub fn named(name: &str) -> Option<Bug> {
                Bug::ALL.iter().copied().find(|bug| bug.name() == name)
            }
        }
    };
}

bugs! {
    /// The client counts an answer from its arrival, not from the sending of the attempt that it answers.
    ClientCountsFromReply = "client-counts-from-reply" in "crates/client/src/keeper.rs",
    /// The client counts an answer from its last sending of the request, not from that of the attempt that it answers.
    ClientCountsFromRetry = "client-counts-from-retry" in "crates/client/src/operations/book.rs",
    /// The client believes until the very deadline, as if half the TTL were not the holder's time to stop in.
    BeliefToDeadline = "belief-to-deadline" in "crates/client/src/keeper.rs",
    /// A renewal that succeeds late brings back to life what the client has already called lost.
    LateSuccessRevives = "late-success-revives" in "crates/client/src/keeper.rs",
    /// After a restart leases are re-armed from when the horizon was written, not from where it reaches.
    ExpiresEarlyAfterRestart = "expires-early-after-restart" in "crates/state-machine/src/decide/recover.rs",
    /// After a restart the boot clock is believed though the wall clock disagrees on how long the server was away.
    ClocksNotCompared = "clocks-not-compared" in "crates/engine/src/recovery.rs",
    /// The horizon is counted in the server's own time, which stands still, and not in raw boot time.
    HorizonOnWrongClock = "horizon-on-wrong-clock" in "crates/engine/src/engine.rs",
    /// Grants and renewals are answered without waiting for a durable horizon above the time of their decision.
    GrantNotBoundedByHorizon = "grant-not-bounded-by-horizon" in "crates/engine/src/engine.rs",
    /// The time in which the server was stopped is counted before the renewals that came meanwhile are read.
    StopsCounted = "stops-counted" in "crates/engine/src/server_time.rs",
    /// The engine asks for no turn when something falls due, and notices it when somebody asks something.
    DeafToTime = "deaf-to-time" in "crates/engine/src/engine.rs",
    /// A wait ends at the next full second, so that a waiter is granted after its time has passed.
    GrantAfterTheWait = "grant-after-the-wait" in "crates/state-machine/src/records.rs",
    /// A shared request goes past the exclusive waiters that came before it.
    SharedOvertakes = "shared-overtakes" in "crates/state-machine/src/decide/rule.rs",
    /// When a waiter leaves the line, nobody looks again at those who waited behind it.
    LostWakeUp = "lost-wake-up" in "crates/state-machine/src/apply.rs",
    /// An attempt that was replaced by a newer one still stands for the waiter: its connection closes and detaches that.
    OldConnectionDetachesNew = "old-connection-detaches-new" in "crates/state-machine/src/decide/line.rs",
    /// Ranges of bytes are in each other's way only if they are equal.
    RangesComparedByEquality = "ranges-compared-by-equality" in "crates/state-machine/src/space.rs",
    /// A release frees whatever lease stands on the lock, whoever asks.
    ReleaseByNameOnly = "release-by-name-only" in "crates/state-machine/src/decide/holder.rs",
    /// The answer to a heartbeat does not name leases of the session that were broken.
    KeepAliveHidesBrokenLease = "keep-alive-hides-broken-lease" in "crates/state-machine/src/decide/promise.rs",
    /// After its TTL was shortened a lease is promised for as long as its old, later deadline stands.
    OldDeadlinePromised = "old-deadline-promised" in "crates/state-machine/src/decide/promise.rs",
    /// After a restart tokens go on from the leases that live, not from the last one given.
    TokenResetAfterRestart = "token-reset-after-restart" in "crates/state-machine/src/decide/recover.rs",
    /// The request id of an acquire is not looked up: a repeat is judged as a new request.
    RequestIdsIgnored = "request-ids-ignored" in "crates/state-machine/src/decide/acquire.rs",
    /// On a stream, a number whose answer the client has confirmed is carried out when it comes again.
    ConfirmedCarriedOut = "confirmed-carried-out" in "crates/state-machine/src/requests.rs",
    /// Of the request ids only those of what lives are known after a restart.
    DedupeLostOnRestart = "dedupe-lost-on-restart" in "crates/state-machine/src/decide/recover.rs",
    /// When memory is full of request ids, the oldest go however young they are.
    IdEvictedYoung = "id-evicted-young" in "crates/state-machine/src/decide/housekeep.rs",
    /// More waiters are let into the line than the limit allows.
    LimitNotLookedAt = "limit-not-looked-at" in "crates/state-machine/src/decide/acquire.rs",
    /// Replies leave when their batch is handed to the disk, not when it is durable.
    ReplyBeforeSync = "reply-before-sync" in "crates/engine/src/engine.rs",
    /// A batch is written and not synced.
    SyncLeftOut = "sync-left-out" in "crates/journal/src/file.rs",
    /// A batch whose write or sync failed is taken for durable all the same.
    AckAfterError = "ack-after-error" in "crates/engine/src/engine.rs",
    /// A new segment has a name, and the folder is not synced.
    FolderNotSynced = "folder-not-synced" in "crates/journal/src/segment.rs",
    /// A damaged record in the middle of the last segment is taken for a torn one: what follows it is cut off.
    DamageCutOff = "damage-cut-off" in "crates/journal/src/scan.rs",
    /// Bytes enter their file when their batch is handed to the disk, not when it is durable.
    FileBytesBeforeSync = "file-bytes-before-sync" in "crates/engine/src/storage.rs",
    /// A write is answered when it is durable, before its bytes are in the file.
    WriteToldEarly = "write-told-early" in "crates/engine/src/withheld.rs",
    /// The request id of a write is not looked up: a repeat is written a second time.
    WriteIdsIgnored = "write-ids-ignored" in "crates/state-machine/src/decide/file.rs",
    /// A write is let through under the token that it brings, as long as somebody holds the lock.
    WriteUnfenced = "write-unfenced" in "crates/state-machine/src/decide/file.rs",
    /// A start leaves in a file what lies behind its end.
    FileNotCut = "file-not-cut" in "crates/engine/src/files_recovery.rs",
    /// A snapshot takes the place of records whose bytes are not yet on the disk.
    SnapshotBeforeFiles = "snapshot-before-files" in "crates/engine/src/synced_fold.rs",
    /// A picture of the state is taken while decided events still wait for the disk.
    PictureTooEarly = "picture-too-early" in "crates/engine/src/engine.rs",
}
