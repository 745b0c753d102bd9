//! Malformed requests: each gets its 4xx with the field named, and none of them changes anything.

use serde_json::json;

use crate::client::Pending;
use crate::server::{Server, request};

const ACQUIRE: &str = "/v1/locks/a/acquire";

/// Path, body, and the field that is wrong.
const BODIES: &[(&str, &str, &str)] = &[
    (ACQUIRE, "", "body"),
    (ACQUIRE, "{", "body"),
    (ACQUIRE, "null", "body"),
    (ACQUIRE, "[]", "body"),
    (ACQUIRE, "\"owner_id\"", "body"),
    (ACQUIRE, "42", "body"),
    (ACQUIRE, "{}{}", "body"),
    (ACQUIRE, "{'owner_id':'w'}", "body"),
    (ACQUIRE, r#"{"owner_id":"w",}"#, "body"),
    (ACQUIRE, r#"{"owner_id":"\ud800"}"#, "body"),
    (ACQUIRE, "{\"owner_id\":\"a\nb\"}", "body"),
    (ACQUIRE, "{}", "owner_id"),
    (ACQUIRE, r#"{"owner_id":""}"#, "owner_id"),
    (ACQUIRE, r#"{"owner_id":null}"#, "owner_id"),
    (ACQUIRE, r#"{"owner_id":7}"#, "owner_id"),
    (ACQUIRE, r#"{"owner_id":["w"]}"#, "owner_id"),
    (ACQUIRE, r#"{"owner_id":"a\u0000b"}"#, "owner_id"),
    (ACQUIRE, r#"{"owner_id":"w","owner_id":"w"}"#, "owner_id"),
    (ACQUIRE, r#"{"owner_id":"w","owner":"w"}"#, "owner"),
    (ACQUIRE, r#"{"owner_id":"w","Owner_id":"w"}"#, "Owner_id"),
    (ACQUIRE, r#"{"owner_id":"w","":1}"#, ""),
    (ACQUIRE, r#"{"owner_id":"w","ttl_ms":0}"#, "ttl_ms"),
    (ACQUIRE, r#"{"owner_id":"w","ttl_ms":99}"#, "ttl_ms"),
    (ACQUIRE, r#"{"owner_id":"w","ttl_ms":86400001}"#, "ttl_ms"),
    (ACQUIRE, r#"{"owner_id":"w","ttl_ms":-1}"#, "ttl_ms"),
    (ACQUIRE, r#"{"owner_id":"w","ttl_ms":1000.0}"#, "ttl_ms"),
    (ACQUIRE, r#"{"owner_id":"w","ttl_ms":1e3}"#, "ttl_ms"),
    (ACQUIRE, r#"{"owner_id":"w","ttl_ms":"1000"}"#, "ttl_ms"),
    (ACQUIRE, r#"{"owner_id":"w","ttl_ms":true}"#, "ttl_ms"),
    (ACQUIRE, r#"{"owner_id":"w","ttl_ms":18446744073709551615}"#, "ttl_ms"),
    (ACQUIRE, r#"{"owner_id":"w","ttl_ms":18446744073709551616}"#, "ttl_ms"),
    (ACQUIRE, r#"{"owner_id":"w","ttl_ms":4294967396}"#, "ttl_ms"),
    (ACQUIRE, r#"{"owner_id":"w","wait_ms":3600001}"#, "wait_ms"),
    (ACQUIRE, r#"{"owner_id":"w","wait_ms":-5}"#, "wait_ms"),
    (ACQUIRE, r#"{"owner_id":"w","wait_ms":null}"#, "wait_ms"),
    (ACQUIRE, r#"{"owner_id":"w","mode":"Exclusive"}"#, "mode"),
    (ACQUIRE, r#"{"owner_id":"w","mode":1}"#, "mode"),
    (ACQUIRE, r#"{"owner_id":"w","session_id":""}"#, "session_id"),
    (ACQUIRE, r#"{"owner_id":"w","session_id":5}"#, "session_id"),
    (ACQUIRE, r#"{"owner_id":"w","session_id":"s0-0","ttl_ms":1000}"#, "ttl_ms"),
    (ACQUIRE, r#"{"owner_id":"w","request_id":""}"#, "request_id"),
    (ACQUIRE, r#"{"owner_id":"w","request_id":"two words"}"#, "request_id"),
    (ACQUIRE, r#"{"owner_id":"w","request_id":"ü"}"#, "request_id"),
    (ACQUIRE, r#"{"owner_id":"w","metadata":[]}"#, "metadata"),
    (ACQUIRE, r#"{"owner_id":"w","metadata":{"a":1}}"#, "metadata"),
    (ACQUIRE, r#"{"owner_id":"w","metadata":{"a":null}}"#, "metadata"),
    (ACQUIRE, r#"{"owner_id":"w","metadata":{"a":"b","a":"c"}}"#, "metadata"),
    (ACQUIRE, r#"{"owner_id":"w","metadata":{"a":{"b":"c"}}}"#, "metadata"),
    ("/v1/locks/a/renew", r#"{"owner_id":"w","lease_id":"l0-0"}"#, "fencing_token"),
    ("/v1/locks/a/renew", r#"{"owner_id":"w","fencing_token":1}"#, "lease_id"),
    ("/v1/locks/a/renew", r#"{"lease_id":"l0-0","fencing_token":1}"#, "owner_id"),
    ("/v1/locks/a/renew", r#"{"owner_id":"w","lease_id":"","fencing_token":1}"#, "lease_id"),
    (
        "/v1/locks/a/renew",
        r#"{"owner_id":"w","lease_id":"l","fencing_token":9007199254740992}"#,
        "fencing_token",
    ),
    ("/v1/locks/a/renew", r#"{"owner_id":"w","lease_id":"l","fencing_token":1.5}"#, "fencing_token"),
    ("/v1/locks/a/renew", r#"{"owner_id":"w","lease_id":"l","fencing_token":1,"wait_ms":1}"#, "wait_ms"),
    ("/v1/locks/a/release", r#"{"owner_id":"w","lease_id":"l","fencing_token":"1"}"#, "fencing_token"),
    ("/v1/locks/a/release", r#"{"owner_id":"w","lease_id":"l","fencing_token":1,"ttl_ms":1000}"#, "ttl_ms"),
    ("/v1/locks/a/cancel", r#"{"owner_id":"w"}"#, "request_id"),
    ("/v1/locks/a/cancel", r#"{"request_id":"r"}"#, "owner_id"),
    ("/v1/locks/a/verify", r#"{}"#, "fencing_token"),
    ("/v1/locks/a/verify", r#"{"fencing_token":-1}"#, "fencing_token"),
    ("/v1/locks/a/verify", r#"{"fencing_token":1,"owner_id":"w"}"#, "owner_id"),
    ("/v1/locks/a/acquire?wait_ms=5", r#"{"owner_id":"w"}"#, "wait_ms"),
    ("/v1/locks/%ff/acquire", r#"{"owner_id":"w"}"#, "lock"),
    ("/v1/locks/~/acquire", r#"{"owner_id":"w"}"#, "lock"),
    ("/v1/locks/~/acquire?lock=a&lock=a", r#"{"owner_id":"w"}"#, "lock"),
    ("/v1/sessions", r#"{}"#, "owner_id"),
    ("/v1/sessions", r#"{"owner_id":"w","wait_ms":1}"#, "wait_ms"),
    ("/v1/sessions?x=1", r#"{"owner_id":"w"}"#, "x"),
    ("/v1/sessions/keepalive", r#"{}"#, "session_id"),
    ("/v1/sessions/keepalive", r#"{"session_id":"s","seen":-1}"#, "seen"),
    ("/v1/sessions/keepalive", r#"{"session_id":"s","seen":null}"#, "seen"),
    ("/v1/sessions/close", r#"{"session_id":"s","seen":1}"#, "seen"),
];

/// Method, path and query, and the parameter that is wrong.
const QUERIES: &[(&str, &str, &str)] = &[
    ("GET", "/v1/locks?limit=0", "limit"),
    ("GET", "/v1/locks?limit=1001", "limit"),
    ("GET", "/v1/locks?limit=-1", "limit"),
    ("GET", "/v1/locks?limit=", "limit"),
    ("GET", "/v1/locks?limit=ten", "limit"),
    ("GET", "/v1/locks?limit=18446744073709551616", "limit"),
    ("GET", "/v1/locks?limit=1&limit=1", "limit"),
    ("GET", "/v1/locks?owner=", "owner"),
    ("GET", "/v1/locks?owner=a%00", "owner"),
    ("GET", "/v1/locks?prefix=%ff", "prefix"),
    ("GET", "/v1/locks?prefx=a", "prefx"),
    ("GET", "/v1/locks?%70refx=a", "prefx"),
    ("GET", "/v1/locks/a?limit=1", "limit"),
    ("GET", "/v1/sessions?owner=a", "owner"),
    ("GET", "/v1/sessions?limit=0", "limit"),
    ("DELETE", "/v1/locks/a", "reason"),
    ("DELETE", "/v1/locks/a?reason=", "reason"),
    ("DELETE", "/v1/locks/a?reason=%20", "reason"),
    ("DELETE", "/v1/locks/a?reason=a%0Ab", "reason"),
    ("DELETE", "/v1/locks/a?reason=x&force=yes", "force"),
    ("DELETE", "/v1/locks/a?reason=x&force", "force"),
    ("DELETE", "/v1/locks/a?reason=x&token=9007199254740992", "token"),
    ("DELETE", "/v1/locks/a?reason=x&token=0x1", "token"),
    ("DELETE", "/v1/locks/a?reason=x&request_id=", "request_id"),
    ("DELETE", "/v1/locks/a?reason=x&why=y", "why"),
    ("DELETE", "/v1/locks/.?reason=x", "lock"),
];

#[test]
fn malformed_requests_name_the_field_and_change_nothing() {
    let server = Server::start();
    let before = server.get("/v1/locks/a").expect(200);
    for (path, body, field) in BODIES {
        let headers = [("Content-Type", "application/json")];
        let answer = server.request("POST", path, &headers, body.as_bytes());
        assert_eq!(answer.status, 400, "{path} {body}: {}", answer.text());
        assert_eq!(answer.expect_invalid(field)["field"], *field, "{path} {body}");
    }
    for (method, path, field) in QUERIES {
        let answer = server.request(method, path, &[], b"");
        assert_eq!(answer.status, 400, "{path}: {}", answer.text());
        answer.expect_invalid(field);
    }
    let long = "x".repeat(600);
    let many: serde_json::Map<String, _> = (0..17).map(|n| (n.to_string(), json!(""))).collect();
    for (body, field) in [
        (json!({"owner_id": long}), "owner_id"),
        (json!({"owner_id": "w", "request_id": long}), "request_id"),
        (json!({"owner_id": "w", "session_id": long}), "session_id"),
        (json!({"owner_id": "w", "metadata": many}), "metadata"),
        (json!({"owner_id": "w", "metadata": {"k": "v".repeat(4096)}}), "metadata"),
    ] {
        server.post(ACQUIRE, body).expect_invalid(field);
    }
    server.get(&format!("/v1/locks/{long}")).expect_invalid("lock");
    server.delete(&format!("/v1/locks/a?reason={}", "x".repeat(1025))).expect_invalid("reason");
    assert_eq!(server.get("/v1/locks/a").expect(200), before, "no event happened");
    assert_eq!(server.get("/v1/sessions").expect(200), json!({"sessions": []}));
}

#[test]
fn cursors_of_no_making_of_ours_are_refused_or_harmless() {
    let server = Server::start();
    server.acquire("a", "w");
    for cursor in ["x", "%00", "-1", "18446744073709551616", "path:%2F", "%F0%9F%94%92"] {
        for path in ["/v1/locks", "/v1/sessions"] {
            let answer = server.get(&format!("{path}?cursor={cursor}"));
            assert!(matches!(answer.status, 200 | 400), "{path} {cursor}: {}", answer.text());
        }
    }
}

#[test]
fn a_body_where_none_belongs_is_refused() {
    let server = Server::start();
    for (method, path) in [
        ("GET", "/v1/locks/a"),
        ("GET", "/v1/locks"),
        ("DELETE", "/v1/locks/a?reason=x"),
        ("GET", "/v1/sessions"),
    ] {
        server.request(method, path, &[], b"{}").expect_invalid("body");
    }
}

#[test]
fn deep_nesting_is_only_malformed() {
    let server = Server::start();
    for body in [
        "[".repeat(60_000),
        r#"{"a":"#.repeat(12_000),
        format!("{}1{}", "[".repeat(30_000), "]".repeat(30_000)),
    ] {
        let answer =
            server.request("POST", ACQUIRE, &[("Content-Type", "application/json")], body.as_bytes());
        answer.expect_invalid("body");
    }
    let inside = format!(r#"{{"owner_id":{}1{}}}"#, "[".repeat(100), "]".repeat(100));
    server.request("POST", ACQUIRE, &[], inside.as_bytes()).expect_invalid("owner_id");
}

#[test]
fn garbage_gets_a_4xx_or_a_closed_connection_and_the_server_lives() {
    let server = Server::start();
    let long_line = [b"GET /".to_vec(), vec![b'x'; 100_000], b" HTTP/1.1\r\n\r\n".to_vec()].concat();
    let many_headers = (0..200).map(|n| format!("X-{n}: y\r\n")).collect::<String>();
    let many_headers = format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\n{many_headers}\r\n").into_bytes();
    let garbage: [&[u8]; 12] = [
        b"\0\0\0\0\0\0\0\0\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a TLS hello\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nMS\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost localhost\r\n\r\n",
        b"GET /health z HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST /v1/locks/a/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/locks/a/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"POST /v1/locks/a/acquire HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        &long_line,
        &many_headers,
    ];
    for bytes in garbage {
        if let Some(answer) = Pending::send(server.address, bytes).next() {
            assert!(
                (400..500).contains(&answer.status),
                "{:?} to {:?}",
                answer,
                String::from_utf8_lossy(bytes)
            );
        }
    }
    server.get("/healthz").expect(200);
}

#[test]
fn a_request_cut_short_changes_nothing() {
    let server = Server::start();
    let whole = request("POST", ACQUIRE, &[("Content-Type", "application/json")], br#"{"owner_id":"w"}"#);
    for length in 1..whole.len() {
        drop(Pending::send(server.address, &whole[..length]));
    }
    assert_eq!(server.get("/v1/locks/a").expect(200)["state"], "free");
    server.acquire("a", "w");
}
