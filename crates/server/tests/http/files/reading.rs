//! Reading: all of a file or a range of it, beside whatever is written.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use super::{Holder, number, pattern, read};
use crate::client::Answer;
use crate::server::{PATIENCE, Server, request};

const MIB: usize = 1024 * 1024;

fn ranged(server: &Server, name: &str, range: &str) -> Answer {
    server.request("GET", &format!("/v1/files/{name}"), &[("Range", range)], b"")
}

/// A file of this length in pieces of a mebibyte.
fn fill<'s>(server: &'s Server, name: &str, length: usize) -> (Holder<'s>, Vec<u8>) {
    let holder = Holder::of(server, &format!("path:/{name}"));
    let bytes = pattern(length);
    for piece in bytes.chunks(MIB) {
        holder.append(name, piece).expect(200);
    }
    (holder, bytes)
}

#[test]
fn a_range_is_answered_alone() {
    let server = Server::start();
    Holder::of(&server, "path:/a").append("a", b"0123456789").expect(200);
    for (range, expected, content_range) in [
        ("bytes=0-0", "0", "bytes 0-0/10"),
        ("bytes=0-9", "0123456789", "bytes 0-9/10"),
        ("bytes=3-5", "345", "bytes 3-5/10"),
        ("bytes=9-9", "9", "bytes 9-9/10"),
        ("bytes=7-", "789", "bytes 7-9/10"),
        ("bytes=0-", "0123456789", "bytes 0-9/10"),
        ("bytes=8-99", "89", "bytes 8-9/10"),
        ("bytes=5-99999999999999999999999", "56789", "bytes 5-9/10"),
        ("bytes=-3", "789", "bytes 7-9/10"),
        ("bytes=-10", "0123456789", "bytes 0-9/10"),
        ("bytes=-99", "0123456789", "bytes 0-9/10"),
        ("Bytes=3-5", "345", "bytes 3-5/10"),
        ("bytes= 3-5 ,", "345", "bytes 3-5/10"),
    ] {
        let answer = ranged(&server, "a", range);
        assert_eq!((answer.status, answer.text().as_str()), (206, expected), "{range}");
        assert_eq!(answer.header("content-range"), Some(content_range), "{range}");
        assert_eq!(number(&answer, "content-length"), expected.len() as u64, "{range}");
        assert_eq!(number(&answer, "leasehold-inode"), 1 << 52);
    }
}

#[test]
fn a_range_beyond_the_end_is_told_how_long_the_file_is() {
    let server = Server::start();
    let holder = Holder::of(&server, "path:/");
    holder.append("a", b"0123456789").expect(200);
    holder.append("empty", b"").expect(200);
    for (name, range, size) in [
        ("a", "bytes=10-", 10),
        ("a", "bytes=10-20", 10),
        ("a", "bytes=99999999999999999999999-", 10),
        ("a", "bytes=-0", 10),
        ("empty", "bytes=0-", 0),
        ("empty", "bytes=0-0", 0),
        ("empty", "bytes=-1", 0),
    ] {
        let answer = ranged(&server, name, range);
        let problem = answer.expect_code(416, "invalid_argument");
        assert_eq!(problem["field"], "Range", "{range}");
        assert_eq!(answer.header("content-range"), Some(format!("bytes */{size}").as_str()), "{range}");
    }
}

#[test]
fn what_is_no_single_range_of_bytes_is_answered_by_everything_or_refused() {
    let server = Server::start();
    Holder::of(&server, "path:/a").append("a", b"0123456789").expect(200);
    for range in ["bytes=0-1,3-4", "bytes=0-1,99-", "lines=0-1", "items=x"] {
        let answer = ranged(&server, "a", range);
        assert_eq!((answer.status, answer.text().as_str()), (200, "0123456789"), "{range}");
        assert_eq!(answer.header("content-range"), None, "{range}");
    }
    for range in ["bytes=", "bytes=-", "bytes=x-y", "bytes=5-3", "bytes=1", "bytes", "0-1", "bytes=+1-2"] {
        ranged(&server, "a", range).expect_invalid("Range");
    }
    let twice = [("Range", "bytes=0-1"), ("Range", "bytes=0-1")];
    server.request("GET", "/v1/files/a", &twice, b"").expect_invalid("Range");
    // Nothing here has a validator, so that no condition on one can hold.
    let conditional = [("Range", "bytes=0-1"), ("If-Range", "\"an-etag\"")];
    let answer = server.request("GET", "/v1/files/a", &conditional, b"");
    assert_eq!((answer.status, answer.text().as_str()), (200, "0123456789"));
}

#[test]
fn what_is_read_is_nobodys_page() {
    let server = Server::start();
    Holder::of(&server, "path:/a.html").append("a.html", b"<script>alert(1)</script>").expect(200);
    let answer = server.get("/v1/files/a.html");
    assert_eq!(answer.header("content-type"), Some("application/octet-stream"));
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    server.request("GET", "/v1/files/a.html", &[], b"{}").expect_invalid("body");
    server.get("/v1/files/a.html?offset=1").expect_invalid("offset");
}

