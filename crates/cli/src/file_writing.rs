//! What `append` and `write` share: bytes from the command line or from standard input, written in order under one lease, and
//! what is told of it. Which lease is somebody else's business.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use leasehold_client::{Claim, Client, Error, FileWrite, Written};
use leasehold_state_machine::limits::WRITE_BYTES_MAX;

use crate::acquire::random_id;
use crate::asking::Asking;
use crate::file_lease::{Change, FileLease, Hold};
use crate::input::{Input, Pieces};
use crate::paint::{Paint, visible};
use crate::printing::print;
use crate::quote::quoted;
use crate::shapes;
use crate::status::{Failure, Status, of_io};

/// The longest write.
const BYTES_MAX: usize = WRITE_BYTES_MAX as usize;

/// The longest id under which standard input goes: what is left of the contract's 128 characters numbers its pieces.
const INPUT_ID_BYTES_MAX: usize = 120;

/// Where the bytes come from.
pub enum Source {
    /// These are they.
    Text(OsString),
    /// Standard input, to its end.
    Input,
}

/// Bytes that are to be written.
pub struct Writing<'w> {
    /// To which file.
    pub file: &'w str,
    /// Where they begin; none is the file's end.
    pub offset: Option<u64>,
    pub source: Source,
    /// The id that was chosen for it.
    pub request_id: Option<&'w str>,
}

/// What the bytes come in.
enum Bytes {
    Text(Option<Vec<u8>>),
    Input(Input),
}

impl Bytes {
    async fn next(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        match self {
            Bytes::Text(text) => Ok(text.take()),
            Bytes::Input(input) => input.next().await,
        }
    }

    fn is_over(&self) -> bool {
        match self {
            Bytes::Text(text) => text.is_none(),
            Bytes::Input(input) => input.is_over(),
        }
    }
}

impl Writing<'_> {
    /// Writes, and tells what came of it.
    pub fn run(self, lease: &FileLease, asking: &Asking) -> Result<(), Failure> {
        let failed = match self.offset {
            None => format!("could not append to {}", self.file),
            Some(_) => format!("could not write to {}", self.file),
        };
        let id = match self.request_id {
            Some(id) if matches!(self.source, Source::Input) && id.len() > INPUT_ID_BYTES_MAX => {
                let sentence = format!(
                    "--request-id is not valid: for standard input it has at most {INPUT_ID_BYTES_MAX} characters"
                );
                return Err(asking.told_as("invalid_argument", Failure::new(Status::Usage, sentence)));
            }
            Some(id) => id.to_owned(),
            None => random_id()?,
        };
        let bytes = match &self.source {
            Source::Text(text) => Bytes::Text(Some(text.clone().into_vec())),
            // Repeated under the same id, the same input must make the same requests.
            Source::Input if self.request_id.is_some() => {
                Bytes::Input(Input::standard(Pieces::Full, BYTES_MAX))
            }
            Source::Input => Bytes::Input(Input::standard(Pieces::AsTheyCome, BYTES_MAX)),
        };
        let change = Change::new(asking, self.file, &failed);
        let written = lease
            .make(&change, async |client, hold| self.write_all(&change, client, hold, bytes, &id).await)?;
        print(&match asking.json {
            true => shapes::written(&written),
            false => describe(&written, self.file),
        })
        .map(drop)
    }

    async fn write_all(
        &self,
        change: &Change<'_>,
        client: &Client,
        hold: &Hold<'_>,
        mut bytes: Bytes,
        id: &str,
    ) -> Result<Written, Failure> {
        let mut so_far: Option<Written> = None;
        let mut pieces = 0_u64;
        loop {
            let failed = |error: Error| self.failure(change, &hold.claim, id, so_far.as_ref(), error);
            // Input may be long in coming; whose lease is over by then need not wait for more of it.
            let next = match hold.wait_for(bytes.next()).await {
                Ok(next) => next,
                // All of it is written, and nothing of that is taken back.
                Err(_) if so_far.is_some() && bytes.is_over() => Ok(None),
                Err(error) => return Err(failed(error)),
            };
            let next = next.map_err(|error| {
                let sentence = format!("{}: cannot read standard input: {error}", change.failed);
                let failure = Failure::new(of_io(&error), sentence + &before(so_far.as_ref()));
                change.asking.told_as("internal", failure)
            })?;
            let data = match (next, so_far) {
                (Some(data), _) => data,
                // Nothing at all is written, too: it makes the file.
                (None, None) => Vec::new(),
                (None, Some(written)) => return Ok(written),
            };
            let request_id = if pieces == 0 { id.to_owned() } else { format!("{id}.{pieces}") };
            let write = FileWrite {
                name: self.file.to_owned(),
                offset: self.offset.map(|offset| offset + so_far.map_or(0, |written| written.length)),
                data,
                request_id: Some(request_id),
            };
            let wrote = change.insist(async || client.write_file(&hold.claim, write.clone()).await).await;
            let wrote = wrote.map_err(failed)?;
            pieces += 1;
            so_far = Some(match so_far {
                None => wrote,
                Some(first) => Written { length: first.length + wrote.length, size: wrote.size, ..first },
            });
        }
    }

    /// What was written before is said; a request that may have been carried out is named, if it can be repeated.
    fn failure(
        &self,
        change: &Change<'_>,
        claim: &Claim,
        id: &str,
        so_far: Option<&Written>,
        error: Error,
    ) -> Failure {
        let failure = change.failure(error.clone());
        let mut sentence = failure.sentence + &before(so_far);
        let repeatable = matches!(self.source, Source::Text(_)) || self.request_id.is_some();
        let mut named = Vec::new();
        if repeatable && !error.outcome_is_known() {
            let owner = claim.owner_id.as_str();
            sentence += &format!(
                "; repeat it with --owner {} --request-id {}: it is written once",
                quoted(owner),
                quoted(id)
            );
            named.extend([("owner_id", owner), ("request_id", id)]);
        }
        Failure { problem: change.asking.problem(&sentence, &error, &named), sentence, ..failure }
    }
}

fn before(so_far: Option<&Written>) -> String {
    so_far.map_or_else(String::new, |written| format!("; {} before that are written", count(written.length)))
}

fn count(bytes: u64) -> String {
    if bytes == 1 { "1 byte".to_owned() } else { format!("{bytes} bytes") }
}

fn describe(written: &Written, file: &str) -> String {
    let Written { offset, length, size } = *written;
    let name = Paint::for_stdout().name(&visible(file));
    format!("wrote {} to {name} at {offset}; it has {} now\n", count(length), count(size))
}
