//! The parameters of a query string: each known one at most once, every other refused. Never guesses a default.

use std::borrow::Cow;

use leasehold_state_machine::invalid::Invalid;

use super::echo;
use super::percent::decode_query;

/// The parameters of one request, by their places in the list of known names.
#[derive(Debug)]
pub struct Query<'q, const N: usize> {
    known: [&'static str; N],
    values: [Option<Cow<'q, str>>; N],
}

impl<'q, const N: usize> Query<'q, N> {
    /// Reads `raw`, the part after the question mark, in which only the names in `known` may occur.
    pub fn read(raw: Option<&'q str>, known: [&'static str; N]) -> Result<Self, Invalid> {
        let mut query = Query { known, values: [const { None }; N] };
        for pair in raw.into_iter().filter(|raw| !raw.is_empty()).flat_map(|raw| raw.split('&')) {
            let (raw_name, raw_value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = decode_query(raw_name).map_err(|problem| Invalid::new("query", problem))?;
            let Some(place) = known.iter().position(|known| *known == name) else {
                return Err(Invalid::new(echo(&name), "there is no such parameter here"));
            };
            let value = decode_query(raw_value).map_err(|problem| Invalid::new(known[place], problem))?;
            if query.values[place].replace(value).is_some() {
                return Err(Invalid::new(known[place], "a parameter is given once"));
            }
        }
        Ok(query)
    }

    /// The value of a known name, if it was given.
    pub fn text(&self, name: &'static str) -> Option<&str> {
        let place = self.known.iter().position(|known| *known == name);
        assert!(place.is_some(), "only known parameters are asked for");
        place.and_then(|place| self.values[place].as_deref())
    }

    /// A whole number, if it was given: digits and nothing else.
    pub fn number(&self, name: &'static str) -> Result<Option<u64>, Invalid> {
        self.text(name).map(|text| whole_number(name, text)).transpose()
    }

    /// `true` or `false`, if it was given.
    pub fn flag(&self, name: &'static str) -> Result<Option<bool>, Invalid> {
        match self.text(name) {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(_) => Err(Invalid::new(name, "`true` or `false` is expected")),
        }
    }
}

/// A whole number: digits and nothing else.
pub fn whole_number(name: &'static str, text: &str) -> Result<u64, Invalid> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(number) if plain => Ok(number),
        _ => Err(Invalid::new(name, "a whole number is expected")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(raw: &str) -> Result<Query<'_, 2>, Invalid> {
        Query::read(Some(raw), ["limit", "force"])
    }

    #[test]
    fn reads_what_is_known() {
        let query = read("limit=12&force=true").unwrap();
        assert_eq!(query.number("limit").unwrap(), Some(12));
        assert_eq!(query.flag("force").unwrap(), Some(true));
        assert_eq!(read("").unwrap().text("limit"), None);
        assert_eq!(read("limit=%31").unwrap().number("limit").unwrap(), Some(1));
    }

    #[test]
    fn names_what_is_wrong() {
        let field = |raw: &str| read(raw).unwrap_err().field.into_owned();
        assert_eq!(field("color=red"), "color");
        assert_eq!(field("limit=1&limit=1"), "limit");
        assert_eq!(field("limit=%"), "limit");
        assert_eq!(field("limit=1&"), "");
        for raw in ["limit=", "limit", "limit=-1", "limit=+1", "limit=1.0", "limit=18446744073709551616"] {
            assert_eq!(read(raw).unwrap().number("limit").unwrap_err().field, "limit", "{raw}");
        }
        assert!(read("force=1").unwrap().flag("force").is_err());
    }
}