#[test]
fn a_long_file_comes_whole_and_in_any_part() {
    let server = Server::start();
    let length = 3 * MIB + 12_345;
    let (_, bytes) = fill(&server, "a", length);
    assert!(read(&server, "a") == bytes);
    for (from, to) in [
        (0, MIB - 1),
        (0, MIB),
        (MIB - 1, MIB),
        (256 * 1024 - 1, 2 * MIB + 5),
        (5, length - 1),
        (length - 1, length - 1),
        (64 * 1024, 128 * 1024 - 1),
    ] {
        let answer = ranged(&server, "a", &format!("bytes={from}-{to}"));
        assert_eq!(answer.status, 206);
        assert!(answer.bytes() == &bytes[from..=to], "{from}-{to}");
    }
}

#[test]
fn who_reads_sees_each_write_whole_or_not_at_all() {
    let server = Server::start();
    let holder = Holder::of(&server, "path:/a");
    holder.append("a", &vec![0; MIB]).expect(200);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=20_u8 {
                holder.write("a", 0, &vec![round; MIB]).expect(200);
            }
            done.store(true, Ordering::SeqCst);
        });
        let mut last = 0;
        let mut reads = 0;
        while !done.load(Ordering::SeqCst) || reads == 0 {
            let bytes = read(&server, "a");
            assert_eq!(bytes.len(), MIB);
            assert!(bytes.iter().all(|byte| *byte == bytes[0]), "a write was seen in part");
            assert!(bytes[0] >= last, "what was read before is still there");
            last = bytes[0];
            reads += 1;
        }
    });
    assert!(read(&server, "a") == vec![20; MIB]);
}

#[test]
fn who_reads_sees_what_was_acknowledged_and_appends_only_at_the_end() {
    let server = Server::start();
    let holder = Holder::of(&server, "path:/a");
    holder.append("a", b"").expect(200);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for line in 0..200 {
                holder.append("a", format!("{line:05}\n").as_bytes()).expect(200);
                let size = number(&super::head(&server, "a"), "content-length");
                assert_eq!(size, 6 * (line + 1));
            }
            done.store(true, Ordering::SeqCst);
        });
        while !done.load(Ordering::SeqCst) {
            let bytes = read(&server, "a");
            let lines: Vec<&[u8]> = bytes.chunks(6).collect();
            for (place, line) in lines.iter().enumerate() {
                assert_eq!(*line, format!("{place:05}\n").as_bytes());
            }
        }
    });
}

/// A reader of a file that takes the head of its answer and then nothing.
fn stalled(server: &Server, name: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&request("GET", &format!("/v1/files/{name}"), &[], b"")).unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    stream
}

#[test]
fn readers_that_stand_still_stop_neither_writers_nor_other_readers() {
    let server = Server::start();
    // More than the buffers on the way can take.
    let (holder, mut bytes) = fill(&server, "a", 24 * MIB);
    let mut stalled: Vec<_> = (0..20).map(|_| stalled(&server, "a")).collect();
    for _ in 0..5 {
        holder.append("a", b"more").expect(200);
        holder.write("a", 0, b"over").expect(200);
    }
    bytes.extend_from_slice(&b"more".repeat(5));
    bytes[..4].copy_from_slice(b"over");
    assert!(read(&server, "a") == bytes);
    until_readers(&server, 20);
    // Who goes on reading gets the file as long as it was.
    let mut rest = Vec::new();
    let mut slow = stalled.remove(0);
    slow.set_read_timeout(Some(PATIENCE)).unwrap();
    while rest.len() < 24 * MIB {
        let mut some = vec![0; 1 << 16];
        let count = slow.read(&mut some).unwrap();
        assert!(count > 0, "the answer ended early");
        rest.extend_from_slice(&some[..count]);
    }
    let head = rest.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
    rest.drain(..head + 4);
    assert!(rest[4..] == bytes[4..rest.len()]);
    drop((stalled, slow));
    until_readers(&server, 0);
}

/// Waits until there lies something ready for so many.
fn until_readers(server: &Server, count: usize) {
    let line = format!("file_readers {count}");
    let begun = std::time::Instant::now();
    while !server.get("/metrics").text().lines().any(|found| found == line) {
        assert!(begun.elapsed() < PATIENCE, "waited in vain for {line}");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

#[test]
fn a_file_that_is_deleted_while_it_is_read_ends_its_answer_early() {
    let server = Server::start();
    let (holder, _) = fill(&server, "a", 24 * MIB);
    let mut reader = stalled(&server, "a");
    assert_eq!(holder.delete("a").expect(200), json!({"deleted": true}));
    holder.append("a", b"another").expect(200);
    let mut rest = Vec::new();
    // Ended or reset: either way the client sees that it is not all.
    let _ = reader.read_to_end(&mut rest);
    assert!(rest.len() < 24 * MIB, "{}", rest.len());
    assert!(!rest.ends_with(b"another"));
    assert_eq!(read(&server, "a"), b"another");
}
