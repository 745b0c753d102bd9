//! How a lease is asked for and kept. Plain data.

use std::time::Duration;

use crate::keeper::Renewal;
use crate::view::{Metadata, Mode};

/// How a lease is asked for and kept: one attempt, exclusive, renewed by the server's timetable, unless told otherwise.
#[derive(Clone, Debug, Default)]
pub struct AcquireOptions {
    pub(crate) timeout: Option<Duration>,
    pub(crate) mode: Mode,
    pub(crate) metadata: Metadata,
    pub(crate) renewal: Renewal,
    pub(crate) progress_within: Option<Duration>,
}

impl AcquireOptions {
    /// Gives up when no answer has come within this time, and takes the request back so that no lease is left behind. By
    /// default the client's retry policy decides.
    pub fn timeout(mut self, timeout: Duration) -> AcquireOptions {
        self.timeout = Some(timeout);
        self
    }

    /// Shares the lock with others that share it.
    pub fn shared(mut self) -> AcquireOptions {
        self.mode = Mode::Shared;
        self
    }

    /// What everybody may read about the holder.
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> AcquireOptions {
        self.metadata.insert(key.into(), value.into());
        self
    }

    /// Renews this long after each renewal that was confirmed, if that is earlier than a third of the TTL.
    pub fn renew_every(mut self, every: Duration) -> AcquireOptions {
        self.renewal = Renewal::every(every);
        self
    }

    /// Never renews: the lease is lost at half of its TTL.
    pub fn never_renew(mut self) -> AcquireOptions {
        self.renewal = Renewal::Never;
        self
    }

    /// Renews only while the holder has reported progress within this time, so that a stuck worker does not keep its lock.
    /// The grant counts as the first report.
    pub fn tied_to_progress(mut self, within: Duration) -> AcquireOptions {
        self.progress_within = Some(within);
        self
    }
}
