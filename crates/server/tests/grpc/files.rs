//! Fenced files over gRPC: what only gRPC has, and every refusal with its typed detail.

use leasehold_protocol::v1;
use serde_json::json;
use tonic::Status;

use crate::caller::{Caller, acquire, detail, release};
use crate::server::Server;

const MIB: usize = 1 << 20;

fn append(lease: &v1::Lease, name: &str, data: &[u8]) -> v1::AppendFileRequest {
    v1::AppendFileRequest {
        name: name.into(),
        lock: lease.lock.clone(),
        owner_id: lease.owner_id.clone(),
        lease_id: lease.lease_id.clone(),
        fencing_token: lease.fencing_token,
        request_id: None,
        data: data.into(),
    }
}

fn write(lease: &v1::Lease, name: &str, offset: Option<u64>, data: &[u8]) -> v1::WriteFileRequest {
    v1::WriteFileRequest {
        name: name.into(),
        lock: lease.lock.clone(),
        owner_id: lease.owner_id.clone(),
        lease_id: lease.lease_id.clone(),
        fencing_token: lease.fencing_token,
        request_id: None,
        data: data.into(),
        offset,
    }
}

fn delete(lease: &v1::Lease, name: &str) -> v1::DeleteFileRequest {
    v1::DeleteFileRequest {
        name: name.into(),
        lock: lease.lock.clone(),
        owner_id: lease.owner_id.clone(),
        lease_id: lease.lease_id.clone(),
        fencing_token: lease.fencing_token,
        request_id: None,
    }
}

/// The bytes that a read gives, and the file as its first message tells of it.
fn read(
    caller: &Caller,
    name: &str,
    offset: u64,
    length: Option<u64>,
) -> Result<(v1::File, Vec<u8>), Status> {
    let mut files = caller.files();
    caller.wait(async {
        let request = v1::ReadFileRequest { name: name.into(), offset, length };
        let mut told = files.read(request).await?.into_inner();
        let first = told.message().await?.expect("the first message tells of the file");
        let mut bytes = first.data;
        while let Some(message) = told.message().await? {
            assert_eq!(message.file, None, "only the first message tells of the file");
            assert!(!message.data.is_empty());
            bytes.extend(message.data);
        }
        Ok((first.file.expect("the first message tells of the file"), bytes))
    })
}

#[test]
fn what_is_written_is_read_through_both_doors() {
    let server = Server::start();
    let caller = Caller::to(server.address);
    let lease = caller.acquire("path:/a", "w");
    let wrote = caller.call(caller.files().append(append(&lease, "a", b"hello"))).unwrap();
    assert_eq!(wrote, v1::WriteFileResponse { offset: 0, length: 5, size: 5 });
    let wrote = caller.call(caller.files().write(write(&lease, "a", Some(1), b"a"))).unwrap();
    assert_eq!(wrote, v1::WriteFileResponse { offset: 1, length: 1, size: 5 });
    let (file, bytes) = read(&caller, "a", 0, None).unwrap();
    assert_eq!(bytes, b"hallo");
    assert_eq!(server.get("/v1/files/a").bytes(), b"hallo");
    assert_eq!((file.name.as_str(), file.size, file.inode), ("a", 5, 1 << 52));
    assert_eq!(file.fencing_token, lease.fencing_token);
    let stat = v1::StatFileRequest { name: "a".into() };
    assert_eq!(caller.call(caller.files().stat(stat)).unwrap(), file);
    let list = caller.call(caller.files().list(v1::ListFilesRequest::default())).unwrap();
    assert_eq!(list, v1::ListFilesResponse { files: vec![file], next_cursor: None });
    assert!(caller.call(caller.files().delete(delete(&lease, "a"))).unwrap().deleted);
    assert_eq!(detail(&read(&caller, "a", 0, None).unwrap_err()).code, "not_found");
}

#[test]
fn a_part_is_read_by_offset_and_length() {
    let server = Server::start();
    let caller = Caller::to(server.address);
    let lease = caller.acquire("path:/", "w");
    caller.call(caller.files().append(append(&lease, "a", b"0123456789"))).unwrap();
    caller.call(caller.files().append(append(&lease, "empty", b""))).unwrap();
    for (offset, length, expected) in [
        (0, None, &b"0123456789"[..]),
        (3, None, b"3456789"),
        (3, Some(4), b"3456"),
        (0, Some(0), b""),
        (8, Some(99), b"89"),
        (8, Some(u64::MAX), b"89"),
        (10, None, b""),
        (10, Some(1), b""),
    ] {
        let (file, bytes) = read(&caller, "a", offset, length).unwrap();
        assert_eq!((file.size, bytes.as_slice()), (10, expected), "{offset} {length:?}");
    }
    assert_eq!(read(&caller, "empty", 0, None).unwrap().1, b"");
    for (name, offset) in [("a", 11), ("a", u64::MAX), ("empty", 1)] {
        let error = detail(&read(&caller, name, offset, None).unwrap_err());
        assert_eq!((error.code.as_str(), error.field.as_str()), ("invalid_argument", "offset"));
    }
}

