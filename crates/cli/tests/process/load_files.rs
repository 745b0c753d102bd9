//! `leasehold load --files`: appends over each protocol, in each way of sharing; files are read back and must hold what was
//! acknowledged, also after the server was killed, and damage is found.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::credentials::{TOKEN, certify, write_private};
use crate::load::{PROTOCOLS, load, locks_held, members, number, told, url};
use crate::program::{PATIENCE, Place, Server, leasehold, run, stderr, stdout};

/// Nothing failed, nothing was wrong, and everything that was counted was found again.
fn assert_sound(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let told = told(output);
    assert_eq!((number(&told, "errors"), number(&told, "violations")), (0.0, 0.0), "{told}");
    let (appends, seconds) = (number(&told, "appends"), number(&told, "seconds"));
    assert!(appends > 0.0 && number(&told, "read_back") >= appends, "{told}");
    // Seconds are told to the millisecond, of which there may be few.
    let rate = appends / seconds;
    assert!((number(&told, "appends_per_second") - rate).abs() <= 0.1 + rate / 100.0, "{told}");
    assert!(number(&told, "syncs_per_append") > 0.0, "{told}");
    told
}

fn assert_nothing_is_left(server: &Server) {
    assert_eq!(locks_held(server), 0);
    let (_, list) = server.client().call("GET", "/v1/files", None).unwrap();
    assert_eq!(list["files"].as_array().unwrap().len(), 0, "{list}");
}

/// Waits until the server has written so much more than now.
fn until_more(server: &Server, events: u64) {
    let mut client = server.client();
    let mut seq = || client.get_lock("nobodys")["seq"].as_u64().unwrap();
    let (begun, before) = (Instant::now(), seq());
    while seq() < before + events {
        assert!(begun.elapsed() < PATIENCE, "nobody appends");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Ends a run early, as Ctrl-C does, and gives what it told.
fn interrupt(child: Child) -> Output {
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn each_protocol_and_each_way_of_sharing_is_measured_and_leaves_nothing_behind() {
    let place = Place::new();
    let server = place.serve();
    let common = [
        "appends",
        "appends_per_second",
        "bytes_per_append",
        "errors",
        "latency_us",
        "read_back",
        "seconds",
        "syncs_per_append",
        "violations",
    ];
    let asked = ["--files", "--json", "--clients", "6", "--duration", "500ms"];
    for protocol in PROTOCOLS {
        for sharing in [None, Some("--together")] {
            let more: Vec<&str> = ["--protocol", protocol].into_iter().chain(sharing).collect();
            let told = assert_sound(&load(&server, &[&asked[..], &more].concat()));
            assert_eq!(members(&told), common);
            assert_eq!(told["bytes_per_append"], 1024);
            assert_nothing_is_left(&server);
        }
        let more = ["--protocol", protocol, "--contended", "--bytes", "5000"];
        let told = assert_sound(&load(&server, &[&asked[..], &more].concat()));
        assert!(number(&told, "holder_changes_per_second") > 0.0, "{told}");
        assert_eq!(members(&told["wait_us"]), ["longest", "median"]);
        assert_eq!(told["bytes_per_append"], 5000);
        assert_nothing_is_left(&server);
    }
}

#[test]
fn full_files_are_read_back_and_deleted_on_the_way() {
    let place = Place::new();
    let server = place.serve();
    for sharing in [None, Some("--together"), Some("--contended")] {
        let asked = ["--files", "--json", "--clients", "3", "--duration", "1s", "--file-bytes", "3000"];
        let told = assert_sound(&load(&server, &[&asked[..], sharing.as_slice()].concat()));
        assert!(number(&told, "appends") > 6.0, "{told}");
        assert_nothing_is_left(&server);
    }
}

#[test]
fn people_are_told_of_syncs_and_of_what_was_read_back() {
    let place = Place::new();
    let server = place.serve_with(&["--in-memory"]);
    let plot = place.text("load.svg");
    let asked = ["--files", "--together", "--clients", "4", "--duration", "500ms", "--plot", &plot];
    let output = load(&server, &asked);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = stdout(&output);
    assert!(
        text.starts_with("4 clients over a gRPC stream, appends of 1024 bytes to one file under one lease\n"),
        "{text}"
    );
    for part in
        ["appends ", "for each append, by the server's count", "read back ", "latency of an append", "█"]
    {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    assert!(text.contains("violations   none: files held what was acknowledged"), "{text}");
    assert!(fs::read_to_string(plot).unwrap().contains("appends a second, over seconds"));
}

#[test]
fn a_server_that_is_killed_and_comes_back_has_lost_and_doubled_nothing() {
    for (protocol, sharing) in [("http", None), ("stream", Some("--together")), ("grpc", Some("--contended"))]
    {
        let place = Place::new();
        let server = place.serve();
        let listen = server.address.to_string();
        let mut command = leasehold();
        command.args(["load", "--files", "--server", &url(&server), "--clients", "8", "--duration", "1h"]);
        command.args(["--json", "--protocol", protocol, "--ttl", "short"]).args(sharing);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        until_more(&server, 40);
        server.kill();
        let server = place.serve_with(&["--listen", &listen]);
        until_more(&server, 40);
        let output = interrupt(child);
        assert_eq!(output.status.code(), Some(130), "{output:?}");
        let told = told(&output);
        assert!(number(&told, "errors") > 0.0, "{told}");
        assert_eq!(number(&told, "violations"), 0.0, "{told}");
        assert!(number(&told, "read_back") >= number(&told, "appends"), "{told}");
        assert!(told.get("syncs_per_append").is_none(), "it counts from zero: {told}");
        assert_nothing_is_left(&server);
    }
}

#[test]
fn a_server_that_goes_is_counted_and_the_run_ends_in_time() {
    for sharing in [None, Some("--contended")] {
        let place = Place::new();
        let server = place.serve();
        let mut command = leasehold();
        command.args(["load", "--files", "--server", &url(&server), "--clients", "5", "--duration", "2s"]);
        command.args(["--json", "--timeout", "1s"]).args(sharing);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let begun = Instant::now();
        until_more(&server, 40);
        server.kill();
        let output = child.wait_with_output().unwrap();
        assert!(begun.elapsed() < PATIENCE);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let told = told(&output);
        assert!(number(&told, "errors") > 0.0 && number(&told, "appends") > 0.0, "{told}");
        assert_eq!(number(&told, "violations"), 0.0, "{told}");
        assert!(told.get("syncs_per_append").is_none(), "there is nobody to ask: {told}");
    }
}

/// The files below a folder that have at least so many bytes.
fn files_of(folder: &Path, bytes: u64) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(meta) if meta.is_dir() => folders.push(entry.path()),
                Ok(meta) if meta.len() >= bytes => found.push(entry.path()),
                _ => {}
            }
        }
    }
    found
}

