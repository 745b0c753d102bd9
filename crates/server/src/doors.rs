//! Which door a request goes through: gRPC by its content type, everything else HTTP. One listener, one gate, one engine
//! behind both.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::Either;
use hyper::body::Incoming;
use hyper::{Method, Request, Response, Version};

use crate::grpc::dispatch;
use crate::http::door::Door;
use crate::http::reply::ReplyBody;

/// An answer, whichever door it comes from.
pub type AnyReply = Response<Either<ReplyBody, tonic::body::Body>>;

/// Answers one request. Dropped when the client takes it back or closes its connection.
pub async fn answer(door: Arc<Door>, request: Request<Incoming>, body_timeout: Duration) -> AnyReply {
    if dispatch::is_grpc(&request) {
        // In a box, so that the simplest request does not need room for the largest.
        return Box::pin(dispatch::answer(&door, request, body_timeout)).await.map(Either::Right);
    }
    // HTTP/1 leaves the body of an answer to HEAD out by itself.
    let head_only = request.method() == Method::HEAD && request.version() == Version::HTTP_2;
    let reply = door.answer(request, body_timeout).await;
    reply.map(|body| Either::Left(if head_only { ReplyBody::Left(Default::default()) } else { body }))
}
