//! `leasehold load`: measures over each protocol and checks meanwhile, tells it to people and programs, and bears a server
//! that goes.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::credentials::{TOKEN, certify, write_private};
use crate::program::{PATIENCE, Place, Server, leasehold, run, stderr, stdout};
use crate::terminal::open_terminal;

pub const PROTOCOLS: [&str; 3] = ["http", "grpc", "stream"];

pub fn url(server: &Server) -> String {
    format!("http://{}", server.address)
}

pub fn load(server: &Server, more: &[&str]) -> Output {
    run(&[&["load", "--server", &url(server)], more].concat())
}

/// The one object that was printed.
pub fn told(output: &Output) -> Value {
    let text = stdout(output);
    assert_eq!(text.lines().count(), 1, "{text}\n{}", stderr(output));
    serde_json::from_str(&text).unwrap()
}

pub fn members(object: &Value) -> Vec<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}

pub fn number(object: &Value, member: &str) -> f64 {
    object[member].as_f64().unwrap_or_else(|| panic!("{member} in {object}"))
}

/// The figures belong together, and nothing was wrong.
fn assert_sound(told: &Value) {
    assert_eq!((number(told, "errors"), number(told, "violations")), (0.0, 0.0), "{told}");
    let (cycles, seconds) = (number(told, "cycles"), number(told, "seconds"));
    assert!(cycles > 0.0 && told["cycles"].is_u64(), "{told}");
    assert!((number(told, "cycles_per_second") - cycles / seconds).abs() <= 0.1 + cycles / 1000.0, "{told}");
    let latency = &told["latency_us"];
    assert_eq!(members(latency), ["max", "p50", "p90", "p99", "p999"], "{told}");
    let rising = ["p50", "p90", "p99", "p999", "max"].map(|member| latency[member].as_u64().unwrap());
    assert!(rising[0] > 0 && rising.is_sorted(), "{told}");
}

pub fn locks_held(server: &Server) -> u64 {
    let (_, list) = server.client().call("GET", "/v1/locks", None).unwrap();
    list["locks"].as_array().unwrap().len() as u64
}

#[test]
fn each_protocol_is_measured_and_leaves_nothing_behind() {
    let place = Place::new();
    let server = place.serve();
    for protocol in PROTOCOLS {
        let output = load(
            &server,
            &["--json", "--clients", "8", "--duration", "1s", "--protocol", protocol, "--ttl", "short"],
        );
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let told = told(&output);
        assert_eq!(
            members(&told),
            ["cycles", "cycles_per_second", "errors", "latency_us", "seconds", "violations"]
        );
        assert_sound(&told);
        assert!(number(&told, "seconds") >= 1.0);
        assert_eq!(stderr(&output), "", "nobody is at a terminal");
        assert_eq!(locks_held(&server), 0, "{protocol}");
    }
}

#[test]
fn one_lock_that_all_want_goes_round() {
    let place = Place::new();
    let server = place.serve();
    for protocol in PROTOCOLS {
        let hold = ["--clients", "6", "--duration", "1s", "--hold", "2ms"];
        let output = load(&server, &[&["--contended", "--json", "--protocol", protocol], &hold[..]].concat());
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let told = told(&output);
        assert_sound(&told);
        assert!(number(&told, "holder_changes_per_second") > 0.0, "{told}");
        let wait = &told["wait_us"];
        assert_eq!(members(wait), ["longest", "median"]);
        assert!(wait["median"].as_u64().unwrap() <= wait["longest"].as_u64().unwrap(), "{told}");
        // In line behind five others, each of whom holds it for 2 ms.
        assert!(wait["longest"].as_u64().unwrap() >= 10_000, "{told}");
        assert_eq!(locks_held(&server), 0, "{protocol}");
    }
}

#[test]
fn fewer_locks_than_clients_are_shared_and_more_are_all_used() {
    let place = Place::new();
    let server = place.serve();
    for locks in ["3", "64"] {
        let output = load(
            &server,
            &["--json", "--clients", "8", "--locks", locks, "--duration", "1s", "--prefix", "of many/ü"],
        );
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_sound(&told(&output));
    }
}

