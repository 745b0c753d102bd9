//! Sessions: one heartbeat for many leases.

use serde_json::{Value, json};

use crate::client::keys;
use crate::server::{Server, proof};

const SESSION: [&str; 9] = [
    "ended",
    "expires_in_ms",
    "metadata",
    "owner_id",
    "renew_after_ms",
    "seq",
    "session_id",
    "stop_after_ms",
    "ttl_ms",
];

fn open(server: &Server, body: Value) -> Value {
    server.post("/v1/sessions", body).expect(200)
}

fn acquire(server: &Server, lock: &str, session: &Value) -> Value {
    let body = json!({"owner_id": session["owner_id"], "session_id": session["session_id"]});
    server.post(&format!("/v1/locks/{lock}/acquire"), body).expect(200)
}

#[test]
fn open_keep_alive_close() {
    let server = Server::start();
    let body = json!({"owner_id": "w1", "ttl_ms": 9_000, "request_id": "s1", "metadata": {"a": "b"}});
    let session = open(&server, body.clone());
    assert_eq!(keys(&session), SESSION);
    assert_eq!((&session["ttl_ms"], &session["ended"]), (&json!(9_000), &json!([])));
    assert_eq!(open(&server, body)["session_id"], session["session_id"], "a repeat opens nothing");

    let lease = acquire(&server, "a", &session);
    assert_eq!(lease["session_id"], session["session_id"]);
    assert_eq!(lease["ttl_ms"], 9_000);
    let listed = server.get("/v1/sessions").expect(200);
    assert_eq!(keys(&listed), ["sessions"]);
    assert_eq!(
        keys(&listed["sessions"][0]),
        ["expires_in_ms", "leases", "metadata", "owner_id", "ttl_ms", "waiters"]
    );
    assert_eq!(
        (&listed["sessions"][0]["owner_id"], &listed["sessions"][0]["leases"]),
        (&json!("w1"), &json!(1))
    );

    let id = json!({"session_id": session["session_id"]});
    let alive = server.post("/v1/sessions/keepalive", id.clone()).expect(200);
    assert_eq!(keys(&alive), SESSION);
    assert_eq!(server.post("/v1/sessions/close", id.clone()).expect(200), json!({"closed": true}));
    assert_eq!(server.get("/v1/locks/a").expect(200)["state"], "free");
    server.post("/v1/sessions/keepalive", id).expect_code(410, "released");
    server.post("/v1/locks/a/renew", proof(&lease)).expect_code(410, "released");
}

#[test]
fn broken_leases_are_named_until_they_are_seen() {
    let server = Server::start();
    let session = open(&server, json!({"owner_id": "w1"}));
    let lease = acquire(&server, "a", &session);
    acquire(&server, "b", &session);
    server.delete("/v1/locks/a?reason=test").expect(200);
    let keep_alive = |seen: Option<u64>| {
        let mut body = json!({"session_id": session["session_id"]});
        if let Some(seen) = seen {
            body["seen"] = json!(seen);
        }
        server.post("/v1/sessions/keepalive", body).expect(200)
    };
    for _ in 0..2 {
        let ended = &keep_alive(None)["ended"];
        assert_eq!(ended.as_array().unwrap().len(), 1);
        assert_eq!(keys(&ended[0]), ["fencing_token", "lock", "reason", "seq"]);
        assert_eq!((&ended[0]["lock"], &ended[0]["fencing_token"]), (&json!("a"), &lease["fencing_token"]));
        assert_eq!(ended[0]["reason"], "broken");
    }
    let seq = keep_alive(None)["ended"][0]["seq"].as_u64().unwrap();
    assert_eq!(keep_alive(Some(seq))["ended"], json!([]));
    assert_eq!(keep_alive(None)["ended"], json!([]));
}

#[test]
fn a_closed_session_answers_its_waiters() {
    let server = Server::start();
    server.acquire("a", "holder");
    let session = open(&server, json!({"owner_id": "w1"}));
    let body = json!({"owner_id": "w1", "session_id": session["session_id"], "wait_ms": 60_000});
    let waiting = server.begin("/v1/locks/a/acquire", body);
    server.until_waiting("a", 1);
    server.post("/v1/sessions/close", json!({"session_id": session["session_id"]})).expect(200);
    waiting.answer().expect_code(410, "released");
    server.until_waiting("a", 0);
}

#[test]
fn sessions_are_listed_in_pages() {
    let server = Server::start();
    for owner in 0..5 {
        open(&server, json!({"owner_id": format!("w{owner}")}));
    }
    let mut owners = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = server.get(&format!("/v1/sessions?limit=2{cursor}")).expect(200);
        let rows = page["sessions"].as_array().unwrap();
        assert!(rows.len() <= 2);
        owners.extend(rows.iter().map(|row| row["owner_id"].as_str().unwrap().to_owned()));
        let Some(next) = page["next_cursor"].as_str() else { break };
        let escaped: String = next.bytes().map(|byte| format!("%{byte:02x}")).collect();
        cursor = format!("&cursor={escaped}");
    }
    owners.sort();
    assert_eq!(owners, ["w0", "w1", "w2", "w3", "w4"]);
}
