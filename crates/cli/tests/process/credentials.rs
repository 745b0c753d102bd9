//! Certificates and tokens: what is asked for, what is read again on SIGHUP, and what never shows.

use std::fs::{self, Permissions};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;
use tokio_rustls::rustls::{ClientConnection, StreamOwned};

use crate::client::{Client, proof, trusting};
use crate::hostile::frames::{END_HEADERS, END_STREAM, HEADERS, SETTINGS, frame, request};
use crate::program::{PATIENCE, Place, Server, run, stderr, stdout};

const LISTEN: [&str; 2] = ["--listen", "127.0.0.1:0"];
pub const TOKEN: &str = "correct-horse-battery-staple";

/// Puts a new certificate for localhost and its key where the server finds them; what clients are to trust.
pub fn certify(place: &Place) -> String {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    write_private(place, "cert.pem", &made.cert.pem());
    write_private(place, "key.pem", &made.signing_key.serialize_pem());
    made.cert.pem()
}

pub fn write_private(place: &Place, name: &str, text: &str) {
    fs::write(place.path(name), text).unwrap();
    fs::set_permissions(place.path(name), Permissions::from_mode(0o600)).unwrap();
}

fn serve(place: &Place, more: &[&str]) -> Server {
    place.serve_with(&[&LISTEN, more].concat())
}

