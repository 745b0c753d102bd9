//! A term of leadership, as it is given to what leads: proof, signal, and the means to publish. It never ends a term: that is
//! done by returning.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::Leader;
use crate::error::Error;
use crate::hold::Standing;
use crate::lease::Lease;
use crate::view::Metadata;

/// A term of leadership. Clones are the same term.
#[derive(Clone, Debug)]
pub struct Term {
    lease: Arc<Lease>,
    stopping: CancellationToken,
    /// What is published beside the value.
    metadata: Metadata,
}

impl Term {
    pub(super) fn new(lease: Arc<Lease>, stopping: CancellationToken, metadata: Metadata) -> Term {
        Term { lease, stopping, metadata }
    }

    /// The term's fencing token, to be sent with everything that only the leader may do; or the error that ended the term.
    pub fn token(&self) -> Result<u64, Error> {
        self.lease.token()
    }

    /// How leadership stands now, with the time that is left.
    pub fn standing(&self) -> Standing {
        self.lease.standing()
    }

    /// Fires when leadership is lost and when the loop is to stop: finish, and return.
    pub fn stopping(&self) -> CancellationToken {
        self.stopping.child_token()
    }

    /// Lets followers know this value from now on.
    pub async fn publish(&self, value: impl Into<String>) -> Result<(), Error> {
        let mut metadata = self.metadata.clone();
        metadata.insert(Leader::VALUE_KEY.into(), value.into());
        self.lease.describe(metadata).await
    }

    /// Says that what leads has got on; needed only by a leader that is tied to progress.
    pub fn progress(&self) {
        self.lease.progress();
    }

    /// The lease underneath.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Tells what leads to stop.
    pub(super) fn tell_to_stop(&self) {
        self.stopping.cancel();
    }
}
