//! Every code that a request about files can be refused with, and that nothing has changed then.

use std::path::Path;

use leasehold_server::config::Given;
use serde_json::{Value, json};

use super::{Holder, head, number, read};
use crate::server::{Server, borrowed, lease_headers, proof};

/// Appends, writes and deletes; each must be refused so.
fn all_refused(holder: &Holder<'_>, name: &str, status: u16, code: &str) -> Value {
    holder.append(name, b"?").expect_code(status, code);
    holder.write(name, 0, b"?").expect_code(status, code);
    holder.delete(name).expect_code(status, code)
}

#[test]
fn each_header_must_be_there_once_and_make_sense() {
    let server = Server::start();
    let holder = Holder::of(&server, "path:/a");
    let good = lease_headers(&holder.lease, "");
    for (method, path) in
        [("POST", "/v1/files/a/append"), ("PUT", "/v1/files/a?offset=0"), ("DELETE", "/v1/files/a")]
    {
        let send = |headers: &[(&str, String)]| server.request(method, path, &borrowed(headers), b"");
        for place in 0..good.len() {
            let name = good[place].0;
            let mut without = good.clone();
            without.remove(place);
            send(&without).expect_invalid(name);
            let mut twice = good.clone();
            twice.push(good[place].clone());
            send(&twice).expect_invalid(name);
            let mut empty = good.clone();
            empty[place].1 = String::new();
            send(&empty).expect_invalid(name);
        }
        let with = |place: usize, value: &str| {
            let mut headers = good.clone();
            headers[place].1 = value.to_owned();
            send(&headers)
        };
        for lock in ["path:a", "path:/a/", "..", "inode:01", "sem:x", "%", "%ff", "a%0Ab"] {
            with(0, lock).expect_invalid("Leasehold-Lock");
        }
        for owner in ["a%00b", "%zz", &"x".repeat(257)] {
            with(1, owner).expect_invalid("Leasehold-Owner");
        }
        with(2, &"x".repeat(65)).expect_invalid("Leasehold-Lease");
        for token in ["x", "-1", "1.0", "0x1", "9007199254740992", "18446744073709551616"] {
            with(3, token).expect_invalid("Leasehold-Token");
        }
        let mut keyed = good.clone();
        keyed.push(("Idempotency-Key", "two words".to_owned()));
        send(&keyed).expect_invalid("Idempotency-Key");
    }
    assert_eq!(server.get("/v1/files").expect(200), json!({"files": []}));
}

#[test]
fn an_offset_is_a_number_within_the_file() {
    let server = Server::start();
    let holder = Holder::of(&server, "path:/a");
    holder.write("a", 1, b"?").expect_invalid("offset");
    holder.append("a", b"01234").expect(200);
    for offset in [6, 1 << 30, 1 << 62, u64::MAX] {
        holder.write("a", offset, b"?").expect_invalid("offset");
        holder.write("a", offset, b"").expect_invalid("offset");
    }
    for query in ["", "?offset=", "?offset=-1", "?offset=0x1", "?offset=1.5", "?offset=18446744073709551616"]
    {
        holder.send("PUT", &format!("/v1/files/a{query}"), b"?").expect_invalid("offset");
    }
    holder.send("PUT", "/v1/files/a?offset=0&offset=0", b"?").expect_invalid("offset");
    holder.send("POST", "/v1/files/a/append?offset=0", b"?").expect_invalid("offset");
    holder.send("PUT", "/v1/files/a?offset=0&length=1", b"?").expect_invalid("length");
    holder.send("DELETE", "/v1/files/a", b"?").expect_invalid("body");
    assert_eq!(read(&server, "a"), b"01234");
}

#[test]
fn a_file_is_no_folder_and_a_folder_no_file() {
    let server = Server::start();
    let holder = Holder::of(&server, "path:/");
    holder.append("a/b", b"x").expect(200);
    for name in ["a", "a/b/c", "a/b/c/d"] {
        holder.append(name, b"?").expect_invalid("name");
        holder.write(name, 0, b"?").expect_invalid("name");
    }
    holder.append("a/bb", b"x").expect(200);
    holder.delete("a/b").expect(200);
    holder.append("a/b/c", b"x").expect(200);
    server.get("/v1/files/a").expect_code(404, "not_found");
}

#[test]
fn unknown_leases_and_files_are_not_found() {
    let server = Server::start();
    let mut holder = Holder::of(&server, "path:/a");
    holder.delete("a").expect_code(404, "not_found");
    server.get("/v1/files/a").expect_code(404, "not_found");
    assert_eq!(head(&server, "a").status, 404);
    for lease_id in ["l0-00000000000000000000000000000000", "made up"] {
        holder.lease["lease_id"] = json!(lease_id);
        all_refused(&holder, "a", 404, "not_found");
    }
    for lock in ["inode:4503599627370496", "range:4503599627370496:0-1"] {
        let acquire = server.post(&format!("/v1/locks/{lock}/acquire"), json!({"owner_id": "w"}));
        acquire.expect_code(404, "not_found");
    }
    for path in ["/v1/files/a/b", "/v1/files/a/append/b", "/v1/file"] {
        server.get(path).expect_code(404, "not_found");
    }
}

