//! Heartbeats over one connection: one answer for each request, in order, each naming the request it answers. The first
//! refusal ends the stream, because who keeps nothing alive any more must not believe that it does.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use hyper::body::Incoming;
use leasehold_protocol::v1;

use super::frame::{self, GrpcReply, Inbound};
use super::{refused, requests, shapes};
use crate::http::door::Door;
use crate::limits::BODY_BYTES_MAX;
use crate::wire::commands::Call;
use crate::wire::problem::Denial;

/// Answers heartbeats until the client has no more.
pub fn answer(door: &Arc<Door>, body: Incoming, within: Duration) -> GrpcReply {
    let asked = Inbound::new(body, BODY_BYTES_MAX, within, door.unfinished());
    let door = Arc::clone(door);
    frame::many(stream::unfold(Some((door, asked)), |state| async {
        let (door, mut asked) = state?;
        let next = tokio::select! {
            biased;
            next = asked.next() => next?,
            refusal = door.stopping() => Err(refusal.into()),
        };
        let told = match next.and_then(frame::decode) {
            Ok(request) => beat(&door, request).await,
            Err(denial) => Err(denial),
        };
        Some(match told {
            Ok(response) => (Ok(response), Some((door, asked))),
            Err(denial) => (Err(refused::status(&denial)), None),
        })
    }))
}

async fn beat(door: &Door, asked: v1::KeepAliveRequest) -> Result<v1::KeepAliveResponse, Denial> {
    let request = asked.request;
    let outcome = door.call(Call::KeepAlive, requests::keep_alive(asked)).await;
    Ok(v1::KeepAliveResponse { request, session: Some(shapes::session(outcome?)) })
}
