//! What goes wrong between the command line and a server: the status, and a sentence that says what was tried, where, and
//! what to do next. All of it in bounded time.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::asking::told;
use crate::credentials::{certify, write_private};
use crate::program::{PATIENCE, Place, leasehold, run, stderr, stdout};

const SOME_LEASE: &str = "l0-00000000000000000000000000000000";

/// Each command, with all that it needs.
const COMMANDS: [&[&str]; 10] = [
    &["acquire", "a"],
    &["renew", "a", "--owner", "o", "--lease-id", SOME_LEASE, "--token", "1"],
    &["release", "a", "--owner", "o", "--lease-id", SOME_LEASE, "--token", "1"],
    &["cancel", "a", "--owner", "o", "--request-id", "r"],
    &["verify", "a", "--token", "1"],
    &["get", "a"],
    &["ls"],
    &["watch"],
    &["break", "a", "--reason", "x"],
    &["sessions"],
];

/// One sentence on standard error, nothing on standard output, and this status.
fn refused(output: &Output, status: i32, said: &[&str]) {
    let sentence = stderr(output);
    assert_eq!(output.status.code(), Some(status), "{sentence}");
    assert_eq!(stdout(output), "");
    assert_eq!(sentence.trim_end().lines().count(), 1, "{sentence}");
    assert!(sentence.starts_with("leasehold: "), "{sentence}");
    for part in said {
        assert!(sentence.contains(part), "`{part}` is not in: {sentence}");
    }
}

/// The object on standard error.
fn problem(output: &Output) -> Value {
    assert_eq!(stdout(output), "");
    assert_eq!(stderr(output).trim_end().lines().count(), 1, "{}", stderr(output));
    serde_json::from_str(&stderr(output)).unwrap()
}

/// An address at which nobody listens.
fn nobody() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[test]
fn no_server_is_said_by_every_command() {
    let url = format!("http://{}", nobody());
    // Each tries for a while; so all at once.
    std::thread::scope(|scope| {
        for command in COMMANDS {
            let url = &url;
            scope.spawn(move || {
                let output = run(&[command, &["--server", url]].concat());
                refused(&output, 69, &["could not ", url, "`leasehold serve`", "LEASEHOLD_SERVER"]);
                let output = run(&[command, &["--server", url, "--json"]].concat());
                assert_eq!(output.status.code(), Some(69));
                assert_eq!(problem(&output)["code"], "unavailable", "{command:?}");
            });
        }
    });
}

#[test]
fn a_server_that_is_not_one_is_given_up_in_bounded_time() {
    // Takes connections and never says a word.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    // Answers with something else altogether.
    let babbler = TcpListener::bind("127.0.0.1:0").unwrap();
    let babbling = babbler.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in babbler.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.write_all(b"220 mail.example.org ESMTP ready\r\n");
            let _ = stream.read(&mut [0; 512]);
        }
    });
    let begun = Instant::now();
    for server in [silent.local_addr().unwrap(), babbling] {
        let url = format!("http://{server}");
        let output = run(&["get", "a", "--server", &url, "--timeout", "3s"]);
        refused(&output, 69, &["could not look at a", &url]);
    }
    assert!(begun.elapsed() < PATIENCE);
    let output = run(&["get", "a", "--server", "http://no-such-host.invalid:7420", "--timeout", "3s"]);
    refused(&output, 69, &["no-such-host.invalid"]);
}

#[test]
fn a_server_that_falls_silent_is_given_up_and_the_doubt_is_named() {
    let place = Place::new();
    let server = place.serve();
    told(&server, &["acquire", "a", "--owner", "alice", "--ttl", "10m"]);
    // It is in line when the server falls silent, so that nobody knows what comes of it.
    for more in [&[][..], &["--json"]] {
        let ask = ["acquire", "a", "--owner", "o", "--request-id", "r7", "--wait", "4s", "--timeout", "1s"];
        let waiting = server.start(&[&ask[..], more].concat());
        server.until_waiting("a", 1);
        server.signal(Signal::STOP);
        let output = waiting.wait_with_output().unwrap();
        server.signal(Signal::CONT);
        match more.len() {
            0 => refused(&output, 69, &["could not acquire a", "may have been", "--owner o --request-id r7"]),
            _ => {
                let problem = problem(&output);
                assert_eq!(
                    (&problem["may_have_happened"], &problem["request_id"]),
                    (&json!(true), &json!("r7"))
                );
            }
        }
        server.until_waiting("a", 0);
    }
    server.stop();
}

