//! Refusals in the description: for each code of the one table its schema and an example, both made of a refusal that
//! was rendered as real ones are.

use leasehold_state_machine::answer::Refusal;
use leasehold_state_machine::invalid::Invalid;
use serde_json::{Map, Value, json};

use super::samples::{held, value};
use super::schema::object;
use super::{Documents, reference};
use crate::limits::BODY_BYTES_MAX;
use crate::wire::problem::{Code, Denial};

/// Adds the schema of every code.
pub fn add_schemas(schemas: &mut Documents) {
    for code in Code::ALL {
        schemas.insert(schema_name(code), schema(code));
    }
}

/// The schema of one code's problems: its own status, title and code, and whatever else they carry.
fn schema(code: Code) -> Value {
    let (word, status, title) = code.row();
    let mut schema =
        object(&schema_name(code), &value(&sample(code).render()), &value(&least(code).render()));
    schema["properties"]["code"] = json!({"type": "string", "const": word, "description": "For programs."});
    schema["properties"]["status"] =
        json!({"type": "integer", "const": status, "description": "The HTTP status."});
    schema["properties"]["title"]["const"] = title.into();
    schema["description"] = meaning(code).into();
    schema
}

/// What all of these answer that have one status. The name of the answer, and the answer.
pub fn response(codes: &[Code]) -> (String, Value) {
    let (name, description) =
        (words(codes).join("_or_"), codes.iter().copied().map(meaning).collect::<Vec<_>>().join(" Or: "));
    let refs: Vec<Value> = codes.iter().map(|code| reference("schemas", &schema_name(*code))).collect();
    let schema = match refs.as_slice() {
        [only] => only.clone(),
        _ => json!({"oneOf": refs}),
    };
    let examples: Map<String, Value> = codes
        .iter()
        .map(|code| (code.row().0.to_owned(), json!({"value": value(&sample(*code).render())})))
        .collect();
    let mut response = json!({
        "description": description,
        "content": {"application/problem+json": {"schema": schema, "examples": examples}},
    });
    if codes.iter().any(|code| sample(*code).retry_ms().is_some() && code.row().1 == 503) {
        response["headers"]["Retry-After"] = json!({
            "description": "`recommended_retry_ms` in whole seconds, rounded up.",
            "schema": {"type": "integer", "minimum": 1},
        });
    }
    if codes.contains(&Code::Unauthenticated) {
        response["headers"]["WWW-Authenticate"] = json!({
            "description": "`Bearer`, with `error=\"invalid_token\"` when one was shown.",
            "schema": {"type": "string"},
        });
    }
    if codes.contains(&Code::OutOfRange) {
        response["headers"]["Content-Range"] = json!({
            "description": "How many bytes the file has: `bytes */4096`.",
            "schema": {"type": "string"},
        });
    }
    if codes.contains(&Code::MethodNotAllowed) {
        response["headers"]["Allow"] = json!({
            "description": "The methods that this path has.",
            "schema": {"type": "string"},
        });
    }
    (name, response)
}

fn words(codes: &[Code]) -> Vec<&'static str> {
    codes.iter().copied().map(word).collect()
}

/// The code's word; one of its own for what shares its word with another.
fn word(code: Code) -> &'static str {
    match code {
        Code::OutOfRange => "out_of_range",
        _ => code.row().0,
    }
}

/// `ProblemLeaseExpired` for `lease_expired`.
fn schema_name(code: Code) -> String {
    let parts = word(code).split('_').map(|part| {
        let mut letters = part.chars();
        letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters)
    });
    "Problem".chars().chain(parts.flatten()).collect()
}

/// A refusal with this code and everything that it can carry.
fn sample(code: Code) -> Denial {
    match code {
        Code::InvalidArgument => Invalid::new("ttl_ms", "a TTL is 100 to 86400000 ms").into(),
        Code::Unauthenticated => Denial::Unauthenticated { shown: false },
        Code::PermissionDenied => {
            Denial::Foreign { why: "requests from pages of another site are refused".into() }
        }
        Code::NotFound => Refusal::NotFound("no such lease, or long forgotten").into(),
        Code::MethodNotAllowed => Denial::WrongMethod { allow: "POST".into() },
        Code::UnsupportedMediaType => Denial::WrongMediaType,
        Code::Held => Refusal::Held(held()).into(),
        Code::LeaseExpired => Refusal::LeaseExpired.into(),
        Code::Released => Refusal::Released.into(),
        Code::Gone => Denial::Gone { kept_after: 4711 },
        Code::StaleToken => Refusal::StaleToken { highest_token: Some(super::samples::TOKEN) }.into(),
        Code::TooLarge => Denial::BodyTooLarge { bytes_max: BODY_BYTES_MAX },
        Code::OutOfRange => Denial::OutOfRange { size: 4096 },
        Code::ScopeMismatch => Refusal::ScopeMismatch("the lease does not cover what is written").into(),
        Code::Cancelled => Refusal::Cancelled.into(),
        Code::Busy => Refusal::Busy { what: "requests in flight", retry_ms: 1000 }.into(),
        Code::Unavailable => Refusal::Unavailable { why: "the server is starting", retry_ms: 500 }.into(),
    }
}

/// A refusal with this code and as little as it can carry.
fn least(code: Code) -> Denial {
    match code {
        Code::StaleToken => Refusal::StaleToken { highest_token: None }.into(),
        _ => sample(code),
    }
}

fn meaning(code: Code) -> &'static str {
    match code {
        Code::InvalidArgument => "Malformed; `field` says where.",
        Code::Unauthenticated => {
            "The server asks for a token and does not know what was shown, if anything was."
        }
        Code::PermissionDenied => {
            "It comes from where nobody may ask from: a foreign `Host`, `Origin` or `Sec-Fetch-Site`."
        }
        Code::NotFound => "No such lease, session, file or route; or forgotten.",
        Code::MethodNotAllowed => "The path has other methods.",
        Code::UnsupportedMediaType => "The body says that it is not JSON.",
        Code::Held => "Somebody holds it or stands before you, or the wait ran out.",
        Code::LeaseExpired => "It was yours and its time ran out.",
        Code::Released => "It was yours and was released, closed or broken.",
        Code::Gone => "The watch asks for events that are no longer kept.",
        Code::StaleToken => {
            "Owner, lease, token and lock do not belong together; `highest_token` if a newer one was seen."
        }
        Code::TooLarge => "A body, a file, or all files together would be over their limit.",
        Code::OutOfRange => "The file has none of the bytes that `Range` asks for.",
        Code::ScopeMismatch => "A live lease, but shared or not covering what is written.",
        Code::Cancelled => "The caller took the request back, or a newer attempt of it is answered instead.",
        Code::Busy => "Overloaded, or a limit is reached. Try again later.",
        Code::Unavailable => {
            "The server cannot do this now: it is starting or stopping, its disk is nearly full, or it grants nothing after a restore."
        }
    }
}
