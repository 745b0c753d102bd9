//! What one operation asks, encoded when it is asked: as it goes out, however often that is. Beside the bytes it keeps only
//! of which kind it is; the little that is ever wanted of the rest is read back from them.

use leasehold_protocol::v1;
use leasehold_protocol::v1::operation::What;
use prost::Message;

use super::begins::Begins;
use crate::group::{self, Usual};

/// The kinds of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Acquire,
    Renew,
    Release,
    Cancel,
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
            Kind::Renew | Kind::Release | Kind::Cancel | Kind::KeepAlive | Kind::CloseSession => Lane::Upkeep,
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
    pub(super) bytes: Vec<u8>,
}

impl Asked {
    /// Asks this, in memory that is not needed any more.
    pub(super) fn usual(usual: &Usual<'_>, mut memory: Vec<u8>) -> Asked {
        memory.clear();
        usual.encode(&mut memory);
        let kind = if usual.is_acquire() { Kind::Acquire } else { Kind::Release };
        Asked { kind, bytes: memory }
    }

    /// The lock that it is about, if it is about one.
    pub(super) fn lock(&self) -> String {
        match self.read() {
            Some(What::Acquire(asked)) => asked.lock,
            Some(What::Renew(asked)) => asked.lock,
            Some(What::Release(asked)) => asked.lock,
            Some(What::Verify(asked)) => asked.lock,
            Some(What::Get(asked)) => asked.lock,
            _ => String::new(),
        }
    }

    /// The number of the operation that it takes back, if it takes one back.
    pub(super) fn recalled(&self) -> Option<u64> {
        match self.kind {
            Kind::Cancel => match self.read() {
                Some(What::Cancel(number)) => Some(number),
                _ => None,
            },
            _ => None,
        }
    }

    fn read(&self) -> Option<What> {
        let operation = v1::Operation::decode(&*self.bytes);
        assert!(operation.is_ok(), "what was encoded here is read here: {operation:?}");
        operation.unwrap_or_default().what
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
            What::Cancel(_) => Kind::Cancel,
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
    use std::time::Duration;

    use super::*;
    use crate::calls::token;
    use crate::view::{Ask, Claim, Metadata, Mode, ms};

    fn asked(usual: &Usual<'_>) -> Asked {
        let asked = Asked::usual(usual, b"used before".to_vec());
        assert_eq!(asked.bytes.len(), usual.encoded_len());
        asked
    }

    #[test]
    fn what_takes_another_back_knows_which() {
        assert_eq!(Asked::from(What::Cancel(1 << 40)).recalled(), Some(1 << 40));
        assert_eq!(Asked::from(What::Release(v1::ReleaseRequest::default())).recalled(), None);
    }

    #[test]
    fn a_request_is_encoded_as_the_message_is() {
        let metadata: Metadata = [("k".to_owned(), "v".to_owned()), ("".to_owned(), "w".repeat(200))].into();
        let asks = [
            Ask::new(""),
            Ask { ttl: Some(Duration::ZERO), session_id: Some(String::new()), ..Ask::new("orders") },
            Ask { mode: Mode::Shared, ttl: Some(Duration::MAX), ..Ask::new("long/".repeat(100)) },
            Ask { session_id: Some("s".into()), metadata, ..Ask::new("path:/ä") },
        ];
        for (ask, owner) in asks.iter().flat_map(|ask| ["", "w1@host"].map(|owner| (ask, owner))) {
            let request = v1::AcquireRequest {
                lock: ask.lock.clone(),
                owner_id: owner.into(),
                ttl_ms: ask.ttl.map(ms),
                mode: ask.mode.wire(),
                wait_ms: 0,
                session_id: ask.session_id.clone(),
                request_id: None,
                metadata: ask.metadata.clone(),
            };
            let asked = asked(&ask.usual(owner));
            assert_eq!(asked.bytes, Asked::from(What::Acquire(request)).bytes);
            assert_eq!((asked.kind, asked.lock()), (Kind::Acquire, ask.lock.clone()));
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
            let asked = asked(&claim.usual());
            assert_eq!(asked.bytes, Asked::from(What::Release(message)).bytes);
            assert_eq!((asked.kind, &*asked.lock()), (Kind::Release, lock));
        }
    }
}
