//! Files through the HTTP door: their bytes come in as a body and go out as one. Everything else about them is asked and
//! answered as all other calls are.

use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Incoming};
use hyper::http::request::Parts;
use leasehold_state_machine::limits::WRITE_BYTES_MAX;

use super::door::Door;
use super::file_body::FileBody;
use super::intake;
use super::range::Wanted;
use super::reply::{self, Reply};
use crate::wire::commands::{Call, Sent};
use crate::wire::file_commands::{self, Write};
use crate::wire::problem::Denial;
use crate::wire::shapes;

/// The longest body of a write.
const BYTES_MAX: usize = WRITE_BYTES_MAX as usize;

impl Door {
    /// Takes bytes in and writes them. The head is judged before the body comes, for those who wait to be told so; others
    /// hear of it when they have sent everything, because closing on them would often destroy the answer on its way.
    pub(super) async fn write_file(
        &self,
        call: Call,
        segment: &str,
        head: &Parts,
        body: Incoming,
        body_timeout: Duration,
    ) -> Result<Reply, Denial> {
        let sent = Sent { segment, query: head.uri.query(), headers: &head.headers, body: b"" };
        let announced = match call {
            Call::AppendFile => Write::append(sent),
            _ => Write::at_offset(sent),
        };
        let bytes = match &announced {
            Err(_) if intake::is_held_back(&head.headers) => Bytes::new(),
            Ok(_) if intake::is_held_back(&head.headers) && body.size_hint().lower() > WRITE_BYTES_MAX => {
                return Err(Denial::BodyTooLarge { bytes_max: BYTES_MAX });
            }
            _ => self.take_write(body, BYTES_MAX, body_timeout).await?,
        };
        let outcome = self.call(call, announced.map(|write| write.with(&bytes))).await;
        Ok(reply::json(shapes::render(&outcome?)))
    }

    /// Reads a file, or a part of it.
    pub(super) async fn read_file(&self, sent: Sent<'_>) -> Result<Reply, Denial> {
        let name = file_commands::file_name(sent);
        let asked = name.and_then(|name| Ok((name, Wanted::read(sent.headers)?)));
        let (name, wanted) = match asked {
            Ok((name, wanted)) => (Ok(name), wanted),
            Err(invalid) => (Err(invalid), Wanted::Whole),
        };
        let reading = self.read(name, |size| wanted.within(size)).await?;
        Ok(reply::file(FileBody::new(reading), wanted != Wanted::Whole))
    }
}
