//! Every refusal that is documented for an operation can be provoked, and no other occurs.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold_server::config::Given;
use leasehold_server::http::accept::{ConnectionLimits, accept};
use leasehold_server::http::door::Door;
use leasehold_server::http::gate::Gate;
use leasehold_server::http::openapi::document;
use serde_json::{Value, json};

use super::Operation;
use crate::client::conform::{Seen, look};
use crate::client::{Answer, send};
use crate::server::{PATIENCE, Server, proof, request};

/// What was refused so far, as `operation code`, and what refusals carried.
#[derive(Default)]
struct Provoked {
    refusals: BTreeSet<String>,
    seen: Seen,
}

impl Provoked {
    fn note(&mut self, method: &str, target: &str, answer: &Answer) {
        let Some((id, code)) = look(method, target, answer, &mut self.seen) else {
            panic!("{method} {target} is not documented: {}", answer.text());
        };
        let codes = match code {
            Some(code) => BTreeSet::from([code]),
            // Only HEAD leaves it out.
            None => Operation::named(&id).codes_with(&answer.status.to_string()),
        };
        assert!(!codes.is_empty(), "{method} {target} was not refused: {}", answer.text());
        self.refusals.extend(codes.into_iter().map(|code| format!("{id} {code}")));
    }

    /// Sends one operation's example with more headers or another body.
    fn ask(
        &mut self,
        address: std::net::SocketAddr,
        operation: &Operation,
        headers: &[(&str, &str)],
        body: &[u8],
    ) {
        let own = operation.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let headers: Vec<_> = own.chain(headers.iter().copied()).collect();
        let bytes = request(&operation.method, &operation.target, &headers, body);
        self.note(&operation.method, &operation.target, &send(address, &bytes));
    }

    /// Sends a body, and expects this code.
    fn post(&mut self, server: &Server, target: &str, body: Value, code: &str) {
        let answer = server.post(target, body);
        assert_eq!(answer.json()["code"], code, "{target}: {}", answer.text());
        self.note("POST", target, &answer);
    }
}

#[test]
fn every_documented_refusal_occurs_and_no_other() {
    let mut provoked = Provoked::default();
    whoever_asks(&mut provoked);
    without_a_token(&mut provoked);
    no_room_for_a_connection(&mut provoked);
    nobody_behind_the_door(&mut provoked);
    by_the_lease(&mut provoked);
    by_the_session(&mut provoked);
    by_the_file(&mut provoked);

    let documented: BTreeSet<String> = Operation::all()
        .iter()
        .flat_map(|operation| operation.codes().into_iter().map(|code| format!("{} {code}", operation.id)))
        // Needs a hundred thousand events; the tests of watching have them.
        .filter(|refusal| !refusal.ends_with(" gone"))
        .collect();
    assert_eq!(provoked.refusals, documented);
    for (name, schema) in document()["components"]["schemas"].as_object().unwrap() {
        if !name.starts_with("Problem") || ["ProblemMethodNotAllowed", "ProblemGone"].contains(&name.as_str())
        {
            continue;
        }
        for property in schema["properties"].as_object().unwrap().keys() {
            assert!(
                provoked.seen.contains(&format!("{name}.{property}")),
                "{name}.{property} never occurred"
            );
        }
    }
}

#[test]
fn another_method_is_refused_as_documented() {
    let server = Server::start();
    let answer = server.request("PATCH", "/v1/locks/deploy", &[], b"");
    answer.expect_code(405, "method_not_allowed");
    let documented = &document()["components"]["responses"]["method_not_allowed"];
    assert!(documented["headers"]["Allow"].is_object() && answer.header("allow").is_some());
}

/// What is refused before anybody looks at what is asked.
fn whoever_asks(provoked: &mut Provoked) {
    let server = Server::start();
    for operation in Operation::all() {
        provoked.ask(server.address, &operation, &[("Host", "elsewhere.example")], b"");
        provoked.ask(server.address, &operation, &[("Host", "localhost"), ("Host", "localhost")], b"");
        let bytes_max = if operation.bytes.is_some() { 1024 * 1024 } else { 64 * 1024 };
        provoked.ask(server.address, &operation, &[], &vec![b' '; bytes_max + 1]);
        if let Some(body) = &operation.body {
            provoked.ask(
                server.address,
                &operation,
                &[("Content-Type", "text/plain")],
                body.to_string().as_bytes(),
            );
        }
    }
}

