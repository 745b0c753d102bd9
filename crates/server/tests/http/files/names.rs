//! Names of every kind: each is a file of its own, and none of them is seen by the file system.

use std::path::Path;

use leasehold_server::config::Given;
use serde_json::json;

use super::{Holder, read};
use crate::server::{Server, escaped};

const STRANGE: [&str; 20] = [
    "A",
    "a b",
    "a/b.log",
    "ä/ö",
    "a\u{308}/o",
    "日本語/ログ",
    "🔒",
    "...",
    ".hidden",
    "..hidden/x..",
    "%2F",
    "%2e%2e",
    "con",
    "nul.txt",
    "append",
    "C:\\windows",
    "-rf",
    "$(reboot)",
    "a\"b'c`d",
    "path:/x",
];

const WRONG: [&str; 16] = [
    "",
    "/",
    "/etc/passwd",
    ".",
    "..",
    "../a",
    "a/..",
    "a/../b",
    "a/./b",
    "a/",
    "a//b",
    "a\nb",
    "a\0b",
    "a\u{7f}",
    "a\u{85}",
    "a/..\0",
];

/// Every name under a directory that is neither a number nor the server's own.
fn strangers(directory: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            strangers(&entry.path(), found);
        }
        let own = ["files", "lock"].contains(&name.as_str())
            || ["segment-", "snapshot-"].iter().any(|prefix| name.starts_with(prefix));
        if !own && !name.bytes().all(|byte| byte.is_ascii_digit()) {
            found.push(name);
        }
    }
}

#[test]
fn every_good_name_is_a_file_and_the_disk_sees_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let outside = folder.path().join("outside");
    std::fs::write(&outside, "untouched").unwrap();
    let data = folder.path().join("data");
    let server =
        Server::start_with(Given { data: Some(data.clone()), in_memory: Some(false), ..Given::default() });
    let holder = Holder::of(&server, "path:/");
    let mut names: Vec<String> = STRANGE.iter().map(|name| (*name).to_owned()).collect();
    names.push("x".repeat(512));
    names.push(vec!["y"; 256].join("/") + "z");
    names.push("ü".repeat(256));
    for name in &names {
        holder.append(name, name.as_bytes()).expect(200);
    }
    for name in &names {
        assert_eq!(read(&server, name), name.as_bytes(), "{name}");
    }
    let listed = server.get("/v1/files?limit=1000").expect(200);
    let mut told: Vec<&str> =
        listed["files"].as_array().unwrap().iter().map(|file| file["name"].as_str().unwrap()).collect();
    let mut sorted: Vec<&str> = names.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    assert_eq!(told, sorted, "in order of their bytes");
    told.dedup();
    assert_eq!(told.len(), names.len());

    let mut found = Vec::new();
    strangers(&data, &mut found);
    assert_eq!(found, Vec::<String>::new());
    let files = std::fs::read_dir(data.join("files")).unwrap().count();
    assert_eq!(files, names.len());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    assert_eq!(std::fs::read_to_string(outside).unwrap(), "untouched");
}

#[test]
fn names_that_differ_in_case_are_two() {
    let server = Server::start();
    let holder = Holder::of(&server, "path:/");
    holder.append("Report", b"upper").expect(200);
    holder.append("report", b"lower").expect(200);
    assert_eq!((read(&server, "Report"), read(&server, "report")), (b"upper".to_vec(), b"lower".to_vec()));
}

#[test]
fn every_wrong_name_is_refused_by_name() {
    let server = Server::start();
    let holder = Holder::of(&server, "path:/");
    let long = ["x".repeat(513), "ü".repeat(257), "x".repeat(5000), vec!["y"; 257].join("/")];
    for name in WRONG.iter().copied().chain(long.iter().map(String::as_str)) {
        holder.append(name, b"?").expect_invalid("name");
        holder.write(name, 0, b"?").expect_invalid("name");
        holder.delete(name).expect_invalid("name");
        server.get(&format!("/v1/files/{}", escaped(name))).expect_invalid("name");
        let head = server.request("HEAD", &format!("/v1/files/{}", escaped(name)), &[], b"");
        assert_eq!(head.status, 400, "{name:?}");
    }
    for segment in ["%", "%4", "%zz", "%ff", "%C3", ".."] {
        server.get(&format!("/v1/files/{segment}")).expect_invalid("name");
    }
    assert_eq!(server.get("/v1/files").expect(200), json!({"files": []}));
}
