//! The description of the API against a real server: every example is sent, every documented refusal is provoked, and
//! what comes back is what was described. (Every answer in the other tests is held to it as well.)

mod examples;
mod refusals;
mod whole;

use std::collections::BTreeSet;

use leasehold_server::http::openapi::document;
use serde_json::Value;

use crate::client::conform::resolve;

/// One operation of the document.
pub struct Operation {
    pub id: String,
    pub method: String,
    /// The path with its example in place.
    pub target: String,
    /// The headers that it needs, with their examples.
    pub headers: Vec<(String, String)>,
    pub body: Option<Value>,
    /// The body, if it is bytes of a file.
    pub bytes: Option<&'static str>,
    said: &'static Value,
}

impl Operation {
    pub fn all() -> Vec<Operation> {
        let paths = document()["paths"].as_object().unwrap();
        let each = paths.iter().flat_map(|(path, item)| {
            item.as_object().unwrap().iter().map(move |(method, said)| Operation::read(path, method, said))
        });
        each.collect()
    }

    pub fn named(id: &str) -> Operation {
        Operation::all().into_iter().find(|operation| operation.id == id).unwrap()
    }

    fn read(path: &str, method: &str, said: &'static Value) -> Operation {
        let mut target = path.to_owned();
        let mut query = Vec::new();
        let mut headers = Vec::new();
        for parameter in said["parameters"].as_array().unwrap_or(&Vec::new()) {
            let name = parameter["name"].as_str().unwrap();
            let Some(example) = parameter.get("example") else { continue };
            let example = example.as_str().map_or_else(|| example.to_string(), str::to_owned);
            match parameter["in"].as_str().unwrap() {
                "path" => target = target.replace(&format!("{{{name}}}"), &example),
                "query" => query.push(format!("{name}={}", example.replace(' ', "%20"))),
                "header" => headers.push((name.to_owned(), example)),
                other => panic!("an example in {other}"),
            }
        }
        if !query.is_empty() {
            target = format!("{target}?{}", query.join("&"));
        }
        let content = &said["requestBody"]["content"];
        let (json, bytes) = (&content["application/json"], &content["application/octet-stream"]);
        Operation {
            id: said["operationId"].as_str().unwrap().to_owned(),
            method: method.to_ascii_uppercase(),
            target,
            headers,
            body: json.get("example").cloned(),
            bytes: bytes["example"].as_str(),
            said,
        }
    }

    /// The codes that are documented for it.
    pub fn codes(&self) -> BTreeSet<String> {
        let responses = self.said["responses"].as_object().unwrap();
        responses.keys().flat_map(|status| self.codes_with(status)).collect()
    }

    /// Those that are documented with this status.
    pub fn codes_with(&self, status: &str) -> BTreeSet<String> {
        let response = resolve(&self.said["responses"][status]);
        let examples = &response["content"]["application/problem+json"]["examples"];
        examples.as_object().map(|examples| examples.keys().cloned().collect()).unwrap_or_default()
    }
}
