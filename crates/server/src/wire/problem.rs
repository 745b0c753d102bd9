//! Refusals as they leave: the one table of codes, statuses and titles, and the `application/problem+json` made of
//! it. Decides nothing; what is refused was refused elsewhere.

use std::borrow::Cow;

use leasehold_state_machine::answer::{Held, Refusal};
use leasehold_state_machine::event::Seq;
use leasehold_state_machine::invalid::Invalid;
use serde::Serialize;

use super::shapes::{HolderJson, WaiterJson, to_json};

/// The codes of the contract that this server gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Malformed.
    InvalidArgument,
    /// No token, or none that is known.
    Unauthenticated,
    /// Not from there.
    PermissionDenied,
    /// No such thing or route.
    NotFound,
    /// A known route, another method.
    MethodNotAllowed,
    /// The body is not JSON.
    UnsupportedMediaType,
    /// Somebody holds it or stands before the caller.
    Held,
    /// Its time ran out.
    LeaseExpired,
    /// Released, closed or broken.
    Released,
    /// Events that are no longer kept.
    Gone,
    /// Owner, lease, token and lock do not belong together.
    StaleToken,
    /// A body, a file or a write over its limit.
    TooLarge,
    /// None of the bytes that are asked for is in the file. HTTP has a status of its own for it.
    OutOfRange,
    /// A live lease, but shared or not covering.
    ScopeMismatch,
    /// Taken back.
    Cancelled,
    /// Overloaded, or a limit reached.
    Busy,
    /// Not now.
    Unavailable,
}

impl Code {
    /// All of them, in the order of their discriminants.
    pub const ALL: [Code; 17] = [
        Code::InvalidArgument,
        Code::Unauthenticated,
        Code::PermissionDenied,
        Code::NotFound,
        Code::MethodNotAllowed,
        Code::UnsupportedMediaType,
        Code::Held,
        Code::LeaseExpired,
        Code::Released,
        Code::Gone,
        Code::StaleToken,
        Code::TooLarge,
        Code::OutOfRange,
        Code::ScopeMismatch,
        Code::Cancelled,
        Code::Busy,
        Code::Unavailable,
    ];

    /// The code's word, its HTTP status and its title: the table.
    pub fn row(self) -> (&'static str, u16, &'static str) {
        match self {
            Code::InvalidArgument => ("invalid_argument", 400, "Malformed request"),
            Code::Unauthenticated => ("unauthenticated", 401, "Not authenticated"),
            Code::PermissionDenied => ("permission_denied", 403, "Not allowed"),
            Code::NotFound => ("not_found", 404, "Not found"),
            Code::MethodNotAllowed => ("method_not_allowed", 405, "Method not allowed"),
            Code::UnsupportedMediaType => ("unsupported_media_type", 415, "The body is not JSON"),
            Code::Held => ("held", 409, "Held by somebody else"),
            Code::LeaseExpired => ("lease_expired", 410, "The lease has expired"),
            Code::Released => ("released", 410, "The lease has been released"),
            Code::Gone => ("gone", 410, "Events are no longer kept"),
            Code::StaleToken => ("stale_token", 412, "Not the lease it claims to be"),
            Code::TooLarge => ("too_large", 413, "Too large"),
            Code::OutOfRange => ("invalid_argument", 416, "No such bytes"),
            Code::ScopeMismatch => ("scope_mismatch", 422, "The lease does not cover this"),
            Code::Cancelled => ("cancelled", 499, "Cancelled"),
            Code::Busy => ("busy", 503, "Busy"),
            Code::Unavailable => ("unavailable", 503, "Not available now"),
        }
    }

    /// The table's gRPC column.
    pub fn grpc(self) -> tonic::Code {
        match self {
            Code::InvalidArgument | Code::TooLarge | Code::OutOfRange => tonic::Code::InvalidArgument,
            Code::Unauthenticated => tonic::Code::Unauthenticated,
            Code::PermissionDenied => tonic::Code::PermissionDenied,
            Code::NotFound => tonic::Code::NotFound,
            // Only HTTP has these.
            Code::MethodNotAllowed | Code::UnsupportedMediaType => tonic::Code::Unimplemented,
            Code::Held => tonic::Code::Aborted,
            Code::LeaseExpired | Code::Released | Code::StaleToken | Code::ScopeMismatch => {
                tonic::Code::FailedPrecondition
            }
            Code::Gone => tonic::Code::OutOfRange,
            Code::Cancelled => tonic::Code::Cancelled,
            Code::Busy | Code::Unavailable => tonic::Code::Unavailable,
        }
    }
}

