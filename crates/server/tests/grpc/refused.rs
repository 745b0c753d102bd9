//! What only gRPC can get wrong, and how refusals travel.

use leasehold_protocol::v1;
use leasehold_server::config::Given;
use tonic::{Code, Request};

use crate::caller::{Caller, acquire, detail};
use crate::server::Server;

#[test]
fn unknown_enum_values_are_refused() {
    let server = Server::start();
    let caller = Caller::to(server.address);
    for mode in [3, -1, i32::MAX] {
        let request = v1::AcquireRequest { mode, ..acquire("a", "w") };
        let error = detail(&caller.call(caller.locks().acquire(request)).unwrap_err());
        assert_eq!((error.code.as_str(), error.field.as_str()), ("invalid_argument", "mode"));
    }
    assert_eq!(server.get("/v1/locks/a").expect(200)["state"], "free");
}

#[test]
fn tokens_below_zero_are_refused() {
    let server = Server::start();
    let caller = Caller::to(server.address);
    for fencing_token in [-1, i64::MIN] {
        let request = v1::VerifyRequest { lock: "a".into(), fencing_token };
        let error = detail(&caller.call(caller.locks().verify(request)).unwrap_err());
        assert_eq!((error.code.as_str(), error.field.as_str()), ("invalid_argument", "fencing_token"));
    }
}

#[test]
fn a_message_has_its_bound() {
    let server = Server::start();
    let caller = Caller::to(server.address);
    let get = |bytes: usize| {
        let request = v1::GetRequest { lock: "x".repeat(bytes) };
        detail(&caller.call(caller.locks().get(request)).unwrap_err())
    };
    assert_eq!(get(64 * 1024 - 100).field, "lock");
    for bytes in [64 * 1024, 1 << 20, 5 << 20] {
        assert_eq!(get(bytes).code, "too_large");
    }
}

#[test]
fn a_crowd_in_the_way_still_fits_into_the_status() {
    let server = Server::start();
    let caller = Caller::to(server.address);
    for n in 0..100 {
        let metadata = [("k".to_owned(), "v".repeat(3000))].into();
        let mode = v1::Mode::Shared.into();
        let request = v1::AcquireRequest { mode, metadata, ..acquire("a", &format!("w{n}")) };
        caller.call(caller.locks().acquire(request)).unwrap();
    }
    let error = detail(&caller.call(caller.locks().acquire(acquire("a", "w"))).unwrap_err());
    assert_eq!(error.code, "held");
    assert!(!error.holders.is_empty() && error.holders.len() < 100, "{}", error.holders.len());
    assert!(error.holders.iter().all(|holder| holder.lock == "a"));
    assert_eq!(error.holders[0].owner_id, "w0", "the first of them");
}

#[test]
fn a_limit_is_busy() {
    let server = Server::start_with(Given { leases_max: Some(1), ..Given::default() });
    let caller = Caller::to(server.address);
    caller.acquire("a", "w");
    let error = detail(&caller.call(caller.locks().acquire(acquire("b", "w"))).unwrap_err());
    assert_eq!(error.code, "busy");
    assert!(error.recommended_retry_ms > 0);
}

#[test]
fn foreign_marks_are_refused() {
    let server = Server::start();
    let caller = Caller::to(server.address);
    for (name, value) in [("origin", "http://evil.example"), ("sec-fetch-site", "cross-site")] {
        let mut request = Request::new(v1::GetRequest { lock: "a".into() });
        request.metadata_mut().insert(name, value.parse().unwrap());
        let error = detail(&caller.call(caller.locks().get(request)).unwrap_err());
        assert_eq!(error.code, "permission_denied", "{name}");
    }
    let endpoint = tonic::transport::Channel::from_shared(format!("http://{}", server.address)).unwrap();
    let endpoint = endpoint.origin("http://evil.example:7420".parse().unwrap());
    let stranger = Caller { channel: caller.wait(endpoint.connect()).unwrap(), ..Caller::to(server.address) };
    let request = v1::GetRequest { lock: "a".into() };
    let status = stranger.call(stranger.locks().get(request)).unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied);
    assert_eq!(detail(&status).code, "permission_denied");
}