#[test]
fn people_get_figures_bars_and_a_picture() {
    let place = Place::new();
    let server = place.serve();
    let plot = place.text("load.svg");
    let output = load(&server, &["--clients", "4", "--duration", "1s", "--plot", &plot]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = stdout(&output);
    assert!(text.starts_with("4 clients over a gRPC stream, 4 locks\n"), "{text}");
    for part in ["cycles ", "latency ", "errors       none", "violations   none", "█"] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    assert!(!text.contains('\x1b'), "colours are for terminals");
    let picture = fs::read_to_string(plot).unwrap();
    assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"));
    assert!(picture.contains("<polyline") && picture.contains("4 clients over a gRPC stream, 4 locks"));
}

#[test]
fn progress_is_for_whoever_sits_at_the_terminal() {
    let place = Place::new();
    let server = place.serve();
    let (mut terminal, inside) = open_terminal();
    let mut command = leasehold();
    command.args(["load", "--server", &url(&server), "--clients", "2", "--duration", "1s", "--json"]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(inside).spawn().unwrap();
    drop(command);
    let mut shown = Vec::new();
    let _ = terminal.read_to_end(&mut shown);
    let shown = String::from_utf8(shown).unwrap();
    assert!(shown.contains("of 1s") && shown.contains("cycles a second"), "{shown:?}");
    assert!(shown.ends_with("\r\x1b[K"), "nothing is left of it: {shown:?}");
    assert_sound(&told(&child.wait_with_output().unwrap()));
}

#[test]
fn a_server_that_goes_is_counted_and_the_run_ends_in_time() {
    for (protocol, contended) in
        [("http", false), ("grpc", false), ("stream", false), ("stream", true), ("http", true)]
    {
        let place = Place::new();
        let server = place.serve();
        let mut command = leasehold();
        command.args(["load", "--server", &url(&server), "--clients", "5", "--duration", "2s", "--json"]);
        command.args(["--protocol", protocol, "--timeout", "1s"]);
        command.args(contended.then_some("--contended"));
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let begun = Instant::now();
        let mut client = server.client();
        while client.get_lock("nobodys")["seq"].as_u64().unwrap() < 40 {
            assert!(begun.elapsed() < PATIENCE, "the load does not begin");
            std::thread::sleep(Duration::from_millis(2));
        }
        server.kill();
        let output = child.wait_with_output().unwrap();
        assert!(begun.elapsed() < PATIENCE, "{protocol}");
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let told = told(&output);
        assert!(number(&told, "errors") > 0.0 && number(&told, "cycles") > 0.0, "{protocol}: {told}");
        assert_eq!(number(&told, "violations"), 0.0, "{told}");
    }
}

#[test]
fn a_server_that_comes_back_is_driven_on() {
    let place = Place::new();
    let server = place.serve();
    let listen = server.address.to_string();
    let mut command = leasehold();
    command.args(["load", "--server", &url(&server), "--clients", "4", "--duration", "6s", "--ttl", "1s"]);
    let child = command.args(["--json", "--protocol", "http"]).stdout(Stdio::piped()).spawn().unwrap();
    let wait_for = |server: &Server, more: u64| {
        let mut client = server.client();
        let seq = |client: &mut crate::client::Client| client.get_lock("nobodys")["seq"].as_u64().unwrap();
        let (begun, before) = (Instant::now(), seq(&mut client));
        while seq(&mut client) < before + more {
            assert!(begun.elapsed() < PATIENCE, "nobody asks");
            std::thread::sleep(Duration::from_millis(2));
        }
    };
    wait_for(&server, 40);
    server.kill();
    let server = place.serve_with(&["--listen", &listen]);
    wait_for(&server, 40);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let told = told(&output);
    assert!(number(&told, "errors") > 0.0, "{told}");
    assert_eq!(number(&told, "violations"), 0.0, "{told}");
}

#[test]
fn without_a_server_it_says_so() {
    let place = Place::new();
    let server = place.serve();
    let url = url(&server);
    server.stop();
    for protocol in PROTOCOLS {
        let output = run(&["load", "--server", &url, "--protocol", protocol, "--timeout", "2s"]);
        assert_eq!(output.status.code(), Some(69), "{output:?}");
        assert_eq!(stdout(&output), "");
        let sentence = stderr(&output);
        assert!(sentence.contains(&url) && sentence.contains("could not put load on"), "{sentence}");
    }
}

#[test]
fn certificates_and_tokens_are_shown_over_each_protocol() {
    let place = Place::new();
    certify(&place);
    write_private(&place, "tokens", TOKEN);
    let (certificate, key, tokens) = (place.text("cert.pem"), place.text("key.pem"), place.text("tokens"));
    let listen = ["--listen", "127.0.0.1:0", "--token-file", &tokens];
    let server = place.serve_with(&[&listen[..], &["--tls-cert", &certificate, "--tls-key", &key]].concat());
    let url = format!("https://localhost:{}", server.address.port());
    for protocol in PROTOCOLS {
        let asked = ["load", "--server", &url, "--protocol", protocol, "--ca-file", &certificate];
        let output =
            run(&[&asked[..], &["--clients", "3", "--duration", "1s", "--json", "--token-file", &tokens]]
                .concat());
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_sound(&told(&output));
        let output = run(&asked);
        assert_eq!(output.status.code(), Some(77), "without a token: {output:?}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_asked() {
    for (arguments, word) in [
        (&["--hold", "5s", "--ttl", "10s"][..], "--hold"),
        (&["--contended", "--locks", "3"], "--locks"),
        (&["--duration", "0s"], "--duration"),
        (&["--duration", "20"], "20"),
        (&["--clients", "0"], "0"),
        (&["--protocol", "carrier-pigeon"], "carrier-pigeon"),
    ] {
        let output = run(&[&["load"], arguments].concat());
        assert_eq!(output.status.code(), Some(64), "{arguments:?}: {output:?}");
        assert!(stderr(&output).contains(word), "{arguments:?}: {}", stderr(&output));
    }
    let output = run(&["load", "--plot", "/nowhere/at/all.svg"]);
    assert!(stderr(&output).contains("/nowhere/at/all.svg"), "{output:?}");
}

#[test]
fn an_interrupt_ends_it_early_with_what_there_is() {
    let place = Place::new();
    let server = place.serve();
    let mut command = leasehold();
    command.args(["load", "--server", &url(&server), "--clients", "4", "--duration", "1h", "--json"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut client = server.client();
    let begun = Instant::now();
    while client.get_lock("nobodys")["seq"].as_u64().unwrap() < 40 {
        assert!(begun.elapsed() < PATIENCE, "the load does not begin");
        std::thread::sleep(Duration::from_millis(2));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert!(number(&told(&output), "cycles") > 0.0, "{output:?}");
    assert_eq!(locks_held(&server), 0);
}

/// A server that grants everything to everybody, under one token.
fn serve_anything() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer =
        r#"{"lease_id":"x","fencing_token":7,"ttl_ms":30000,"renew_after_ms":10000,"stop_after_ms":15000}"#;
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{answer}", answer.len());
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let answer = answer.clone();
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream);
                let (mut line, mut length) = (String::new(), 0);
                while reader.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
                    if let Some(text) = line.strip_prefix("content-length: ") {
                        length = text.trim().parse().unwrap();
                    }
                    if line == "\r\n" {
                        reader.read_exact(&mut vec![0; length]).unwrap();
                        reader.get_mut().write_all(answer.as_bytes()).unwrap();
                    }
                    line.clear();
                }
            });
        }
    });
    url
}

#[test]
fn a_server_that_lets_two_in_at_once_is_found_out() {
    let url = serve_anything();
    let asked =
        ["load", "--server", &url, "--protocol", "http", "--contended", "--clients", "3", "--hold", "5ms"];
    let output = run(&[&asked[..], &["--duration", "1s", "--json"]].concat());
    assert_eq!(output.status.code(), Some(70), "{output:?}");
    assert!(number(&told(&output), "violations") > 0.0);
    let said = stderr(&output);
    assert!(said.contains("believed at once") && said.contains("under the token 7 after"), "{said}");
    let problem: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    assert_eq!(problem["code"], "internal");
}
