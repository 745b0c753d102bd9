//! A watch over gRPC: the same feed as the server-sent events. A stream that the server ends says why in its status.

use futures_util::stream::{self, Stream, StreamExt};
use leasehold_engine::Moment;
use leasehold_protocol::v1;
use leasehold_protocol::v1::watch_request::What;
use leasehold_state_machine::answer::Refusal;
use leasehold_state_machine::invalid::Invalid;
use leasehold_state_machine::resource::Resource;

use super::frame::{self, GrpcReply};
use super::{refused, shapes};
use crate::http::door::Door;
use crate::watch::Concern;
use crate::wire::problem::Denial;

/// Tells what happens until the client has heard enough, falls behind, or the server stops.
pub async fn answer(door: &Door, asked: v1::WatchRequest) -> Result<GrpcReply, Denial> {
    Ok(frame::many(events(door, asked).await?.map(|event| event.map_err(|denial| refused::status(&denial)))))
}

/// The same for a watcher that asked by any way. Ends after its first denial.
pub async fn events(
    door: &Door,
    asked: v1::WatchRequest,
) -> Result<impl Stream<Item = Result<v1::Event, Denial>> + Send + use<>, Denial> {
    let watching = door.begin_watch(concern(asked.what)?, asked.from).await?;
    Ok(stream::unfold(Some(watching), |state| async {
        let mut watching = state?;
        if let Some(shown) = watching.next().await {
            return Some((Ok(event(shown.moment())), Some(watching)));
        }
        let refusal = Refusal::from(watching.ending()?);
        Some((Err(refusal.into()), None))
    }))
}

fn concern(what: Option<What>) -> Result<Concern, Invalid> {
    match what {
        Some(What::Lock(lock)) => Ok(Concern::lock(&Resource::parse(&lock)?)),
        Some(What::Prefix(prefix)) => Concern::prefix(&prefix),
        None => Err(Invalid::new("lock", "name a lock or a prefix; an empty prefix means all locks")),
    }
}

/// An event as a message.
pub fn event(moment: &Moment) -> v1::Event {
    v1::Event {
        seq: moment.seq(),
        time: Some(shapes::moment(moment.wall_ms())),
        lock: moment.lock().into(),
        r#type: moment.kind().text().into(),
        owner_id: moment.owner().into(),
        fencing_token: moment.token().map(shapes::token),
        mode: shapes::mode(moment.mode()),
        reason: moment.reason().map(Into::into),
    }
}
