//! What one operation asks, encoded when it is asked: as it goes out, however often that is. Beside the bytes it keeps only
//! of which kind it is; the little that is ever wanted of the rest is read back from them.

use leasehold_protocol::v1;
use leasehold_protocol::v1::operation::What;
use prost::Message;

use super::reply::Begins;
use crate::calls::token;
use crate::group;
use crate::view::Claim;

/// The kinds of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Acquire,
    Renew,
    Release,
    /// Of the operation with this number.
    Cancel(u64),
    OpenSession,
    KeepAlive,
    CloseSession,
    /// Looks at something, and changes nothing.
    Look,
}

/// The two kinds of operations that a server counts apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    Ordinary = 0,
    /// Keeps up or ends what was begun.
    Upkeep = 1,
}

impl Kind {
    pub fn lane(self) -> Lane {
        match self {
            Kind::Renew | Kind::Release | Kind::Cancel(_) | Kind::KeepAlive | Kind::CloseSession => {
                Lane::Upkeep
            }
            Kind::Acquire | Kind::OpenSession | Kind::Look => Lane::Ordinary,
        }
    }

    /// Whether anything is different afterwards.
    pub fn changes(self) -> bool {
        self != Kind::Look
    }

    /// What it begins, if it is carried out.
    pub fn begins(self) -> Begins {
        match self {
            Kind::Acquire => Begins::Lease,
            Kind::OpenSession => Begins::Session,
            _ => Begins::Nothing,
        }
    }
}

/// What an operation asks.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(super) kind: Kind,
    pub(super) bytes: Box<[u8]>,
}

impl Asked {
    /// Asks for a lease.
    pub fn acquire(request: &v1::AcquireRequest) -> Asked {
        Asked { kind: Kind::Acquire, bytes: group::encoded_acquire(request) }
    }

    /// Gives this lease back.
    pub fn release(claim: &Claim) -> Asked {
        let Claim { lock, owner_id, lease_id, fencing_token } = claim;
        let bytes = group::encoded_release(lock, owner_id, lease_id, token(*fencing_token));
        Asked { kind: Kind::Release, bytes }
    }

    /// The lock that it is about, if it is about one.
    pub(super) fn lock(&self) -> String {
        let operation = v1::Operation::decode(&*self.bytes);
        assert!(operation.is_ok(), "what was encoded here is read here: {operation:?}");
        match operation.unwrap_or_default().what {
            Some(What::Acquire(asked)) => asked.lock,
            Some(What::Renew(asked)) => asked.lock,
            Some(What::Release(asked)) => asked.lock,
            Some(What::Verify(asked)) => asked.lock,
            Some(What::Get(asked)) => asked.lock,
            _ => String::new(),
        }
    }
}

impl From<What> for Asked {
    fn from(what: What) -> Asked {
        Asked::from(&what)
    }
}

impl From<&What> for Asked {
    fn from(what: &What) -> Asked {
        let kind = match *what {
            What::Acquire(_) => Kind::Acquire,
            What::Renew(_) => Kind::Renew,
            What::Release(_) => Kind::Release,
            What::Cancel(number) => Kind::Cancel(number),
            What::OpenSession(_) => Kind::OpenSession,
            What::KeepAlive(_) => Kind::KeepAlive,
            What::CloseSession(_) => Kind::CloseSession,
            What::Hello(_) | What::Verify(_) | What::Get(_) => Kind::Look,
        };
        Asked { kind, bytes: group::encoded(what) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_encoded_as_the_message_is() {
        for lock in ["", "orders", &"long/".repeat(100)] {
            let (ttl_ms, session_id) = (Some(0), Some(String::new()));
            let request = v1::AcquireRequest { lock: lock.into(), ttl_ms, session_id, ..Default::default() };
            let asked = Asked::acquire(&request);
            assert_eq!(asked.bytes, Asked::from(What::Acquire(request)).bytes);
            assert_eq!((asked.kind, &*asked.lock()), (Kind::Acquire, lock));
        }
    }

    #[test]
    fn a_claim_is_encoded_as_the_message_is() {
        let claims = [("a", "w", "secret", 7), ("", "", "", 0), ("path:/ä", "o", "l", u64::MAX)];
        for (lock, owner, lease, number) in claims {
            let claim = Claim {
                lock: lock.into(),
                owner_id: owner.into(),
                lease_id: lease.into(),
                fencing_token: number,
            };
            let message = v1::ReleaseRequest {
                lock: lock.into(),
                owner_id: owner.into(),
                lease_id: lease.into(),
                fencing_token: token(number),
            };
            let asked = Asked::release(&claim);
            assert_eq!(asked.bytes, Asked::from(What::Release(message)).bytes);
            assert_eq!((asked.kind, &*asked.lock()), (Kind::Release, lock));
        }
    }
}