/// A request that was not carried out.
#[derive(Debug, PartialEq)]
pub enum Denial {
    /// The state machine refused it, or an argument never became one of its words.
    Refusal(Refusal),
    /// There is no such route.
    NoRoute,
    /// The route has other methods.
    WrongMethod {
        /// Which ones.
        allow: String,
    },
    /// The body says it is something other than JSON.
    WrongMediaType,
    /// The body is too large.
    BodyTooLarge {
        /// The most it may have.
        bytes_max: usize,
    },
    /// A read asks for bytes of which the file has none.
    OutOfRange {
        /// How many it has.
        size: u64,
    },
    /// A watch asks for events that are no longer kept.
    Gone {
        /// All that are newer than this one are.
        kept_after: Seq,
    },
    /// It does not show a token that this server knows.
    Unauthenticated {
        /// Whether it showed one at all.
        shown: bool,
    },
    /// It comes from where nobody may ask from.
    Foreign {
        /// What gave it away, and what would be right.
        why: String,
    },
}

impl From<Refusal> for Denial {
    fn from(refusal: Refusal) -> Self {
        Denial::Refusal(refusal)
    }
}

impl From<Invalid> for Denial {
    fn from(invalid: Invalid) -> Self {
        Denial::Refusal(Refusal::Invalid(invalid))
    }
}

impl Denial {
    /// Which code it has.
    pub fn code(&self) -> Code {
        match self {
            Denial::Refusal(refusal) => match refusal {
                Refusal::Invalid(_) => Code::InvalidArgument,
                Refusal::NotFound(_) => Code::NotFound,
                Refusal::Held(_) => Code::Held,
                Refusal::LeaseExpired => Code::LeaseExpired,
                Refusal::Released => Code::Released,
                Refusal::StaleToken { .. } => Code::StaleToken,
                Refusal::ScopeMismatch(_) => Code::ScopeMismatch,
                Refusal::TooLarge { .. } => Code::TooLarge,
                Refusal::Cancelled => Code::Cancelled,
                Refusal::Busy { .. } => Code::Busy,
                Refusal::Unavailable { .. } => Code::Unavailable,
            },
            Denial::NoRoute => Code::NotFound,
            Denial::WrongMethod { .. } => Code::MethodNotAllowed,
            Denial::WrongMediaType => Code::UnsupportedMediaType,
            Denial::BodyTooLarge { .. } => Code::TooLarge,
            Denial::OutOfRange { .. } => Code::OutOfRange,
            Denial::Gone { .. } => Code::Gone,
            Denial::Unauthenticated { .. } => Code::Unauthenticated,
            Denial::Foreign { .. } => Code::PermissionDenied,
        }
    }

    /// When to try again, where that is told.
    pub fn retry_ms(&self) -> Option<u64> {
        match self {
            Denial::Refusal(Refusal::Held(held)) => Some(held.retry_ms),
            Denial::Refusal(Refusal::Busy { retry_ms, .. } | Refusal::Unavailable { retry_ms, .. }) => {
                Some(*retry_ms)
            }
            _ => None,
        }
    }

    /// The body of its answer.
    pub fn render(&self) -> Vec<u8> {
        let (code, status, title) = self.code().row();
        let mut problem = Problem { status, title, detail: self.detail(), code, ..Problem::default() };
        problem.recommended_retry_ms = self.retry_ms();
        match self {
            Denial::Refusal(Refusal::Invalid(invalid)) => problem.field = Some(&invalid.field),
            Denial::OutOfRange { .. } => problem.field = Some("Range"),
            Denial::Refusal(Refusal::Held(Held { holders, waiters, .. })) => {
                problem.holders = Some(holders.iter().map(HolderJson::from).collect());
                problem.waiters = Some(waiters.iter().map(WaiterJson::from).collect());
            }
            Denial::Refusal(Refusal::StaleToken { highest_token }) => problem.highest_token = *highest_token,
            _ => {}
        }
        to_json(&problem)
    }

