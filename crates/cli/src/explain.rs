//! What a refused or unanswered request means: a sentence for whoever typed it, with what was tried, where, and what to do
//! next; or an object for the program that asked for JSON. Chooses no exit status.

use leasehold_client::{Ended, Error, Trouble, Unavailable};
use serde_json::{Map, Value, json};

use crate::duration;
use crate::paint::visible;
use crate::shapes::{Holding, Waiting};

/// The sentence. `failed` says what was tried: "could not acquire deploy".
pub fn sentence(failed: &str, server: &str, error: &Error) -> String {
    let at = format!("{failed} at {server}");
    visible(&match error {
        Error::Held(held) => {
            let lock = crate::quote::quoted(&held.lock);
            format!(
                "{at}: {held}; --wait says how long to stand in line, `leasehold get {lock}` who is before you"
            )
        }
        Error::Ended(ended) => format!("{at}: {ended}; {}", after_end(ended)),
        Error::NotFound { detail } => format!("{at}: {detail}"),
        Error::Invalid { field, detail } => {
            // The field is named as it is called here.
            let problem = detail.strip_prefix(&format!("`{field}`: ")).unwrap_or(detail);
            format!("{at}: {} is not valid: {problem}", option(field))
        }
        Error::ScopeMismatch { detail } => format!(
            "{at}: {detail}; hold the file's path or one above it exclusively, or have its own lock taken with --own-lock"
        ),
        Error::TooLarge { detail } => format!(
            "{at}: {detail}; write less, or elsewhere; the server's --file-bytes-max and --files-bytes-max set the limits"
        ),
        Error::NotAllowed { detail } => format!(
            "{at}: {detail}; show a token that the server knows with --token-file or LEASEHOLD_TOKEN_FILE"
        ),
        Error::ServerUnavailable(unavailable) => format!("{at}: {}", silence(unavailable)),
        Error::Unexpected { detail } => format!(
            "{at}: an answer came that makes no sense: {detail}; program and server may be of different versions"
        ),
        error => format!("{at}: {error}"),
    })
}

/// What a field is called on the command line.
fn option(field: &str) -> &str {
    match field {
        "lock" => "LOCK",
        "ca" => "--ca-file",
        "fencing_token" => "--token",
        "from" => "--from",
        "lease_id" => "--lease-id",
        "name" => "FILE",
        "offset" => "--offset",
        "metadata" => "--metadata",
        "owner_id" => "--owner",
        "prefix" => "--prefix",
        "reason" => "--reason",
        "request_id" => "--request-id",
        "server" => "--server",
        "session_id" => "--session-id",
        "token" => "--token-file",
        "ttl_ms" => "--ttl",
        "wait_ms" => "--wait",
        other => other,
    }
}

fn after_end(ended: &Ended) -> &'static str {
    match ended {
        Ended::Stale => "check lock, owner, lease id and token",
        _ => "stop what it protects, and acquire it anew if it is still wanted",
    }
}

fn silence(unavailable: &Unavailable) -> String {
    let Unavailable { attempts, trouble, may_have_happened, .. } = unavailable;
    let (met, next) = match trouble {
        Trouble::Refused(detail) => (
            format!("nobody listens there ({detail})"),
            "start one with `leasehold serve`, or say where it is with --server or LEASEHOLD_SERVER",
        ),
        Trouble::NoSuchHost(detail) => {
            (format!("there is no such host ({detail})"), "check --server or LEASEHOLD_SERVER")
        }
        Trouble::Tls(_) => {
            (trouble.to_string(), "check whether it is http:// or https://, and whom --ca-file trusts")
        }
        Trouble::NotServing(_) => (trouble.to_string(), "try again in a moment"),
        _ => (trouble.to_string(), "check --server or LEASEHOLD_SERVER, and whether the server runs"),
    };
    let tried = if *attempts > 1 { format!(", {attempts} times") } else { String::new() };
    let doubt = if *may_have_happened { "; it may have been carried out all the same" } else { "" };
    format!("{met}{tried}; {next}{doubt}")
}

/// One line of JSON: the contract's code, the sentence, what belongs to the code, and what else is to be named.
pub fn problem(sentence: &str, error: &Error, named: &[(&str, &str)]) -> String {
    let mut members: Map<String, Value> =
        named.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
    let mut put = |name: &str, value: Value| members.insert(name.to_owned(), value);
    put("code", json!(code(error)));
    put("detail", json!(sentence));
    match error {
        Error::Held(held) => {
            put("holders", json!(held.holders.iter().map(Holding::from).collect::<Vec<_>>()));
            put("waiters", json!(held.waiters.iter().map(Waiting::from).collect::<Vec<_>>()));
            put("recommended_retry_ms", json!(duration::ms(held.retry_after)));
        }
        Error::Busy { retry_after, .. } => {
            put("recommended_retry_ms", json!(duration::ms(*retry_after)));
        }
        Error::Invalid { field, .. } => {
            put("field", json!(field));
        }
        Error::ServerUnavailable(unavailable) => {
            put("server", json!(unavailable.server));
            put("may_have_happened", json!(unavailable.may_have_happened));
        }
        _ => {}
    }
    Value::Object(members).to_string()
}

fn code(error: &Error) -> &'static str {
    match error {
        Error::Held(_) => "held",
        Error::Busy { .. } => "busy",
        Error::Ended(Ended::Expired | Ended::Lost) => "lease_expired",
        Error::Ended(Ended::Stale) => "stale_token",
        Error::Ended(Ended::NeverHeld | Ended::Forgotten) | Error::NotFound { .. } => "not_found",
        Error::Ended(_) => "released",
        Error::Invalid { .. } => "invalid_argument",
        Error::ScopeMismatch { .. } => "scope_mismatch",
        Error::TooLarge { .. } => "too_large",
        Error::NotAllowed { .. } => "permission_denied",
        Error::Cancelled => "cancelled",
        Error::Gone => "gone",
        Error::ServerUnavailable(_) => "unavailable",
        _ => "internal",
    }
}
