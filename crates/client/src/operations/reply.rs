//! An answer on its way to whoever asked, who may have gone: then what was begun for them is taken back, so that nobody holds
//! what nobody knows of.

use leasehold_protocol::v1;
use leasehold_protocol::v1::operation::What;
use tokio::sync::oneshot;

use super::Answered;
use crate::error::Error;
use crate::outcome::{self, Told};

/// An answer on its way.
pub(super) struct Reply {
    pub to: oneshot::Sender<Result<Answered, Error>>,
    pub outcome: Result<Answered, Error>,
    pub begins: Begins,
}

impl Reply {
    /// Hands it over. If nobody is there, gives what takes back what was begun.
    pub fn deliver(self) -> Option<What> {
        let answered = self.to.send(self.outcome).err()?.ok()?;
        self.begins.undo(answered.told)
    }
}

/// What an operation begins that goes on when it has been answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begins {
    Nothing,
    Lease,
    Session,
}

impl Begins {
    /// Takes back what this answer tells of.
    pub fn undo(self, told: Told) -> Option<What> {
        match (self, told) {
            (Begins::Lease, Told::Lease(lease)) => {
                let lease = outcome::lease(&lease).ok()?;
                Some(What::Release(v1::ReleaseRequest {
                    lock: lease.lock,
                    owner_id: lease.owner_id,
                    lease_id: lease.lease_id,
                    fencing_token: lease.fencing_token,
                }))
            }
            (Begins::Session, Told::Session(session)) => {
                Some(What::CloseSession(v1::CloseSessionRequest { session_id: session.session_id }))
            }
            _ => None,
        }
    }
}