#[test]
fn a_long_file_comes_in_pieces_and_in_order() {
    let server = Server::start();
    let caller = Caller::to(server.address);
    let lease = caller.acquire("path:/a", "w");
    let piece: Vec<u8> = (0..MIB).map(|place| (place ^ (place >> 8)) as u8).collect();
    for _ in 0..3 {
        caller.call(caller.files().append(append(&lease, "a", &piece))).unwrap();
    }
    let whole = piece.repeat(3);
    assert!(read(&caller, "a", 0, None).unwrap().1 == whole);
    assert!(read(&caller, "a", 12_345, Some(2 * MIB as u64)).unwrap().1 == whole[12_345..12_345 + 2 * MIB]);

    // Who has heard enough leaves nothing behind.
    let mut files = caller.files();
    caller.wait(async {
        let request = v1::ReadFileRequest { name: "a".into(), ..Default::default() };
        let mut told = files.read(request).await.unwrap().into_inner();
        told.message().await.unwrap().unwrap();
    });
    let begun = std::time::Instant::now();
    while !server.get("/metrics").text().lines().any(|line| line == "file_readers 0") {
        assert!(begun.elapsed() < crate::server::PATIENCE);
    }
}

#[test]
fn a_write_has_at_most_a_mebibyte_and_is_no_longer_than_other_words_make_it() {
    let server = Server::start();
    let caller = Caller::to(server.address);
    let name = "n".repeat(512);
    let lease = caller.acquire(&format!("path:/{name}"), &"o".repeat(256));
    let whole = vec![7; MIB];
    let mut longest = append(&lease, &name, &whole);
    longest.request_id = Some("r".repeat(128));
    assert_eq!(caller.call(caller.files().append(longest)).unwrap().size, MIB as u64);
    for length in [MIB + 1, MIB + 10_000, 3 * MIB] {
        let request = append(&lease, &name, &vec![0; length]);
        assert_eq!(detail(&caller.call(caller.files().append(request)).unwrap_err()).code, "too_large");
        let request = write(&lease, &name, Some(0), &vec![0; length]);
        assert_eq!(detail(&caller.call(caller.files().write(request)).unwrap_err()).code, "too_large");
    }
    assert!(read(&caller, &name, 0, None).unwrap().1 == whole);
    // Other messages are not longer because of it.
    let request = v1::StatFileRequest { name: "x".repeat(64 * 1024) };
    assert_eq!(detail(&caller.call(caller.files().stat(request)).unwrap_err()).code, "too_large");
}

#[test]
fn what_only_a_message_can_get_wrong() {
    let server = Server::start();
    let caller = Caller::to(server.address);
    let lease = caller.acquire("path:/a", "w");
    let refused = |request: v1::WriteFileRequest| {
        let error = detail(&caller.call(caller.files().write(request)).unwrap_err());
        assert_eq!(error.code, "invalid_argument");
        error.field
    };
    assert_eq!(refused(write(&lease, "a", None, b"x")), "offset");
    let negative = v1::WriteFileRequest { fencing_token: -1, ..write(&lease, "a", Some(0), b"x") };
    assert_eq!(refused(negative), "fencing_token");
    assert_eq!(server.get("/v1/files").expect(200), json!({"files": []}));
}

#[test]
fn every_refusal_has_its_typed_detail() {
    let server = Server::start();
    let caller = Caller::to(server.address);
    let live = caller.acquire("path:/a", "w");
    let elsewhere = caller.acquire("path:/b", "w");
    let released = caller.acquire("path:/c", "w");
    caller.call(caller.locks().release(release(&released))).unwrap();
    let short = v1::AcquireRequest { ttl_ms: Some(100), ..acquire("path:/d", "w") };
    let expired = caller.call(caller.locks().acquire(short)).unwrap();
    server.until("path:%2Fd", "it has expired", |snapshot| snapshot["state"] == "free");
    let unknown = v1::Lease { lease_id: "nobody's".into(), ..live.clone() };
    let stale = v1::Lease { fencing_token: 1, ..live.clone() };
    let cancel = v1::CancelRequest { lock: "x".into(), owner_id: "w".into(), request_id: "r1".into() };
    caller.call(caller.locks().cancel(cancel)).unwrap();
    for (lease, code) in [
        (&elsewhere, "scope_mismatch"),
        (&released, "released"),
        (&expired, "lease_expired"),
        (&unknown, "not_found"),
        (&stale, "stale_token"),
    ] {
        let told = [
            caller.call(caller.files().append(append(lease, "a", b"?"))).map(drop),
            caller.call(caller.files().write(write(lease, "a", Some(0), b"?"))).map(drop),
            caller.call(caller.files().delete(delete(lease, "a"))).map(drop),
        ];
        for told in told {
            assert_eq!(detail(&told.unwrap_err()).code, code);
        }
    }
    let keyed = v1::AppendFileRequest { request_id: Some("r1".into()), ..append(&live, "a", b"?") };
    assert_eq!(detail(&caller.call(caller.files().append(keyed)).unwrap_err()).code, "cancelled");
    let error = detail(&caller.call(caller.files().delete(delete(&live, "a"))).unwrap_err());
    assert_eq!((error.code.as_str(), error.detail.as_str()), ("not_found", "no such file"));
    let error = detail(&caller.call(caller.files().append(append(&live, "../a", b"?"))).unwrap_err());
    assert_eq!((error.code.as_str(), error.field.as_str()), ("invalid_argument", "name"));
    assert_eq!(server.get("/v1/files").expect(200), json!({"files": []}));
}
