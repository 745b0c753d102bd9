//! What is written is there, with exactly the answers that the contract names.

use serde_json::json;

use super::{Holder, head, number, read};
use crate::client::{Pending, keys};
use crate::server::{Server, request};

#[test]
fn an_append_makes_the_file_and_goes_to_its_end() {
    let server = Server::start();
    let holder = Holder::of(&server, "path:/a.log");
    let first = holder.append("a.log", b"hello ").expect(200);
    assert_eq!(first, json!({"offset": 0, "length": 6, "size": 6}));
    assert_eq!(holder.append("a.log", b"world").expect(200), json!({"offset": 6, "length": 5, "size": 11}));
    assert_eq!(read(&server, "a.log"), b"hello world");
}

#[test]
fn a_write_goes_to_its_offset() {
    let server = Server::start();
    let holder = Holder::of(&server, "path:/a");
    holder.write("a", 0, b"0123456789").expect(200);
    assert_eq!(holder.write("a", 2, b"xy").expect(200), json!({"offset": 2, "length": 2, "size": 10}));
    assert_eq!(holder.write("a", 8, b"abcd").expect(200), json!({"offset": 8, "length": 4, "size": 12}));
    assert_eq!(holder.write("a", 12, b"!").expect(200), json!({"offset": 12, "length": 1, "size": 13}));
    assert_eq!(read(&server, "a"), b"01xy4567abcd!");
}

#[test]
fn a_write_of_nothing_makes_an_empty_file() {
    let server = Server::start();
    let holder = Holder::of(&server, "path:/");
    assert_eq!(holder.append("a", b"").expect(200), json!({"offset": 0, "length": 0, "size": 0}));
    assert_eq!(holder.write("b", 0, b"").expect(200), json!({"offset": 0, "length": 0, "size": 0}));
    for name in ["a", "b"] {
        assert_eq!(read(&server, name), b"");
        assert_eq!(number(&head(&server, name), "content-length"), 0);
    }
}

#[test]
fn bytes_are_taken_as_they_are_whatever_they_are_said_to_be() {
    let server = Server::start();
    let holder = Holder::of(&server, "path:/a");
    let all: Vec<u8> = (0..=255).collect();
    let mut expected = Vec::new();
    for media_type in ["application/json", "application/x-www-form-urlencoded", "text/plain", "", "x"] {
        let mut headers = crate::server::lease_headers(&holder.lease, "");
        headers.push(("Content-Type", media_type.to_owned()));
        let headers = crate::server::borrowed(&headers);
        server.request("POST", "/v1/files/a/append", &headers, &all).expect(200);
        expected.extend_from_slice(&all);
    }
    assert_eq!(read(&server, "a"), expected);
}

#[test]
fn a_chunked_body_is_one_write() {
    let server = Server::start();
    let holder = Holder::of(&server, "path:/a");
    let mut headers = crate::server::lease_headers(&holder.lease, "");
    headers.push(("Transfer-Encoding", "chunked".to_owned()));
    let headers = crate::server::borrowed(&headers);
    let chunks = b"5\r\nhello\r\n1\r\n \r\n5\r\nworld\r\n0\r\n\r\n";
    let answer = server.request("POST", "/v1/files/a/append", &headers, chunks).expect(200);
    assert_eq!(answer, json!({"offset": 0, "length": 11, "size": 11}));
    assert_eq!(read(&server, "a"), b"hello world");
}

#[test]
fn head_tells_size_inode_and_token() {
    let server = Server::start();
    let holder = Holder::of(&server, "path:/a");
    holder.append("a", b"hello").expect(200);
    let answer = head(&server, "a");
    assert_eq!((answer.status, answer.bytes()), (200, &b""[..]));
    assert_eq!(number(&answer, "content-length"), 5);
    assert_eq!(number(&answer, "leasehold-inode"), 1 << 52);
    assert_eq!(number(&answer, "leasehold-token"), holder.lease["fencing_token"].as_u64().unwrap());
    assert_eq!(answer.header("accept-ranges"), Some("bytes"));
    // A range is for those who want bytes.
    let ranged = server.request("HEAD", "/v1/files/a", &[("Range", "bytes=9-")], b"");
    assert_eq!((ranged.status, number(&ranged, "content-length")), (200, 5));
    // The length of a body that does not come confuses nobody on the same connection.
    let mut connection = Pending::send(server.address, &request("HEAD", "/v1/files/a", &[], b""));
    assert_eq!(connection.next().unwrap().status, 200);
    connection.send_more(&request("HEAD", "/v1/files/a", &[], b""));
    assert_eq!(number(&connection.next().unwrap(), "content-length"), 5);
}

#[test]
fn the_token_is_that_of_the_last_writer() {
    let server = Server::start();
    let mut last = 0;
    for _ in 0..3 {
        let holder = Holder::of(&server, "path:/a");
        holder.append("a", b"x").expect(200);
        let token = number(&head(&server, "a"), "leasehold-token");
        assert_eq!(token, holder.lease["fencing_token"].as_u64().unwrap());
        assert!(token > last);
        last = token;
        holder.release();
    }
    let got = server.get("/v1/files/a");
    assert_eq!((number(&got, "leasehold-token"), number(&got, "leasehold-inode")), (last, 1 << 52));
}

