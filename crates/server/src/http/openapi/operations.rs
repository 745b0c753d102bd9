//! What the description says of each route: words for people, an example of a request, and which codes it can answer.
//! Fields and parameters are those that the route reads; which of them are required is found out by leaving them out.

use std::collections::BTreeMap;

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use leasehold_state_machine::invalid::Invalid;
use leasehold_state_machine::limits::WRITE_BYTES_MAX;
use serde_json::{Value, json};

use super::said::{Answered, Said, said};
use super::samples::sample;
use super::schema::of_names;
use super::{Documents, problems, reference, words};
use crate::http::reply::FILE_TYPE;
use crate::http::route::{Page, To};
use crate::wire::commands::{Call, Sent};
use crate::wire::fields;
use crate::wire::file_commands::PROOF_HEADERS;
use crate::wire::problem::Code;

/// What any route can answer: it is looked at who asks, how, and whether there is room for one more connection.
const ANYWHERE: [Code; 4] = [Code::InvalidArgument, Code::PermissionDenied, Code::TooLarge, Code::Busy];

/// A file, the lock on it, and what is in it, in the examples.
const FILE_SEGMENT: &str = "reports%2Fa.log";
const FILE_LOCK: &str = "path:%2Freports%2Fa.log";
const BYTES: &str = "hello\n";

/// The operation of a route. Adds the schemas and responses that it refers to.
pub fn describe(to: To, schemas: &mut Documents, responses: &mut Documents) -> Value {
    let said = said(to);
    let mut operation = json!({
        "operationId": said.id,
        "tags": [said.tag],
        "summary": said.summary,
        "description": said.description,
        "responses": {"200": answered(&said.answer)},
    });
    if matches!(said.answer, Answered::Bytes) {
        operation["responses"]["206"] = part_of_a_file();
    }
    let parameters = parameters(to, &said);
    if !parameters.is_empty() {
        operation["parameters"] = json!(parameters);
    }
    if let To::Call(call) = to
        && call.has_bytes()
    {
        operation["requestBody"] = json!({
            "description": "The bytes, of any type.",
            "content": {FILE_TYPE: {"schema": {"type": "string", "maxLength": WRITE_BYTES_MAX}, "example": BYTES}},
        });
    }
    if let To::Call(call) = to
        && call.has_json()
    {
        let name = format!("{}Request", pascal(said.id));
        let required = |field: &str| is_required(call, &said, field);
        schemas.insert(name.clone(), of_names(&name, call.fields().iter().copied(), required));
        operation["requestBody"] = json!({
            "required": true,
            "content": {"application/json": {"schema": reference("schemas", &name), "example": said.body}},
        });
    }
    for (status, codes) in by_status(to, &said) {
        let (name, response) = problems::response(&codes);
        operation["responses"][status.to_string()] = reference("responses", &name);
        responses.insert(name, response);
    }
    operation
}

fn by_status(to: To, said: &Said) -> BTreeMap<u16, Vec<Code>> {
    let mut codes: Vec<Code> = ANYWHERE.iter().chain(said.codes).copied().collect();
    if !matches!(to, To::Page(Page::Health | Page::Ready)) {
        codes.push(Code::Unauthenticated);
    }
    if let To::Call(call) = to {
        codes.push(Code::Unavailable);
        if call.has_json() {
            codes.push(Code::UnsupportedMediaType);
        }
    }
    let mut statuses: BTreeMap<u16, Vec<Code>> = BTreeMap::new();
    // In the order of the table, so that the same codes always make the same answer.
    for code in Code::ALL.into_iter().filter(|code| codes.contains(code)) {
        statuses.entry(code.row().1).or_default().push(code);
    }
    statuses
}

fn answered(answer: &Answered) -> Value {
    let content =
        |media: &str, schema: Value, example: Value| json!({media: {"schema": schema, "example": example}});
    match answer {
        Answered::Shape(name) => {
            json!({
                "description": format!("{name}."),
                "content": content("application/json", reference("schemas", name), sample(name)),
            })
        }
        Answered::Text(media, example) => json!({
            "description": "As text.",
            "content": content(media, json!({"type": "string"}), (*example).into()),
        }),
        Answered::Events => {
            let data = sample("Event");
            let example = format!(
                "id: {}\nevent: {}\ndata: {data}\n\n",
                data["seq"],
                data["type"].as_str().unwrap_or_default()
            );
            json!({
                "description": "Server-sent events until either side ends it. The `data` of each is an `Event`, its `id` the event's `seq`; \
                                a comment now and then keeps the connection open. A watcher that falls behind is cut off, and resumes.",
                "content": content("text/event-stream", json!({"type": "string"}), example.into()),
            })
        }
        Answered::Bytes => json!({
            "description": "All bytes of the file.",
            "headers": file_headers(),
            "content": bytes(),
        }),
        Answered::FileHead => {
            let mut headers = file_headers();
            headers["Content-Length"] =
                json!({"description": "How many bytes the file has.", "schema": {"type": "integer"}});
            json!({"description": "What is known of the file.", "headers": headers, "content": {FILE_TYPE: {}}})
        }
        Answered::Document => json!({
            "description": "This document.",
            "content": {"application/json": {"schema": {"type": "object"}}},
        }),
    }
}

fn part_of_a_file() -> Value {
    let mut headers = file_headers();
    headers["Content-Range"] = json!({
        "description": "Which bytes these are, and how many the file has: `bytes 0-99/4096`.",
        "schema": {"type": "string"},
    });
    json!({"description": "The bytes that `Range` asks for.", "headers": headers, "content": bytes()})
}

