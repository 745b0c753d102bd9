//! Files under trouble: a server that dies in the middle, many writers, a lock that is taken away, and readers that take their
//! time.

use std::io::{Read, Write};
use std::process::{Child, Stdio};

use serde_json::Value;

use super::{cat, fed, refused};
use crate::asking::told;
use crate::lock::stage::until;
use crate::program::{Place, Server, leasehold, stderr, stdout};

/// Lines of which each can be told from every other.
fn numbered(lines: u32) -> Vec<u8> {
    (0..lines).flat_map(|number| format!("{number:015}\n").into_bytes()).collect()
}

fn start(server: &Server, arguments: &[&str]) -> Child {
    let mut command = leasehold();
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    server.environment(&mut command).spawn().unwrap()
}

fn size(server: &Server, name: &str) -> u64 {
    let files = told(server, &["files", name]);
    files["files"][0]["size"].as_u64().unwrap_or(0)
}

#[test]
fn a_server_that_dies_in_the_middle_loses_and_doubles_nothing() {
    let place = Place::new();
    let mut server = place.serve();
    let address = server.address.to_string();
    let mut append = start(&server, &["append", "big", "--json", "--timeout", "60s"]);
    let mut input = append.stdin.take().unwrap();
    let part = numbered(65_536);
    // The lock is lost if the server is away for too long: the server comes back at once, and how long that takes is up to
    // the machine. Whatever becomes of it, what is in the file is a beginning of what was sent.
    let mut sent = Vec::new();
    for _ in 0..3 {
        let before = size(&server, "big");
        sent.extend_from_slice(&part);
        if input.write_all(&part).is_err() {
            break;
        }
        until("more of it is written", || {
            size(&server, "big") > before || append.try_wait().unwrap().is_some()
        });
        server.kill();
        server = place.serve_with(&["--listen", &address]);
    }
    drop(input);
    let output = append.wait_with_output().unwrap();
    let found = cat(&server, &["big"]);
    assert!(sent.starts_with(&found), "{} bytes of {}", found.len(), sent.len());
    if output.status.success() {
        let wrote: Value = serde_json::from_str(&stdout(&output)).unwrap();
        assert_eq!((&wrote["offset"], &wrote["length"]), (&0.into(), &sent.len().into()));
        assert_eq!(found.len(), sent.len());
    } else {
        assert_eq!(output.status.code(), Some(76), "{}", stderr(&output));
        let problem: Value = serde_json::from_str(&stderr(&output)).unwrap();
        let said = format!("{} bytes before that are written", found.len());
        assert!(problem["detail"].as_str().unwrap().contains(&said), "{problem}");
    }
    server.stop();
}

#[test]
fn input_that_is_too_much_goes_in_up_to_the_limit_and_that_is_said() {
    let place = Place::new();
    let server = place.serve_with(&["--listen", "127.0.0.1:0", "--file-bytes-max", "1500000"]);
    let mut append = start(&server, &["append", "big", "--request-id", "r", "--json"]);
    // It may stop reading before the end.
    let _ = append.stdin.take().unwrap().write_all(&numbered(200_000));
    let problem = refused(&append.wait_with_output().unwrap(), 64, "too_large");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("--file-bytes-max"), "{problem}");
    assert!(detail.contains("1048576 bytes before that are written"), "{problem}");
    assert_eq!(size(&server, "big"), 1_048_576);
    assert_eq!(stdout(&server.ask(&["ls"])), "nothing is held or waited for\n");
    server.stop();
}

#[test]
fn many_writers_take_turns_and_lose_no_line() {
    let place = Place::new();
    let server = place.serve();
    let writers: Vec<Child> = (0..20)
        .map(|number| match number % 2 {
            0 => start(&server, &["append", "log", &format!("text {number}")]),
            _ => {
                let mut writer = start(&server, &["append", "log"]);
                let lines: String = (0..50).map(|line| format!("input {number} {line}\n")).collect();
                writer.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
                writer
            }
        })
        .collect();
    for writer in writers {
        let output = writer.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    }
    let log = String::from_utf8(cat(&server, &["log"])).unwrap();
    assert_eq!(log.lines().count(), 10 + 10 * 50);
    for number in 0..20 {
        let own = |line: &&str| line.split(' ').nth(1) == Some(&*number.to_string());
        let lines: Vec<&str> = log.lines().filter(own).collect();
        let expected: Vec<String> = match number % 2 {
            0 => vec![format!("text {number}")],
            _ => (0..50).map(|line| format!("input {number} {line}")).collect(),
        };
        assert_eq!(lines, expected);
        // Nobody wrote in between: each had the lock from its first line to its last.
        assert!(log.contains(&(expected.join("\n") + "\n")));
    }
    assert_eq!(stdout(&server.ask(&["ls"])), "nothing is held or waited for\n");
    server.stop();
}

#[test]
fn who_waits_for_input_hears_that_the_lock_was_taken_away() {
    let place = Place::new();
    let server = place.serve();
    let mut append = start(&server, &["append", "log", "--json"]);
    let mut input = append.stdin.take().unwrap();
    input.write_all(b"first\n").unwrap();
    until("the first line is written", || size(&server, "log") == 6);
    told(&server, &["break", "path:/log", "--reason", "a test", "--force"]);
    // Its input has not ended.
    let problem = refused(&append.wait_with_output().unwrap(), 76, "released");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("6 bytes before that are written"), "{problem}");
    drop(input);
    assert_eq!(cat(&server, &["log"]), b"first\n");
    server.stop();
}

#[test]
fn a_reader_that_takes_its_time_reads_on_after_the_server_was_started_again() {
    let place = Place::new();
    let server = place.serve();
    let address = server.address.to_string();
    let all = numbered(400_000);
    let output = fed(&server, &["append", "big"], &all);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let mut reading = start(&server, &["cat", "big"]);
    let mut out = reading.stdout.take().unwrap();
    let mut found = vec![0; 16];
    out.read_exact(&mut found).unwrap();
    // Most of it has not left the server: neither the pipe nor the connection takes so much ahead.
    server.kill();
    let server = place.serve_with(&["--listen", &address]);
    // What is appended after the reading began is not read.
    told(&server, &["append", "big", "more", "--wait", "60s"]);
    out.read_to_end(&mut found).unwrap();
    let output = reading.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
    assert!(found == all, "{} bytes of {}", found.len(), all.len());
    server.stop();
}
