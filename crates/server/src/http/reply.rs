//! HTTP answers: statuses, headers and bodies, made in one place. The body type is named here, so that streams can
//! join it without the rest of the door noticing.

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};

use super::events::EventStream;
use crate::wire::problem::Denial;

/// What answers are made of: nearly always a whole, or a stream of events.
pub type ReplyBody = Either<Full<Bytes>, EventStream>;
/// An answer.
pub type Reply = Response<ReplyBody>;

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
    dress(StatusCode::OK, "text/event-stream", Either::Right(stream))
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
