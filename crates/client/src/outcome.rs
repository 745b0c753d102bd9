//! What a server tells on a stream, read no deeper than everybody needs it: a lease stays as it lies in bytes until whoever asked
//! for it reads it, into the texts that they asked with. Otherwise the messages of the protocol, field by field.

use leasehold_protocol::v1;
use prost::Message;

use crate::error::Error;

/// An `OutcomeGroup`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct OutcomeGroup {
    #[prost(message, repeated, tag = "1")]
    pub outcomes: Vec<Outcome>,
}

/// An `Outcome`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Outcome {
    #[prost(uint64, tag = "1")]
    pub number: u64,
    #[prost(oneof = "Told", tags = "2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12")]
    pub told: Option<Told>,
}

/// What one outcome says.
#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum Told {
    #[prost(message, tag = "2")]
    Welcome(v1::Welcome),
    #[prost(message, tag = "3")]
    Queued(v1::Queued),
    #[prost(message, tag = "4")]
    Ended(Box<v1::Ended>),
    /// To be read by [`lease`].
    #[prost(bytes = "vec", tag = "5")]
    Lease(Vec<u8>),
    #[prost(message, tag = "6")]
    Released(v1::ReleaseResponse),
    #[prost(message, tag = "7")]
    Cancelled(v1::CancelResponse),
    #[prost(message, tag = "8")]
    Verified(v1::VerifyResponse),
    #[prost(message, tag = "9")]
    Snapshot(Box<v1::Snapshot>),
    #[prost(message, tag = "10")]
    Session(Box<v1::Session>),
    #[prost(message, tag = "11")]
    Closed(v1::CloseSessionResponse),
    #[prost(message, tag = "12")]
    Error(Box<v1::Error>),
}

/// Reads a lease. The texts in `like` are likely to be as long as those of the lease: their memory is used, and nothing else.
pub(crate) fn lease(told: &[u8], like: v1::Lease) -> Result<v1::Lease, Error> {
    let mut lease = like;
    lease.clear();
    match lease.merge(told) {
        Ok(()) => Ok(lease),
        Err(error) => Err(Error::Unexpected { detail: format!("a lease that cannot be read: {error}") }),
    }
}

#[cfg(any(test, feature = "testing"))]
impl From<v1::OutcomeGroup> for OutcomeGroup {
    fn from(group: v1::OutcomeGroup) -> OutcomeGroup {
        let read = OutcomeGroup::decode(&*group.encode_to_vec());
        assert!(read.is_ok(), "both are the same bytes: {read:?}");
        read.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use leasehold_protocol::v1::outcome::What;

    use super::*;

    fn granted() -> v1::Lease {
        v1::Lease {
            lock: "orders".into(),
            owner_id: "worker-1".into(),
            lease_id: "secret".into(),
            fencing_token: 7,
            ttl_ms: 30_000,
            metadata: [("pid".to_owned(), "7".to_owned())].into(),
            ..v1::Lease::default()
        }
    }

    #[test]
    fn is_the_message_of_the_protocol() {
        let all = [
            What::Welcome(v1::Welcome { in_flight_max: 9 }),
            What::Queued(v1::Queued { position: 3 }),
            What::Ended(Box::new(v1::Ended { session_id: "s".into(), ended: Vec::new() })),
            What::Lease(Box::new(granted())),
            What::Released(v1::ReleaseResponse::default()),
            What::Cancelled(v1::CancelResponse { cancelled: "waiting".into() }),
            What::Verified(v1::VerifyResponse::default()),
            What::Snapshot(Box::new(v1::Snapshot { lock: "orders".into(), ..v1::Snapshot::default() })),
            What::Session(Box::new(v1::Session { session_id: "s".into(), ..v1::Session::default() })),
            What::Closed(v1::CloseSessionResponse::default()),
            What::Error(Box::new(v1::Error { code: "held".into(), ..v1::Error::default() })),
        ];
        let outcomes = (1..).zip(all).map(|(number, what)| v1::Outcome { number, what: Some(what) });
        let group = v1::OutcomeGroup { outcomes: outcomes.collect() };
        let read = OutcomeGroup::from(group.clone());
        assert_eq!(read.encode_to_vec(), group.encode_to_vec());
        assert!(read.outcomes.iter().all(|outcome| outcome.told.is_some()));
        let Some(Told::Lease(bytes)) = &read.outcomes[3].told else { panic!("{read:?}") };
        assert_eq!(lease(bytes, v1::Lease::default()).unwrap(), granted());
    }

    #[test]
    fn a_lease_says_what_it_says_whatever_it_is_like() {
        let bytes = granted().encode_to_vec();
        for (lock, owner) in [("", ""), ("orders", "worker-1"), ("path:/another/much/longer", "x")] {
            let like = v1::Lease { lock: lock.into(), owner_id: owner.into(), ..v1::Lease::default() };
            assert_eq!(lease(&bytes, like).unwrap(), granted());
        }
        let nameless = v1::Lease { lock: String::new(), ..granted() };
        assert_eq!(lease(&nameless.encode_to_vec(), granted()).unwrap(), nameless);
        let error = lease(&bytes[..bytes.len() - 1], v1::Lease::default()).unwrap_err();
        assert!(error.to_string().contains("cannot be read"), "{error}");
    }
}
