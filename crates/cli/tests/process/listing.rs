//! The commands that look, and the one that breaks: what people and programs are shown of locks, lines and sessions.

use serde_json::{Value, json};

use crate::asking::{members, told};
use crate::program::{Place, Server, stderr, stdout};

fn acquire(server: &Server, lock: &str, more: &[&str]) -> Value {
    told(server, &[&["acquire", lock], more].concat())
}

/// What a command that succeeds prints for people.
fn shown(server: &Server, arguments: &[&str]) -> String {
    let output = server.ask(arguments);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()), "{arguments:?}");
    assert!(!stdout(&output).contains('\x1b'), "no colour where nobody looks");
    stdout(&output)
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[test]
fn a_lock_is_shown_with_its_holders_and_its_line() {
    let place = Place::new();
    let server = place.serve();
    assert_eq!(shown(&server, &["get", "deploy"]), "deploy is free\n");
    let free = told(&server, &["get", "deploy"]);
    assert_eq!(free, server.client().get_lock("deploy"), "the same as over HTTP");

    let lease = acquire(&server, "deploy", &["--owner", "alice", "--ttl", "10m", "--metadata", "run=17"]);
    let token = lease["fencing_token"].to_string();
    let mut line = Vec::new();
    for (at, owner) in ["bob", "carol"].into_iter().enumerate() {
        line.push(server.start(&["acquire", "deploy", "--owner", owner, "--shared", "--wait", "60s"]));
        server.until_waiting("deploy", at + 1);
    }
    let text = shown(&server, &["get", "name:deploy"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "deploy is held");
    assert_eq!(words(lines[2]), ["HOLDER", "LOCK", "MODE", "TOKEN", "LEFT", "SINCE", "METADATA"]);
    let holder = words(lines[3]);
    assert_eq!(holder[..4], ["alice", "deploy", "exclusive", &token], "{text}");
    assert!(holder[4].ends_with('s'), "{text}");
    assert_eq!(holder[5], lease["acquired_at"].as_str().unwrap());
    assert_eq!(holder[6], "run=17");
    assert_eq!(words(lines[5]), ["PLACE", "WAITER", "LOCK", "MODE", "WAITING"]);
    assert_eq!(words(lines[6])[..4], ["1", "bob", "deploy", "shared"], "{text}");
    assert_eq!(words(lines[7])[..4], ["2", "carol", "deploy", "shared"], "{text}");

    let snapshot = told(&server, &["get", "deploy"]);
    assert_eq!(members(&snapshot), ["holders", "last_token", "lock", "seq", "state", "version", "waiters"]);
    assert_eq!(members(&snapshot["holders"][0]), members(&server.client().get_lock("deploy")["holders"][0]));
    assert_eq!(
        members(&snapshot["waiters"][0]),
        ["attached", "lock", "mode", "owner_id", "position", "waiting_ms"]
    );
    assert!(!stdout(&server.ask(&["get", "deploy", "--json"])).contains(lease["lease_id"].as_str().unwrap()));
    for mut waiter in line {
        waiter.kill().unwrap();
        waiter.wait().unwrap();
    }
    server.stop();
}

#[test]
fn locks_are_listed_the_next_to_end_first() {
    let place = Place::new();
    let server = place.serve();
    assert_eq!(shown(&server, &["ls"]), "nothing is held or waited for\n");
    acquire(&server, "path:/a", &["--owner", "alice", "--ttl", "10m"]);
    acquire(&server, "short", &["--owner", "bob", "--ttl", "60s"]);
    acquire(&server, "both", &["--owner", "carol", "--ttl", "20m", "--shared"]);
    acquire(&server, "both", &["--owner", "dave", "--ttl", "5m", "--shared"]);
    let mut waiting = server.start(&["acquire", "path:/a/b", "--owner", "erin", "--wait", "60s"]);
    server.until_waiting("path:%2Fa%2Fb", 1);
    let text = shown(&server, &["ls"]);
    let rows: Vec<Vec<&str>> = text.lines().map(words).collect();
    assert_eq!(rows[0], ["LOCK", "OWNER", "MODE", "TOKEN", "LEFT", "WAITING"]);
    let seen: Vec<[&str; 3]> = rows[1..].iter().map(|row| [row[0], row[1], row[2]]).collect();
    assert_eq!(
        seen,
        [
            ["short", "bob", "exclusive"],
            ["both", "dave", "shared"],
            ["both", "carol", "shared"],
            ["path:/a", "alice", "exclusive"],
            ["path:/a/b", "-", "-"],
        ],
        "{text}"
    );
    assert_eq!((rows[1][5], rows[5][5]), ("0", "1"), "{text}");

    let locks = told(&server, &["ls"]);
    let order: Vec<&str> =
        locks["locks"].as_array().unwrap().iter().map(|row| row["lock"].as_str().unwrap()).collect();
    assert_eq!(order, ["short", "both", "path:/a", "path:/a/b"]);
    assert_eq!(members(&locks), ["locks"]);
    for (arguments, found) in [
        (&["ls", "path:"][..], &["path:/a", "path:/a/b"][..]),
        (&["ls", "--prefix", "s"], &["short"]),
        (&["ls", "--owner", "erin"], &["path:/a/b"]),
        (&["ls", "b", "--owner", "carol"], &["both"]),
    ] {
        let rows = told(&server, arguments);
        let rows: Vec<&str> =
            rows["locks"].as_array().unwrap().iter().map(|row| row["lock"].as_str().unwrap()).collect();
        assert_eq!(rows, found, "{arguments:?}");
    }
    assert_eq!(shown(&server, &["ls", "nowhere"]), "nothing like that is held or waited for\n");
    waiting.kill().unwrap();
    waiting.wait().unwrap();
    server.stop();
}

#[test]
fn more_than_a_page_is_listed_whole() {
    let place = Place::new();
    let server = place.serve_with(&["--listen", "127.0.0.1:0", "--in-memory"]);
    let mut client = server.client();
    for number in 0..2345 {
        client.acquire(&format!("l{number}"), &json!({"owner_id": "w", "ttl_ms": 3_600_000}));
    }
    let locks = told(&server, &["ls"]);
    let mut names: Vec<&str> =
        locks["locks"].as_array().unwrap().iter().map(|row| row["lock"].as_str().unwrap()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 2345);
    assert_eq!(told(&server, &["sessions"])["sessions"].as_array().unwrap().len(), 2345);
    assert_eq!(shown(&server, &["ls"]).lines().count(), 2346);
    server.stop();
}

#[test]
fn sessions_are_shown_without_their_secrets() {
    let place = Place::new();
    let server = place.serve();
    assert_eq!(shown(&server, &["sessions"]), "no sessions\n");
    let body = json!({"owner_id": "alice", "ttl_ms": 600_000, "metadata": {"rack": "7"}});
    let session = server.client().expect(200, "POST", "/v1/sessions", Some(&body));
    let id = session["session_id"].as_str().unwrap();
    acquire(&server, "a", &["--owner", "alice", "--session-id", id]);
    acquire(&server, "b", &["--owner", "bob", "--ttl", "60s"]);
    let text = shown(&server, &["sessions"]);
    let rows: Vec<Vec<&str>> = text.lines().map(words).collect();
    assert_eq!(rows[0], ["OWNER", "LEASES", "WAITING", "TTL", "LEFT", "METADATA"]);
    assert_eq!(rows[1][..4], ["bob", "1", "0", "1m"], "{text}");
    assert_eq!(rows[2][..4], ["alice", "1", "0", "10m"], "{text}");
    assert_eq!(rows[2][5], "rack=7");
    let rows = told(&server, &["sessions"]);
    assert_eq!(
        members(&rows["sessions"][0]),
        ["expires_in_ms", "leases", "metadata", "owner_id", "ttl_ms", "waiters"]
    );
    assert!(!text.contains(id) && !rows.to_string().contains(id));
    server.stop();
}

#[test]
fn a_lock_is_broken_with_a_reason() {
    let place = Place::new();
    let server = place.serve();
    let first = acquire(&server, "a", &["--owner", "alice", "--ttl", "10m"]);
    let token = first["fencing_token"].to_string();
    let output = server.ask(&["break", "a"]);
    assert_eq!(output.status.code(), Some(64), "a reason is wanted");
    let output = server.ask(&["break", "a", "--reason", "x", "--token", "1"]);
    assert_eq!(output.status.code(), Some(76), "{}", stderr(&output));

    let text = shown(&server, &["break", "a", "--reason", "host7 is on fire"]);
    let (start, rest) = text.split_once(": it is free in ").unwrap();
    assert_eq!(start, format!("broke the lease {token} on a"));
    assert!(rest.starts_with("9m") || rest.starts_with("10m"), "{rest}");
    assert!(shown(&server, &["get", "a"]).contains("broken, "));
    assert!(shown(&server, &["ls"]).contains("broken, "));
    let broke = told(&server, &["break", "a", "--reason", "it must be now", "--force", "--token", &token]);
    assert_eq!(broke, json!({"tokens": [first["fencing_token"]], "free_in_ms": 0}));
    assert_eq!(server.client().get_lock("a")["state"], "free");
    let output = server.ask(&["break", "a", "--reason", "again"]);
    assert_eq!(output.status.code(), Some(76), "nothing is held: {}", stderr(&output));
    let output = server.ask(&["verify", "a", "--token", &token]);
    assert_eq!(output.status.code(), Some(76), "{}", stderr(&output));
    server.stop();
}
