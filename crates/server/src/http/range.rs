//! Which bytes of a file a request asks for: the header `Range`, as RFC 9110 has it. One range is answered alone; several are
//! answered by the whole file, which the RFC leaves to the server. A unit that is not bytes is passed over, as it must
//! be; what makes no sense in bytes is refused rather than answered by everything there is.

use hyper::header::{HeaderMap, IF_RANGE, RANGE};
use leasehold_state_machine::invalid::Invalid;

use crate::wire::problem::Denial;

/// The bytes that are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// All there are.
    Whole,
    /// From this one up to, and with, that one if it is there.
    From(u64, u64),
    /// So many at the end.
    Last(u64),
}

impl Wanted {
    /// What the headers ask for.
    pub fn read(headers: &HeaderMap) -> Result<Wanted, Invalid> {
        let mut lines = headers.get_all(RANGE).iter();
        let Some(line) = lines.next() else { return Ok(Wanted::Whole) };
        // No file has a validator, so that none can be the one that is asked for.
        if headers.contains_key(IF_RANGE) {
            return Ok(Wanted::Whole);
        }
        if lines.next().is_some() {
            return Err(Invalid::new("Range", "the header is given once"));
        }
        let text = line.to_str().map_err(|_| malformed())?;
        let (unit, set) = text.split_once('=').ok_or_else(malformed)?;
        if !unit.trim().eq_ignore_ascii_case("bytes") {
            return Ok(Wanted::Whole);
        }
        // An empty entry of a list is none.
        let entries = set.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        let ranges = entries.map(range).collect::<Result<Vec<_>, _>>()?;
        match ranges[..] {
            [] => Err(malformed()),
            [only] => Ok(only),
            _ => Ok(Wanted::Whole),
        }
    }

    /// The first byte and one past the last, in a file of this size.
    pub fn within(self, size: u64) -> Result<(u64, u64), Denial> {
        let (start, end) = match self {
            Wanted::Whole => return Ok((0, size)),
            Wanted::From(first, last) => (first, last.saturating_add(1).min(size)),
            Wanted::Last(count) => (size.saturating_sub(count), size),
        };
        if start >= end {
            return Err(Denial::OutOfRange { size });
        }
        Ok((start, end))
    }
}

fn range(entry: &str) -> Result<Wanted, Invalid> {
    let (first, last) = entry.split_once('-').ok_or_else(malformed)?;
    match (first, last) {
        ("", count) => Ok(Wanted::Last(number(count)?)),
        (first, "") => Ok(Wanted::From(number(first)?, u64::MAX)),
        (first, last) => match (number(first)?, number(last)?) {
            (first, last) if first <= last => Ok(Wanted::From(first, last)),
            _ => Err(malformed()),
        },
    }
}

/// Digits; what is longer than any file is as long as can be.
fn number(text: &str) -> Result<u64, Invalid> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(malformed());
    }
    Ok(text.parse().unwrap_or(u64::MAX))
}

fn malformed() -> Invalid {
    Invalid::new("Range", "`bytes=0-99`, `bytes=100-` or `bytes=-100` is expected")
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn wanted(text: &str) -> Result<Wanted, Invalid> {
        let mut headers = HeaderMap::new();
        headers.insert(RANGE, HeaderValue::from_str(text).unwrap());
        Wanted::read(&headers)
    }

    #[test]
    fn one_range_is_understood() {
        for (text, expected) in [
            ("bytes=0-0", Wanted::From(0, 0)),
            ("bytes=5-9", Wanted::From(5, 9)),
            ("BYTES= 5-9 ", Wanted::From(5, 9)),
            ("bytes=5-", Wanted::From(5, u64::MAX)),
            ("bytes=-5", Wanted::Last(5)),
            ("bytes=-0", Wanted::Last(0)),
            ("bytes=,5-9,", Wanted::From(5, 9)),
            ("bytes=00-09", Wanted::From(0, 9)),
            ("bytes=0-99999999999999999999999999", Wanted::From(0, u64::MAX)),
            ("bytes=99999999999999999999999999-", Wanted::From(u64::MAX, u64::MAX)),
            ("bytes=0-4,6-9", Wanted::Whole),
            ("lines=1-2", Wanted::Whole),
            ("lines=whatever", Wanted::Whole),
        ] {
            assert_eq!(wanted(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in
            ["", "bytes", "bytes=", "bytes=,", "bytes=-", "bytes=x", "bytes=5", "bytes=9-5", "bytes=1-2-3"]
        {
            assert_eq!(wanted(text).unwrap_err().field, "Range", "{text}");
        }
        for text in ["bytes=+1-2", "bytes=1 -2", "bytes=0x1-2", "bytes=--5", "bytes=0-4,9-5", "bytes:0-4"] {
            assert_eq!(wanted(text).unwrap_err().field, "Range", "{text}");
        }
    }

    #[test]
    fn a_range_lies_within_its_file_or_is_out_of_it() {
        let out = |size| Err(Denial::OutOfRange { size });
        assert_eq!(Wanted::Whole.within(10), Ok((0, 10)));
        assert_eq!(Wanted::Whole.within(0), Ok((0, 0)));
        assert_eq!(Wanted::From(0, 9).within(10), Ok((0, 10)));
        assert_eq!(Wanted::From(9, u64::MAX).within(10), Ok((9, 10)));
        assert_eq!(Wanted::From(3, 3).within(10), Ok((3, 4)));
        assert_eq!(Wanted::From(10, 10).within(10), out(10));
        assert_eq!(Wanted::From(u64::MAX, u64::MAX).within(10), out(10));
        assert_eq!(Wanted::From(0, 0).within(0), out(0));
        assert_eq!(Wanted::Last(3).within(10), Ok((7, 10)));
        assert_eq!(Wanted::Last(u64::MAX).within(10), Ok((0, 10)));
        assert_eq!(Wanted::Last(0).within(10), out(10));
        assert_eq!(Wanted::Last(5).within(0), out(0));
    }
}
