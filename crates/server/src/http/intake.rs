//! A request's body, taken in whole within its bounds of size and time. Knows nothing of what is in it.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::header::{CONTENT_TYPE, EXPECT, HeaderMap};
use leasehold_state_machine::answer::Refusal;
use leasehold_state_machine::invalid::Invalid;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::limits::{BODY_BYTES_MAX, UNCOUNTED_BODY_BYTES, UNFINISHED_BODIES_RETRY_MS};
use crate::wire::problem::Denial;

/// Bytes beyond the limit that are still read before they are refused: closing on a client that is in the middle of
/// sending would often destroy the answer on its way.
const EXCESS_BYTES_MAX: usize = 16 * BODY_BYTES_MAX;

/// Where bodies that have come in part wait for the rest. Those that come at once, as nearly all do, never get here.
#[derive(Clone, Debug)]
pub struct Unfinished(Arc<Semaphore>);

impl Unfinished {
    /// Room for so many bytes.
    pub fn new(bytes_max: usize) -> Unfinished {
        Unfinished(Arc::new(Semaphore::new(bytes_max / BODY_BYTES_MAX)))
    }

    /// Takes the room of so many bytes, if there is any, until what is returned is dropped.
    pub fn hold(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Denial> {
        let bodies = u32::try_from(bytes.div_ceil(BODY_BYTES_MAX)).unwrap_or(u32::MAX);
        let what = "bodies that have come in part";
        let busy = || Refusal::Busy { what, retry_ms: UNFINISHED_BODIES_RETRY_MS };
        Arc::clone(&self.0).try_acquire_many_owned(bodies).map_err(|_| busy().into())
    }
}

/// The bounds of one body.
#[derive(Clone, Copy, Debug)]
pub struct Bounds<'u> {
    /// Bytes at most.
    pub bytes_max: usize,
    /// How long it may take to arrive.
    pub within: Duration,
    /// Where it waits meanwhile.
    pub unfinished: &'u Unfinished,
}

/// Takes the body in, or says why it cannot be taken.
pub async fn take(body: Incoming, bounds: Bounds<'_>) -> Result<Bytes, Denial> {
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    match timeout(bounds.within, collect(body, bounds)).await {
        Ok(result) => result,
        Err(_) => Err(Invalid::new("body", "the body did not arrive in time").into()),
    }
}

/// Whether the client sends its body only when it is told to go on, and hears of a refusal before.
pub fn is_held_back(headers: &HeaderMap) -> bool {
    headers.get(EXPECT).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

async fn collect(mut body: Incoming, bounds: Bounds<'_>) -> Result<Bytes, Denial> {
    let Bounds { bytes_max, unfinished, .. } = bounds;
    let too_large = Denial::BodyTooLarge { bytes_max };
    if body.size_hint().lower() > (bytes_max + EXCESS_BYTES_MAX) as u64 {
        return Err(too_large);
    }
    // What is announced, or else as much as there may be.
    let announced = body.size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
    let room_bytes = announced.unwrap_or(bytes_max).min(bytes_max);
    let mut first = Bytes::new();
    let mut all = Vec::new();
    let mut received = 0;
    let mut place = None;
    loop {
        let here = poll_fn(|cx| Poll::Ready(Pin::new(&mut body).poll_frame(cx))).await;
        let frame = match here {
            Poll::Ready(frame) => frame,
            Poll::Pending => {
                if received > UNCOUNTED_BODY_BYTES && place.is_none() {
                    place = Some(unfinished.hold(room_bytes)?);
                }
                body.frame().await
            }
        };
        let Some(frame) = frame else { break };
        let Ok(frame) = frame else {
            return Err(Invalid::new("body", "the body ended early or is badly framed").into());
        };
        let Ok(data) = frame.into_data() else { continue };
        received += data.len();
        if received > bytes_max + EXCESS_BYTES_MAX {
            return Err(too_large);
        }
        if received > bytes_max {
            continue;
        }
        // Nearly every body is one frame, and need not be copied.
        match first.is_empty() {
            true => first = data,
            false => {
                if all.is_empty() {
                    // Whoever only announces much is not given it.
                    all.reserve(if place.is_some() { room_bytes } else { 0 });
                    all.extend_from_slice(&first);
                }
                all.extend_from_slice(&data);
            }
        }
    }
    match received > bytes_max {
        true => Err(too_large),
        false if all.is_empty() => Ok(first),
        false => Ok(all.into()),
    }
}

/// Whether the body may be JSON: it says so, or says nothing.
pub fn check_media_type(headers: &HeaderMap) -> Result<(), Denial> {
    let mut lines = headers.get_all(CONTENT_TYPE).iter();
    let is_json = |line: &hyper::header::HeaderValue| {
        let text = line.to_str().unwrap_or_default();
        let essence = text.split_once(';').map_or(text, |(essence, _)| essence);
        essence.trim().eq_ignore_ascii_case("application/json")
    };
    match (lines.next(), lines.next()) {
        (None, _) => Ok(()),
        (Some(line), None) if is_json(line) => Ok(()),
        _ => Err(Denial::WrongMediaType),
    }
}
