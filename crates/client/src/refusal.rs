//! The server's refusals in the caller's words: the one table from codes to errors. Decides nothing.

use std::time::Duration;

use leasehold_protocol::v1;

use crate::error::{Ended, Error, Held};
use crate::view::{Holder, Waiter};

/// Whether a refused request may be sent again as it is, and when: the server is busy, or cannot serve now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// It was not carried out.
    Busy(Duration),
    /// It may have been, if it was sent more than once or the server was just stopping.
    NotServing(Duration),
}

/// Whether this refusal is one to try again after.
pub(crate) fn again(refusal: &v1::Error) -> Option<Again> {
    let after = Duration::from_millis(refusal.recommended_retry_ms);
    match refusal.code.as_str() {
        "busy" => Some(Again::Busy(after)),
        "unavailable" => Some(Again::NotServing(after)),
        _ => None,
    }
}

/// What a refusal means to whoever asked, for this lock if it was for one.
pub(crate) fn error(refusal: v1::Error, lock: &str) -> Error {
    let v1::Error { code, detail, field, holders, waiters, recommended_retry_ms, .. } = refusal;
    let retry_after = Duration::from_millis(recommended_retry_ms);
    match code.as_str() {
        "held" => held(lock, holders, waiters, retry_after).unwrap_or_else(|odd| odd),
        "busy" | "unavailable" => Error::Busy { detail, retry_after },
        "lease_expired" => Error::Ended(Ended::Expired),
        "released" => Error::Ended(Ended::Released),
        "stale_token" => Error::Ended(Ended::Stale),
        "scope_mismatch" => Error::ScopeMismatch { detail },
        "invalid_argument" => Error::Invalid { field, detail },
        "too_large" => Error::TooLarge { detail },
        "unauthenticated" | "permission_denied" => Error::NotAllowed { detail },
        "not_found" => Error::NotFound { detail },
        "cancelled" => Error::Cancelled,
        "gone" => Error::Gone,
        _ => Error::Unexpected { detail: format!("it refused with {code:?}: {detail}") },
    }
}

fn held(
    lock: &str,
    holders: Vec<v1::Holder>,
    waiters: Vec<v1::Waiter>,
    retry_after: Duration,
) -> Result<Error, Error> {
    Ok(Error::Held(Box::new(Held {
        lock: lock.to_owned(),
        holders: holders.into_iter().map(Holder::told).collect::<Result<_, _>>()?,
        waiters: waiters.into_iter().map(Waiter::told).collect::<Result<_, _>>()?,
        retry_after,
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(code: &str) -> v1::Error {
        v1::Error { code: code.into(), detail: "why".into(), field: "lock".into(), ..Default::default() }
    }

    #[test]
    fn every_code_of_the_contract_has_a_meaning() {
        let detail = String::from("why");
        let holder = v1::Holder { owner_id: "x".into(), ..Default::default() };
        let held = Held {
            lock: "a".into(),
            holders: Vec::from([Holder::told(holder.clone()).unwrap()]),
            waiters: Vec::new(),
            retry_after: Duration::from_millis(7),
        };
        let full = v1::Error { holders: Vec::from([holder]), recommended_retry_ms: 7, ..refusal("held") };
        assert_eq!(error(full, "a"), Error::Held(Box::new(held)));
        for (code, meaning) in [
            ("lease_expired", Error::Ended(Ended::Expired)),
            ("released", Error::Ended(Ended::Released)),
            ("stale_token", Error::Ended(Ended::Stale)),
            ("invalid_argument", Error::Invalid { field: "lock".into(), detail: detail.clone() }),
            ("scope_mismatch", Error::ScopeMismatch { detail: detail.clone() }),
            ("too_large", Error::TooLarge { detail: detail.clone() }),
            ("unauthenticated", Error::NotAllowed { detail: detail.clone() }),
            ("permission_denied", Error::NotAllowed { detail: detail.clone() }),
            ("not_found", Error::NotFound { detail: detail.clone() }),
            ("cancelled", Error::Cancelled),
            ("gone", Error::Gone),
            ("busy", Error::Busy { detail, retry_after: Duration::ZERO }),
        ] {
            assert_eq!(error(refusal(code), "a"), meaning);
        }
        assert!(matches!(error(refusal("internal"), "a"), Error::Unexpected { .. }));
    }

    #[test]
    fn only_what_passes_by_itself_is_tried_again() {
        let after = v1::Error { recommended_retry_ms: 20, ..refusal("busy") };
        assert_eq!(again(&after), Some(Again::Busy(Duration::from_millis(20))));
        assert_eq!(again(&refusal("unavailable")), Some(Again::NotServing(Duration::ZERO)));
        for code in ["held", "invalid_argument", "gone", "internal", ""] {
            assert_eq!(again(&refusal(code)), None);
        }
    }
}
