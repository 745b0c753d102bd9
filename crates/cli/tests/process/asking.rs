//! The commands that take, keep and give back a lease: what they do at a real server, what they print, and how they end.

use std::io::Read;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::program::{Place, Server, leasehold, stderr, stdout};

/// The members of a lease, as the contract names them.
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

/// Its names, in order.
pub fn members(value: &Value) -> Vec<&str> {
    let mut names: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}

/// One line of JSON from a command that succeeds.
pub fn told(server: &Server, arguments: &[&str]) -> Value {
    let output = server.ask(&[arguments, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
    assert_eq!(stdout(&output).matches('\n').count(), 1, "{}", stdout(&output));
    assert_eq!(stderr(&output), "");
    serde_json::from_str(&stdout(&output)).unwrap()
}

#[test]
fn a_lease_is_taken_kept_and_given_back() {
    let place = Place::new();
    let server = place.serve();
    let lease = told(
        &server,
        &[
            "acquire",
            "deploy",
            "--owner",
            "alice",
            "--ttl",
            "60s",
            "--metadata",
            "run=17",
            "--metadata",
            "by=a=b",
        ],
    );
    assert_eq!(members(&lease), LEASE);
    assert_eq!(lease["lock"], "deploy");
    assert_eq!(lease["owner_id"], "alice");
    assert_eq!(lease["ttl_ms"], 60_000);
    assert_eq!(lease["mode"], "exclusive");
    assert_eq!(lease["metadata"], json!({"run": "17", "by": "a=b"}));
    let held = server.client().get_lock("deploy");
    let holder = &held["holders"][0];
    for member in ["fencing_token", "acquired_at", "owner_id", "metadata"] {
        assert_eq!(holder[member], lease[member], "{member}");
    }

    let (id, token) = (lease["lease_id"].as_str().unwrap(), lease["fencing_token"].to_string());
    let claim = ["deploy", "--owner", "alice", "--lease-id", id, "--token", &token];
    let verified = told(&server, &["verify", "deploy", "--token", &token]);
    assert_eq!(members(&verified), ["expires_in_ms", "valid"]);
    assert_eq!(verified["valid"], true);
    let renewed =
        told(&server, &[&["renew"], &claim[..], &["--ttl", "batch", "--metadata", "run=18"]].concat());
    assert_eq!(members(&renewed), LEASE);
    assert_eq!(renewed["ttl_ms"], 300_000);
    assert_eq!(renewed["metadata"], json!({"run": "18"}));
    assert_eq!(renewed["fencing_token"], lease["fencing_token"]);

    let release = [&["release"], &claim[..]].concat();
    assert_eq!(told(&server, &release), json!({"released": true}));
    assert_eq!(told(&server, &release), json!({"released": true}), "it can be repeated");
    let output = server.ask(&[&["renew"], &claim[..]].concat());
    assert_eq!(output.status.code(), Some(76), "what is released is not renewed: {}", stderr(&output));
    assert_eq!(server.client().get_lock("deploy")["state"], "free");
    server.stop();
}

#[test]
fn people_are_told_what_to_keep_and_what_to_do_with_it() {
    let place = Place::new();
    let server = place.serve();
    let output = server.ask(&["acquire", "it's mine", "--owner", "alice smith", "--ttl", "60s"]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
    let text = stdout(&output);
    assert!(text.starts_with("acquired it's mine for "), "{text}");
    let lease = server.client().get_lock("it's%20mine");
    let token = lease["holders"][0]["fencing_token"].to_string();
    assert!(text.contains(&token), "{text}");

    // The last line is a command that gives it back.
    let line = text.lines().last().unwrap().trim();
    let arguments = line.strip_prefix("leasehold ").unwrap();
    let program = leasehold().get_program().to_owned();
    let script = format!("{} {arguments}", program.to_str().unwrap());
    let output = server.environment(std::process::Command::new("sh").args(["-c", &script])).output().unwrap();
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
    assert_eq!(stdout(&output), "released it's mine\n");
    assert_eq!(server.client().get_lock("it's%20mine")["state"], "free");
    server.stop();
}

#[test]
fn a_shell_can_evaluate_what_it_is_given() {
    let place = Place::new();
    let server = place.serve();
    let program = leasehold().get_program().to_str().unwrap().to_owned();
    let script = format!(
        r#"set -e
        lease=$({program} acquire "it's \$(mine)" --owner 'alice "a" smith' --ttl 60s --export)
        eval "$lease"
        {program} verify
        {program} renew
        {program} release
        printf '%s|%s|%s\n' "$LEASEHOLD_LOCK" "$LEASEHOLD_OWNER" "$LEASEHOLD_SERVER"
        "#
    );
    let output = server.environment(std::process::Command::new("sh").args(["-c", &script])).output().unwrap();
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()), "{}", stdout(&output));
    let told = stdout(&output);
    let lines: Vec<&str> = told.lines().collect();
    assert!(lines[0].starts_with("token ") && lines[1].starts_with("renewed "), "{told}");
    assert_eq!(lines[2], "released it's $(mine)");
    assert_eq!(lines[3], format!("it's $(mine)|alice \"a\" smith|{}", server.url()));
    server.stop();
}

#[test]
fn who_waits_gets_it_when_it_is_free() {
    let place = Place::new();
    let server = place.serve();
    let lease = told(&server, &["acquire", "a", "--owner", "alice", "--ttl", "10m"]);
    let waiting = server.start(&["acquire", "a", "--owner", "bob", "--wait", "60s", "--json"]);
    server.until_waiting("a", 1);
    let (id, token) = (lease["lease_id"].as_str().unwrap(), lease["fencing_token"].to_string());
    told(&server, &["release", "a", "--owner", "alice", "--lease-id", id, "--token", &token]);
    let output = waiting.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let granted: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(granted["owner_id"], "bob");
    assert!(granted["fencing_token"].as_u64() > lease["fencing_token"].as_u64());
    server.stop();
}

#[test]
fn who_is_interrupted_leaves_the_line() {
    let place = Place::new();
    let server = place.serve();
    told(&server, &["acquire", "a", "--owner", "alice", "--ttl", "10m"]);
    for (signal, status) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let mut waiting = server.start(&["acquire", "a", "--owner", "bob", "--wait", "10m"]);
        server.until_waiting("a", 1);
        kill_process(Pid::from_child(&waiting), signal).unwrap();
        let ended = waiting.wait().unwrap();
        // It has left when its command has ended, not when the server gives up on it.
        assert_eq!(server.client().get_lock("a")["waiters"], json!([]));
        assert_eq!(ended.code(), Some(status));
        let mut said = String::new();
        waiting.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(said.contains("left the line"), "{said}");
    }
    server.stop();
}

