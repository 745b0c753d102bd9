//! Names that no program gives, in every encoding there is for them: each is refused by its field or taken as exactly
//! what it says, and none of them reaches another lock or a file.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use super::life::Life;
use crate::program::{PATIENCE, Place, Server};

/// Path segments as bytes on the wire. None of them is a name.
const REFUSED: &[&[u8]] = &[
    b"%",
    b"%0",
    b"%zz",
    b"%u0061",
    b"%00",
    b"a%00b",
    b"%0a",
    b"a%0d%0ab",
    b"%1f",
    b"%7f",
    b"%c2%80",
    b"%c2%9f",
    b"%ff",
    b"%fe%ff",
    b"%c0%80",
    b"%c0%af",
    b"%c1%bf",
    b"%e0%80%af",
    b"%e0%9f%bf",
    b"%f0%80%80%af",
    b"%f0%8f%bf%bf",
    b"%ed%a0%80",
    b"%ed%bf%bf",
    b"%ed%a0%80%ed%b0%80",
    b"%f4%90%80%80",
    b"%f5%80%80%80",
    b"%f8%88%80%80%80",
    b"%fc%84%80%80%80%80",
    b"%c3",
    b"%c3%28",
    b"%e2%82",
    b"%f0%9f%92",
    b"a%80",
    b"%80",
    b".",
    b"..",
    b"%2e",
    b"%2e%2e",
    b"%2E.",
    b"path:%2f..%2fa",
    b"path:%2fa%2f%2e%2e",
    b"path:%2f%2e",
    b"path:%2fa%00",
    b"path:%2fa%2f%2f",
    b"path:%2fa%2f",
    b"path:a",
    b"path:",
    b"path:%5c",
    b"name:",
    b"name:%00",
    b"name:..",
    b"name:path:%2fa",
    b"file:a",
    b"sem:a",
    b"set:a",
    b"ns:a",
    b"key:a",
    b"any:a",
    b"%66ile:a",
    b"inode:",
    b"inode:-1",
    b"inode:+1",
    b"inode:0x1",
    b"inode:01",
    b"inode:1e3",
    b"inode:%d9%a1",
    b"inode:9223372036854775808",
    b"range:1:0-",
    b"range:1:5-1",
    b"range:1:0-0",
    b"range:1:00-1",
    b"range:1:0-9223372036854775808",
    b"range:1",
    b"%EF%BB%BF%00",
];

/// Segments that are names, and what they name: nothing is folded, trimmed, joined or decoded twice.
const TAKEN: &[(&[u8], &str)] = &[
    (b"%2541", "%41"),
    (b"%252e%252e", "%2e%2e"),
    (b"%25%30%30", "%00"),
    (b"..%2f..%2fetc%2fpasswd", "../../etc/passwd"),
    (b"%5c..%5c", "\\..\\"),
    (b"+", "+"),
    (b"%20", " "),
    (b"a%3Fb%23c%26", "a?b#c&"),
    (b"e%cc%81", "e\u{301}"),
    (b"%c3%a9", "\u{e9}"),
    (b"%e2%80%ae", "\u{202e}"),
    (b"%ef%bb%bf", "\u{feff}"),
    (b"%ef%bf%bf", "\u{ffff}"),
    (b"%f4%8f%bf%bf", "\u{10ffff}"),
    (b"%3cscript%3e", "<script>"),
    (b"a%27%3b--", "a';--"),
    (b"...", "..."),
    (b"FILE:a", "FILE:a"),
];

fn ask(server: &Server, bytes: &[u8]) -> Option<(u16, Value)> {
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let text = String::from_utf8(answer).unwrap();
    let status = text.split(' ').nth(1)?.parse().ok()?;
    let body = text.split_once("\r\n\r\n")?.1;
    Some((status, serde_json::from_str(body).unwrap_or(Value::Null)))
}

fn get(server: &Server, segment: &[u8], query: &[u8]) -> Option<(u16, Value)> {
    let end = b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    ask(server, &[b"GET /v1/locks/", segment, query, end].concat())
}

fn acquire(server: &Server, segment: &[u8], body: &[u8]) -> Option<(u16, Value)> {
    let head = format!(
        "/acquire HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    ask(server, &[b"POST /v1/locks/", segment, head.as_bytes(), body].concat())
}

#[test]
fn hostile_names_are_refused_or_mean_what_they_say() {
    let place = Place::new();
    let server = place.serve();
    let life = Life::beside(&server);
    for name in REFUSED {
        let shown = String::from_utf8_lossy(name);
        let query = [b"?lock=", *name].concat();
        let answers = [
            get(&server, name, b""),
            get(&server, b"~", &query),
            acquire(&server, name, br#"{"owner_id":"w"}"#),
        ];
        for answer in answers {
            let (status, body) = answer.unwrap_or_else(|| panic!("{shown} was not answered"));
            assert_eq!((status, &body["field"]), (400, &json!("lock")), "{shown}: {body}");
        }
    }
    for (name, meant) in TAKEN {
        let (status, body) = get(&server, name, b"").unwrap();
        assert_eq!((status, &body["lock"]), (200, &json!(meant)), "{meant}");
        let (status, body) = acquire(&server, name, br#"{"owner_id":"w"}"#).unwrap();
        assert_eq!((status, &body["lock"]), (200, &json!(meant)), "{meant}: {body}");
    }
    // Bytes that are no URL at all: refused somewhere, and not with a 500.
    for raw in
        [&b"\xff\xfe"[..], b"\0", b"a\x01b", b"a\x7f", b"a b", b"\xc0\xaf", b"\xed\xa0\x80", b"a\rb", b"a\nb"]
    {
        if let Some((status, _)) = get(&server, raw, b"") {
            assert!((400..500).contains(&status), "{status} to {raw:?}");
        }
    }
    // In JSON and in headers.
    for owner in [
        &br#""a\u0000""#[..],
        br#""\ud800""#,
        br#""\udc00\ud800""#,
        b"\"\xc0\xaf\"",
        b"\"\xff\"",
        b"\"\0\"",
        br#""\x41""#,
    ] {
        let body = [b"{\"owner_id\":", owner, b"}"].concat();
        let (status, body) = acquire(&server, b"free", &body).unwrap();
        assert_eq!(status, 400, "{body}");
    }
    assert_eq!(server.client().get_lock("free")["state"], "free");
    life.finish(&server);
    // What was named stayed a name.
    let mut listed: Vec<_> =
        fs::read_dir(place.path("data")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    listed.retain(|name| {
        let name = name.to_str().unwrap();
        name != "lock" && !name.starts_with("segment-") && !name.starts_with("snapshot-")
    });
    assert_eq!(listed, ["files"]);
    assert_eq!(fs::read_dir(place.path("data").join("files")).unwrap().count(), 0);
    server.stop();
}
