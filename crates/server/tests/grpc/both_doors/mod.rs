//! The same requests through HTTP, through gRPC and through a stream of operations get the same answers. Each door has a
//! server of its own, and all three are asked the same things in the same order: by a table of every way to be refused,
//! and by scripts that are drawn by chance from words of which some are wrong.

mod asked;
mod doors;
mod files;
mod plain;
mod script;

use serde_json::{Value, json};

use asked::{Asked, Call};
use doors::Doors;

/// Plays a script at all doors and compares every answer.
fn play(script: impl IntoIterator<Item = Asked>) -> Vec<Value> {
    let mut doors = Doors::open();
    script.into_iter().map(|asked| doors.ask(&asked)).collect()
}

fn ask(call: Call, fields: Value) -> Asked {
    Asked { call, fields }
}

#[test]
fn what_succeeds() {
    let told = play([
        ask(Call::Acquire, json!({"lock": "a", "owner_id": "w1", "metadata": {"k": "v", "a": ""}})),
        ask(Call::Renew, json!({"lock": "a", "owner_id": "w1", "lease_id": "#0", "fencing_token": "#0"})),
        ask(
            Call::Renew,
            json!({"lock": "a", "owner_id": "w1", "lease_id": "#0", "fencing_token": "#0", "ttl_ms": 20_000, "metadata": {}}),
        ),
        ask(Call::Verify, json!({"lock": "a", "fencing_token": "#0"})),
        ask(
            Call::Acquire,
            json!({"lock": "range:7:0-10", "owner_id": "w2", "mode": "shared", "ttl_ms": 60_000}),
        ),
        ask(Call::Acquire, json!({"lock": "inode:7", "owner_id": "w3", "mode": "shared"})),
        ask(Call::Get, json!({"lock": "inode:7"})),
        ask(Call::OpenSession, json!({"owner_id": "w4", "ttl_ms": 40_000, "metadata": {"x": "y"}})),
        ask(Call::Acquire, json!({"lock": "path:/a/b", "owner_id": "w4", "session_id": "#7"})),
        ask(Call::ListSessions, json!({})),
        ask(Call::List, json!({"prefix": "", "limit": 2})),
        ask(Call::List, json!({"owner_id": "w4"})),
        ask(Call::Break, json!({"lock": "path:/a/b", "reason": "stuck"})),
        ask(Call::Get, json!({"lock": "path:/a"})),
        ask(Call::KeepAlive, json!({"session_id": "#7"})),
        ask(Call::Break, json!({"lock": "a", "reason": "stuck", "force": true, "token": "#0"})),
        ask(Call::Release, json!({"lock": "a", "owner_id": "w1", "lease_id": "#0", "fencing_token": "#0"})),
        ask(Call::CloseSession, json!({"session_id": "#7"})),
        ask(Call::Cancel, json!({"lock": "b", "owner_id": "w1", "request_id": "r1"})),
        ask(Call::Acquire, json!({"lock": "c", "owner_id": "w1", "request_id": "r2"})),
        ask(Call::Acquire, json!({"lock": "c", "owner_id": "w1", "request_id": "r2"})),
        ask(Call::Cancel, json!({"lock": "c", "owner_id": "w1", "request_id": "r2"})),
        ask(Call::Get, json!({"lock": "c"})),
    ]);
    for answer in &told {
        assert!(answer.get("code").is_none(), "{answer}");
    }
    assert_eq!(told[6]["holders"].as_array().unwrap().len(), 2);
    assert_eq!(told[14]["ended"][0]["reason"], "broken");
}

#[test]
fn every_refusal() {
    let proof = |lock: &str, owner: &str| json!({"lock": lock, "owner_id": owner, "lease_id": "#0", "fencing_token": "#0"});
    let told = play([
        ask(Call::Acquire, json!({"lock": "a", "owner_id": "w1", "metadata": {"k": "v"}})),
        // held
        ask(Call::Acquire, json!({"lock": "a", "owner_id": "w2"})),
        ask(Call::Acquire, json!({"lock": "a", "owner_id": "w2", "wait_ms": 10})),
        // stale_token
        ask(Call::Renew, proof("a", "w2")),
        ask(Call::Release, proof("b", "w1")),
        ask(Call::Verify, json!({"lock": "a", "fencing_token": 1})),
        ask(Call::Verify, json!({"lock": "b", "fencing_token": "#0"})),
        // not_found
        ask(Call::Renew, json!({"lock": "a", "owner_id": "w1", "lease_id": "nobody's", "fencing_token": 1})),
        ask(Call::KeepAlive, json!({"session_id": "nobody's"})),
        ask(Call::CloseSession, json!({"session_id": "nobody's"})),
        ask(Call::Break, json!({"lock": "b", "reason": "why not"})),
        // released
        ask(Call::Break, json!({"lock": "a", "reason": "stuck", "force": true})),
        ask(Call::Renew, proof("a", "w1")),
        ask(Call::Acquire, json!({"lock": "d", "owner_id": "w1", "request_id": "r1"})),
        ask(Call::Cancel, json!({"lock": "d", "owner_id": "w1", "request_id": "r1"})),
        // cancelled
        ask(Call::Acquire, json!({"lock": "d", "owner_id": "w1", "request_id": "r1"})),
        // invalid_argument, by the state machine
        ask(Call::Acquire, json!({"lock": "e", "owner_id": "w1", "request_id": "r2"})),
        ask(Call::Acquire, json!({"lock": "f", "owner_id": "w1", "request_id": "r2"})),
    ]);
    let codes: Vec<&str> = told.iter().map(|told| told["code"].as_str().unwrap_or("ok")).collect();
    assert_eq!(
        codes,
        [
            "ok",
            "held",
            "held",
            "stale_token",
            "stale_token",
            "stale_token",
            "stale_token",
            "not_found",
            "not_found",
            "not_found",
            "not_found",
            "ok",
            "released",
            "ok",
            "ok",
            "cancelled",
            "ok",
            "invalid_argument"
        ]
    );
    assert_eq!(told[1]["holders"][0]["metadata"], json!({"k": "v"}));
}

