//! Every lock call as it should go, with exactly the members that the contract names.

use serde_json::json;

use crate::client::keys;
use crate::server::{Server, proof};

const LEASE: [&str; 15] = [
    "acquired_at",
    "expires_at",
    "expires_in_ms",
    "fencing_token",
    "lease_id",
    "lock",
    "metadata",
    "mode",
    "owner_id",
    "renew_after_ms",
    "seq",
    "session_id",
    "stop_after_ms",
    "ttl_ms",
    "version",
];
const HOLDER: [&str; 8] =
    ["acquired_at", "expires_at", "expires_in_ms", "fencing_token", "lock", "metadata", "mode", "owner_id"];
const WAITER: [&str; 6] = ["attached", "lock", "mode", "owner_id", "position", "waiting_ms"];

#[test]
fn acquire_renew_release() {
    let server = Server::start();
    let body =
        json!({"owner_id": "w1", "ttl_ms": 12_000, "mode": "shared", "metadata": {"why": "ü \"quoted\""}});
    let answer = server.post("/v1/locks/deploy/acquire", body);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let lease = answer.expect(200);
    assert_eq!(keys(&lease), LEASE);
    assert_eq!(lease["lock"], "deploy");
    assert_eq!(lease["owner_id"], "w1");
    assert_eq!(lease["mode"], "shared");
    assert_eq!(lease["ttl_ms"], 12_000);
    assert_eq!(lease["metadata"], json!({"why": "ü \"quoted\""}));
    assert!(lease["expires_in_ms"].as_u64().unwrap() <= 12_000);
    assert!(lease["renew_after_ms"].as_u64().unwrap() <= lease["stop_after_ms"].as_u64().unwrap());
    assert!(lease["fencing_token"].as_u64().unwrap() < 1 << 53);
    let acquired_at = lease["acquired_at"].as_str().unwrap();
    assert!(acquired_at.len() == 24 && acquired_at.ends_with('Z'), "{acquired_at}");

    let mut renewal = proof(&lease);
    let renewed = server.post("/v1/locks/deploy/renew", renewal.clone()).expect(200);
    assert_eq!(keys(&renewed), LEASE);
    for same in ["lease_id", "session_id", "fencing_token", "acquired_at", "version", "metadata"] {
        assert_eq!(renewed[same], lease[same], "{same}");
    }
    renewal["ttl_ms"] = json!(20_000);
    renewal["metadata"] = json!({});
    let changed = server.post("/v1/locks/deploy/renew", renewal).expect(200);
    assert_eq!((&changed["ttl_ms"], &changed["metadata"]), (&json!(20_000), &json!({})));
    assert!(changed["version"].as_u64() > lease["version"].as_u64());

    for _ in 0..2 {
        let released = server.post("/v1/locks/deploy/release", proof(&lease)).expect(200);
        assert_eq!(released, json!({"released": true}));
    }
}

#[test]
fn snapshots_and_lists() {
    let server = Server::start();
    let free = server.get("/v1/locks/a").expect(200);
    assert_eq!(keys(&free), ["holders", "lock", "seq", "state", "version", "waiters"]);
    assert_eq!((&free["state"], &free["holders"]), (&json!("free"), &json!([])));
    assert_eq!(free["version"], free["seq"]);

    let lease = server.acquire("a", "w1");
    let _waiter = server.begin("/v1/locks/a/acquire", json!({"owner_id": "w2", "wait_ms": 60_000}));
    let held = server.until_waiting("a", 1);
    assert_eq!(keys(&held), ["holders", "last_token", "lock", "seq", "state", "version", "waiters"]);
    assert_eq!(held["state"], "held");
    assert_eq!(held["last_token"], lease["fencing_token"]);
    assert_eq!(keys(&held["holders"][0]), HOLDER);
    assert_eq!(held["holders"][0]["fencing_token"], lease["fencing_token"]);
    assert_eq!(keys(&held["waiters"][0]), WAITER);
    assert_eq!((&held["waiters"][0]["position"], &held["waiters"][0]["attached"]), (&json!(1), &json!(true)));

    for lock in ["b", "c", "other"] {
        server.acquire(lock, "w3");
    }
    let names = |page: &serde_json::Value| -> Vec<String> {
        page["locks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|lock| lock["lock"].as_str().unwrap().to_owned())
            .collect()
    };
    let all = server.get("/v1/locks").expect(200);
    assert_eq!(keys(&all), ["locks"]);
    assert_eq!(names(&all), ["a", "b", "c", "other"]);
    assert_eq!(names(&server.get("/v1/locks?prefix=o").expect(200)), ["other"]);
    assert_eq!(names(&server.get("/v1/locks?owner=w2").expect(200)), ["a"]);

    let mut seen = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = server.get(&format!("/v1/locks?limit=3{cursor}")).expect(200);
        seen.extend(names(&page));
        let Some(next) = page["next_cursor"].as_str() else { break };
        let escaped: String = next.bytes().map(|byte| format!("%{byte:02x}")).collect();
        cursor = format!("&cursor={escaped}");
    }
    assert_eq!(seen, ["a", "b", "c", "other"]);
}

