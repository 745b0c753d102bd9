//! What was sent over HTTP about files, as commands. The lease is shown in headers, because the body is the file's own: its
//! bytes are never looked at here.

use hyper::header::HeaderMap;
use leasehold_state_machine::command::Command;
use leasehold_state_machine::file::{FileName, Offset};
use leasehold_state_machine::invalid::Invalid;

use super::commands::{Sent, named, request_id};
use super::fields;
use super::file_forms::{self, Change, ChangeForm};
use super::forms::ProofForm;
use super::percent::decode_segment;
use super::query::{Query, whole_number};

const LOCK: &str = "Leasehold-Lock";
const OWNER: &str = "Leasehold-Owner";
const LEASE: &str = "Leasehold-Lease";
const TOKEN: &str = "Leasehold-Token";

/// The headers in which a lease is shown, each with the field of the lease that it is.
pub const PROOF_HEADERS: [(&str, &str); 4] =
    [(LOCK, "lock"), (OWNER, "owner_id"), (LEASE, "lease_id"), (TOKEN, "fencing_token")];

/// A write without its bytes.
#[derive(Debug)]
pub struct Write {
    change: Change,
    offset: Offset,
}

impl Write {
    /// The append that this head announces.
    pub fn append(sent: Sent<'_>) -> Result<Write, Invalid> {
        let query = Query::read(sent.query, fields::ONLY_NAME)?;
        Ok(Write { change: change(sent, query.text("name"))?, offset: Offset::End })
    }

    /// The write that this head announces.
    pub fn at_offset(sent: Sent<'_>) -> Result<Write, Invalid> {
        let query = Query::read(sent.query, fields::WRITE_FILE)?;
        let Some(offset) = query.number("offset")? else {
            return Err(Invalid::new("offset", "say where the bytes go: `?offset=0` is the beginning"));
        };
        Ok(Write { change: change(sent, query.text("name"))?, offset: Offset::At(offset) })
    }

    /// The command, with its bytes.
    pub fn with(self, bytes: &[u8]) -> Command {
        self.change.write(self.offset, bytes)
    }
}

/// The deletion that was sent.
pub fn delete(sent: Sent<'_>) -> Result<Command, Invalid> {
    let query = Query::read(sent.query, fields::ONLY_NAME)?;
    Ok(change(sent, query.text("name"))?.delete())
}

/// The question about a file that was sent.
pub fn stat(sent: Sent<'_>) -> Result<Command, Invalid> {
    Ok(Command::StatFile { name: file_name(sent)? })
}

/// The name of a file about which nothing else is said.
pub fn file_name(sent: Sent<'_>) -> Result<FileName, Invalid> {
    let query = Query::read(sent.query, fields::ONLY_NAME)?;
    FileName::parse(&named("name", sent.segment, query.text("name"))?)
}

/// The list that was asked for.
pub fn list(sent: Sent<'_>) -> Result<Command, Invalid> {
    let query = Query::read(sent.query, fields::LIST_FILES)?;
    let (prefix, limit) = (query.text("prefix").unwrap_or_default(), query.number("limit")?);
    file_forms::list_files(prefix, limit, query.text("cursor"))
}

fn change(sent: Sent<'_>, in_query: Option<&str>) -> Result<Change, Invalid> {
    let decoded = |name| {
        let text = required(sent.headers, name)?;
        decode_segment(text).map_err(|problem| Invalid::new(name, problem))
    };
    let form = ChangeForm {
        name: &named("name", sent.segment, in_query)?,
        proof: ProofForm {
            lock: &decoded(LOCK)?,
            owner_id: &decoded(OWNER)?,
            lease_id: required(sent.headers, LEASE)?.as_bytes(),
            fencing_token: whole_number(TOKEN, required(sent.headers, TOKEN)?)?,
        },
        request_id: request_id(None, sent.headers)?,
    };
    form.judge().map_err(|invalid| match PROOF_HEADERS.iter().find(|(_, field)| *field == invalid.field) {
        Some((header, _)) => Invalid::new(*header, invalid.problem),
        None => invalid,
    })
}

/// A header that must be there, once.
fn required<'h>(headers: &'h HeaderMap, name: &'static str) -> Result<&'h str, Invalid> {
    let mut lines = headers.get_all(name).iter();
    let Some(line) = lines.next() else {
        return Err(Invalid::new(name, "this header is required: it shows the lease that is written under"));
    };
    if lines.next().is_some() {
        return Err(Invalid::new(name, "the header is given once"));
    }
    line.to_str().map_err(|_| Invalid::new(name, "the header is visible ASCII, the rest percent-encoded"))
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    const PROOF: [(&str, &str); 4] = [
        ("leasehold-lock", "path:/reports"),
        ("leasehold-owner", "worker-1%40host7"),
        ("leasehold-lease", "l0-00000000000000000000000000000000"),
        ("leasehold-token", "7"),
    ];

    fn append(
        segment: &str,
        query: Option<&str>,
        headers: &[(&'static str, &str)],
    ) -> Result<Command, String> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        let sent = Sent { segment, query, headers: &map, body: b"" };
        Write::append(sent).map(|write| write.with(b"hello")).map_err(|invalid| invalid.field.into_owned())
    }

    #[test]
    fn a_name_is_one_segment_or_in_the_query() {
        for (segment, query) in [("reports%2Fa.log", None), ("~", Some("name=reports/a.log"))] {
            let Ok(Command::WriteFile(write)) = append(segment, query, &PROOF) else { panic!("{segment}") };
            assert_eq!((write.name.text(), write.offset), ("reports/a.log", Offset::End));
            assert_eq!((write.proof.resource.text(), write.proof.token), ("path:/reports", 7));
            assert_eq!((write.proof.owner.text(), write.request_id), ("worker-1@host7", None));
        }
        for (segment, query) in [("~", None), ("a", Some("name=b")), ("", None), ("%2Fa", None), ("%", None)]
        {
            assert_eq!(append(segment, query, &PROOF).unwrap_err(), "name", "{segment} {query:?}");
        }
        assert_eq!(append("a", Some("lock=b"), &PROOF).unwrap_err(), "lock");
    }

    #[test]
    fn what_is_wrong_is_named_by_its_header() {
        for (place, (header, _)) in PROOF_HEADERS.into_iter().enumerate() {
            let without: Vec<_> = PROOF.into_iter().filter(|(name, _)| *name != PROOF[place].0).collect();
            assert_eq!(append("a", None, &without).unwrap_err(), header);
            let twice: Vec<_> = PROOF.into_iter().chain([PROOF[place]]).collect();
            assert_eq!(append("a", None, &twice).unwrap_err(), header);
            let mut wrong = PROOF;
            for value in
                ["", "%zz", "%00", "9007199254740992"].into_iter().take(if place == 2 { 1 } else { 3 })
            {
                wrong[place].1 = value;
                assert_eq!(append("a", None, &wrong).unwrap_err(), header, "{value}");
            }
        }
        for token in ["-1", "+1", "0x1", "1.0", "9007199254740992", "18446744073709551616"] {
            let mut wrong = PROOF;
            wrong[3].1 = token;
            assert_eq!(append("a", None, &wrong).unwrap_err(), "Leasehold-Token", "{token}");
        }
    }
}