/// A server that asks for a token, of those who have none.
fn without_a_token(provoked: &mut Provoked) {
    let folder = tempfile::tempdir().unwrap();
    let token_file = folder.path().join("tokens");
    std::fs::write(&token_file, "a-token-of-the-server").unwrap();
    let server = Server::start_with(Given { token_file: Some(token_file), ..Given::default() });
    for operation in Operation::all() {
        if !["/healthz", "/readyz"].contains(&operation.target.as_str()) {
            provoked.ask(server.address, &operation, &[], b"");
        }
    }
}

fn no_room_for_a_connection(provoked: &mut Provoked) {
    let server = Server::start_with(Given { connections_max: Some(1), ..Given::default() });
    let only = TcpStream::connect(server.address).unwrap();
    for operation in Operation::all() {
        provoked.ask(server.address, &operation, &[], b"");
    }
    drop(only);
}

/// A server that is starting.
fn nobody_behind_the_door(provoked: &mut Provoked) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap();
    let address = listener.local_addr().unwrap();
    let door = Arc::new(Door::new(Gate::new(IpAddr::V4(Ipv4Addr::LOCALHOST), Vec::new())));
    runtime.spawn(accept(listener, door, None, ConnectionLimits::default(), std::future::pending()));
    for operation in Operation::all().iter().filter(|operation| operation.codes().contains("unavailable")) {
        let body = operation.body.as_ref().map(Value::to_string).unwrap_or_default();
        provoked.ask(address, operation, &[], body.as_bytes());
    }
    runtime.shutdown_background();
}

fn by_the_lease(provoked: &mut Provoked) {
    let server = Server::start();
    let lease = server.post("/v1/locks/a/acquire", json!({"owner_id": "w1", "request_id": "r1"})).expect(200);
    let short = json!({"owner_id": "w1", "ttl_ms": 100, "request_id": "r2"});
    let expired = server.post("/v1/locks/b/acquire", short.clone()).expect(200);
    server.until("b", "it has expired", |snapshot| snapshot["state"] == "free");

    let _waiting = server.begin("/v1/locks/a/acquire", json!({"owner_id": "w2", "wait_ms": 60_000}));
    server.until_waiting("a", 1);
    provoked.post(&server, "/v1/locks/a/acquire", json!({"owner_id": "w3"}), "held");
    provoked.post(&server, "/v1/locks/b/acquire", short, "lease_expired");
    let cancelled = json!({"owner_id": "w1", "request_id": "r3"});
    server.post("/v1/locks/c/cancel", cancelled.clone()).expect(200);
    provoked.post(&server, "/v1/locks/c/acquire", cancelled, "cancelled");

    let with = |lease: &Value, name: &str, value: Value| {
        let mut proof = proof(lease);
        proof[name] = value;
        proof
    };
    for call in ["renew", "release"] {
        provoked.post(&server, &format!("/v1/locks/b/{call}"), proof(&expired), "lease_expired");
        let unknown = with(&lease, "lease_id", json!("l0-00000000000000000000000000000000"));
        provoked.post(&server, &format!("/v1/locks/a/{call}"), unknown, "not_found");
        let older = with(&lease, "fencing_token", json!(1));
        provoked.post(&server, &format!("/v1/locks/a/{call}"), older, "stale_token");
    }
    provoked.post(&server, "/v1/locks/a/verify", json!({"fencing_token": 1}), "stale_token");

    server.post("/v1/locks/a/release", proof(&lease)).expect(200);
    let repeated = json!({"owner_id": "w1", "request_id": "r1"});
    provoked.post(&server, "/v1/locks/a/acquire", repeated, "released");
    provoked.post(&server, "/v1/locks/a/renew", proof(&lease), "released");

    let nobodys = "/v1/locks/inode:4503599627370496";
    provoked.note("GET", nobodys, &server.get(nobodys));
    let free = "/v1/locks/free?reason=x";
    provoked.note("DELETE", free, &server.delete(free));
}

