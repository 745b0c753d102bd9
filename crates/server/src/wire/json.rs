//! JSON as it is written, nothing lost: duplicate names, `null`, and whether a number was whole. What a value should
//! have been is for its reader to judge. serde_json does the syntax, and bounds the depth.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// A JSON value as it was written.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number from 0 to 2^64 − 1, written without point or exponent.
    Whole(u64),
    /// Any other number.
    OtherNumber,
    /// A string.
    Text(String),
    /// An array; of what does not matter, because no call takes one.
    Array,
    /// An object, its members in the order and number in which they were written.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Reads one value and nothing after it, or says where the syntax is wrong.
    pub fn parse(bytes: &[u8]) -> Result<Json, String> {
        serde_json::from_slice(bytes).map_err(|error| error.to_string())
    }

    /// What this is, for somebody who should have written something else.
    pub fn what(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "a boolean",
            Json::Whole(_) | Json::OtherNumber => "a number",
            Json::Text(_) => "a string",
            Json::Array => "an array",
            Json::Object(_) => "an object",
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(AsWritten)
    }
}

struct AsWritten;

impl<'de> Visitor<'de> for AsWritten {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Whole(value))
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Json, E> {
        Ok(Json::OtherNumber)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Json, E> {
        Ok(Json::OtherNumber)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Json, E> {
        Ok(Json::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        while items.next_element::<Json>()?.is_some() {}
        Ok(Json::Array)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Json, A::Error> {
        let mut object = Vec::new();
        while let Some(member) = members.next_entry()? {
            object.push(member);
        }
        Ok(Json::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_what_other_readers_lose() {
        let parse = |text: &str| Json::parse(text.as_bytes()).unwrap();
        assert_eq!(parse(r#"{"a":1,"a":null}"#), {
            Json::Object(vec![("a".into(), Json::Whole(1)), ("a".into(), Json::Null)])
        });
        for other in ["-1", "1.0", "1e3", "18446744073709551616", "-0"] {
            assert_eq!(parse(other), Json::OtherNumber, "{other}");
        }
        assert_eq!(parse("18446744073709551615"), Json::Whole(u64::MAX));
    }

    #[test]
    fn bad_syntax_is_an_error_at_any_depth() {
        let deep = "[".repeat(60_000);
        let deep_object = r#"{"a":"#.repeat(10_000);
        for text in ["", "{", "{}x", "{'a':1}", "01", "1e999999", "\"\\ud800\"", "nul", &deep, &deep_object] {
            assert!(Json::parse(text.as_bytes()).is_err(), "{text:.20}");
        }
        assert!(Json::parse(b"\"\xff\"").is_err());
    }
}
