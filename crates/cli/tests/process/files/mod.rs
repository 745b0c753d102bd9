//! The commands for fenced files: what they do at a real server, under whose lease, what they print, and how they end.

mod hard;
mod names;

use std::io::Write;
use std::process::{Child, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::asking::{members, told};
use crate::program::{Place, Server, leasehold, run, stderr, stdout};

/// Runs it with this on its standard input.
fn fed(server: &Server, arguments: &[&str], input: &[u8]) -> Output {
    let mut command = leasehold();
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = server.environment(&mut command).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

fn cat(server: &Server, arguments: &[&str]) -> Vec<u8> {
    let output = server.ask(&[&["cat"], arguments].concat());
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
    output.stdout
}

fn refused(output: &Output, status: i32, code: &str) -> Value {
    assert_eq!((output.status.code(), stdout(output)), (Some(status), String::new()), "{}", stderr(output));
    let problem: Value = serde_json::from_str(&stderr(output)).unwrap();
    assert_eq!(problem["code"], code, "{problem}");
    problem
}

#[test]
fn text_is_appended_as_echo_has_it_and_written_as_it_is() {
    let place = Place::new();
    let server = place.serve();
    let output = server.ask(&["append", "reports/a.log", "hello"]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
    assert_eq!(stdout(&output), "wrote 6 bytes to reports/a.log at 0; it has 6 bytes now\n");
    let output = server.ask(&["append", "reports/a.log", "--json", "-n", "--", "-n is text, too"]);
    assert_eq!(stdout(&output), "{\"offset\":6,\"length\":15,\"size\":21}\n", "{}", stderr(&output));
    let wrote = told(&server, &["write", "reports/a.log", "J"]);
    assert_eq!(wrote, json!({"offset": 0, "length": 1, "size": 21}));
    assert_eq!(cat(&server, &["reports/a.log"]), b"Jello\n-n is text, too");
    assert_eq!(cat(&server, &["reports/a.log", "--range", "1-4"]), b"ell");
    assert_eq!(cat(&server, &["reports/a.log", "--range", "18-"]), b"too");
    assert_eq!(cat(&server, &["reports/a.log", "--range", "18-4096"]), b"too");
    assert_eq!(stdout(&server.ask(&["ls"])), "nothing is held or waited for\n", "its lock was given back");

    told(&server, &["append", "b", "", "-n"]);
    let files = told(&server, &["files"]);
    let rows = files["files"].as_array().unwrap();
    assert_eq!(rows.iter().map(|row| &row["name"]).collect::<Vec<_>>(), ["b", "reports/a.log"]);
    assert_eq!(
        members(&rows[1]),
        ["created_at", "fencing_token", "inode", "name", "size", "version", "written_at"]
    );
    assert_eq!((&rows[0]["size"], &rows[1]["size"]), (&json!(0), &json!(21)));
    assert_eq!(told(&server, &["files", "rep"])["files"], json!([rows[1]]));
    let table = stdout(&server.ask(&["files"]));
    assert!(table.starts_with("FILE           SIZE"), "{table}");
    assert!(table.lines().nth(2).unwrap().starts_with("reports/a.log    21  "), "{table}");

    assert_eq!(stdout(&server.ask(&["rm", "b"])), "deleted b\n");
    assert_eq!(told(&server, &["rm", "reports/a.log"]), json!({"deleted": true}));
    assert_eq!(stdout(&server.ask(&["files"])), "there are no files\n");
    assert_eq!(stdout(&server.ask(&["files", "x"])), "there are no files like that\n");
    server.stop();
}

#[test]
fn standard_input_goes_whole_and_in_order() {
    let place = Place::new();
    let server = place.serve();
    let input: Vec<u8> = (0..3_000_000_u32).flat_map(|n| [n.to_le_bytes()[0]]).collect();
    let output = fed(&server, &["append", "big", "--json"], &input);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let wrote: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(wrote, json!({"offset": 0, "length": 3_000_000, "size": 3_000_000}));
    assert!(cat(&server, &["big"]) == input);
    // Under an id the same input is the same requests, also when the process is another.
    let again = ["append", "big", "--json", "--owner", "me", "--request-id", "r"];
    for _ in 0..2 {
        let output = fed(&server, &again, &input);
        let wrote: Value = serde_json::from_str(&stdout(&output)).unwrap();
        assert_eq!(wrote["size"], 6_000_000, "{}", stderr(&output));
    }
    let output = fed(&server, &["write", "big", "--offset", "1", "--json"], &input);
    let wrote: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(wrote, json!({"offset": 1, "length": 3_000_000, "size": 6_000_000}));
    assert!(cat(&server, &["big", "--range", "1-3000001"]) == input);
    let output = fed(&server, &["append", "none"], b"");
    assert_eq!(stdout(&output), "wrote 0 bytes to none at 0; it has 0 bytes now\n");
    server.stop();
}

#[test]
fn the_lease_in_the_environment_is_the_one_it_writes_under() {
    let place = Place::new();
    let server = place.serve();
    let program = leasehold().get_program().to_str().unwrap().to_owned();
    let script =
        format!("{program} append reports/a one && {program} append reports/b two && echo $LEASEHOLD_TOKEN");
    let output = server.ask(&["lock", "path:/reports", "--", "sh", "-c", &script]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
    let token: u64 = stdout(&output).lines().last().unwrap().parse().unwrap();
    for row in told(&server, &["files"])["files"].as_array().unwrap() {
        assert_eq!(row["fencing_token"], token);
    }
    // A lease for something else is not exchanged for another behind its holder's back.
    let script = format!("{program} append reports/a three --json");
    let output = server.ask(&["lock", "deploy", "--", "sh", "-c", &script]);
    let problem = refused(&output, 64, "scope_mismatch");
    assert!(problem["detail"].as_str().unwrap().contains("--own-lock"), "{problem}");
    let script = format!("{program} append reports/a three --own-lock");
    let output = server.ask(&["lock", "deploy", "--", "sh", "-c", &script]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(cat(&server, &["reports/a"]), b"one\nthree\n");
    // Half a lease is not taken for none.
    let id = "l0-00000000000000000000000000000000";
    for (half, missing) in [(["--lease-id", id], "LEASEHOLD_LOCK"), (["--token", "7"], "LEASEHOLD_LEASE_ID")]
    {
        let output = server.ask(&[&["append", "a", "x", "--json"][..], &half].concat());
        let problem = refused(&output, 64, "invalid_argument");
        assert!(problem["detail"].as_str().unwrap().contains(missing), "{problem}");
    }
    let lease = ["--lock", "path:/a", "--owner", "me", "--lease-id", id, "--token", "7"];
    refused(&server.ask(&[&["append", "a", "x", "--json"][..], &lease].concat()), 76, "not_found");
    server.stop();
}

fn waiting(server: &Server, arguments: &[&str]) -> Child {
    let child = server.start(arguments);
    server.until_waiting("path:%2Fa", 1);
    child
}

#[test]
fn it_waits_in_line_for_the_files_lock_and_can_be_called_away() {
    let place = Place::new();
    let server = place.serve();
    told(&server, &["acquire", "path:/a", "--owner", "alice", "--ttl", "10m", "--request-id", "r"]);
    refused(&server.ask(&["append", "a", "x", "--wait", "0s", "--json"]), 75, "held");
    for (signal, status) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let child = waiting(&server, &["append", "a", "x", "--json"]);
        kill_process(Pid::from_child(&child), signal).unwrap();
        refused(&child.wait_with_output().unwrap(), status, "cancelled");
        assert_eq!(server.client().get_lock("path:%2Fa")["waiters"], json!([]));
    }
    let child = waiting(&server, &["append", "a", "x", "--json"]);
    told(&server, &["cancel", "path:/a", "--owner", "alice", "--request-id", "r"]);
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(0));
    assert_eq!(cat(&server, &["a"]), b"x\n");
    assert_eq!(server.client().get_lock("path:%2Fa")["state"], "free");
    server.stop();
}

#[test]
fn what_cannot_be_is_refused_with_its_own_status() {
    let place = Place::new();
    let server = place.serve();
    for name in ["/a", "a/", "a//b", "../a", "", "."] {
        let output = server.ask(&["append", name, "x", "--json"]);
        refused(&output, 64, "invalid_argument");
    }
    refused(&server.ask(&["write", "a", "--offset", "1", "x", "--json"]), 64, "invalid_argument");
    for missing in [&["cat", "a", "--json"][..], &["rm", "a", "--json"]] {
        refused(&server.ask(missing), 76, "not_found");
    }
    told(&server, &["append", "a", "x"]);
    let output = server.ask(&["cat", "a", "--range", "3-4"]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(64), 0));
    assert!(stderr(&output).contains("--range is not valid"), "{}", stderr(&output));
    refused(&server.ask(&["append", "a/b", "x", "--json"]), 64, "invalid_argument");
    let long = "x".repeat((1 << 17) - 1);
    assert_eq!(server.ask(&["append", "long", &long]).status.code(), Some(0));
    assert_eq!(stdout(&server.ask(&["ls"])), "nothing is held or waited for\n", "no lock was left behind");
    let address = server.url();
    server.stop();
    let output = run(&["append", "a", "x", "--json", "--server", &address]);
    refused(&output, 69, "unavailable");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let place = Place::new();
    let server = place.serve();
    fed(&server, &["append", "big"], &vec![b'x'; 2_000_000]);
    let mut child = server.start(&["cat", "big"]);
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
    server.stop();
}
