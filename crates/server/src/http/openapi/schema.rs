//! The schema of an object, from what it has when it has everything and what it has when it has as little as it can:
//! the former are its properties, the latter those that are required, and there are no others.

use serde_json::{Map, Value, json};

use super::words;

/// The schema of the shape `name`.
pub fn object(name: &str, full: &Value, least: &Value) -> Value {
    let keys = |value: &Value| -> Vec<String> {
        value.as_object().map(|members| members.keys().cloned().collect()).unwrap_or_default()
    };
    let required = keys(least);
    let mut schema =
        of_names(name, keys(full).iter().map(String::as_str), |name| required.iter().any(|key| key == name));
    schema["examples"] = json!([full]);
    schema
}

/// The schema of an object with these members.
pub fn of_names<'n>(
    of: &str,
    names: impl Iterator<Item = &'n str> + Clone,
    is_required: impl Fn(&str) -> bool,
) -> Value {
    // A name that the dictionary does not know may be anything; a test sees to it that there is none.
    let properties: Map<String, Value> =
        names.clone().map(|name| (name.to_owned(), words::schema(of, name).unwrap_or(json!({})))).collect();
    let required: Vec<&str> = names.filter(|name| is_required(name)).collect();
    let mut schema = json!({"type": "object", "properties": properties, "additionalProperties": false});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}