fn bytes() -> Value {
    json!({FILE_TYPE: {"schema": {"type": "string"}, "example": BYTES}})
}

fn file_headers() -> Value {
    let header = |name: &str| {
        let mut schema = words::schema("File", name).unwrap_or_default();
        json!({"description": schema["description"].take(), "schema": {"type": "integer"}})
    };
    json!({"Leasehold-Inode": header("inode"), "Leasehold-Token": header("fencing_token")})
}

fn parameters(to: To, said: &Said) -> Vec<Value> {
    let names: &[&str] = match to {
        To::Call(call) => call.parameters(),
        To::WatchLock => &fields::WATCH_LOCK,
        To::WatchPrefix => &fields::WATCH_PREFIX,
        To::Page(_) => &[],
    };
    let mut parameters = Vec::new();
    for (name, what, encoded, example) in
        [("lock", "lock", "path:%2Fa%2Fb", "deploy"), ("name", "file", FILE_SEGMENT, FILE_SEGMENT)]
    {
        if names.contains(&name) {
            parameters.push(json!({
                "name": name, "in": "path", "required": true,
                "description": format!("The {what}, percent-encoded as one segment: `{encoded}`. Where a proxy spoils `%2F`, write `~` here and name it in the query."),
                "schema": {"type": "string"},
                "example": example,
            }));
        }
    }
    for name in names {
        let schema = words::schema("query", name).unwrap_or(json!({}));
        let mut parameter = match *name {
            "lock" | "name" => json!({
                "name": name, "in": "query", "required": false, "schema": schema,
                "description": "What is meant, when the path has `~`.",
            }),
            _ => json!({
                "name": name, "in": "query", "schema": schema, "description": schema["description"],
                "required": matches!(to, To::Call(call) if is_required(call, said, name)),
            }),
        };
        if let Some((_, value)) = said.query.iter().find(|(given, _)| given == name) {
            // As a number or a truth value where the schema wants one.
            parameter["example"] = match schema["type"].as_str() {
                Some("string") => (*value).into(),
                _ => serde_json::from_str(value).unwrap_or_default(),
            };
        }
        parameters.push(parameter);
    }
    parameters.extend(headers(to, said));
    parameters
}

fn headers(to: To, said: &Said) -> Vec<Value> {
    let header = |name: &str, description: &str, schema: Value| json!({"name": name, "in": "header", "required": false, "description": description, "schema": schema});
    let idempotency_key = |description: &str| {
        let schema = words::schema("header", "request_id").unwrap_or_default();
        header("Idempotency-Key", description, schema)
    };
    match to {
        To::Call(Call::Acquire | Call::OpenSession | Call::Break) => {
            vec![idempotency_key("Another way to give `request_id`. If both are given, they agree.")]
        }
        To::Call(Call::ReadFile) => vec![header(
            "Range",
            "Which bytes: `bytes=0-99`, `bytes=100-`, `bytes=-100`. Passed over together with `If-Range`, because files have no validators.",
            json!({"type": "string"}),
        )],
        To::Call(call) if call.shows_a_lease() => {
            let lease = sample("Lease");
            let shown = PROOF_HEADERS.iter().map(|(name, field)| {
                let schema = words::schema("header", field).unwrap_or_default();
                let mut shown = header(name, &proof_words(field), schema);
                shown["required"] = is_required(call, said, name).into();
                shown["example"] = if *field == "lock" { FILE_LOCK.into() } else { lease[*field].clone() };
                shown
            });
            let id = idempotency_key("The request's id: makes it safe to repeat, also across crashes.");
            shown.chain([id]).collect()
        }
        To::WatchLock | To::WatchPrefix => vec![header(
            "Last-Event-ID",
            "As `from`; sent by readers of server-sent events when they reconnect, and then goes further.",
            words::schema("header", "from").unwrap_or_default(),
        )],
        _ => Vec::new(),
    }
}

fn proof_words(field: &str) -> String {
    let encoded = if matches!(field, "lock" | "owner_id") { ", percent-encoded" } else { "" };
    format!("The `{field}` of the lease that is written under{encoded}.")
}

/// Whether the example is refused for want of this field, parameter or header alone.
fn is_required(call: Call, said: &Said, name: &str) -> bool {
    let mut body = said.body.clone();
    if let Some(fields) = body.as_object_mut() {
        fields.remove(name);
    }
    let query = said.query.iter().filter(|(given, _)| *given != name);
    let query: Vec<String> =
        query.map(|(name, value)| format!("{name}={}", value.replace(' ', "%20"))).collect();
    matches!(read(call, &body, &query.join("&"), name), Err(invalid) if invalid.field == name)
}

/// Reads a request as the server does, without one header.
fn read(call: Call, body: &Value, query: &str, without: &str) -> Result<(), Invalid> {
    let body = if call.has_json() { body.to_string() } else { String::new() };
    let mut headers = HeaderMap::new();
    let lease = sample("Lease");
    for (name, field) in PROOF_HEADERS.into_iter().filter(|(name, _)| *name != without) {
        let value = lease[field].as_str().map_or_else(|| lease[field].to_string(), str::to_owned);
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            headers.insert(name, value);
        }
    }
    let sent = Sent { segment: "deploy", query: Some(query), headers: &headers, body: body.as_bytes() };
    call.command(sent).map(drop)
}

fn pascal(id: &str) -> String {
    id.chars().next().map(|first| first.to_ascii_uppercase()).into_iter().chain(id.chars().skip(1)).collect()
}
