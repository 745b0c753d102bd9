//! A request over HTTP, from its path, query, headers and JSON body to a command. It is refused with a field and a sentence of
//! bounded length, or it is a command that a message over gRPC can ask for as well, and means exactly the same.

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use leasehold_server::wire::commands::{Call, Sent};
use leasehold_state_machine::command::Command;
use leasehold_state_machine::invalid::Invalid;

use crate::Target;
use crate::message::assert_comes_back;

/// From JSON to a command. An input is the number of a call and four lines: segment, query, headers between tabs, body.
pub const TARGET: Target = Target { name: "http", run, samples };

/// Longer than any sentence that explains a refusal.
const SENTENCE_BYTES_MAX: usize = 1_000;

fn run(bytes: &[u8]) -> bool {
    command(bytes).is_some_and(judge)
}

/// What must hold for a command and for a refusal. Says whether it is a command.
pub(crate) fn judge(command: Result<Command, Invalid>) -> bool {
    match &command {
        Ok(command) => assert_comes_back(command),
        Err(invalid) => {
            let length = invalid.to_string().len();
            assert!(!invalid.problem.is_empty(), "a refusal says what is wrong");
            assert!(length < SENTENCE_BYTES_MAX, "{length} bytes: {invalid}");
        }
    }
    command.is_ok()
}

/// What an input asks for; none if HTTP itself would not let it through.
fn command(bytes: &[u8]) -> Option<Result<Command, Invalid>> {
    let (call, rest) = bytes.split_first()?;
    let mut lines = rest.splitn(4, |byte| *byte == b'\n');
    let mut line = || lines.next().unwrap_or_default();
    let (segment, query, headers, body) = (line(), line(), line(), line());
    let (segment, query) = (str::from_utf8(segment).ok()?, str::from_utf8(query).ok()?);
    let headers = header_map(headers);
    let sent = Sent { segment, query: (!query.is_empty()).then_some(query), headers: &headers, body };
    Some(Call::ALL[usize::from(*call) % Call::ALL.len()].command(sent))
}

/// What the samples ask for.
pub(crate) fn commands() -> Vec<Command> {
    samples().iter().filter_map(|sample| command(sample)?.ok()).collect()
}

fn header_map(lines: &[u8]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in lines.split(|byte| *byte == b'\t').take(20) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) =
            (HeaderName::from_bytes(&line[..colon]), HeaderValue::from_bytes(&line[colon + 1..]));
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    headers
}

fn samples() -> Vec<Vec<u8>> {
    let proof = "\"owner_id\":\"w\",\"lease_id\":\"l0-00000000000000010000000000000002\",\"fencing_token\":7";
    let lease = "Leasehold-Lock:path%3A%2Fa\tLeasehold-Owner:w%40h\tLeasehold-Lease:l0-00000000000000010000000000000002\tLeasehold-Token:7";
    let whole = "{\"owner_id\":\"w\",\"ttl_ms\":30000,\"mode\":\"shared\",\"wait_ms\":10,\"request_id\":\"r\",\"metadata\":{\"a\":\"b\"}}";
    let requests = [
        (Call::Acquire, format!("deploy\n\n\n{whole}")),
        (Call::Acquire, "~\nlock=path%3A%2Fa%2Fb\nIdempotency-Key:r\n{\"owner_id\":\"w\",\"session_id\":\"s0-ffffffffffffffffffffffffffffffff\"}".into()),
        (Call::Renew, format!("deploy\n\n\n{{{proof},\"ttl_ms\":100,\"metadata\":{{}}}}")),
        (Call::Release, format!("range:4:0-9\n\n\n{{{proof}}}")),
        (Call::Cancel, "deploy\n\n\n{\"owner_id\":\"w\",\"request_id\":\"r\"}".into()),
        (Call::Verify, "inode:3\n\n\n{\"fencing_token\":9007199254740991}".into()),
        (Call::Get, "deploy\n\n\n".into()),
        (Call::List, "\nprefix=path%3A&owner=w&limit=10&cursor=x\n\n".into()),
        (Call::Break, "deploy\nreason=stuck+too+long&force=true&token=3&request_id=r\n\n".into()),
        (Call::OpenSession, "\n\n\n{\"owner_id\":\"w\",\"ttl_ms\":60000,\"metadata\":{\"k\":\"v\"}}".into()),
        (Call::KeepAlive, "\n\n\n{\"session_id\":\"s0-ffffffffffffffffffffffffffffffff\",\"seen\":3}".into()),
        (Call::CloseSession, "\n\n\n{\"session_id\":\"o0-ffffffffffffffffffffffffffffffff\"}".into()),
        (Call::ListSessions, "\nlimit=5&cursor=x\n\n".into()),
        (Call::AppendFile, format!("reports%2Fa.log\n\n{lease}\tIdempotency-Key:r\nbytes")),
        (Call::WriteFile, format!("reports%2Fa.log\noffset=5\n{lease}\nbytes")),
        (Call::DeleteFile, format!("~\nname=reports%2Fa.log\n{lease}\n")),
        (Call::StatFile, "a.log\n\n\n".into()),
        (Call::ListFiles, "\nprefix=a&limit=3&cursor=b\n\n".into()),
    ];
    let number = |call: Call| Call::ALL.iter().position(|other| *other == call).unwrap_or(0);
    requests
        .into_iter()
        .map(|(call, text)| [&[u8::try_from(number(call)).unwrap_or(0)], text.as_bytes()].concat())
        .collect()
}
