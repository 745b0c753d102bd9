//! A server that asks for a token asks at this door too, for every call but health.

use leasehold_server::config::Given;
use tonic::metadata::MetadataValue;
use tonic::{Code, Request};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::caller::{Caller, acquire, detail};
use crate::server::Server;

const TOKEN: &str = "correct-horse-battery-staple";

#[test]
fn a_token_is_shown_in_the_metadata() {
    let folder = tempfile::tempdir().unwrap();
    let token_file = folder.path().join("tokens");
    std::fs::write(&token_file, TOKEN).unwrap();
    let server = Server::start_with(Given { token_file: Some(token_file), ..Given::default() });
    let caller = Caller::to(server.address);
    let ask = |shown: Option<String>| {
        let mut request = Request::new(acquire("a", "w"));
        if let Some(shown) = shown {
            let shown = MetadataValue::try_from(shown).unwrap();
            request.metadata_mut().insert("authorization", shown);
        }
        caller.call(caller.locks().acquire(request))
    };
    for shown in [None, Some("Bearer wrong".to_owned()), Some(TOKEN.to_owned())] {
        let status = ask(shown).unwrap_err();
        assert_eq!(status.code(), Code::Unauthenticated);
        assert_eq!(detail(&status).code, "unauthenticated");
        assert!(!format!("{status:?}").contains(TOKEN));
    }
    let stream = caller.call(caller.operations().stream(tokio_stream::pending()));
    assert_eq!(stream.unwrap_err().code(), Code::Unauthenticated, "a stream is not even begun");
    assert_eq!(ask(Some(format!("Bearer {TOKEN}"))).unwrap().lock, "a");

    let mut health = HealthClient::new(caller.channel.clone());
    let told = caller.call(health.check(HealthCheckRequest::default())).unwrap();
    assert_eq!(told.status(), ServingStatus::Serving);
}