    /// What happened, and what to do.
    pub fn detail(&self) -> Cow<'static, str> {
        match self {
            Denial::Refusal(refusal) => match refusal {
                Refusal::Invalid(invalid) => format!("`{}`: {}", invalid.field, invalid.problem).into(),
                Refusal::NotFound(what) => Cow::Borrowed(what),
                Refusal::Held(held) => format!(
                    "in the way: {} holding, {} waiting; try again later, or wait in line with `wait_ms`",
                    held.holders.len(),
                    held.waiters.len()
                )
                .into(),
                Refusal::LeaseExpired => "it was yours and its time ran out: acquire again".into(),
                Refusal::Released => "it was yours and was released, closed or broken: acquire again".into(),
                Refusal::StaleToken { .. } => {
                    "owner, lease, token and lock do not belong together, or no live lease has this token".into()
                }
                Refusal::ScopeMismatch(what) => Cow::Borrowed(what),
                Refusal::TooLarge { what, bytes_max } => {
                    format!("{what} would be too large: it has at most {bytes_max} bytes").into()
                }
                Refusal::Cancelled => {
                    "the request was taken back, or a newer attempt of it is answered instead".into()
                }
                Refusal::Busy { what, .. } => format!("a limit is reached: {what}; try again later").into(),
                Refusal::Unavailable { why, .. } => Cow::Borrowed(why),
            },
            Denial::NoRoute => "there is no such route; a lock's or a file's name is one percent-encoded path segment".into(),
            Denial::WrongMethod { allow } => format!("this route has {allow}").into(),
            Denial::WrongMediaType => {
                "the body must be JSON: send `Content-Type: application/json` (curl: -H 'Content-Type: application/json')"
                    .into()
            }
            Denial::OutOfRange { size } => format!("`Range`: the file has {size} bytes, and none of these").into(),
            Denial::BodyTooLarge { bytes_max } => format!("the body has at most {bytes_max} bytes").into(),
            Denial::Gone { kept_after } => format!(
                "events are kept that are newer than number {kept_after}: look at the locks again, and watch from the \
                 `seq` of what you see"
            )
            .into(),
            Denial::Unauthenticated { shown: false } => {
                "this server asks for a token: send `Authorization: Bearer ...`".into()
            }
            Denial::Unauthenticated { shown: true } => "this server does not know that token".into(),
            Denial::Foreign { why } => why.clone().into(),
        }
    }
}

/// RFC 9457, with this program's own members.
#[derive(Serialize, Default)]
struct Problem<'a> {
    status: u16,
    title: &'static str,
    detail: Cow<'static, str>,
    code: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holders: Option<Vec<HolderJson<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waiters: Option<Vec<WaiterJson<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    recommended_retry_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    highest_token: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(denial: impl Into<Denial>) -> String {
        String::from_utf8(denial.into().render()).unwrap()
    }

    #[test]
    fn carries_the_fields_that_the_code_names() {
        assert_eq!(
            json(Invalid::new("ttl_ms", "too short")),
            r#"{"status":400,"title":"Malformed request","detail":"`ttl_ms`: too short","code":"invalid_argument","field":"ttl_ms"}"#
        );
        let held = json(Refusal::Held(Held { holders: vec![], waiters: vec![], retry_ms: 7 }));
        assert!(
            held.ends_with(r#""code":"held","holders":[],"waiters":[],"recommended_retry_ms":7}"#),
            "{held}"
        );
        let stale = json(Refusal::StaleToken { highest_token: Some(9) });
        assert!(stale.ends_with(r#""code":"stale_token","highest_token":9}"#), "{stale}");
        assert!(json(Refusal::Busy { what: "full", retry_ms: 5 }).contains(r#""recommended_retry_ms":5"#));
        assert!(!json(Refusal::LeaseExpired).contains("retry"));
    }
}
