//! What a file may be called and may hold: anything that the contract allows, and no other file for it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

use super::{cat, refused};
use crate::asking::told;
use crate::program::{Place, leasehold, stderr, stdout};

#[test]
fn a_name_is_a_name_whatever_it_looks_like() {
    let place = Place::new();
    let server = place.serve();
    let long = "x".repeat(512);
    let deep = ["d"; 256].join("/");
    let names = [
        "a b",
        "%2e%2e%2fetc",
        "%",
        "a%2Fb",
        "~",
        "-",
        "--json",
        "*?[!]",
        "$(reboot)",
        "'\"",
        "\\",
        "größe/鍵/🔑",
        "e\u{301}",
        "\u{e9}",
        "name:x",
        "path:",
        "range:1:0-2",
        "a:b",
        "...",
        "CON",
        &long,
        &deep,
    ];
    for (number, name) in names.iter().enumerate() {
        let output = server.ask(&["append", "--json", "--", name, &number.to_string()]);
        assert_eq!(output.status.code(), Some(0), "{name}: {}", stderr(&output));
    }
    for (number, name) in names.iter().enumerate() {
        assert_eq!(cat(&server, &["--", name]), format!("{number}\n").into_bytes(), "{name}");
    }
    let listed = told(&server, &["files"]);
    let mut expected = names.to_vec();
    expected.sort_unstable();
    let found: Vec<&str> =
        listed["files"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(found, expected);
    for name in names {
        assert_eq!(server.ask(&["rm", "--", name]).status.code(), Some(0), "{name}");
    }
    let too_long = "x".repeat(513);
    for name in ["/a", "a/", "a//b", "..", "a/../b", ".", "./a", "a\nb", "a\u{1b}[2J", "\u{7f}", &too_long] {
        let problem = refused(&server.ask(&["append", "--json", "--", name, "x"]), 64, "invalid_argument");
        assert!(!problem["detail"].as_str().unwrap().contains('\u{1b}'), "{problem}");
    }
    server.stop();
}

#[test]
fn bytes_that_are_no_text_are_bytes() {
    let place = Place::new();
    let server = place.serve();
    let odd = OsStr::from_bytes(b"\xff\xfe odd \x80");
    let mut command = leasehold();
    command.args(["append", "a", "-n"]).arg(odd).stdin(Stdio::null());
    let output = server.environment(&mut command).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(cat(&server, &["a"]), odd.as_bytes());
    // Names are text.
    let mut command = leasehold();
    command.arg("append").arg(odd).arg("x").stdin(Stdio::null());
    let output = server.environment(&mut command).output().unwrap();
    assert_eq!((output.status.code(), stdout(&output)), (Some(64), String::new()));
    server.stop();
}