#[test]
fn a_lease_that_nobody_was_told_of_is_given_back() {
    let place = Place::new();
    let server = place.serve();
    told(&server, &["acquire", "a", "--owner", "alice", "--ttl", "10m", "--request-id", "r"]);
    let mut waiting = server.start(&["acquire", "a", "--owner", "bob", "--wait", "60s"]);
    server.until_waiting("a", 1);
    drop(waiting.stdout.take());
    let released = told(&server, &["cancel", "a", "--owner", "alice", "--request-id", "r"]);
    assert_eq!(released, json!({"cancelled": "released"}));
    waiting.wait().unwrap();
    assert_eq!(server.client().get_lock("a")["state"], "free");
    server.stop();
}

#[test]
fn a_request_is_repeated_and_taken_back_by_its_id() {
    let place = Place::new();
    let server = place.serve();
    let ask = ["acquire", "a", "--owner", "alice", "--ttl", "10m", "--request-id", "r1"];
    let first = told(&server, &ask);
    let again = told(&server, &ask);
    assert_eq!(again["fencing_token"], first["fencing_token"]);
    assert_eq!(again["lease_id"], first["lease_id"]);
    let output = server.ask(&[&ask[..], &["--shared"]].concat());
    assert_eq!(output.status.code(), Some(64), "another payload: {}", stderr(&output));

    let waiting = server.start(&["acquire", "a", "--owner", "bob", "--request-id", "r2", "--wait", "60s"]);
    server.until_waiting("a", 1);
    let output = server.ask(&["cancel", "a", "--owner", "bob", "--request-id", "r2"]);
    assert_eq!(stdout(&output), "r2 has left the line for a\n");
    let output2 = waiting.wait_with_output().unwrap();
    assert_eq!(output2.status.code(), Some(75), "{}", stderr(&output2));

    let output = server.ask(&["cancel", "a", "--owner", "alice", "--request-id", "r1"]);
    assert_eq!(stdout(&output), "r1 had been granted a, and gave it back\n");
    let output = server.ask(&ask);
    assert_eq!(output.status.code(), Some(75), "what was taken back stays so: {}", stderr(&output));
    let unknown = told(&server, &["cancel", "a", "--owner", "alice", "--request-id", "r3"]);
    assert_eq!(unknown, json!({"cancelled": "unknown"}));
    server.stop();
}

#[test]
fn a_lease_can_live_by_a_session() {
    let place = Place::new();
    let server = place.serve();
    let session = server.client().expect(
        200,
        "POST",
        "/v1/sessions",
        Some(&json!({"owner_id": "alice", "ttl_ms": 60_000})),
    );
    let id = session["session_id"].as_str().unwrap();
    let lease = told(&server, &["acquire", "a", "--owner", "alice", "--shared", "--session-id", id]);
    assert_eq!((&lease["session_id"], &lease["mode"]), (&session["session_id"], &json!("shared")));
    let output = server.ask(&[
        "acquire",
        "b",
        "--owner",
        "alice",
        "--session-id",
        "s0-00000000000000000000000000000000",
    ]);
    assert_eq!(output.status.code(), Some(76), "{}", stderr(&output));
    let output = server.ask(&["acquire", "b", "--session-id", id, "--ttl", "30s"]);
    assert_eq!(output.status.code(), Some(64), "it lives by the session's TTL");
    server.stop();
}

#[test]
fn the_owner_is_user_host_and_process_unless_told_otherwise() {
    let place = Place::new();
    let server = place.serve();
    let owner = told(&server, &["acquire", "a"])["owner_id"].as_str().unwrap().to_owned();
    let (user, rest) = owner.split_once('@').unwrap();
    let (host, pid) = rest.rsplit_once(':').unwrap();
    assert!(!user.is_empty() && !host.is_empty() && pid.parse::<u32>().is_ok(), "{owner}");
    let output = server
        .environment(leasehold().args(["acquire", "b", "--json"]))
        .env("LEASEHOLD_OWNER", "me")
        .output();
    let lease: Value = serde_json::from_str(&stdout(&output.unwrap())).unwrap();
    assert_eq!(lease["owner_id"], "me");
    server.stop();
}
