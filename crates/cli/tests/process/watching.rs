//! `leasehold watch`: what happens is printed as it happens, across restarts of the server, for as long as somebody reads.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::asking::members;
use crate::program::{Place, Server, leasehold, stderr, stdout};

struct Watching {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Watching {
    fn start(server: &Server, arguments: &[&str]) -> Watching {
        let mut child = server.start(&[&["watch"], arguments].concat());
        let lines = BufReader::new(child.stdout.take().unwrap());
        Watching { child, lines }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn event(&mut self) -> Value {
        serde_json::from_str(&self.line()).unwrap()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Takes a lock and gives it back; two events.
fn use_lock(server: &Server, lock: &str) {
    let mut client = server.client();
    let lease = client.acquire(lock, &json!({"owner_id": "alice"}));
    let path = format!("/v1/locks/{lock}/release");
    client.expect(200, "POST", &path, Some(&crate::client::proof(&lease)));
}

#[test]
fn events_are_printed_for_programs_and_for_people() {
    let place = Place::new();
    let server = place.serve();
    use_lock(&server, "a");
    use_lock(&server, "b");
    let mut all = Watching::start(&server, &["--from", "0", "--json"]);
    let events: Vec<Value> = (0..4).map(|_| all.event()).collect();
    assert_eq!(members(&events[0]), ["fencing_token", "lock", "mode", "owner_id", "seq", "time", "type"]);
    let told: Vec<(&str, &str)> = events
        .iter()
        .map(|event| (event["lock"].as_str().unwrap(), event["type"].as_str().unwrap()))
        .collect();
    assert_eq!(told, [("a", "granted"), ("a", "released"), ("b", "granted"), ("b", "released")]);

    // From an event on, of one lock, as people read it.
    let from = events[0]["seq"].to_string();
    let mut one = Watching::start(&server, &["a", "--from", &from]);
    let line = one.line();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words[1..4], ["released", "a", "alice"], "{line}");
    assert!(!line.contains('\x1b'));
    let mut prefixed = Watching::start(&server, &["--prefix", "b", "--from", "0", "--json"]);
    assert_eq!(prefixed.event()["lock"], "b");
    use_lock(&server, "a");
    for _ in 0..2 {
        assert_eq!(all.event()["lock"], "a", "what happens now comes now");
    }
    assert!(one.line().contains("granted"));
    server.stop();
}

#[test]
fn a_watch_goes_on_after_the_server_has_come_back() {
    let place = Place::new();
    let server = place.serve();
    let address = server.address.to_string();
    use_lock(&server, "a");
    let mut watching = Watching::start(&server, &["--from", "0", "--json"]);
    let mut seen: Vec<u64> = (0..2).map(|_| watching.event()["seq"].as_u64().unwrap()).collect();
    server.kill();
    let server = place.serve_with(&["--listen", &address]);
    use_lock(&server, "b");
    for kind in ["granted", "released"] {
        let event = watching.event();
        assert_eq!((event["lock"].as_str(), event["type"].as_str()), (Some("b"), Some(kind)));
        seen.push(event["seq"].as_u64().unwrap());
    }
    assert!(seen.is_sorted_by(|a, b| a < b), "{seen:?}");
    server.stop();
}

#[test]
fn a_watch_ends_when_nobody_reads_or_when_it_is_interrupted() {
    let place = Place::new();
    let server = place.serve();
    use_lock(&server, "a");
    let program = leasehold().get_program().to_str().unwrap().to_owned();
    // Nothing happens after the second event: the watch must notice by itself that its reader has gone.
    let script = format!("set -o pipefail; {program} watch --from 0 | head -1; echo ${{PIPESTATUS[0]}}");
    let output =
        server.environment(Command::new("bash").args(["-c", &script]).stdin(Stdio::null())).output().unwrap();
    assert_eq!(stderr(&output), "", "it ends quietly");
    let said = stdout(&output);
    assert!(said.contains("granted") && said.ends_with("\n0\n"), "{said}");

    let mut watching = Watching::start(&server, &["--from", "0"]);
    watching.line();
    kill_process(Pid::from_child(&watching.child), Signal::INT).unwrap();
    assert_eq!(watching.child.wait().unwrap().signal(), Some(Signal::INT.as_raw()));
    server.stop();
}

#[test]
fn events_that_have_not_happened_cannot_be_resumed_from() {
    let place = Place::new();
    let server = place.serve();
    let output = server.ask(&["watch", "--from", "1000000"]);
    assert_eq!(output.status.code(), Some(64));
    assert!(stderr(&output).contains("--from is not valid"), "{}", stderr(&output));
    server.stop();
}
