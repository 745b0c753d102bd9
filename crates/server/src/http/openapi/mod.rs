//! The description of the HTTP API, as OpenAPI 3.1. It is made of what serves: the table of routes, the names that each
//! call reads, the code that renders answers, and the table of codes. Only the words for people, and which refusals a
//! call can meet, are written here; tests hold both against a real server.

mod samples;
mod words;

mod schema;

mod problems;
mod said;
mod said_of_files;

mod operations;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::http::pages::VERSION;
use crate::http::route::ROUTES;
use crate::wire::problem::Code;

/// The document.
pub fn document() -> &'static Value {
    static DOCUMENT: LazyLock<Value> = LazyLock::new(assemble);
    &DOCUMENT
}

/// The document as it is served.
pub fn text() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| document().to_string());
    &TEXT
}

/// Parts of the document, by name.
type Documents = BTreeMap<String, Value>;

fn assemble() -> Value {
    let mut schemas = Documents::new();
    for shape in samples::shapes() {
        schemas.insert(shape.name.into(), schema::object(shape.name, &shape.full, &shape.least));
    }
    problems::add_schemas(&mut schemas);
    let mut responses = Documents::new();
    let mut paths: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    for route in ROUTES {
        let operation = operations::describe(route.to, &mut schemas, &mut responses);
        // HEAD is to GET as everywhere, and not told of again.
        let method = route.methods[0].as_str().to_ascii_lowercase();
        paths.entry(format!("/{}", route.path.join("/"))).or_default().insert(method, operation);
    }
    let (name, response) = problems::response(&[Code::MethodNotAllowed]);
    responses.insert(name, response);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Leasehold",
            "version": VERSION,
            "summary": "Leases, locks and leaders with fencing tokens.",
            "description": INFO,
            "license": {"name": "Apache License 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "This server."}],
        "tags": said::TAGS.map(|(name, description)| json!({"name": name, "description": description})),
        "paths": paths,
        // A server without a token file asks nobody.
        "security": [{}, {"token": []}],
        "components": {
            "schemas": schemas,
            "responses": responses,
            "securitySchemes": {"token": {
                "type": "http",
                "scheme": "bearer",
                "description": "A token of the server's `--token-file`. `/healthz` and `/readyz` need none.",
            }},
        },
    })
}

const INFO: &str = "\
A request is granted when it conflicts with no live lease and with no earlier waiter.

Bodies are JSON objects with `Content-Type: application/json`; unknown fields, `null` and duplicate names are refused. \
The bodies of files are their bytes, of any type. \
Refusals are `application/problem+json`; programs read `code`. A path that is not listed is `not_found`, another method \
on one that is `method_not_allowed`. `GET` routes answer `HEAD` as well, except those that stream.

What `renew_after_ms` and `stop_after_ms` ask of a client is the client's half of safety: count from the moment the \
request was *sent*, on a clock that runs during suspend.";

/// A reference to a component.
fn reference(kind: &str, name: &str) -> Value {
    json!({"$ref": format!("#/components/{kind}/{name}")})
}
