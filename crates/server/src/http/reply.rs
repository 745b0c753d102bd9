//! HTTP answers: statuses, headers and bodies, made in one place. The body type is named here, so that streams can
//! join it without the rest of the door noticing.

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};

use leasehold_state_machine::answer::FileView;

use super::events::EventStream;
use super::file_body::FileBody;
use crate::wire::problem::Denial;

/// What answers are made of: nearly always a whole, or a stream of events, or the bytes of a file.
pub type ReplyBody = Either<Full<Bytes>, Either<EventStream, FileBody>>;
/// An answer.
pub type Reply = Response<ReplyBody>;

const INODE: HeaderName = HeaderName::from_static("leasehold-inode");
const TOKEN: HeaderName = HeaderName::from_static("leasehold-token");

/// JSON with status 200.
pub fn json(body: Vec<u8>) -> Reply {
    with(StatusCode::OK, "application/json", body)
}

/// Text of some type with status 200.
pub fn text(media_type: &'static str, body: String) -> Reply {
    with(StatusCode::OK, media_type, body.into_bytes())
}

/// A page for people, and what it may do in their browser.
pub fn page(html: String, policy: &'static str) -> Reply {
    let mut reply = text("text/html; charset=utf-8", html);
    reply.headers_mut().insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    reply
}

/// A stream of events with status 200.
pub fn events(stream: EventStream) -> Reply {
    dress(StatusCode::OK, "text/event-stream", Either::Right(Either::Left(stream)))
}

/// The bytes of a file: all of them with status 200, a part of them with 206.
pub fn file(body: FileBody, is_part: bool) -> Reply {
    let reading = body.reading();
    let (view, first, end) =
        (reading.file().clone(), reading.next_byte(), reading.next_byte() + reading.left());
    let status = if is_part { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK };
    let mut reply = dress(status, FILE_TYPE, Either::Right(Either::Right(body)));
    describe(&mut reply, &view);
    if is_part {
        assert!(first < end, "a part of a file has bytes");
        content_range(&mut reply, &format!("bytes {first}-{}/{}", end - 1, view.size));
    }
    reply
}

/// What is known of a file, and none of its bytes.
pub fn file_head(view: &FileView) -> Reply {
    let mut reply = with(StatusCode::OK, FILE_TYPE, Vec::new());
    describe(&mut reply, view);
    reply.headers_mut().insert(header::CONTENT_LENGTH, view.size.into());
    reply
}

/// What a file holds is its writer's business, and no browser's.
pub const FILE_TYPE: &str = "application/octet-stream";

fn describe(reply: &mut Reply, view: &FileView) {
    let headers = reply.headers_mut();
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(INODE, view.number.into());
    headers.insert(TOKEN, view.token.into());
}

fn content_range(reply: &mut Reply, text: &str) {
    if let Ok(value) = HeaderValue::from_str(text) {
        reply.headers_mut().insert(header::CONTENT_RANGE, value);
    }
}

/// A refusal.
pub fn denial(denial: &Denial) -> Reply {
    let (_, status, _) = denial.code().row();
    let status = StatusCode::from_u16(status);
    assert!(status.is_ok(), "the table of codes has HTTP statuses");
    let mut reply = with(status.unwrap_or_default(), "application/problem+json", denial.render());
    if reply.status() == StatusCode::SERVICE_UNAVAILABLE
        && let Some(retry_ms) = denial.retry_ms()
    {
        reply.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(retry_ms.div_ceil(1000)));
    }
    if let Denial::Unauthenticated { shown } = denial {
        let challenge = match shown {
            false => HeaderValue::from_static("Bearer realm=\"leasehold\""),
            true => HeaderValue::from_static("Bearer realm=\"leasehold\", error=\"invalid_token\""),
        };
        reply.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    }
    if let Denial::WrongMethod { allow } = denial
        && let Ok(allow) = HeaderValue::from_str(allow)
    {
        reply.headers_mut().insert(header::ALLOW, allow);
    }
    if let Denial::OutOfRange { size } = denial {
        content_range(&mut reply, &format!("bytes */{size}"));
    }
    if matches!(denial, Denial::BodyTooLarge { .. }) {
        // The rest of the body may still be on its way; nothing after it could be told apart.
        reply.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    reply
}

fn with(status: StatusCode, media_type: &'static str, body: Vec<u8>) -> Reply {
    dress(status, media_type, Either::Left(Full::new(Bytes::from(body))))
}

fn dress(status: StatusCode, media_type: &'static str, body: ReplyBody) -> Reply {
    const NOSNIFF: (HeaderName, HeaderValue) =
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let mut reply = Response::new(body);
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(NOSNIFF.0, NOSNIFF.1);
    reply
}
