//! What was sent to begin watching. Judges only the form; whether the events are still there is the feed's to say.

use hyper::header::HeaderMap;
use leasehold_state_machine::event::Seq;
use leasehold_state_machine::invalid::Invalid;
use leasehold_state_machine::resource::Resource;

use crate::watch::Concern;
use crate::wire::commands::named;
use crate::wire::fields;
use crate::wire::query::Query;

/// The header with which a reader of server-sent events resumes.
pub const LAST_EVENT_ID: &str = "last-event-id";

/// What somebody wants to hear of, and from where on.
#[derive(Debug, PartialEq)]
pub struct WatchRequest {
    /// What.
    pub concern: Concern,
    /// After which event; none: what happens next.
    pub from: Option<Seq>,
}

/// A watch of the lock in this path segment.
pub fn of_lock(segment: &str, query: Option<&str>, headers: &HeaderMap) -> Result<WatchRequest, Invalid> {
    let query = Query::read(query, fields::WATCH_LOCK)?;
    let resource = Resource::parse(&named("lock", segment, query.text("lock"))?)?;
    let from = resume_after(query.number("from")?, headers)?;
    Ok(WatchRequest { concern: Concern::lock(&resource), from })
}

/// A watch of all locks with a prefix; without one, of all.
pub fn of_prefix(query: Option<&str>, headers: &HeaderMap) -> Result<WatchRequest, Invalid> {
    let query = Query::read(query, fields::WATCH_PREFIX)?;
    let concern = Concern::prefix(query.text("prefix").unwrap_or_default())?;
    Ok(WatchRequest { concern, from: resume_after(query.number("from")?, headers)? })
}

/// Browsers reconnect to the address they were given, `from` and all, and say in the header what they heard since: the
/// header goes further. One that stands before `from` belongs to something else.
fn resume_after(from: Option<Seq>, headers: &HeaderMap) -> Result<Option<Seq>, Invalid> {
    let mut lines = headers.get_all(LAST_EVENT_ID).iter();
    let Some(line) = lines.next() else { return Ok(from) };
    let wrong = |problem: &'static str| Invalid::new("Last-Event-ID", problem);
    if lines.next().is_some() {
        return Err(wrong("the header is given once"));
    }
    let digits = line.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let Some(heard) = digits.and_then(|text| text.parse().ok()) else {
        return Err(wrong("the `id` of an event is expected: a whole number"));
    };
    match from {
        Some(from) if from > heard => {
            Err(Invalid::new("from", "it is later than the header `Last-Event-ID`: leave one of them out"))
        }
        _ => Ok(Some(heard)),
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn from(query: &str, ids: &[&str]) -> Result<Option<Seq>, String> {
        let mut headers = HeaderMap::new();
        for id in ids {
            headers.append(LAST_EVENT_ID, HeaderValue::from_str(id).unwrap());
        }
        let request = of_prefix(Some(query), &headers);
        request.map(|request| request.from).map_err(|invalid| invalid.field.into_owned())
    }

    #[test]
    fn the_header_goes_further_than_the_parameter() {
        assert_eq!(from("", &[]), Ok(None));
        assert_eq!(from("from=0", &[]), Ok(Some(0)));
        assert_eq!(from("", &["7"]), Ok(Some(7)));
        assert_eq!(from("from=7", &["7"]), Ok(Some(7)));
        assert_eq!(from("from=3", &["7"]), Ok(Some(7)));
        assert_eq!(from("from=8", &["7"]), Err("from".into()));
        assert_eq!(from("from=x", &["7"]), Err("from".into()));
        for id in ["", "-1", "+1", "x", "1.5", "18446744073709551616"] {
            assert_eq!(from("", &[id]), Err("Last-Event-ID".into()), "{id}");
        }
        assert_eq!(from("", &["7", "7"]), Err("Last-Event-ID".into()));
    }

    #[test]
    fn names_what_is_watched() {
        let none = HeaderMap::new();
        let concern = |segment, query| of_lock(segment, query, &none).map(|request| request.concern);
        assert_eq!(concern("name:a", None), Ok(Concern::Lock("a".into())));
        assert_eq!(concern("~", Some("lock=path:/a&from=1")), Ok(Concern::Lock("path:/a".into())));
        assert_eq!(concern("path:a", None).unwrap_err().field, "lock");
        assert_eq!(of_prefix(None, &none).unwrap().concern, Concern::Prefix("".into()));
        assert_eq!(of_prefix(Some("prefix=a%2F"), &none).unwrap().concern, Concern::Prefix("a/".into()));
        let long = format!("prefix={}", "a".repeat(600));
        assert_eq!(of_prefix(Some(&long), &none).unwrap_err().field, "prefix");
    }
}