#[test]
fn verify_tells_live_tokens_from_others() {
    let server = Server::start();
    let lease = server.acquire("path:%2Fa", "w1");
    let token = json!({"fencing_token": lease["fencing_token"]});
    let valid = server.post("/v1/locks/path:%2Fa%2Fb/verify", token.clone()).expect(200);
    assert_eq!(keys(&valid), ["expires_in_ms", "valid"]);
    assert_eq!(valid["valid"], true);
    server.post("/v1/locks/elsewhere/verify", token).expect_code(412, "stale_token");
    server.post("/v1/locks/path:%2Fa/verify", json!({"fencing_token": 1})).expect_code(412, "stale_token");
}

#[test]
fn cancel_says_what_it_found() {
    let server = Server::start();
    let cancel = |id: &str| {
        let body = json!({"owner_id": "w1", "request_id": id});
        server.post("/v1/locks/a/cancel", body).expect(200)
    };
    let granted = json!({"owner_id": "w1", "request_id": "r1"});
    server.post("/v1/locks/a/acquire", granted.clone()).expect(200);
    let waits = json!({"owner_id": "w1", "request_id": "r2", "wait_ms": 60_000});
    let waiting = server.begin("/v1/locks/a/acquire", waits.clone());
    server.until_waiting("a", 1);

    assert_eq!(cancel("r2"), json!({"cancelled": "waiting"}));
    waiting.answer().expect_code(499, "cancelled");
    assert_eq!(cancel("r1"), json!({"cancelled": "released"}));
    assert_eq!(server.get("/v1/locks/a").expect(200)["state"], "free");
    assert_eq!(cancel("r3"), json!({"cancelled": "unknown"}));
    server
        .post("/v1/locks/a/acquire", json!({"owner_id": "w1", "request_id": "r3"}))
        .expect_code(499, "cancelled");
    server.post("/v1/locks/a/acquire", waits).expect_code(499, "cancelled");
}

#[test]
fn a_break_stands_until_the_deadline_unless_forced() {
    let server = Server::start();
    let first = server.acquire("a", "w1");
    let broke = server.delete("/v1/locks/a?reason=stuck+job").expect(200);
    assert_eq!(keys(&broke), ["free_in_ms", "tokens"]);
    assert_eq!(broke["tokens"], json!([first["fencing_token"]]));
    assert!(broke["free_in_ms"].as_u64().unwrap() > 0);
    let snapshot = server.get("/v1/locks/a").expect(200);
    assert_eq!(snapshot["holders"][0]["broken"], true);
    server.post("/v1/locks/a/renew", proof(&first)).expect_code(410, "released");
    server.post("/v1/locks/a/acquire", json!({"owner_id": "w2"})).expect_code(409, "held");
    server.post("/v1/locks/a/release", proof(&first)).expect(200);
    let second = server.acquire("a", "w2");

    let token = second["fencing_token"].as_u64().unwrap();
    server.delete(&format!("/v1/locks/a?reason=x&token={}", token - 1)).expect_code(404, "not_found");
    let path = format!("/v1/locks/a?reason=x&force=true&token={token}&request_id=b1");
    let forced = server.delete(&path).expect(200);
    assert_eq!(forced, json!({"tokens": [token], "free_in_ms": 0}));
    server.acquire("a", "w3");
    assert_eq!(server.delete(&path).expect(200), forced, "a repeat changes nothing");
    assert_eq!(server.get("/v1/locks/a").expect(200)["holders"][0]["owner_id"], "w3");
}

#[test]
fn a_repeat_gets_the_first_outcome() {
    let server = Server::start();
    let body = json!({"owner_id": "w1", "request_id": "r1"});
    let first = server.post("/v1/locks/a/acquire", body.clone()).expect(200);
    let again = server.post("/v1/locks/a/acquire", body.clone()).expect(200);
    assert_eq!(again["lease_id"], first["lease_id"]);
    assert_eq!(again["fencing_token"], first["fencing_token"]);

    let keyed = server.request(
        "POST",
        "/v1/locks/a/acquire",
        &[("Content-Type", "application/json; charset=utf-8"), ("Idempotency-Key", "r1")],
        br#"{"owner_id":"w1"}"#,
    );
    assert_eq!(keyed.expect(200)["lease_id"], first["lease_id"], "the header is the same id");
    server.post("/v1/locks/b/acquire", body.clone()).expect_invalid("request_id");
    server.post("/v1/locks/a/release", proof(&first)).expect(200);
    server.post("/v1/locks/a/acquire", body).expect_code(410, "released");
}
