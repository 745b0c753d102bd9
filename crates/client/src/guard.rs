//! A lock that is held: the proof of it, the signal of its loss, and the way to give it back. Dropping it gives it back in the
//! background and never blocks.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::hold::Standing;
use crate::lease::Lease;

/// A lock that is held. Whoever has one has the means to learn of its loss.
///
/// What it protects must have stopped when it is unlocked or dropped. After a loss half of the TTL is left for stopping.
#[must_use = "dropping a guard gives its lock back"]
pub struct Guard {
    lease: Lease,
}

impl Guard {
    pub(crate) fn new(lease: Lease) -> Guard {
        Guard { lease }
    }

    /// The fencing token, to be sent with every write that the lock protects; or the error that ended the lease.
    pub fn token(&self) -> Result<u64, Error> {
        self.lease.token()
    }

    /// How it stands now, with the time that is left.
    pub fn standing(&self) -> Standing {
        self.lease.standing()
    }

    /// Fires when the lock is lost, and on any other end.
    pub fn lost(&self) -> CancellationToken {
        self.lease.lost()
    }

    /// Runs a future under the lock. It is dropped when the lock is lost, and before it would be polled again after a pause
    /// in which the lock was lost; the error is the one that ended the lease. What has been done by then is done: only the
    /// token fences.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, Error> {
        let lost = self.lost();
        let mut lost = pin!(lost.cancelled());
        let mut work = pin!(work);
        poll_fn(|context| {
            if lost.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(self.lease.why()));
            }
            self.lease.token()?;
            let done = std::task::ready!(work.as_mut().poll(context));
            // Work that ended after the loss was not protected to its end.
            Poll::Ready(self.lease.token().map(|_| done))
        })
        .await
    }

    /// Says that the holder has got on; needed only by a lock that is tied to progress.
    pub fn progress(&self) {
        self.lease.progress();
    }

    /// The lease underneath.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Gives the lock back and waits until the server has taken it. If it had ended before, this says how.
    pub async fn unlock(self) -> Result<(), Error> {
        self.lease.release().await
    }

    pub(crate) fn into_lease(self) -> Lease {
        self.lease
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("lease", &self.lease).finish()
    }
}