#[test]
fn only_what_belongs_together_writes() {
    let server = Server::start();
    let holder = Holder::of(&server, "path:/a");
    let other = Holder::of(&server, "path:/b");
    let with = |field: &str, value: Value| {
        let mut holder = holder.clone();
        holder.lease[field] = value;
        holder
    };
    for wrong in [
        with("owner_id", json!("w2")),
        with("fencing_token", json!(1)),
        with("lease_id", other.lease["lease_id"].clone()),
        with("lock", json!("path:/")),
    ] {
        all_refused(&wrong, "a", 412, "stale_token");
    }
    assert_eq!(server.get("/v1/files").expect(200), json!({"files": []}));
    holder.append("a", b"x").expect(200);
}

#[test]
fn an_older_holder_is_told_of_a_newer_token() {
    let server = Server::start();
    let old = Holder::of(&server, "path:/a");
    old.append("a", b"old").expect(200);
    old.release();
    let new = Holder::of(&server, "path:/a");
    new.append("a", b"new").expect(200);
    all_refused(&old, "a", 410, "released");
    // Who mixes up what it holds hears what the file has seen.
    let mut mixed = new.clone();
    mixed.lease["fencing_token"] = old.lease["fencing_token"].clone();
    let problem = all_refused(&mixed, "a", 412, "stale_token");
    assert_eq!(problem["highest_token"], new.lease["fencing_token"]);
    assert_eq!(read(&server, "a"), b"oldnew");
}

#[test]
fn an_ended_lease_writes_nothing() {
    let server = Server::start();
    let short =
        server.post("/v1/locks/path:%2Fa/acquire", json!({"owner_id": "w1", "ttl_ms": 100})).expect(200);
    server.until("path:%2Fa", "it has expired", |snapshot| snapshot["state"] == "free");
    all_refused(&Holder::with(&server, short), "a", 410, "lease_expired");

    let released = Holder::of(&server, "path:/a");
    released.release();
    all_refused(&released, "a", 410, "released");

    let broken = Holder::of(&server, "path:/a");
    server.delete("/v1/locks/path:%2Fa?reason=x").expect(200);
    all_refused(&broken, "a", 410, "released");

    let session = server.post("/v1/sessions", json!({"owner_id": "w1"})).expect(200);
    let id = json!({"session_id": session["session_id"]});
    let under = json!({"owner_id": "w1", "session_id": session["session_id"]});
    let lease = server.post("/v1/locks/path:%2Fb/acquire", under).expect(200);
    let closed = Holder::with(&server, lease);
    closed.append("b", b"x").expect(200);
    server.post("/v1/sessions/close", id).expect(200);
    all_refused(&closed, "b", 410, "released");
    assert_eq!(read(&server, "b"), b"x");
}

#[test]
fn a_request_that_was_taken_back_is_cancelled() {
    let server = Server::start();
    let holder = Holder::of(&server, "path:/a").as_request("r1");
    server.post("/v1/locks/path:%2Fa/cancel", json!({"owner_id": "w1", "request_id": "r1"})).expect(200);
    all_refused(&holder, "a", 499, "cancelled");
    assert_eq!(server.get("/v1/files").expect(200), json!({"files": []}));
}

#[test]
fn a_limit_of_files_is_busy() {
    let server = Server::start_with(Given { files_max: Some(2), ..Given::default() });
    let holder = Holder::of(&server, "path:/");
    holder.append("a", b"x").expect(200);
    holder.append("b", b"x").expect(200);
    let full = holder.append("c", b"x");
    let retry_ms = full.expect_code(503, "busy")["recommended_retry_ms"].as_u64().unwrap();
    assert_eq!(full.header("retry-after"), Some(retry_ms.div_ceil(1000).to_string().as_str()));
    holder.append("a", b"x").expect(200);
    holder.delete("b").expect(200);
    holder.append("c", b"x").expect(200);
}

#[test]
fn a_nearly_full_disk_takes_no_bytes_and_gives_them() {
    let folder = tempfile::tempdir().unwrap();
    let start = |reserve: Option<u64>| {
        Server::start_with(Given {
            data: Some(Path::to_owned(folder.path())),
            in_memory: Some(false),
            disk_reserve_bytes: reserve,
            ..Given::default()
        })
    };
    let server = start(Some(0));
    let lease = {
        let body = json!({"owner_id": "w1", "ttl_ms": 3_600_000});
        let lease = server.post("/v1/locks/path:%2F/acquire", body).expect(200);
        let holder = Holder::with(&server, lease.clone());
        holder.append("a", b"hello").expect(200);
        holder.append("b", b"x").expect(200);
        lease
    };
    drop(server);
    let server = start(Some(u64::MAX));
    let holder = Holder::with(&server, lease);
    holder.append("a", b"?").expect_code(503, "unavailable");
    holder.write("a", 0, b"?").expect_code(503, "unavailable");
    assert_eq!(read(&server, "a"), b"hello");
    assert_eq!(number(&head(&server, "a"), "content-length"), 5);
    holder.delete("b").expect(200);
    server.post("/v1/locks/path:%2F/renew", proof(&holder.lease)).expect(200);
    holder.release();
}

#[test]
fn other_methods_are_refused_and_no_media_type_is() {
    let server = Server::start();
    for (method, path, allow) in [
        ("POST", "/v1/files/a", "GET, HEAD, PUT, DELETE"),
        ("PATCH", "/v1/files/a", "GET, HEAD, PUT, DELETE"),
        ("GET", "/v1/files/a/append", "POST"),
        ("PUT", "/v1/files/a/append", "POST"),
        ("DELETE", "/v1/files", "GET, HEAD"),
    ] {
        let answer = server.request(method, path, &[], b"");
        answer.expect_code(405, "method_not_allowed");
        assert_eq!(answer.header("allow"), Some(allow), "{method} {path}");
    }
}
