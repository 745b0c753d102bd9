//! Lease and session ids are seen by whoever asked for them, and by nobody else: not in snapshots, lists, errors, logs,
//! the audit log or a dump.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::client::proof;
use crate::program::{Place, run, stdout};

#[test]
fn ids_are_shown_to_their_owners_only() {
    let place = Place::new();
    let audit = place.text("audit.jsonl");
    let server =
        place.serve_with(&["--listen", "127.0.0.1:0", "--log-level", "trace", "--audit-log", &audit]);
    let mut client = server.client();
    let mut secrets: Vec<String> = Vec::new();
    let mut keep = |answer: &Value| {
        let ids = ["lease_id", "session_id"].iter().filter_map(|name| answer[*name].as_str());
        // What follows the slot is the secret.
        secrets.extend(ids.map(|id| id.split_once('-').unwrap().1.to_owned()));
    };
    let session =
        client.expect(200, "POST", "/v1/sessions", Some(&json!({"owner_id": "w1", "request_id": "s1"})));
    keep(&session);
    let under = json!({"owner_id": "w1", "session_id": session["session_id"], "request_id": "r0"});
    let held = client.acquire("held", &under);
    keep(&held);
    let released = client.acquire("released", &json!({"owner_id": "w1"}));
    keep(&released);
    client.expect(200, "POST", "/v1/locks/released/release", Some(&proof(&released)));
    let expired = client.acquire("expired", &json!({"owner_id": "w1", "ttl_ms": 100}));
    keep(&expired);
    let broken = client.acquire("broken", &json!({"owner_id": "w1"}));
    keep(&broken);
    client.expect(200, "DELETE", "/v1/locks/broken?reason=test&force=true", None);
    while client.get_lock("expired")["state"] == "held" {}

    let mut public = Vec::new();
    let id = json!({"session_id": session["session_id"]});
    for (method, path, body) in [
        ("GET", "/v1/locks/held", None),
        ("GET", "/v1/locks", None),
        ("GET", "/v1/sessions", None),
        ("GET", "/metrics", None),
        ("POST", "/v1/locks/held/acquire", Some(json!({"owner_id": "w2"}))),
        ("POST", "/v1/locks/other/renew", Some(proof(&held))),
        ("POST", "/v1/locks/expired/renew", Some(proof(&expired))),
        ("POST", "/v1/locks/broken/renew", Some(proof(&broken))),
        ("POST", "/v1/locks/released/renew", Some(proof(&released))),
        ("POST", "/v1/sessions/close", Some(id.clone())),
        ("POST", "/v1/sessions/keepalive", Some(id)),
    ] {
        let (_, answer) = client.call(method, path, body.as_ref()).unwrap();
        public.push((path.to_owned(), answer.to_string()));
    }
    let log = place.text("stderr");
    server.stop();
    public.push(("the log".into(), fs::read_to_string(log).unwrap()));
    public.push(("the audit log".into(), fs::read_to_string(&audit).unwrap()));
    for arguments in [&["journal", "dump"][..], &["journal", "dump", "--json"], &["journal", "check"]] {
        let text = stdout(&run(&[arguments, &["--data", &place.data()]].concat()));
        public.push((arguments.join(" "), text));
    }
    assert!(secrets.len() >= 5);
    for (whose, text) in &public {
        assert!(!text.is_empty(), "{whose}");
        for secret in &secrets {
            assert!(!text.contains(secret.as_str()), "{whose} shows a secret: {text}");
        }
    }
}

#[test]
fn the_audit_log_has_every_event_in_order_across_restarts() {
    let place = Place::new();
    let audit = place.text("audit.jsonl");
    let arguments = ["--listen", "127.0.0.1:0", "--audit-log", &audit];
    for round in 0..3 {
        let server = place.serve_with(&arguments);
        let mut client = server.client();
        let lease = client.acquire(&format!("lock{round}"), &json!({"owner_id": "w"}));
        client.expect(200, "POST", &format!("/v1/locks/lock{round}/release"), Some(&proof(&lease)));
        server.stop();
    }
    assert_eq!(fs::metadata(&audit).unwrap().permissions().mode() & 0o777, 0o600);
    let text = fs::read_to_string(&audit).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let seqs: Vec<u64> = lines.iter().map(|line| line["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    for round in 0..3 {
        let lock = format!("lock{round}");
        let types: Vec<_> =
            lines.iter().filter(|line| line["lock"] == lock.as_str()).map(|line| &line["type"]).collect();
        assert_eq!(types, ["granted", "released"]);
    }
}
