//! What every gRPC tool expects: health and reflection, and UNIMPLEMENTED for what is not there.

use std::collections::BTreeSet;

use leasehold_protocol::DESCRIPTORS;
use prost::Message;
use prost_types::FileDescriptorSet;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{ServerReflectionRequest, ServerReflectionResponse};

use crate::caller::Caller;
use crate::server::Server;

fn reflect(caller: &Caller, ask: MessageRequest) -> MessageResponse {
    let mut client = ServerReflectionClient::new(caller.channel.clone());
    let request = ServerReflectionRequest { message_request: Some(ask), ..Default::default() };
    let told: ServerReflectionResponse = caller.wait(async {
        let told = client.server_reflection_info(tokio_stream::once(request)).await.unwrap();
        told.into_inner().message().await.unwrap().unwrap()
    });
    told.message_response.unwrap()
}

#[test]
fn reflection_lists_the_services_and_shows_their_files() {
    let server = Server::start();
    let caller = Caller::to(server.address);
    let MessageResponse::ListServicesResponse(list) =
        reflect(&caller, MessageRequest::ListServices(String::new()))
    else {
        panic!("no list")
    };
    let names: BTreeSet<String> = list.service.into_iter().map(|service| service.name).collect();
    let expected = [
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
        "leasehold.v1.Files",
        "leasehold.v1.Locks",
        "leasehold.v1.Operations",
        "leasehold.v1.Sessions",
    ];
    assert_eq!(names, expected.map(str::to_owned).into());
    let symbol = MessageRequest::FileContainingSymbol("leasehold.v1.Locks".into());
    let MessageResponse::FileDescriptorResponse(files) = reflect(&caller, symbol) else { panic!("no file") };
    assert!(!files.file_descriptor_proto.is_empty());
}

#[test]
fn health_follows_the_server() {
    let server = Server::start();
    let caller = Caller::to(server.address);
    let mut client = HealthClient::new(caller.channel.clone());
    let named = |service: &str| HealthCheckRequest { service: service.into() };
    for service in ["", "Locks", "Sessions", "Files", "Operations"] {
        let service = if service.is_empty() { String::new() } else { format!("leasehold.v1.{service}") };
        let service = service.as_str();
        let told = caller.call(client.check(named(service))).unwrap();
        assert_eq!(told.status(), ServingStatus::Serving, "{service}");
    }
    assert_eq!(caller.call(client.check(named("nobody"))).unwrap_err().code(), Code::NotFound);
    let mut unknown = caller.call(client.watch(named("nobody"))).unwrap();
    assert_eq!(caller.wait(unknown.message()).unwrap().unwrap().status(), ServingStatus::ServiceUnknown);
    drop(unknown);

    let mut watching = caller.call(client.watch(named(""))).unwrap();
    assert_eq!(caller.wait(watching.message()).unwrap().unwrap().status(), ServingStatus::Serving);
    let stopped = std::thread::spawn(move || drop(server));
    assert_eq!(caller.wait(watching.message()).unwrap().unwrap().status(), ServingStatus::NotServing);
    drop((watching, client, caller));
    stopped.join().unwrap();
}

#[test]
fn every_method_of_the_files_is_there_and_no_other() {
    let server = Server::start();
    let caller = Caller::to(server.address);
    let call = |path: String| {
        let mut grpc = tonic::client::Grpc::new(caller.channel.clone());
        caller.wait(async {
            grpc.ready().await.unwrap();
            let codec = tonic_prost::ProstCodec::<(), ()>::default();
            // An empty message is a malformed request to nearly all of them, and to the others a fine one.
            grpc.unary(tonic::Request::new(()), path.parse().unwrap(), codec).await.map(drop)
        })
    };
    let files = FileDescriptorSet::decode(DESCRIPTORS).unwrap().file;
    let mut methods = 0;
    for file in &files {
        for service in &file.service {
            for method in &service.method {
                let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
                let told = call(path.clone());
                let missing = matches!(&told, Err(status) if status.code() == Code::Unimplemented);
                assert!(!missing, "{path}: {told:?}");
                methods += 1;
            }
        }
    }
    assert_eq!(methods, 20);
    for path in ["/leasehold.v1.Locks/Steal", "/leasehold.v2.Locks/Get", "/v1/locks", "/"] {
        assert_eq!(call(path.to_owned()).unwrap_err().code(), Code::Unimplemented, "{path}");
    }
}