/// Waits until the log says this so many times.
fn until_logged(place: &Place, what: &str, times: usize) {
    let begun = Instant::now();
    while fs::read_to_string(place.path("stderr")).unwrap().matches(what).count() < times {
        assert!(begun.elapsed() < PATIENCE, "{what} was never logged");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn healthy(mut client: Client) -> io::Result<u16> {
    client.call("GET", "/healthz", None).map(|(status, _)| status)
}

#[test]
fn a_new_certificate_is_taken_on_sighup_and_nobody_is_cut_off() {
    let place = Place::new();
    let old = certify(&place);
    let server = serve(&place, &["--tls-cert", &place.text("cert.pem"), "--tls-key", &place.text("key.pem")]);
    assert!(server.lines[0].contains("listening on https://"), "{:?}", server.lines);
    let mut client = server.client().trust(&old);
    let lease = client.acquire("a", &json!({"owner_id": "w"}));
    assert!(healthy(server.client()).is_err(), "without TLS nobody is answered");

    let new = certify(&place);
    server.signal(Signal::HUP);
    until_logged(&place, "took the certificate", 1);
    client.expect(200, "POST", "/v1/locks/a/renew", Some(&proof(&lease)));
    assert_eq!(healthy(server.client().trust(&new)).unwrap(), 200);
    assert!(healthy(server.client().trust(&old)).is_err(), "new connections see the new one");

    // A bad file changes nothing but the log.
    fs::write(place.path("cert.pem"), "not a certificate").unwrap();
    server.signal(Signal::HUP);
    until_logged(&place, "the old certificate stays", 1);
    assert_eq!(healthy(server.client().trust(&new)).unwrap(), 200);
    client.expect(200, "POST", "/v1/locks/a/release", Some(&proof(&lease)));
    server.stop();
}

#[test]
fn both_protocols_are_spoken_under_tls() {
    let place = Place::new();
    let pem = certify(&place);
    let server = serve(&place, &["--tls-cert", &place.text("cert.pem"), "--tls-key", &place.text("key.pem")]);
    for (offered, chosen) in
        [(&[&b"h2"[..], b"http/1.1"][..], Some(&b"h2"[..])), (&[b"http/1.1"], Some(b"http/1.1")), (&[], None)]
    {
        let mut config = trusting(&pem);
        config.alpn_protocols = offered.iter().map(|name| name.to_vec()).collect();
        let tls = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
        let stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut stream = StreamOwned::new(tls, stream);
        let healthy: &[u8] = match chosen {
            Some(b"h2") => &[
                b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
                frame(SETTINGS, 0, 0, &[]),
                frame(HEADERS, END_HEADERS | END_STREAM, 1, &request("GET", "/healthz")),
            ]
            .concat(),
            _ => b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
        };
        stream.write_all(healthy).unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(br#"{"status":"ok"}"#) {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            answer.push(byte[0]);
        }
        assert_eq!(stream.conn.alpn_protocol(), chosen);
    }
    server.stop();
}

#[test]
fn a_certificate_for_development_is_made_once_and_told_of() {
    let place = Place::new();
    let told = |server: &Server| {
        let line = server.lines.iter().find_map(|line| line.split_once("SHA-256 ")).unwrap().1.to_owned();
        let path = server.lines.iter().find_map(|line| line.split_once("--cacert ")).unwrap().1.to_owned();
        (line, path)
    };
    let server = serve(&place, &["--dev-tls"]);
    let first = told(&server);
    let pem = fs::read_to_string(&first.1).unwrap();
    assert_eq!(healthy(server.client().trust(&pem)).unwrap(), 200);
    assert!(server.lines.last().unwrap().contains(&format!("curl --cacert {}", first.1)));
    server.stop();
    let server = serve(&place, &["--dev-tls"]);
    assert_eq!(told(&server), first, "clients that trust it go on trusting it");
    server.stop();

    let check = run(&["journal", "check", "--data", &place.data()]);
    assert_eq!(check.status.code(), Some(0), "{}", stderr(&check));
    let server = serve(&Place::new(), &["--dev-tls", "--in-memory"]);
    assert!(server.lines.iter().any(|line| line.contains("SHA-256 ")), "{:?}", server.lines);
    assert!(server.lines.last().unwrap().contains("curl --insecure"));
    server.stop();
}

#[test]
fn a_server_with_a_token_file_asks_for_a_token() {
    let place = Place::new();
    write_private(&place, "tokens", &format!("# ours\n{TOKEN}\nanother-token-00001 # for backups\n"));
    let server = serve(&place, &["--token-file", &place.text("tokens"), "--log-level", "trace"]);
    let ask = |token: Option<&str>, method: &str, path: &str, body| {
        let client = server.client();
        let mut client = token.map_or_else(|| server.client(), |token| client.show(token));
        client.call(method, path, body).unwrap()
    };
    let acquire = json!({"owner_id": "w"});
    for token in [None, Some("wrong-horse-battery-staple"), Some(&TOKEN[1..]), Some("")] {
        let (status, answer) = ask(token, "POST", "/v1/locks/a/acquire", Some(&acquire));
        assert_eq!((status, &answer["code"]), (401, &json!("unauthenticated")), "{answer}");
        for path in ["/", "/metrics", "/v1/locks", "/v1/locks/a", "/version", "/openapi.json", "/nowhere"] {
            assert_eq!(ask(token, "GET", path, None).0, 401, "{path}");
        }
        for path in ["/healthz", "/readyz"] {
            assert_eq!(ask(token, "GET", path, None).0, 200, "{path}");
        }
    }
    for (lock, token) in [("a", TOKEN), ("b", "another-token-00001")] {
        ask(Some(token), "GET", "/metrics", None);
        assert_eq!(ask(Some(token), "POST", &format!("/v1/locks/{lock}/acquire"), Some(&acquire)).0, 200);
    }

    // One is taken away and one comes, without a restart. What is open stays open, and asks again.
    let mut kept = server.client().show(TOKEN);
    kept.get_lock("a");
    write_private(&place, "tokens", "a-third-token-00001\n");
    server.signal(Signal::HUP);
    until_logged(&place, "took 1 token", 1);
    assert_eq!(ask(Some("a-third-token-00001"), "GET", "/v1/locks/a", None).0, 200);
    kept.expect(401, "GET", "/v1/locks/a", None);
    write_private(&place, "tokens", "\n");
    server.signal(Signal::HUP);
    until_logged(&place, "the old tokens stay", 1);
    assert_eq!(ask(Some("a-third-token-00001"), "GET", "/v1/locks/a", None).0, 200);
    server.stop();

    let log = fs::read_to_string(place.path("stderr")).unwrap();
    for secret in [TOKEN, &TOKEN[1..], "another-token", "a-third-token", "wrong-horse"] {
        assert!(!log.contains(secret), "the log shows a token: {log}");
    }
}

#[test]
fn a_file_of_secrets_that_everybody_may_read_is_warned_of() {
    let place = Place::new();
    certify(&place);
    write_private(&place, "tokens", TOKEN);
    let (cert, key, tokens) = (place.text("cert.pem"), place.text("key.pem"), place.text("tokens"));
    let secure = ["--tls-cert", &cert, "--tls-key", &key, "--token-file", &tokens];
    serve(&place, &secure).stop();
    assert!(!fs::read_to_string(place.path("stderr")).unwrap().contains("WARN"));
    for name in ["tokens", "key.pem"] {
        fs::set_permissions(place.path(name), Permissions::from_mode(0o644)).unwrap();
    }
    serve(&place, &secure).stop();
    let log = fs::read_to_string(place.path("stderr")).unwrap();
    for path in [&key, &tokens] {
        assert!(log.contains(&format!("chmod 600 {path}")), "{log}");
    }
}

#[test]
fn beyond_loopback_only_with_tls_and_a_token() {
    let place = Place::new();
    let pem = certify(&place);
    write_private(&place, "tokens", TOKEN);
    let (cert, key, tokens) = (place.text("cert.pem"), place.text("key.pem"), place.text("tokens"));
    let data = place.data();
    let all = ["--data", &data, "--listen", "0.0.0.0:0"];
    let (tls, token) = (["--tls-cert", &*cert, "--tls-key", &*key], ["--token-file", &*tokens]);
    for (given, without) in [
        (&[][..], "without encryption or authentication"),
        (&tls[..], "without authentication"),
        (&token[..], "without encryption:"),
    ] {
        let output = run(&[&["serve"], &all[..], given].concat());
        assert_eq!((output.status.code(), stdout(&output)), (Some(64), String::new()));
        assert!(stderr(&output).contains(without) && stderr(&output).contains("--insecure"));
    }
    let server = place.serve_with(&[&all[..], &tls, &token].concat());
    let here = (std::net::Ipv4Addr::LOCALHOST, server.address.port()).into();
    let mut client = Client::new(here).trust(&pem).show(TOKEN);
    client.acquire("a", &json!({"owner_id": "w"}));
    server.stop();
}

#[test]
fn what_is_wrong_with_a_file_is_said_in_a_sentence() {
    let place = Place::new();
    certify(&place);
    write_private(&place, "empty", "\n");
    write_private(&place, "secret", "not a single-word-token");
    let (cert, key, empty) = (place.text("cert.pem"), place.text("key.pem"), place.text("empty"));
    let (secret, missing) = (place.text("secret"), place.text("missing"));
    let data = place.data();
    for (given, said) in [
        (&["--tls-cert", &*cert][..], "tls_key"),
        (&["--tls-key", &*key], "tls_cert"),
        (&["--tls-cert", &*cert, "--tls-key", &*key, "--dev-tls"], "choose one"),
        (&["--tls-cert", &*key, "--tls-key", &*key], "no certificate"),
        (&["--tls-cert", &*cert, "--tls-key", &*cert], "no unencrypted private key"),
        (&["--tls-cert", &*missing, "--tls-key", &*key], &missing),
        (&["--token-file", &*missing], &missing),
        (&["--token-file", &*empty], "no token"),
        (&["--token-file", &*secret], "line 1"),
    ] {
        let output = run(&[&["serve", "--data", &data], &LISTEN[..], given].concat());
        assert_eq!(output.status.code(), Some(64), "{given:?}");
        let sentence = stderr(&output);
        assert!(sentence.contains(said) && !sentence.contains("single-word"), "{given:?}: {sentence}");
        assert_eq!(sentence.trim_end().lines().count(), 1, "{sentence}");
    }
}

#[test]
fn settings_name_files_and_never_what_is_in_them() {
    let place = Place::new();
    write_private(&place, "tokens", TOKEN);
    let output = run(&["serve", "--print-config", "--token-file", &place.text("tokens")]);
    assert!(stdout(&output).contains(&format!("token_file = \"{}\"", place.text("tokens"))));
    assert!(!stdout(&output).contains(TOKEN));
    let help = stdout(&run(&["serve", "--help"]));
    assert!(help.contains("--token-file <FILE>") && !help.contains("--token "), "{help}");
}
