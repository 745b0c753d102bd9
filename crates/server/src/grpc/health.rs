//! The standard health service: whether this server serves, asked once or listened to. The server as a whole is the empty
//! name; each of its services is as healthy as the whole.

use std::sync::Arc;

use futures_util::stream;
use tonic::Status;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use super::frame::{self, GrpcReply};
use crate::http::door::{Door, Stage};

/// The services that can be asked for.
const SERVICES: [&str; 5] =
    ["", "leasehold.v1.Locks", "leasehold.v1.Sessions", "leasehold.v1.Files", "leasehold.v1.Operations"];

/// Answers once.
pub fn check(door: &Door, asked: HealthCheckRequest) -> GrpcReply {
    if !SERVICES.contains(&asked.service.as_str()) {
        return Status::not_found("there is no such service here").into_http();
    }
    frame::one(&response(status(door.stage())))
}

/// Answers now and at every change.
pub fn watch(door: &Arc<Door>, asked: HealthCheckRequest) -> GrpcReply {
    let known = SERVICES.contains(&asked.service.as_str());
    let mut stages = door.stages();
    stages.mark_changed();
    frame::many(stream::unfold(stages, move |mut stages| async move {
        // The door lives as long as anybody can ask.
        stages.changed().await.ok()?;
        let status = match known {
            true => status(*stages.borrow_and_update()),
            false => ServingStatus::ServiceUnknown,
        };
        Some((Ok(response(status)), stages))
    }))
}

fn status(stage: Stage) -> ServingStatus {
    match stage {
        Stage::Serving => ServingStatus::Serving,
        Stage::Starting | Stage::Stopping => ServingStatus::NotServing,
    }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}
