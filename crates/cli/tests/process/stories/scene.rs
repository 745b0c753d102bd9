//! What the stories have in common: somebody with a lease in the environment, and a look at the file.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::program::{Server, leasehold, stderr, stdout};

/// The file that all of them are about, and its lock.
pub const FILE: &str = "reports/a.log";
pub const LOCK: &str = "path:/reports/a.log";

/// One line of JSON, of a command that succeeds.
pub fn told(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    serde_json::from_str(&stdout(output)).unwrap()
}

/// Takes the file's lock for somebody who keeps it without help.
pub fn acquire(server: &Server, owner: &str, more: &[&str]) -> Value {
    let ask = [&["acquire", LOCK, "--owner", owner, "--json"], more].concat();
    told(&server.ask(&ask))
}

/// The program for whoever has this lease, as `acquire --export` and `lock` leave it in the environment.
pub fn with(server: &Server, lease: &Value, arguments: &[&str]) -> Command {
    let mut command = leasehold();
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for (name, member) in
        [("LEASEHOLD_LOCK", "lock"), ("LEASEHOLD_LEASE_ID", "lease_id"), ("LEASEHOLD_OWNER", "owner_id")]
    {
        command.env(name, lease[member].as_str().unwrap());
    }
    command.env("LEASEHOLD_TOKEN", lease["fencing_token"].to_string());
    server.environment(&mut command);
    command
}

/// What a holder is told whose time is over, whatever it tries; the file is as it was.
pub fn is_refused(server: &Server, lease: &Value) {
    let before = cat(server);
    for attempt in [&["append", FILE, "too late"][..], &["write", FILE, "--offset", "0", "X"], &["rm", FILE]]
    {
        refused(with(server, lease, attempt));
    }
    for attempt in ["renew", "release"] {
        refused(with(server, lease, &[attempt]));
    }
    assert_eq!(cat(server), before);
}

fn refused(mut command: Command) {
    let output = command.arg("--json").output().unwrap();
    assert_eq!(output.status.code(), Some(76), "{command:?}: {}", stderr(&output));
    let problem: Value = serde_json::from_str(&stderr(&output)).unwrap();
    assert_eq!(problem["code"], "lease_expired", "{problem}");
}

/// What is in the file.
pub fn cat(server: &Server) -> String {
    let output = server.ask(&["cat", FILE]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stdout(&output)
}

/// The token that wrote it last.
pub fn token_of_file(server: &Server) -> u64 {
    let files = told(&server.ask(&["files", FILE, "--json"]));
    files["files"][0]["fencing_token"].as_u64().unwrap()
}

pub fn token(lease: &Value) -> u64 {
    lease["fencing_token"].as_u64().unwrap()
}
