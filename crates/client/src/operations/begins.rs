//! What an operation begins that goes on when it has been answered, and how that is taken back: nobody holds what nobody knows
//! of.

use leasehold_protocol::v1;
use leasehold_protocol::v1::operation::What;

use crate::outcome::{self, Told};

/// What an operation begins that goes on when it has been answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begins {
    Nothing,
    Lease,
    Session,
}

impl Begins {
    /// Takes back what this answer tells of.
    pub fn undo(self, told: &Told) -> Option<What> {
        match (self, told) {
            (Begins::Lease, Told::Lease(lease)) => {
                let lease = outcome::lease(lease).ok()?;
                Some(What::Release(v1::ReleaseRequest {
                    lock: lease.lock,
                    owner_id: lease.owner_id,
                    lease_id: lease.lease_id,
                    fencing_token: lease.fencing_token,
                }))
            }
            (Begins::Session, Told::Session(session)) => {
                let session_id = session.session_id.clone();
                Some(What::CloseSession(v1::CloseSessionRequest { session_id }))
            }
            _ => None,
        }
    }
}