#[test]
fn files_and_their_refusals() {
    let proof = |name: &str, lock: &str, place: &str| json!({"name": name, "lock": lock, "owner_id": "w1", "lease_id": place, "fencing_token": place});
    let with = |mut fields: Value, more: Value| {
        fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        fields
    };
    let hello = || json!({"data": "hello"});
    let told = play([
        ask(Call::Acquire, json!({"lock": "path:/a", "owner_id": "w1"})),
        ask(Call::AppendFile, with(proof("a/b", "path:/a", "#0"), hello())),
        ask(
            Call::AppendFile,
            with(proof("a/b", "path:/a", "#0"), json!({"data": " world", "request_id": "r1"})),
        ),
        ask(
            Call::AppendFile,
            with(proof("a/b", "path:/a", "#0"), json!({"data": " world", "request_id": "r1"})),
        ),
        ask(Call::WriteFile, with(proof("a/b", "path:/a", "#0"), json!({"data": "J", "offset": 0}))),
        ask(Call::AppendFile, proof("a/c", "path:/a", "#0")),
        ask(Call::StatFile, json!({"name": "a/b"})),
        ask(Call::ReadFile, json!({"name": "a/b"})),
        ask(Call::ReadFile, json!({"name": "a/c"})),
        ask(Call::ListFiles, json!({"limit": 1})),
        ask(Call::ListFiles, json!({"prefix": "a/c"})),
        ask(Call::DeleteFile, with(proof("a/c", "path:/a", "#0"), json!({"request_id": "r2"}))),
        // invalid_argument, by the state machine
        ask(
            Call::AppendFile,
            with(proof("a/b", "path:/a", "#0"), json!({"data": "other", "request_id": "r1"})),
        ),
        ask(Call::WriteFile, with(proof("a/b", "path:/a", "#0"), json!({"data": "x", "offset": 12}))),
        ask(Call::AppendFile, with(proof("a/b/c", "path:/a", "#0"), hello())),
        ask(Call::AppendFile, with(proof("a", "path:/a", "#0"), hello())),
        // not_found
        ask(Call::StatFile, json!({"name": "nobody's"})),
        ask(Call::ReadFile, json!({"name": "nobody's"})),
        ask(Call::DeleteFile, proof("a/nobody's", "path:/a", "#0")),
        // stale_token
        ask(Call::AppendFile, with(proof("a/b", "path:/", "#0"), hello())),
        ask(Call::AppendFile, with(proof("a/b", "path:/a", "#0"), json!({"fencing_token": 1}))),
        // scope_mismatch
        ask(Call::AppendFile, with(proof("b", "path:/a", "#0"), hello())),
        ask(Call::Acquire, json!({"lock": "path:/s", "owner_id": "w1", "mode": "shared"})),
        ask(Call::AppendFile, with(proof("s", "path:/s", "#22"), hello())),
        // released
        ask(
            Call::Release,
            json!({"lock": "path:/a", "owner_id": "w1", "lease_id": "#0", "fencing_token": "#0"}),
        ),
        ask(Call::AppendFile, with(proof("a/b", "path:/a", "#0"), hello())),
        ask(Call::DeleteFile, with(proof("a/c", "path:/a", "#0"), json!({"request_id": "r2"}))),
    ]);
    let codes: Vec<&str> = told.iter().map(|told| told["code"].as_str().unwrap_or("ok")).collect();
    let mut expected = vec!["ok"; 12];
    expected.extend(["invalid_argument"; 4]);
    expected.extend(["not_found"; 3]);
    expected.extend(["stale_token", "stale_token", "scope_mismatch", "ok", "scope_mismatch"]);
    expected.extend(["ok", "released", "ok"]);
    assert_eq!(codes, expected);
    assert_eq!(told[3], told[2]);
    assert_eq!(told[7]["data"], "Jello world");
}

