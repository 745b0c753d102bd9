//! Percent-decoding, strictly: every `%` is followed by two hex digits, and what comes out is UTF-8. Never repairs.

use std::borrow::Cow;

/// Decodes one path segment, in which `+` is a plus; or says what is wrong with it.
pub fn decode_segment(raw: &str) -> Result<Cow<'_, str>, &'static str> {
    decode(raw, false)
}

/// Decodes a name or a value of a query, in which `+` is a space, as every form encoder writes it.
pub fn decode_query(raw: &str) -> Result<Cow<'_, str>, &'static str> {
    decode(raw, true)
}

fn decode(raw: &str, plus_is_space: bool) -> Result<Cow<'_, str>, &'static str> {
    let encoded = |byte: u8| byte == b'%' || (plus_is_space && byte == b'+');
    if !raw.bytes().any(encoded) {
        return Ok(Cow::Borrowed(raw));
    }
    let mut bytes = Vec::with_capacity(raw.len());
    let mut rest = raw.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => match (rest.next().and_then(hex), rest.next().and_then(hex)) {
                (Some(high), Some(low)) => high << 4 | low,
                _ => return Err("`%` is followed by two hexadecimal digits"),
            },
            b'+' if plus_is_space => b' ',
            other => other,
        });
    }
    String::from_utf8(bytes).map(Cow::Owned).map_err(|_| "what is percent-encoded is UTF-8 text")
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_once_and_only_what_is_encoded() {
        assert_eq!(decode_segment("path:%2Fa%2fb").unwrap(), "path:/a/b");
        assert_eq!(decode_segment("a+b%2B").unwrap(), "a+b+");
        assert_eq!(decode_segment("%2541").unwrap(), "%41");
        assert_eq!(decode_segment("%C3%BC").unwrap(), "ü");
        assert_eq!(decode_query("a+b%2B").unwrap(), "a b+");
        assert_eq!(decode_segment("").unwrap(), "");
    }

    #[test]
    fn refuses_the_rest() {
        for raw in ["%", "%4", "%4g", "%g4", "a%", "%+1", "%ff", "%C3", "%C3x", "%ED%A0%80", "% 1"] {
            assert!(decode_segment(raw).is_err(), "{raw}");
            assert!(decode_query(raw).is_err(), "{raw}");
        }
    }
}
