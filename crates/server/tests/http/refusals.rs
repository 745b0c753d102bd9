//! Every code of the contract that this door gives, with what it carries.

use leasehold_server::config::Given;
use serde_json::json;

use crate::client::keys;
use crate::server::{Server, proof};

#[test]
fn held_names_who_is_in_the_way() {
    let server = Server::start();
    server.acquire("path:%2Fa%2Fb", "w1");
    let problem =
        server.post("/v1/locks/path:%2Fa/acquire", json!({"owner_id": "w2"})).expect_code(409, "held");
    assert_eq!(
        keys(&problem),
        ["code", "detail", "holders", "recommended_retry_ms", "status", "title", "waiters"]
    );
    assert_eq!(problem["holders"][0]["lock"], "path:/a/b");
    assert_eq!(problem["holders"][0]["owner_id"], "w1");
    assert!(problem["recommended_retry_ms"].as_u64().unwrap() > 0);
}

#[test]
fn a_wait_that_ran_out_is_held() {
    let server = Server::start();
    server.acquire("a", "w1");
    let body = json!({"owner_id": "w2", "wait_ms": 50});
    server.post("/v1/locks/a/acquire", body).expect_code(409, "held");
    server.until_waiting("a", 0);
}

#[test]
fn an_ended_lease_is_expired_or_released() {
    let server = Server::start();
    let short = server.post("/v1/locks/a/acquire", json!({"owner_id": "w1", "ttl_ms": 100})).expect(200);
    server.until("a", "it has expired", |snapshot| snapshot["state"] == "free");
    for call in ["renew", "release"] {
        server.post(&format!("/v1/locks/a/{call}"), proof(&short)).expect_code(410, "lease_expired");
    }
    let lease = server.acquire("a", "w1");
    server.post("/v1/locks/a/release", proof(&lease)).expect(200);
    server.post("/v1/locks/a/renew", proof(&lease)).expect_code(410, "released");
}

#[test]
fn only_what_belongs_together_is_accepted() {
    let server = Server::start();
    let lease = server.acquire("a", "w1");
    let other = server.acquire("b", "w1");
    for call in ["renew", "release"] {
        let with = |field: &str, value: serde_json::Value| {
            let mut body = proof(&lease);
            body[field] = value;
            server.post(&format!("/v1/locks/a/{call}"), body)
        };
        with("owner_id", json!("w2")).expect_code(412, "stale_token");
        with("fencing_token", json!(1)).expect_code(412, "stale_token");
        with("lease_id", other["lease_id"].clone()).expect_code(412, "stale_token");
        with("lease_id", json!("l0-00000000000000000000000000000000")).expect_code(404, "not_found");
        with("lease_id", json!("made up")).expect_code(404, "not_found");
        server.post(&format!("/v1/locks/b/{call}"), proof(&lease)).expect_code(412, "stale_token");
    }
    server.post("/v1/locks/a/renew", proof(&lease)).expect(200);
}

#[test]
fn unknown_things_and_routes_are_not_found() {
    let server = Server::start();
    server.get("/nope").expect_code(404, "not_found");
    server.post("/v1/locks/a/b/acquire", json!({"owner_id": "w"})).expect_code(404, "not_found");
    server.post("/v1/locks/a/steal", json!({})).expect_code(404, "not_found");
    server.delete("/v1/locks/a?reason=x").expect_code(404, "not_found");
    let session = json!({"session_id": "s0-00000000000000000000000000000000"});
    server.post("/v1/sessions/keepalive", session.clone()).expect_code(404, "not_found");
    server.post("/v1/sessions/close", session.clone()).expect_code(404, "not_found");
    let mut under = session;
    under["owner_id"] = json!("w");
    server.post("/v1/locks/a/acquire", under).expect_code(404, "not_found");
}

