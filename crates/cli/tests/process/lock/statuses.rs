//! Exit statuses: the command's own, as shells count them, and ours.

use super::holder::lock;
use super::stage::until;
use crate::program::{Place, leasehold, run, stderr};

#[test]
fn ends_with_the_commands_own_status_or_with_128_and_its_signal() {
    let place = Place::new();
    let server = place.serve();
    for (script, status) in
        [("true", 0), ("exit 7", 7), ("exit 255", 255), ("kill -9 $$", 137), ("kill $$", 143)]
    {
        let output = lock(&server, &["a"], script).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{script}: {}", stderr(&output));
        assert_eq!(stderr(&output), "", "{script}");
    }
    assert!(server.client().get_lock("a")["holders"].as_array().unwrap().is_empty(), "it is released");
}

#[test]
fn what_cannot_be_run_is_127_or_126() {
    let place = Place::new();
    let server = place.serve();
    std::fs::write(place.path("text"), "no program").unwrap();
    for (program, status, says) in [
        ("no-such-command", 127, "no-such-command: command not found"),
        ("/no/such/command", 127, "command not found"),
        (&*place.text("text"), 126, "cannot run "),
        ("/", 126, "cannot run /"),
    ] {
        let mut command = leasehold();
        let output = server.environment(command.args(["lock", "a", "--", program])).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{program}: {}", stderr(&output));
        assert!(stderr(&output).contains(says), "{program}: {}", stderr(&output));
    }
    assert!(server.client().get_lock("a")["holders"].as_array().unwrap().is_empty(), "it is released");
}

#[test]
fn without_a_server_it_is_69_and_without_a_command_64() {
    let output = run(&["lock", "a", "--server", "http://127.0.0.1:1", "--", "true"]);
    assert_eq!(output.status.code(), Some(69), "{}", stderr(&output));
    assert!(
        stderr(&output).starts_with("leasehold: could not lock a at http://127.0.0.1:1: "),
        "{}",
        stderr(&output)
    );
    for arguments in
        [&["lock", "a"][..], &["lock"], &["lock", "a", "--"], &["elect", "a"], &["lock", "a", "true"]]
    {
        assert_eq!(run(arguments).status.code(), Some(64), "{arguments:?}");
    }
}

#[test]
fn a_lock_that_makes_no_sense_is_64() {
    let place = Place::new();
    let server = place.serve();
    for arguments in
        [&["sem:a"][..], &["a", "--ttl", "1ms"], &["a", "--ttl", "25h"], &["a", "--ttl", "brief"]]
    {
        let output = lock(&server, arguments, "true").output().unwrap();
        assert_eq!(output.status.code(), Some(64), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn the_lock_is_held_while_the_command_runs_and_no_longer() {
    let place = Place::new();
    let server = place.serve();
    let script = format!("until [ -e {} ]; do sleep 0.02; done", place.text("go"));
    let mut child = lock(&server, &["a", "--ttl", "batch", "--owner", "me"], &script).spawn().unwrap();
    let mut client = server.client();
    until("it is held", || !client.get_lock("a")["holders"].as_array().unwrap().is_empty());
    let held = client.get_lock("a");
    assert_eq!(held["holders"][0]["owner_id"], "me");
    assert!(held["holders"][0]["expires_in_ms"].as_u64().unwrap() > 200_000, "{held}");
    std::fs::write(place.path("go"), "").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(client.get_lock("a")["state"], "free");
}

/// As in `leasehold lock … 2>&1 | head -1`.
#[test]
fn that_nobody_reads_what_it_says_does_not_change_the_status() {
    let place = Place::new();
    let server = place.serve();
    server.client().acquire("held", &serde_json::json!({"owner_id": "alice", "ttl_ms": 600_000}));
    for (arguments, status) in [
        (&["lock", "held", "--wait", "0s", "--", "true"][..], 75),
        (&["lock", "a", "--", "no-such-command"], 127),
        (&["lock", "held", "--wait", "1s", "--verbose", "--", "true"], 75),
    ] {
        let mut command = leasehold();
        let mut child =
            server.environment(command.args(arguments)).stderr(std::process::Stdio::piped()).spawn().unwrap();
        drop(child.stderr.take());
        assert_eq!(child.wait().unwrap().code(), Some(status), "{arguments:?}");
    }
}
