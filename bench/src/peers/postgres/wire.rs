//! PostgreSQL's wire format, as far as prepared statements on a trusted connection need it: what is sent is put into a
//! buffer, what comes is cut from one. Knows nothing of sockets and of locks.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Begins a session as this user in the database of that name.
pub fn put_startup(out: &mut BytesMut, user: &str) {
    let at = out.len();
    out.put_i32(0);
    out.put_i32(3 << 16);
    for text in ["user", user, "database", "postgres", ""] {
        put_text(out, text);
    }
    put_length(out, at);
}

/// One or more statements without parameters.
pub fn put_query(out: &mut BytesMut, statements: &str) {
    put_message(out, b'Q', |out| put_text(out, statements));
}

/// Prepares a statement under a name; the server infers the types of its parameters.
pub fn put_parse(out: &mut BytesMut, name: &str, statement: &str) {
    put_message(out, b'P', |out| {
        put_text(out, name);
        put_text(out, statement);
        out.put_i16(0);
    });
}

/// Executes a prepared statement with parameters in binary form, in a transaction of its own.
pub fn put_execute(out: &mut BytesMut, name: &str, parameters: &[&[u8]]) {
    put_message(out, b'B', |out| {
        put_text(out, "");
        put_text(out, name);
        out.put_i16(1);
        out.put_i16(1);
        out.put_i16(parameters.len() as i16);
        for parameter in parameters {
            out.put_i32(parameter.len() as i32);
            out.put_slice(parameter);
        }
        out.put_i16(1);
        out.put_i16(1);
    });
    put_message(out, b'E', |out| {
        put_text(out, "");
        out.put_i32(0);
    });
}

/// Ends what was parsed or executed: the server commits, and says when it is ready again.
pub fn put_sync(out: &mut BytesMut) {
    put_message(out, b'S', |_| ());
}

/// Ends the session.
pub fn put_terminate(out: &mut BytesMut) {
    put_message(out, b'X', |_| ());
}

/// A message of the server, as far as it matters here.
#[derive(Debug, PartialEq, Eq)]
pub enum Incoming {
    /// Nobody need prove who they are.
    Trusted,
    /// A row of a result.
    Row,
    /// A statement is done; says how many rows it touched, where it touches any.
    Done { rows: u64 },
    /// It can be asked again.
    Ready,
    /// It refused, and says why.
    Refused { why: String },
    /// What nobody here asks about.
    Other,
}

/// Cuts the first whole message off what was read.
pub fn cut_message(read: &mut BytesMut) -> Result<Option<Incoming>, String> {
    let Some([kind, a, b, c, d]) = read.first_chunk::<5>().copied() else { return Ok(None) };
    let length = i32::from_be_bytes([a, b, c, d]);
    let length = usize::try_from(length).ok().filter(|length| *length >= 4);
    let length = length.ok_or("a message of an impossible length")?;
    if read.len() < 1 + length {
        return Ok(None);
    }
    read.advance(5);
    let mut body = read.split_to(length - 4).freeze();
    Ok(Some(match kind {
        b'R' => match body.try_get_i32() {
            Ok(0) => Incoming::Trusted,
            _ => return Err("PostgreSQL wants a password".into()),
        },
        b'D' => Incoming::Row,
        b'C' => Incoming::Done { rows: rows_of(&body) },
        b'Z' => Incoming::Ready,
        b'E' => Incoming::Refused { why: why(&body) },
        _ => Incoming::Other,
    }))
}

/// The last word of a command's tag, such as `INSERT 0 1`.
fn rows_of(tag: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(tag);
    text.trim_end_matches('\0').rsplit(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// The field of an error that people read.
fn why(fields: &Bytes) -> String {
    let text = fields.split(|byte| *byte == 0).find_map(|field| field.strip_prefix(b"M"));
    String::from_utf8_lossy(text.unwrap_or(b"no reason")).into_owned()
}

fn put_message(out: &mut BytesMut, kind: u8, fill: impl FnOnce(&mut BytesMut)) {
    out.put_u8(kind);
    let at = out.len();
    out.put_i32(0);
    fill(out);
    put_length(out, at);
}

/// A length counts itself and all that follows.
fn put_length(out: &mut BytesMut, at: usize) {
    let length = (out.len() - at) as i32;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

fn put_text(out: &mut BytesMut, text: &str) {
    out.put_slice(text.as_bytes());
    out.put_u8(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(fill: impl FnOnce(&mut BytesMut)) -> Vec<u8> {
        let mut out = BytesMut::new();
        fill(&mut out);
        out.to_vec()
    }

    #[test]
    fn a_message_is_its_kind_its_length_and_its_body() {
        assert_eq!(put(put_sync), b"S\0\0\0\x04");
        assert_eq!(put(|out| put_query(out, "a")), b"Q\0\0\0\x06a\0");
        assert_eq!(put(|out| put_parse(out, "n", "q")), b"P\0\0\0\x0an\0q\0\0\0");
    }

    #[test]
    fn the_first_message_has_a_version_in_place_of_a_kind() {
        let startup = put(|out| put_startup(out, "u"));
        assert_eq!(startup, b"\0\0\0\x22\0\x03\0\0user\0u\0database\0postgres\0\0");
        assert_eq!(startup.len(), 0x22);
    }

    #[test]
    fn an_execution_binds_its_parameters_in_binary() {
        let sent = put(|out| put_execute(out, "n", &[b"xy"]));
        let bind = b"B\0\0\0\x17\0n\0\0\x01\0\x01\0\x01\0\0\0\x02xy\0\x01\0\x01";
        assert_eq!(sent, [&bind[..], b"E\0\0\0\x09\0\0\0\0\0"].concat());
    }

    #[test]
    fn messages_are_cut_where_they_end_and_not_before() {
        let mut read = BytesMut::from(&b"Z\0\0\0\x05IC\0\0\0\x0fINSERT 0 "[..]);
        assert_eq!(cut_message(&mut read), Ok(Some(Incoming::Ready)));
        assert_eq!(cut_message(&mut read), Ok(None));
        read.extend_from_slice(b"3\0");
        assert_eq!(cut_message(&mut read), Ok(Some(Incoming::Done { rows: 3 })));
        assert_eq!(cut_message(&mut read), Ok(None));
        assert!(cut_message(&mut BytesMut::from(&b"Z\0\0\0\x03"[..])).is_err());
    }

    #[test]
    fn a_refusal_tells_why() {
        let mut read = BytesMut::from(&b"E\0\0\0\x14SERROR\0Mbad day\0\0"[..]);
        read[4] = (read.len() - 1) as u8;
        assert_eq!(cut_message(&mut read), Ok(Some(Incoming::Refused { why: "bad day".into() })));
        assert!(cut_message(&mut BytesMut::from(&b"R\0\0\0\x08\0\0\0\x0a"[..])).is_err());
    }
}