#[test]
fn a_wrong_method_is_told_the_right_ones() {
    let server = Server::start();
    for (method, path, allow) in [
        ("GET", "/v1/locks/a/acquire", "POST"),
        ("PUT", "/v1/locks/a", "GET, HEAD, DELETE"),
        ("POST", "/v1/locks", "GET, HEAD"),
        ("DELETE", "/v1/sessions", "GET, HEAD, POST"),
        ("OPTIONS", "/v1/sessions/close", "POST"),
        ("BREW", "/healthz", "GET, HEAD"),
    ] {
        let answer = server.request(method, path, &[], b"");
        answer.expect_code(405, "method_not_allowed");
        assert_eq!(answer.header("allow"), Some(allow));
    }
}

#[test]
fn only_json_is_taken() {
    let server = Server::start();
    let body = br#"{"owner_id":"w"}"#;
    for media_type in
        ["application/x-www-form-urlencoded", "text/plain", "application/jsonp", "", "application/json,x"]
    {
        let answer = server.request("POST", "/v1/locks/a/acquire", &[("Content-Type", media_type)], body);
        answer.expect_code(415, "unsupported_media_type");
    }
    let twice = [("Content-Type", "application/json"), ("Content-Type", "application/json")];
    server.request("POST", "/v1/locks/a/acquire", &twice, body).expect_code(415, "unsupported_media_type");
    server.request("POST", "/v1/locks/a/acquire", &[], body).expect(200);
    let shouted = [("Content-Type", "Application/JSON; charset=utf-8")];
    server.request("POST", "/v1/locks/b/acquire", &shouted, body).expect(200);
}

#[test]
fn a_reached_limit_is_busy_and_says_when_to_come_back() {
    let server = Server::start_with(Given { leases_max: Some(1), ..Given::default() });
    let lease = server.acquire("a", "w1");
    let full = server.post("/v1/locks/b/acquire", json!({"owner_id": "w1"}));
    let problem = full.expect_code(503, "busy");
    let retry_ms = problem["recommended_retry_ms"].as_u64().unwrap();
    assert!(retry_ms > 0);
    assert_eq!(full.header("retry-after"), Some(retry_ms.div_ceil(1000).to_string().as_str()));
    server.post("/v1/locks/a/renew", proof(&lease)).expect(200);
    assert!(server.get("/metrics").text().contains("lock_acquire_total{result=\"busy\"} 1\n"));
}

#[test]
fn sessions_and_lines_have_limits_too() {
    let limits = Given { sessions_max: Some(1), waiters_per_lock_max: Some(1), ..Given::default() };
    let server = Server::start_with(limits);
    server.acquire("a", "w1");
    let _waiter = server.begin("/v1/locks/a/acquire", json!({"owner_id": "w2", "wait_ms": 60_000}));
    server.until_waiting("a", 1);
    let second = json!({"owner_id": "w3", "wait_ms": 60_000});
    server.post("/v1/locks/a/acquire", second).expect_code(503, "busy");
    server.post("/v1/sessions", json!({"owner_id": "w1"})).expect(200);
    server.post("/v1/sessions", json!({"owner_id": "w1"})).expect_code(503, "busy");
}

#[test]
fn the_ids_of_header_and_field_must_agree() {
    let server = Server::start();
    let acquire = |headers: &[(&str, &str)], body: &str| {
        let mut all = vec![("Content-Type", "application/json")];
        all.extend_from_slice(headers);
        server.request("POST", "/v1/locks/a/acquire", &all, body.as_bytes())
    };
    let field = r#"{"owner_id":"w","request_id":"r1"}"#;
    acquire(&[("Idempotency-Key", "r2")], field).expect_invalid("request_id");
    acquire(&[("Idempotency-Key", "r1"), ("Idempotency-Key", "r1")], field).expect_invalid("Idempotency-Key");
    acquire(&[("Idempotency-Key", "")], field).expect_invalid("Idempotency-Key");
    acquire(&[("Idempotency-Key", &"x".repeat(129))], field).expect_invalid("Idempotency-Key");
    acquire(&[("Idempotency-Key", "two words")], field).expect_invalid("Idempotency-Key");
    acquire(&[("Idempotency-Key", "r1")], field).expect(200);
}
