//! The words of the description for the routes of files.

use serde_json::Value;

use super::said::{Answered, Said};
use crate::wire::commands::Call;
use crate::wire::problem::Code;

/// What the lease can be refused for, and the id of a request.
const BY_THE_LEASE: &[Code] = &[
    Code::NotFound,
    Code::LeaseExpired,
    Code::Released,
    Code::StaleToken,
    Code::ScopeMismatch,
    Code::Cancelled,
];

/// What is said of the route to a call about files.
pub fn of_call(call: Call) -> Said {
    let said = |id, summary, description, answer, codes| Said {
        id,
        tag: "files",
        summary,
        description,
        body: Value::Null,
        query: &[],
        answer,
        codes,
    };
    match call {
        Call::AppendFile => said(
            "appendFile",
            "Append to a file",
            "Writes the body, at most 1 MiB of any type, to the end of the file, which is made if there is none. The headers show a live, exclusive lease that covers it: on its path (`path:/reports/a.log`), a path above it, its `inode:`, or a `range:` of it that contains the bytes. All or nothing, and on disk when it is answered.",
            Answered::Shape("Wrote"),
            BY_THE_LEASE,
        ),
        Call::WriteFile => Said {
            query: &[("offset", "0")],
            ..said(
                "writeFile",
                "Write to a file at an offset",
                "Writes the body over what is there, from a byte that is not beyond the end, and further if it is longer. Otherwise as an append.",
                Answered::Shape("Wrote"),
                BY_THE_LEASE,
            )
        },
        Call::DeleteFile => said(
            "deleteFile",
            "Delete a file",
            "The headers show a live, exclusive lease that covers all of the file, as that on its path or on its `inode:` does.",
            Answered::Shape("Deleted"),
            BY_THE_LEASE,
        ),
        Call::ReadFile => said(
            "readFile",
            "Read a file",
            "Its bytes, or one range of them; several ranges are answered by all of it. What is read is durable, and each write of at most 1 MiB is seen whole or not at all by a read of at most 1 MiB. Needs no lease.",
            Answered::Bytes,
            &[Code::NotFound, Code::OutOfRange],
        ),
        Call::StatFile => said(
            "statFile",
            "Look at one file",
            "Its size, its number and the highest token that wrote it, in headers. Needs no lease.",
            Answered::FileHead,
            &[Code::NotFound],
        ),
        _ => Said {
            query: &[("prefix", "reports/"), ("limit", "100")],
            ..said(
                "listFiles",
                "Look at many files",
                "In order of their names, a page at a time.",
                Answered::Shape("Files"),
                &[],
            )
        },
    }
}
