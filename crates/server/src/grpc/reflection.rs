//! Server reflection: tells tools which services there are and what their messages look like.

use std::pin::Pin;
use std::sync::LazyLock;

use hyper::Request;
use hyper::body::Incoming;
use tonic::Status;
use tonic::codegen::Service;
use tonic_reflection::server::Builder;

use super::frame::GrpcReply;
use crate::limits::BODY_BYTES_MAX;

type Answering = Pin<Box<dyn Future<Output = GrpcReply> + Send>>;

static SERVICE: LazyLock<Box<dyn Fn(Request<Incoming>) -> Answering + Send + Sync>> = LazyLock::new(|| {
    let built = Builder::configure()
        .register_encoded_file_descriptor_set(leasehold_protocol::DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1();
    assert!(built.is_ok(), "the descriptors were made together with this program");
    let service = built.map(|service| service.max_decoding_message_size(BODY_BYTES_MAX)).ok();
    Box::new(move |request| {
        let service = service.clone();
        Box::pin(async move {
            let Some(mut service) = service else { return Status::unimplemented("").into_http() };
            match service.call(request).await {
                Ok(reply) => reply,
                Err(never) => match never {},
            }
        })
    })
});

/// Answers a tool's questions.
pub async fn answer(request: Request<Incoming>) -> GrpcReply {
    SERVICE(request).await
}
