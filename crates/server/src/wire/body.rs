//! The fields of a request's body: one strict JSON object, read field by field so that every error names its field.
//! Unknown fields, repeated fields and `null` are refused; nothing is converted.

use std::collections::BTreeMap;

use leasehold_state_machine::invalid::Invalid;
use leasehold_state_machine::words::Metadata;

use super::echo;
use super::json::Json;

/// The fields of one body, by their places in the list of known names.
#[derive(Debug)]
pub struct Body<const N: usize> {
    known: [&'static str; N],
    values: [Option<Json>; N],
}

impl<const N: usize> Body<N> {
    /// Reads an object in which only the names in `known` may occur.
    pub fn read(bytes: &[u8], known: [&'static str; N]) -> Result<Self, Invalid> {
        let members = match Json::parse(bytes) {
            Ok(Json::Object(members)) => members,
            Ok(other) => return Err(wrong_kind("body", "a JSON object", &other)),
            Err(_) if bytes.is_empty() => {
                return Err(Invalid::new("body", "a JSON object is expected, the body is empty"));
            }
            Err(syntax) => return Err(Invalid::new("body", format!("a JSON object is expected: {syntax}"))),
        };
        let mut body = Body { known, values: [const { None }; N] };
        for (name, value) in members {
            let Some(place) = known.iter().position(|known| *known == name) else {
                return Err(Invalid::new(echo(&name), "there is no such field here"));
            };
            if value == Json::Null {
                return Err(Invalid::new(known[place], "`null` is no value: leave the field out"));
            }
            if body.values[place].replace(value).is_some() {
                return Err(Invalid::new(known[place], "a field is given once"));
            }
        }
        Ok(body)
    }

    /// A string, if the field is there.
    pub fn text(&mut self, name: &'static str) -> Result<Option<String>, Invalid> {
        match self.take(name) {
            None => Ok(None),
            Some(Json::Text(text)) => Ok(Some(text)),
            Some(other) => Err(wrong_kind(name, "a string", &other)),
        }
    }

    /// A string that must be there.
    pub fn required_text(&mut self, name: &'static str) -> Result<String, Invalid> {
        self.text(name)?.ok_or_else(|| missing(name))
    }

    /// A whole number, if the field is there.
    pub fn number(&mut self, name: &'static str) -> Result<Option<u64>, Invalid> {
        match self.take(name) {
            None => Ok(None),
            Some(Json::Whole(number)) => Ok(Some(number)),
            Some(Json::OtherNumber) => {
                Err(Invalid::new(name, "a whole number from 0 up is expected, without point or exponent"))
            }
            Some(other) => Err(wrong_kind(name, "a number", &other)),
        }
    }

    /// A whole number that must be there.
    pub fn required_number(&mut self, name: &'static str) -> Result<u64, Invalid> {
        self.number(name)?.ok_or_else(|| missing(name))
    }

    /// A map of strings, if the field is there.
    pub fn metadata(&mut self, name: &'static str) -> Result<Option<Metadata>, Invalid> {
        let members = match self.take(name) {
            None => return Ok(None),
            Some(Json::Object(members)) => members,
            Some(other) => return Err(wrong_kind(name, "an object of strings", &other)),
        };
        let mut map = BTreeMap::new();
        for (key, value) in members {
            let Json::Text(text) = value else {
                return Err(wrong_kind(name, "an object of strings", &value));
            };
            if map.insert(key, text).is_some() {
                return Err(Invalid::new(name, "a key is given once"));
            }
        }
        Metadata::new(map).map(Some)
    }

    fn take(&mut self, name: &'static str) -> Option<Json> {
        let place = self.known.iter().position(|known| *known == name);
        assert!(place.is_some(), "only known fields are asked for");
        place.and_then(|place| self.values[place].take())
    }
}

fn missing(name: &'static str) -> Invalid {
    Invalid::new(name, "this field is required")
}

fn wrong_kind(field: &'static str, expected: &str, found: &Json) -> Invalid {
    Invalid::new(field, format!("{expected} is expected, this is {}", found.what()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Body<3>, Invalid> {
        Body::read(text.as_bytes(), ["owner_id", "fencing_token", "metadata"])
    }

    #[test]
    fn every_error_names_its_field() {
        let cases = [
            ("", "body"),
            ("[]", "body"),
            ("null", "body"),
            ("{", "body"),
            (r#"{"colour":1}"#, "colour"),
            (r#"{"owner_id":null}"#, "owner_id"),
            (r#"{"owner_id":"a","owner_id":"a"}"#, "owner_id"),
        ];
        for (text, field) in cases {
            assert_eq!(read(text).unwrap_err().field, field, "{text}");
        }
        assert_eq!(read("{}").unwrap().required_text("owner_id").unwrap_err().field, "owner_id");
        assert_eq!(read(r#"{"owner_id":1}"#).unwrap().text("owner_id").unwrap_err().field, "owner_id");
        for token in ["-1", "1.5", "1e3", "18446744073709551616", "\"1\"", "{}", "[]"] {
            let body = read(&format!(r#"{{"fencing_token":{token}}}"#));
            assert_eq!(body.unwrap().required_number("fencing_token").unwrap_err().field, "fencing_token");
        }
        for metadata in [r#"{"a":1}"#, r#"{"a":null}"#, r#"{"a":"b","a":"b"}"#, r#"{"a":{}}"#, "[]", "\"a\""]
        {
            let body = read(&format!(r#"{{"metadata":{metadata}}}"#));
            assert_eq!(body.unwrap().metadata("metadata").unwrap_err().field, "metadata", "{metadata}");
        }
    }

    #[test]
    fn fields_come_out_as_they_were_written() {
        let mut body = read(r#"{"metadata":{"b":"2","a":"1"},"fencing_token":9007199254740991}"#).unwrap();
        assert_eq!(body.required_number("fencing_token").unwrap(), (1 << 53) - 1);
        let metadata = body.metadata("metadata").unwrap().unwrap();
        assert_eq!(metadata.entries().collect::<Vec<_>>(), [("a", "1"), ("b", "2")]);
        assert_eq!(body.text("owner_id").unwrap(), None);
    }
}