#[test]
fn a_deleted_file_is_gone_and_its_number_too() {
    let server = Server::start();
    let holder = Holder::of(&server, "path:/");
    holder.append("a", b"old").expect(200);
    let inode = number(&head(&server, "a"), "leasehold-inode");
    assert_eq!(holder.delete("a").expect(200), json!({"deleted": true}));
    server.get("/v1/files/a").expect_code(404, "not_found");
    assert_eq!(head(&server, "a").status, 404);
    assert_eq!(server.get("/v1/files").expect(200), json!({"files": []}));
    holder.delete("a").expect_code(404, "not_found");
    holder.append("a", b"new").expect(200);
    assert_eq!(read(&server, "a"), b"new");
    assert!(number(&head(&server, "a"), "leasehold-inode") > inode);
}

#[test]
fn the_list_is_in_order_and_paged() {
    let server = Server::start();
    assert_eq!(server.get("/v1/files").expect(200), json!({"files": []}));
    let holder = Holder::of(&server, "path:/");
    for name in ["b/2", "a", "b/10", "c", "b/1"] {
        holder.append(name, name.as_bytes()).expect(200);
    }
    let names = |path: &str| {
        let page = server.get(path).expect(200);
        let files = page["files"].as_array().unwrap().iter();
        let names: Vec<String> = files.map(|file| file["name"].as_str().unwrap().to_owned()).collect();
        (names.join(" "), page["next_cursor"].as_str().map(str::to_owned))
    };
    assert_eq!(names("/v1/files"), ("a b/1 b/10 b/2 c".into(), None));
    assert_eq!(names("/v1/files?prefix=b/"), ("b/1 b/10 b/2".into(), None));
    assert_eq!(names("/v1/files?prefix=b%2F1"), ("b/1 b/10".into(), None));
    assert_eq!(names("/v1/files?prefix=zzz"), ("".into(), None));
    let (first, cursor) = names("/v1/files?limit=2");
    assert_eq!(first, "a b/1");
    let (second, cursor) =
        names(&format!("/v1/files?limit=2&cursor={}", cursor.unwrap().replace('/', "%2F")));
    assert_eq!(second, "b/10 b/2");
    assert_eq!(names(&format!("/v1/files?limit=2&cursor={}", cursor.unwrap())), ("c".into(), None));
    let page = server.get("/v1/files?limit=1").expect(200);
    let file = &page["files"][0];
    assert_eq!(keys(file), ["created_at", "fencing_token", "inode", "name", "size", "version", "written_at"]);
    assert_eq!((&file["size"], &file["fencing_token"]), (&json!(1), &holder.lease["fencing_token"]));
    for (path, field) in [
        ("/v1/files?limit=0", "limit"),
        ("/v1/files?limit=1001", "limit"),
        ("/v1/files?limit=x", "limit"),
        ("/v1/files?owner=w", "owner"),
        ("/v1/files?prefix=%ff", "prefix"),
    ] {
        server.get(path).expect_invalid(field);
    }
}

#[test]
fn a_file_can_be_named_in_the_query() {
    let server = Server::start();
    let holder = Holder::of(&server, "path:/");
    holder.send("POST", "/v1/files/~/append?name=a/b.log", b"hello").expect(200);
    holder.send("PUT", "/v1/files/~?name=a%2Fb.log&offset=5", b"!").expect(200);
    assert_eq!(server.get("/v1/files/~?name=a/b.log").bytes(), b"hello!");
    assert_eq!(number(&server.request("HEAD", "/v1/files/~?name=a/b.log", &[], b""), "content-length"), 6);
    holder.send("POST", "/v1/files/~/append?name=~", b"tilde").expect(200);
    assert_eq!(server.get("/v1/files/%7E?name=~").bytes(), b"tilde");
    holder.send("DELETE", "/v1/files/~?name=a/b.log", b"").expect(200);
    server.get("/v1/files/a%2Fb.log").expect_code(404, "not_found");
    server.get("/v1/files/~").expect_invalid("name");
    server.get("/v1/files/a?name=b").expect_invalid("name");
}

#[test]
fn writes_are_in_the_metrics_without_their_names() {
    let server = Server::start();
    let holder = Holder::of(&server, "path:/peculiar");
    holder.append("peculiar/name", b"hello").expect(200);
    holder.as_request("r1").append("peculiar/name", b"!").expect(200);
    holder.as_request("r1").append("peculiar/name", b"!").expect(200);
    holder.write("peculiar/name", 0, b"H").expect(200);
    holder.write("peculiar/name", 99, b"H").expect_invalid("offset");
    read(&server, "peculiar/name");
    server.get("/v1/files/nobody").expect_code(404, "not_found");
    holder.append("peculiar/other", b"").expect(200);
    holder.delete("peculiar/other").expect(200);
    let metrics = server.get("/metrics").text();
    for line in [
        "files_stored 1",
        "files_stored_bytes 6",
        "file_readers 0",
        "file_changes_total 4",
        "file_written_bytes_total 7",
        "file_read_bytes_total 6",
        "file_append_total{result=\"success\"} 4",
        "file_write_total{result=\"success\"} 1",
        "file_write_total{result=\"fail\"} 1",
        "file_delete_total{result=\"success\"} 1",
        "file_read_total{result=\"success\"} 1",
        "file_read_total{result=\"fail\"} 1",
        "lock_op_latency_ms_count{op=\"append_file\"} 4",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} is not in\n{metrics}");
    }
    assert!(metrics.contains("\nfile_syncs_total "));
    assert!(!metrics.contains("peculiar"));
}
