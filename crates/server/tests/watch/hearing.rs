//! Who hears what.

use serde_json::json;

use crate::client::keys;
use crate::reader::Reader;
use crate::server::{Server, proof};

#[test]
fn a_watcher_of_a_lock_hears_all_that_happens_to_it_and_nothing_else() {
    let server = Server::start();
    server.acquire("job", "before");
    let held = server.get("/v1/locks/job").expect(200);
    let from = held["seq"].as_u64().unwrap();
    let mut reader = Reader::open(server.address, "/v1/locks/name:job/watch", None);

    server.acquire("job2", "other");
    server.acquire("path:%2Fjob", "other");
    let waiting =
        server.begin("/v1/locks/job/acquire", json!({"owner_id": "w2", "mode": "shared", "wait_ms": 30_000}));
    server.until_waiting("job", 1);
    let gone =
        server.begin("/v1/locks/job/acquire", json!({"owner_id": "w3", "wait_ms": 1, "request_id": "r"}));
    gone.answer().expect_code(409, "held");
    server.delete("/v1/locks/job?reason=stuck&force=true").expect(200);
    let lease = waiting.answer().expect(200);
    let mut renewal = proof(&lease);
    renewal["ttl_ms"] = json!(100);
    server.post("/v1/locks/job/renew", renewal.clone()).expect(200);
    renewal["ttl_ms"] = json!(20_000);
    server.post("/v1/locks/job/renew", renewal).expect(200);
    server.post("/v1/locks/job/release", proof(&lease)).expect(200);
    server.post("/v1/locks/job/acquire", json!({"owner_id": "w4", "ttl_ms": 100})).expect(200);

    let heard: Vec<_> = (0..9).map(|_| reader.expect()).collect();
    let told: Vec<_> = heard
        .iter()
        .map(|heard| {
            let text = |name: &str| heard.data[name].as_str().unwrap_or("-").to_owned();
            let token = if heard.data["fencing_token"].is_u64() { "token" } else { "-" };
            format!("{} {} {} {token} {}", heard.kind, text("owner_id"), text("mode"), text("reason"))
        })
        .collect();
    assert_eq!(
        told,
        [
            "queued w2 shared - -",
            "queued w3 exclusive - -",
            "dequeued w3 exclusive - timeout",
            "broken before exclusive token stuck",
            "granted w2 shared token -",
            "updated w2 shared token -",
            "updated w2 shared token -",
            "released w2 shared token released",
            "granted w4 exclusive token -",
        ]
    );
    assert!(heard.iter().all(|heard| heard.lock() == "job" && heard.id > from));
    assert_eq!(
        keys(&heard[3].data),
        ["fencing_token", "lock", "mode", "owner_id", "reason", "seq", "time", "type"]
    );
    assert_eq!(heard[4].data["fencing_token"], lease["fencing_token"]);
    let expired = reader.expect();
    assert_eq!((expired.what(), &expired.data["owner_id"]), (("expired", "job"), &json!("w4")));
    for secret in ["lease_id", "session_id"] {
        let secret = lease[secret].as_str().unwrap();
        assert!(heard.iter().all(|heard| !heard.data.to_string().contains(secret)));
    }
}

#[test]
fn a_watcher_of_a_prefix_hears_of_all_locks_that_begin_with_it() {
    let server = Server::start();
    let open = |query: &str| Reader::open(server.address, &format!("/v1/watch{query}"), None);
    let mut all = open("");
    let mut empty = open("?prefix=");
    let mut a = open("?prefix=a");
    let mut paths = open("?prefix=path:%2Fa%2F");
    let mut umlaut = open("?prefix=%C3%A4");
    let locks = ["a", "ab", "b", "path:%2Fab", "path:%2Fa%2Fb", "inode:7", "%C3%A4%C3%B6", "A"];
    for lock in locks {
        server.acquire(lock, "w");
    }
    server.acquire("path:%2Fa2%2Fend", "w");
    let hears = |reader: &mut Reader, locks: &[&str]| {
        for lock in locks {
            assert_eq!(reader.expect().what(), ("granted", *lock));
        }
    };
    let every = ["a", "ab", "b", "path:/ab", "path:/a/b", "inode:7", "äö", "A", "path:/a2/end"];
    hears(&mut all, &every);
    hears(&mut empty, &every);
    server.acquire("abc", "w");
    hears(&mut a, &["a", "ab", "abc"]);
    server.acquire("path:%2Fa%2Fc", "w");
    hears(&mut paths, &["path:/a/b", "path:/a/c"]);
    server.acquire("%C3%A4", "w");
    hears(&mut umlaut, &["äö", "ä"]);
}

#[test]
fn who_was_answered_before_hears_only_what_comes_after() {
    let server = Server::start();
    for n in 0..100 {
        let lease = server.acquire("a", &format!("w{n}"));
        let mut reader = Reader::open(server.address, "/v1/locks/a/watch", None);
        assert!(reader.last_id.unwrap() >= lease["seq"].as_u64().unwrap());
        server.post("/v1/locks/a/release", proof(&lease)).expect(200);
        assert_eq!(reader.expect().what(), ("released", "a"), "and not the grant");
    }
}

#[test]
fn get_then_watch_has_no_gap() {
    let server = Server::start();
    let lease = server.acquire("a", "w");
    let seq = server.get("/v1/locks/a").expect(200)["seq"].as_u64().unwrap();
    server.post("/v1/locks/a/release", proof(&lease)).expect(200);
    let mut reader = Reader::open(server.address, &format!("/v1/locks/a/watch?from={seq}"), None);
    assert_eq!(reader.expect().what(), ("released", "a"));
}
