//! Holds every answer to the description of the API: the status must be documented for the call, and the body must
//! have exactly the documented shape. Whatever a test asks for, its answer passes through here.

use std::collections::BTreeSet;

use leasehold_server::http::openapi::document;
use serde_json::Value;

use super::Answer;

/// What an answer was to: the operation's id, and the code if it was a refusal.
pub type Met = (String, Option<String>);

/// Properties of the document's schemas that occurred, as `Lease.lock`.
pub type Seen = BTreeSet<String>;

/// Panics unless the answer is as documented.
pub fn check(request: &[u8], answer: &Answer) {
    let head = String::from_utf8_lossy(request);
    let mut words = head.lines().next().unwrap_or_default().split(' ');
    if let (Some(method), Some(target), Some("HTTP/1.1")) = (words.next(), words.next(), words.next()) {
        look(method, target, answer, &mut Seen::new());
    }
}

/// Panics unless the answer is as documented; none if there is no such operation.
pub fn look(method: &str, target: &str, answer: &Answer, seen: &mut Seen) -> Option<Met> {
    // An answer without a type is the HTTP library's, to something that is no request.
    let media = answer.header("content-type")?.split(';').next().unwrap_or_default();
    let path = target.split('?').next().unwrap_or_default();
    let context =
        || format!("{method} {target}: {} {}", answer.status, String::from_utf8_lossy(answer.bytes()));
    // An answer to HEAD does not say it.
    let says = media == "application/problem+json" && method != "HEAD";
    let code = says.then(|| answer.json()["code"].as_str().unwrap().to_owned());

    let Some(operation) = operation(method, path) else {
        if method == "HEAD" {
            return None;
        }
        let code = code.unwrap_or_else(|| panic!("only a refusal: {}", context()));
        let schemas = document()["components"]["schemas"].as_object().unwrap();
        let fits = |schema: &Value| schema["properties"]["code"]["const"] == code.as_str();
        let (name, schema) = schemas.iter().find(|(_, schema)| fits(schema)).unwrap();
        validate(schema, &answer.json(), name, seen).unwrap_or_else(|why| panic!("{why}: {}", context()));
        return None;
    };
    let response = &operation["responses"][answer.status.to_string()];
    let content = &resolve(response)["content"][media];
    assert!(content.is_object(), "not documented: {}", context());
    let id = operation["operationId"].as_str().unwrap().to_owned();
    if media.ends_with("json") && method != "HEAD" {
        validate(&content["schema"], &answer.json(), &id, seen)
            .unwrap_or_else(|why| panic!("{why}: {}", context()));
    }
    Some((id, code))
}

/// The operation that the document has for a method and a path; for HEAD that of GET, if it has none of its own.
fn operation(method: &str, path: &str) -> Option<&'static Value> {
    let own = documented(&method.to_ascii_lowercase(), path);
    own.or_else(|| documented("get", path).filter(|_| method == "HEAD"))
}

fn documented(method: &str, path: &str) -> Option<&'static Value> {
    let paths = document()["paths"].as_object().unwrap();
    let fits = |template: &str| {
        let (ours, sent) = (template.split('/'), path.split('/'));
        ours.clone().count() == sent.clone().count()
            && ours.zip(sent).all(|(ours, sent)| ours == sent || ours.starts_with('{'))
    };
    let (_, item) = paths.iter().find(|(template, item)| fits(template) && item.get(method).is_some())?;
    item.get(method)
}

/// What a reference refers to.
pub fn resolve(part: &'static Value) -> &'static Value {
    match part["$ref"].as_str() {
        Some(target) => document().pointer(&target[1..]).unwrap_or_else(|| panic!("{target} is nowhere")),
        None => part,
    }
}

/// Whether a value is what a schema says, by the part of JSON Schema that the document uses. A keyword that is not known
/// here is a mistake: it would go unchecked.
pub fn validate(schema: &Value, value: &Value, at: &str, seen: &mut Seen) -> Result<(), String> {
    let wrong = |what: String| Err(format!("{at}: {value} {what}"));
    for (keyword, rule) in schema.as_object().unwrap() {
        let number = || rule.as_u64().unwrap();
        let length = || value.as_str().map_or(0, |text| text.len() as u64);
        let holds = match keyword.as_str() {
            "$ref" => {
                let name = rule.as_str().unwrap();
                let target = document().pointer(&name[1..]).unwrap_or_else(|| panic!("{name} is nowhere"));
                validate(target, value, name.rsplit('/').next().unwrap(), seen)?;
                true
            }
            "oneOf" => {
                let fits = |schema: &&Value| validate(schema, value, at, &mut Seen::new()).is_ok();
                let fitting: Vec<_> = rule.as_array().unwrap().iter().filter(fits).collect();
                match fitting.as_slice() {
                    [only] => validate(only, value, at, seen)?,
                    _ => return wrong(format!("fits {} of {rule}", fitting.len())),
                }
                true
            }
            "type" => match rule.as_str().unwrap() {
                "object" => value.is_object(),
                "array" => value.is_array(),
                "string" => value.is_string(),
                "boolean" => value.is_boolean(),
                "integer" => value.is_u64(),
                other => panic!("{at}: the type {other} is not known here"),
            },
            "const" => value == rule,
            "enum" => rule.as_array().unwrap().contains(value),
            "minimum" => value.as_u64() >= Some(number()),
            "maximum" => value.as_u64() <= Some(number()),
            "minLength" => length() >= number(),
            "maxLength" => length() <= number(),
            "maxProperties" => value.as_object().map_or(0, |members| members.len() as u64) <= number(),
            "pattern" => {
                assert_eq!(rule, "^[!-~]+$", "the one pattern that is known here");
                value.as_str().unwrap().bytes().all(|byte| byte.is_ascii_graphic())
            }
            "format" => {
                assert_eq!(rule, "date-time", "the one format that is known here");
                let text = value.as_str().unwrap();
                text.len() == "2026-01-31T12:00:00.000Z".len() && &text[10..11] == "T" && text.ends_with('Z')
            }
            "required" => {
                let missing =
                    rule.as_array().unwrap().iter().find(|name| value.get(name.as_str().unwrap()).is_none());
                if let Some(name) = missing {
                    return wrong(format!("has no {name}"));
                }
                true
            }
            "properties" => {
                for (name, rule) in rule.as_object().unwrap() {
                    if let Some(member) = value.get(name) {
                        seen.insert(format!("{at}.{name}"));
                        validate(rule, member, &format!("{at}.{name}"), seen)?;
                    }
                }
                true
            }
            "additionalProperties" => {
                let known = schema["properties"].as_object();
                for (name, member) in value.as_object().unwrap() {
                    match rule {
                        Value::Bool(false) if known.is_none_or(|known| !known.contains_key(name)) => {
                            return wrong(format!("has {name}, which is not documented"));
                        }
                        Value::Object(_) => validate(rule, member, &format!("{at}.{name}"), seen)?,
                        _ => {}
                    }
                }
                true
            }
            "items" => {
                for item in value.as_array().unwrap() {
                    validate(rule, item, &format!("{at}[]"), seen)?;
                }
                true
            }
            "description" | "default" | "examples" => true,
            other => panic!("{at}: the keyword {other} is not known here"),
        };
        if !holds {
            return wrong(format!("is not {keyword} {rule}"));
        }
    }
    Ok(())
}