#[test]
fn who_is_interrupted_while_nobody_answers_ends_at_once() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let ask = ["acquire", "a", "--server", &url, "--timeout", "10m"];
    let child = leasehold().args(ask).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let _connection = silent.accept().unwrap();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    refused(&child.wait_with_output().unwrap(), 130, &["interrupted before a was acquired"]);
}

#[test]
fn what_cannot_be_printed_is_said_and_given_back() {
    let place = Place::new();
    let server = place.serve();
    for command in [&["acquire", "a"][..], &["get", "a"], &["ls"]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = server.environment(leasehold().args(command)).stdout(full).output().unwrap();
        refused(&output, 70, &["cannot print"]);
    }
    assert_eq!(server.client().get_lock("a")["state"], "free");
    server.stop();
}

#[test]
fn what_makes_no_sense_is_usage() {
    let place = Place::new();
    let server = place.serve();
    for (arguments, said) in [
        (&["acquire", "."][..], "LOCK"),
        (&["acquire", "path:a/"], "LOCK"),
        (&["acquire", "a", "--ttl", "1ms"], "--ttl"),
        (&["acquire", "a", "--ttl", "25h"], "--ttl"),
        (&["acquire", "a", "--request-id", "two words"], "--request-id"),
        (&["acquire", "a", "--owner", ""], "--owner"),
        (&["acquire", "a", "--metadata", "x=1", "--metadata", "x=2"], "twice"),
        (&["get", "sem:x"], "LOCK"),
        (&["get", "a", "--server", "ftp://x"], "--server"),
        (&["get", "a", "--server", "http://localhost:7420/v1"], "--server"),
    ] {
        refused(&server.ask(arguments), 64, &[said]);
        let output = server.ask(&[arguments, &["--json"]].concat());
        assert_eq!(problem(&output)["code"], "invalid_argument", "{arguments:?}");
    }
    let output = server.ask(&["acquire", "a", "--ttl", "1ms", "--json"]);
    assert_eq!(problem(&output)["field"], "ttl_ms", "programs know it by its name in JSON");
    // What never gets as far as a request has a whole usage message.
    for arguments in [
        &["acquire"][..],
        &["acquire", "a", "--ttl", "30"],
        &["acquire", "a", "--ttl", "soon"],
        &["acquire", "a", "--metadata", "x"],
        &["renew", "a"],
        &["release"],
        &["verify", "a"],
        &["verify", "a", "--token", "x"],
        &["watch", "a", "--prefix", "b"],
        &["no-such-command"],
    ] {
        let output = server.ask(arguments);
        assert_eq!((output.status.code(), stdout(&output)), (Some(64), String::new()), "{arguments:?}");
        assert!(stderr(&output).contains("--help"), "{}", stderr(&output));
    }
    server.stop();
}

#[test]
fn what_is_held_is_said_with_its_holder() {
    let place = Place::new();
    let server = place.serve();
    told(&server, &["acquire", "it's", "--owner", "alice", "--ttl", "10m"]);
    for wait in [&[][..], &["--wait", "50ms"]] {
        let ask = [&["acquire", "it's", "--owner", "bob"], wait].concat();
        refused(
            &server.ask(&ask),
            75,
            &["could not acquire it's", &server.url(), "alice", "--wait", "`leasehold get 'it'\\''s'`"],
        );
        let problem = problem(&server.ask(&[&ask[..], &["--json"]].concat()));
        assert_eq!(problem["code"], "held");
        assert_eq!(problem["holders"][0]["owner_id"], "alice");
        assert_eq!(problem["holders"][0]["lock"], "it's");
        assert_eq!(problem["waiters"], json!([]));
        assert!(problem["recommended_retry_ms"].as_u64().unwrap() > 0);
    }
    server.stop();
}