#[test]
fn what_has_expired() {
    let mut doors = Doors::open();
    doors.ask(&ask(Call::OpenSession, json!({"owner_id": "w1", "ttl_ms": 100})));
    doors.ask(&ask(Call::Acquire, json!({"lock": "a", "owner_id": "w1", "ttl_ms": 100})));
    doors.until_free("a");
    let proof = json!({"lock": "a", "owner_id": "w1", "lease_id": "#1", "fencing_token": "#1"});
    let expired = [
        ask(Call::Renew, proof.clone()),
        ask(Call::Release, proof),
        ask(Call::KeepAlive, json!({"session_id": "#0"})),
    ]
    .map(|asked| doors.ask(&asked));
    for told in expired {
        assert_eq!(told["code"], "lease_expired");
    }
}

#[test]
fn every_malformed_field() {
    let long = |bytes: usize| "x".repeat(bytes);
    let many: Value = (0..17).map(|n| (n.to_string(), json!(""))).collect::<serde_json::Map<_, _>>().into();
    let wide = json!({"k": long(4096)});
    let mut cases = Vec::new();
    let good = json!({"lock": "a", "owner_id": "w", "lease_id": "l", "fencing_token": 1, "request_id": "r", "session_id": "s", "reason": "why", "name": "f", "offset": 0});
    let mut spoil = |call: Call, field: &str, value: Value| {
        let mut fields = json!({});
        for name in call.required() {
            fields[*name] = good[*name].clone();
        }
        fields[field] = value;
        cases.push((ask(call, fields), field.to_owned()));
    };
    let of_a_lock =
        [Call::Acquire, Call::Renew, Call::Release, Call::Cancel, Call::Verify, Call::Get, Call::Break];
    for call in of_a_lock {
        for lock in [
            "..",
            "path:a",
            "path:/a/",
            "path:/a//b",
            "inode:01",
            "inode:9223372036854775808",
            "range:1:5-5",
            "sem:x",
            "a\u{7}",
        ] {
            spoil(call, "lock", json!(lock));
        }
        spoil(call, "lock", json!(long(513)));
    }
    for call in [Call::Acquire, Call::Renew, Call::Release, Call::Cancel, Call::OpenSession] {
        for owner in ["", "a\nb", &long(257)] {
            spoil(call, "owner_id", json!(owner));
        }
    }
    for call in [Call::Acquire, Call::Renew, Call::OpenSession] {
        for ttl_ms in [0, 99, 86_400_001, u64::MAX] {
            spoil(call, "ttl_ms", json!(ttl_ms));
        }
        for metadata in [&many, &wide] {
            spoil(call, "metadata", metadata.clone());
        }
    }
    spoil(Call::Acquire, "wait_ms", json!(3_600_001));
    for call in [Call::Renew, Call::Release, Call::Verify] {
        for token in [1_i64 << 53, i64::MAX] {
            spoil(call, "fencing_token", json!(token));
        }
    }
    for call in [Call::Renew, Call::Release] {
        for id in ["", &long(65)] {
            spoil(call, "lease_id", json!(id));
        }
    }
    for call in [Call::KeepAlive, Call::CloseSession, Call::Acquire] {
        for id in ["", &long(65)] {
            spoil(call, "session_id", json!(id));
        }
    }
    for call in [Call::Acquire, Call::Cancel, Call::Break, Call::OpenSession] {
        for id in ["", "a b", "ä", &long(129)] {
            spoil(call, "request_id", json!(id));
        }
    }
    for reason in ["", "  ", "a\nb", &long(1025)] {
        spoil(Call::Break, "reason", json!(reason));
    }
    spoil(Call::Break, "token", json!(1_u64 << 53));
    for call in [Call::List, Call::ListSessions] {
        spoil(call, "limit", json!(1001));
    }
    let changing = [Call::AppendFile, Call::WriteFile, Call::DeleteFile];
    for call in changing {
        for lock in ["..", "path:a", "inode:01", &long(513)] {
            spoil(call, "lock", json!(lock));
        }
        for owner in ["", "a\nb", &long(257)] {
            spoil(call, "owner_id", json!(owner));
        }
        for id in ["", &long(65)] {
            spoil(call, "lease_id", json!(id));
        }
        for id in ["", "a b", &long(129)] {
            spoil(call, "request_id", json!(id));
        }
        spoil(call, "fencing_token", json!(1_i64 << 53));
    }
    for call in changing.into_iter().chain([Call::StatFile, Call::ReadFile]) {
        for name in ["", "/a", "a/", "a//b", ".", "a/..", "a\0", &long(513)] {
            spoil(call, "name", json!(name));
        }
    }
    spoil(Call::ListFiles, "limit", json!(1001));
    let mut doors = Doors::open();
    for (asked, field) in cases {
        let told = doors.ask(&asked);
        assert_eq!((&told["code"], &told["field"]), (&json!("invalid_argument"), &json!(field)), "{asked:?}");
    }
    let both = json!({"lock": "a", "owner_id": "w", "ttl_ms": 1000, "session_id": "s"});
    assert_eq!(doors.ask(&ask(Call::Acquire, both))["field"], "ttl_ms");
}

#[test]
fn whatever_chance_brings() {
    for seed in 0..8 {
        let mut doors = Doors::open();
        let mut script = script::Script::new(seed);
        for step in 0..250 {
            let asked = script.next();
            let told = doors.ask(&asked);
            script.heard(step, &asked, &told);
        }
    }
}