fn by_the_session(provoked: &mut Provoked) {
    let server = Server::start();
    let open = |id: &str, ttl_ms: u64| {
        let body = json!({"owner_id": "w1", "ttl_ms": ttl_ms, "request_id": id});
        (body.clone(), server.post("/v1/sessions", body).expect(200)["session_id"].clone())
    };
    let (expired, expired_id) = open("r1", 100);
    let (closed, closed_id) = open("r2", 30_000);
    let (_, live_id) = open("r3", 30_000);
    server.post("/v1/sessions/close", json!({"session_id": closed_id})).expect(200);
    let live = || server.get("/v1/sessions").expect(200)["sessions"].as_array().unwrap().len();
    let begun = Instant::now();
    while live() > 1 {
        assert!(begun.elapsed() < PATIENCE, "waited in vain until a session expired");
        std::thread::sleep(Duration::from_millis(2));
    }

    provoked.post(&server, "/v1/sessions", expired, "lease_expired");
    provoked.post(&server, "/v1/sessions", closed, "released");
    let cancelled = json!({"owner_id": "w1", "request_id": "r4"});
    server.post("/v1/locks/a/cancel", cancelled.clone()).expect(200);
    provoked.post(&server, "/v1/sessions", cancelled, "cancelled");

    let unknown = json!({"session_id": "s0-00000000000000000000000000000000"});
    for call in ["keepalive", "close"] {
        let target = format!("/v1/sessions/{call}");
        provoked.post(&server, &target, unknown.clone(), "not_found");
        provoked.post(&server, &target, json!({"session_id": expired_id}), "lease_expired");
    }
    provoked.post(&server, "/v1/sessions/keepalive", json!({"session_id": closed_id}), "released");

    let mut under = unknown;
    under["owner_id"] = json!("w1");
    provoked.post(&server, "/v1/locks/a/acquire", under, "not_found");
    let foreign = json!({"owner_id": "w2", "session_id": live_id});
    provoked.post(&server, "/v1/locks/a/acquire", foreign, "stale_token");
}

fn by_the_file(provoked: &mut Provoked) {
    let server = Server::start();
    let acquire = |lock: &str, fields: Value| {
        let mut body = json!({"owner_id": "w1"});
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        server.post(&format!("/v1/locks/{lock}/acquire"), body).expect(200)
    };
    let live = acquire("path:%2Fa", json!({}));
    let elsewhere = acquire("path:%2Fb", json!({}));
    let expired = acquire("path:%2Fc", json!({"ttl_ms": 100}));
    server.until("path:%2Fc", "it has expired", |snapshot| snapshot["state"] == "free");
    let released = acquire("path:%2Fd", json!({}));
    server.post("/v1/locks/path:%2Fd/release", proof(&released)).expect(200);
    let mut unknown = live.clone();
    unknown["lease_id"] = json!("l0-00000000000000000000000000000000");
    let mut stale = live.clone();
    stale["fencing_token"] = json!(1);
    server.post("/v1/locks/x/cancel", json!({"owner_id": "w1", "request_id": "r1"})).expect(200);

    for id in ["appendFile", "writeFile", "deleteFile"] {
        let operation = Operation::named(id);
        let target = operation.target.replace("reports%2Fa.log", "a");
        let cases = [
            (&unknown, "", "not_found"),
            (&expired, "", "lease_expired"),
            (&released, "", "released"),
            (&stale, "", "stale_token"),
            (&elsewhere, "", "scope_mismatch"),
            (&live, "r1", "cancelled"),
        ];
        for (lease, request_id, code) in cases {
            let answer = server.under(lease, request_id, &operation.method, &target, b"");
            assert_eq!(answer.json()["code"], code, "{id}: {}", answer.text());
            provoked.note(&operation.method, &target, &answer);
        }
    }
    for method in ["GET", "HEAD"] {
        let answer = server.request(method, "/v1/files/a", &[], b"");
        assert_eq!(answer.status, 404);
        provoked.note(method, "/v1/files/a", &answer);
    }
    server.under(&live, "", "POST", "/v1/files/a/append", b"hello").expect(200);
    let answer = server.request("GET", "/v1/files/a", &[("Range", "bytes=5-")], b"");
    assert_eq!(answer.status, 416);
    provoked.note("GET", "/v1/files/a", &answer);
}