#[test]
fn what_is_no_longer_there_is_lost() {
    let place = Place::new();
    let server = place.serve();
    let lease = told(&server, &["acquire", "a", "--owner", "alice", "--ttl", "100ms"]);
    let (id, token) = (lease["lease_id"].as_str().unwrap(), lease["fencing_token"].to_string());
    let claim = ["a", "--owner", "alice", "--lease-id", id, "--token", &token];
    let begun = Instant::now();
    while server.client().get_lock("a")["state"] != "free" {
        assert!(begun.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(5));
    }
    for command in ["renew", "release"] {
        let arguments = [&[command], &claim[..]].concat();
        refused(&server.ask(&arguments), 76, &[&format!("could not {command} a"), "expired"]);
        let problem = problem(&server.ask(&[&arguments[..], &["--json"]].concat()));
        assert_eq!(problem["code"], "lease_expired");
    }
    let output = server.ask(&["verify", "a", "--token", &token]);
    refused(&output, 76, &["is not good for a", &server.url()]);

    let kept = told(&server, &["acquire", "b", "--owner", "alice"]);
    let (id, token) = (kept["lease_id"].as_str().unwrap(), kept["fencing_token"].to_string());
    let stale = ["renew", "b", "--owner", "bob", "--lease-id", id, "--token", &token];
    refused(&server.ask(&stale), 76, &["do not belong together"]);
    assert_eq!(problem(&server.ask(&[&stale[..], &["--json"]].concat()))["code"], "stale_token");
    let unknown = ["release", "b", "--owner", "alice", "--lease-id", SOME_LEASE, "--token", &token];
    refused(&server.ask(&unknown), 76, &["could not release b"]);
    assert_eq!(problem(&server.ask(&[&unknown[..], &["--json"]].concat()))["code"], "not_found");
    refused(&server.ask(&["break", "c", "--reason", "x"]), 76, &["could not break c"]);
    server.stop();
}

#[test]
fn a_busy_server_says_so() {
    let place = Place::new();
    let server = place.serve_with(&["--listen", "127.0.0.1:0", "--leases-max", "1"]);
    told(&server, &["acquire", "a"]);
    refused(&server.ask(&["acquire", "b"]), 75, &["could not acquire b", "busy"]);
    server.stop();
}

#[test]
fn a_door_that_wants_a_token_opens_to_one() {
    let place = Place::new();
    write_private(&place, "tokens", "# two\nfirst-token-0123456789\nsecond-token-0123456789\n");
    write_private(&place, "wrong", "wrong-token-0123456789\n");
    write_private(&place, "empty", "\n");
    let tokens = place.text("tokens");
    let server = place.serve_with(&["--listen", "127.0.0.1:0", "--token-file", &tokens]);
    for command in COMMANDS {
        refused(&server.ask(command), 77, &["could not ", "--token-file"]);
        let output = server.ask(&[command, &["--token-file", &place.text("wrong")]].concat());
        refused(&output, 77, &["could not "]);
        assert!(!stderr(&output).contains("wrong-token"), "{}", stderr(&output));
    }
    let output = server.ask(&["get", "a", "--token-file", &tokens]);
    assert_eq!(stdout(&output), "a is free\n", "{}", stderr(&output));
    let output =
        server.environment(leasehold().args(["get", "a"])).env("LEASEHOLD_TOKEN_FILE", &tokens).output();
    assert_eq!(stdout(&output.unwrap()), "a is free\n");
    refused(&server.ask(&["get", "a", "--token-file", &place.text("empty")]), 64, &["no token"]);
    refused(&server.ask(&["get", "a", "--token-file", &place.text("none")]), 64, &["none"]);
    server.stop();
}

#[test]
fn encryption_is_agreed_on_or_explained() {
    let place = Place::new();
    certify(&place);
    let (cert, key) = (place.text("cert.pem"), place.text("key.pem"));
    let server = place.serve_with(&["--listen", "127.0.0.1:0", "--tls-cert", &cert, "--tls-key", &key]);
    let (secure, open) = (
        format!("https://localhost:{}", server.address.port()),
        format!("http://localhost:{}", server.address.port()),
    );
    let output = run(&["get", "a", "--server", &secure, "--ca-file", &cert]);
    assert_eq!(stdout(&output), "a is free\n", "{}", stderr(&output));
    let output = run(&["get", "a", "--server", &secure, "--timeout", "5s"]);
    refused(&output, 69, &[&secure, "--ca-file"]);
    let output = run(&["get", "a", "--server", &open, "--timeout", "5s"]);
    refused(&output, 69, &[&open]);
    refused(&run(&["get", "a", "--server", &secure, "--ca-file", &place.text("none")]), 64, &["none"]);
    fs::write(place.path("junk"), "junk").unwrap();
    let output = run(&["get", "a", "--server", &secure, "--ca-file", &place.text("junk")]);
    refused(&output, 64, &["--ca-file"]);
    server.stop();

    let server = place.serve();
    let output = run(&[
        "get",
        "a",
        "--server",
        &format!("https://{}", server.address),
        "--ca-file",
        &cert,
        "--timeout",
        "5s",
    ]);
    refused(&output, 69, &["https://"]);
    server.stop();
}
