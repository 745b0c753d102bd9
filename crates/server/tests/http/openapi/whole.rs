//! The document by itself: whole, and true to itself.

use leasehold_server::http::openapi::document;
use serde_json::Value;

use super::Operation;
use crate::client::conform::{Seen, resolve, validate};
use crate::server::Server;

#[test]
fn the_document_is_served() {
    let server = Server::start();
    let answer = server.get("/openapi.json");
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let served = answer.expect(200);
    assert_eq!(&served, document());
    assert_eq!(served["openapi"], "3.1.0");
    assert_eq!(served["info"]["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn every_name_is_explained_and_every_reference_leads_somewhere() {
    fn walk(part: &'static Value, at: &str, found: &mut usize) {
        match part {
            Value::Object(members) => {
                if members.contains_key("$ref") {
                    assert!(resolve(part).is_object(), "{at}");
                    *found += 1;
                }
                if at.ends_with("/properties") {
                    for (name, schema) in members {
                        let explained = schema["description"].as_str().is_some_and(|text| !text.is_empty());
                        assert!(explained, "{at}/{name} is not in the dictionary");
                    }
                }
                for (name, member) in members {
                    // An example may hold anything.
                    if !matches!(name.as_str(), "example" | "examples") {
                        walk(member, &format!("{at}/{name}"), found);
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| walk(item, at, found)),
            _ => {}
        }
    }
    let mut found = 0;
    walk(document(), "", &mut found);
    assert!(found > 100, "{found} references");
}

#[test]
fn operations_are_told_apart_and_told_of() {
    let operations = Operation::all();
    assert!(operations.len() >= 20, "{}", operations.len());
    for (index, operation) in operations.iter().enumerate() {
        assert!(operations[..index].iter().all(|other| other.id != operation.id), "{}", operation.id);
        for text in ["summary", "description"] {
            assert!(operation.said[text].as_str().is_some_and(|text| !text.is_empty()), "{}", operation.id);
        }
        assert!(operation.codes().contains("invalid_argument"), "{}", operation.id);
    }
}

#[test]
fn examples_are_what_their_schemas_say() {
    let mut checked = 0;
    for (name, schema) in document()["components"]["schemas"].as_object().unwrap() {
        for example in schema["examples"].as_array().unwrap_or(&Vec::new()) {
            validate(schema, example, name, &mut Seen::new()).unwrap();
            checked += 1;
        }
    }
    for operation in Operation::all() {
        if let Some(body) = &operation.body {
            let content = &operation.said["requestBody"]["content"]["application/json"];
            validate(&content["schema"], body, &operation.id, &mut Seen::new()).unwrap();
            checked += 1;
        }
        for parameter in operation.said["parameters"].as_array().unwrap_or(&Vec::new()) {
            if let Some(example) = parameter.get("example") {
                validate(&parameter["schema"], example, &operation.id, &mut Seen::new()).unwrap();
                checked += 1;
            }
        }
        for (_, response) in operation.said["responses"].as_object().unwrap() {
            for (media, content) in resolve(response)["content"].as_object().unwrap() {
                if media == "application/json" && content.get("example").is_some() {
                    validate(&content["schema"], &content["example"], &operation.id, &mut Seen::new())
                        .unwrap();
                    checked += 1;
                }
            }
        }
    }
    for response in document()["components"]["responses"].as_object().unwrap().values() {
        let content = &response["content"]["application/problem+json"];
        for (code, example) in content["examples"].as_object().unwrap() {
            validate(&content["schema"], &example["value"], code, &mut Seen::new()).unwrap();
            assert_eq!(example["value"]["code"], code.as_str());
            checked += 1;
        }
    }
    assert!(checked > 50, "{checked} examples");
}