#[test]
fn a_byte_that_changes_in_a_file_is_found_out() {
    let place = Place::new();
    let server = place.serve();
    let mut command = leasehold();
    command.args(["load", "--files", "--server", &url(&server), "--clients", "1", "--duration", "1h"]);
    let child = command.arg("--json").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (begun, folder) = (Instant::now(), Path::new(&place.data()).join("files"));
    let file = loop {
        if let Some(file) = files_of(&folder, 2048).pop() {
            break file;
        }
        assert!(begun.elapsed() < PATIENCE, "nobody appends");
        std::thread::sleep(Duration::from_millis(2));
    };
    File::options().write(true).open(file).unwrap().write_all_at(b"\0\0\0\0\0\0\0\0", 500).unwrap();
    let output = interrupt(child);
    assert_eq!(output.status.code(), Some(70), "{output:?}");
    assert_eq!(number(&told(&output), "violations"), 1.0, "{output:?}");
    let said = stderr(&output);
    assert!(
        said.contains("violation: record 0 of load/") && said.contains("is not append 0 of client 0"),
        "{said}"
    );
    let problem: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    assert_eq!(problem["code"], "internal");
}

#[test]
fn certificates_and_tokens_are_shown() {
    let place = Place::new();
    certify(&place);
    write_private(&place, "tokens", TOKEN);
    let (certificate, key, tokens) = (place.text("cert.pem"), place.text("key.pem"), place.text("tokens"));
    let listen = ["--listen", "127.0.0.1:0", "--token-file", &tokens];
    let server = place.serve_with(&[&listen[..], &["--tls-cert", &certificate, "--tls-key", &key]].concat());
    let url = format!("https://localhost:{}", server.address.port());
    let asked =
        ["load", "--files", "--json", "--server", &url, "--protocol", "http", "--ca-file", &certificate];
    let more = ["--clients", "3", "--duration", "500ms", "--token-file", &tokens];
    assert_sound(&run(&[&asked[..], &more].concat()));
    let output = run(&asked);
    assert_eq!(output.status.code(), Some(77), "without a token: {output:?}");
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_asked() {
    for (arguments, word) in [
        (&["--files", "--locks", "3"][..], "--locks"),
        (&["--files", "--hold", "1ms"], "--hold"),
        (&["--files", "--together", "--contended"], "--contended"),
        (&["--files", "--bytes", "63"], "63"),
        (&["--files", "--bytes", "1048577"], "1048577"),
        (&["--together"], "--files"),
        (&["--bytes", "100"], "--files"),
        (&["--file-bytes", "100"], "--files"),
    ] {
        let output = run(&[&["load"], arguments].concat());
        assert_eq!(output.status.code(), Some(64), "{arguments:?}: {output:?}");
        assert!(stderr(&output).contains(word), "{arguments:?}: {}", stderr(&output));
    }
}
