//! What the description says of each route: words for people, an example of a request, and which codes it can answer.
//! Fields and parameters are those that the route reads; which of them are required is found out by leaving them out.

use std::collections::BTreeMap;

use hyper::header::HeaderMap;
use leasehold_state_machine::invalid::Invalid;
use serde_json::{Value, json};

use super::said::{Answered, Said, said};
use super::samples::sample;
use super::schema::of_names;
use super::{Documents, problems, reference, words};
use crate::http::route::{Page, To};
use crate::wire::commands::{Call, Sent};
use crate::wire::fields;
use crate::wire::problem::Code;

/// What any route can answer: it is looked at who asks, how, and whether there is room for one more connection.
const ANYWHERE: [Code; 4] = [Code::InvalidArgument, Code::PermissionDenied, Code::TooLarge, Code::Busy];

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
    let parameters = parameters(to, &said);
    if !parameters.is_empty() {
        operation["parameters"] = json!(parameters);
    }
    if let To::Call(call) = to
        && call.has_body()
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
        if call.has_body() {
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
        Answered::Document => json!({
            "description": "This document.",
            "content": {"application/json": {"schema": {"type": "object"}}},
        }),
    }
}

fn parameters(to: To, said: &Said) -> Vec<Value> {
    let (names, in_path): (&[&str], bool) = match to {
        To::Call(call) => (call.parameters(), call.parameters().contains(&"lock")),
        To::WatchLock => (&fields::WATCH_LOCK, true),
        To::WatchPrefix => (&fields::WATCH_PREFIX, false),
        To::Page(_) => (&[], false),
    };
    let mut parameters = Vec::new();
    if in_path {
        parameters.push(json!({
            "name": "lock", "in": "path", "required": true,
            "description": "The lock, percent-encoded as one segment: `path:%2Fa%2Fb`. Where a proxy spoils `%2F`, write `~` here and name it in the query.",
            "schema": {"type": "string"},
            "example": "deploy",
        }));
    }
    for name in names {
        let schema = words::schema("query", name).unwrap_or(json!({}));
        let mut parameter = match *name {
            "lock" => json!({
                "name": name, "in": "query", "required": false, "schema": schema,
                "description": "The lock, when the path has `~`.",
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
    let header = |name: &str, description: &str, schema: Value| json!({"name": name, "in": "header", "required": false, "description": description, "schema": schema});
    match to {
        To::Call(Call::Acquire | Call::OpenSession | Call::Break) => parameters.push(header(
            "Idempotency-Key",
            "Another way to give `request_id`. If both are given, they agree.",
            words::schema("header", "request_id").unwrap_or_default(),
        )),
        To::WatchLock | To::WatchPrefix => parameters.push(header(
            "Last-Event-ID",
            "As `from`; sent by readers of server-sent events when they reconnect, and then goes further.",
            words::schema("header", "from").unwrap_or_default(),
        )),
        _ => {}
    }
    parameters
}

/// Whether the example is refused for want of this field or parameter alone.
fn is_required(call: Call, said: &Said, name: &str) -> bool {
    let mut body = said.body.clone();
    if let Some(fields) = body.as_object_mut() {
        fields.remove(name);
    }
    let query = said.query.iter().filter(|(given, _)| *given != name);
    let query: Vec<String> =
        query.map(|(name, value)| format!("{name}={}", value.replace(' ', "%20"))).collect();
    matches!(read(call, &body, &query.join("&")), Err(invalid) if invalid.field == name)
}

/// Reads a request as the server does.
fn read(call: Call, body: &Value, query: &str) -> Result<(), Invalid> {
    let body = if call.has_body() { body.to_string() } else { String::new() };
    let sent = Sent { lock: "deploy", query: Some(query), headers: &HeaderMap::new(), body: body.as_bytes() };
    call.command(sent).map(drop)
}

fn pascal(id: &str) -> String {
    id.chars().next().map(|first| first.to_ascii_uppercase()).into_iter().chain(id.chars().skip(1)).collect()
}
