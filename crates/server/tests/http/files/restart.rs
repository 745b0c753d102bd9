//! What was acknowledged is there after a restart: bytes, sizes, numbers, tokens, limits and the ids of requests.

use leasehold_server::config::Given;
use serde_json::{Value, json};

use super::{Holder, head, number, pattern, read};
use crate::server::Server;

fn start(folder: &tempfile::TempDir) -> Server {
    Server::start_with(Given {
        data: Some(folder.path().to_owned()),
        in_memory: Some(false),
        files_bytes_max: Some(4 << 20),
        ..Given::default()
    })
}

fn long_lease(server: &Server) -> Value {
    let body = json!({"owner_id": "w1", "ttl_ms": 3_600_000});
    server.post("/v1/locks/path:%2F/acquire", body).expect(200)
}

#[test]
fn bytes_survive() {
    let folder = tempfile::tempdir().unwrap();
    let large = pattern(1 << 20);
    let (lease, files, wrote) = {
        let server = start(&folder);
        let holder = Holder::with(&server, long_lease(&server));
        holder.append("log", b"one ").expect(200);
        let wrote = holder.as_request("r1").append("log", b"two ").expect(200);
        holder.append("large", &large).expect(200);
        holder.append("large", &large).expect(200);
        holder.write("large", 100, b"overwritten").expect(200);
        holder.append("empty", b"").expect(200);
        holder.append("deleted", b"x").expect(200);
        holder.delete("deleted").expect(200);
        (holder.lease.clone(), server.get("/v1/files").expect(200), wrote)
    };
    let server = start(&folder);
    assert_eq!(server.get("/v1/files").expect(200), files);
    assert_eq!(read(&server, "log"), b"one two ");
    assert_eq!(read(&server, "empty"), b"");
    let mut expected = [&large[..], &large[..]].concat();
    expected[100..111].copy_from_slice(b"overwritten");
    assert_eq!(read(&server, "large"), expected);
    server.get("/v1/files/deleted").expect_code(404, "not_found");

    // A repeat is a repeat also now, the lease still writes, and what there is still counts.
    let holder = Holder::with(&server, lease);
    assert_eq!(holder.as_request("r1").append("log", b"two ").expect(200), wrote);
    holder.as_request("r1").append("log", b"other").expect_invalid("request_id");
    assert_eq!(read(&server, "log"), b"one two ");
    holder.append("more", &large).expect(200);
    holder.append("over", &large).expect_code(413, "too_large");
    let known = files["files"].as_array().unwrap().iter().map(|file| file["inode"].as_u64().unwrap());
    let inode = number(&head(&server, "more"), "leasehold-inode");
    assert!(known.max().unwrap() + 1 < inode, "also the deleted file's number is not given again");
}

#[test]
fn the_journal_of_small_segments_gives_files_back_too() {
    let folder = tempfile::tempdir().unwrap();
    let start = || {
        Server::start_with(Given {
            data: Some(folder.path().to_owned()),
            in_memory: Some(false),
            segment_bytes: Some(1 << 20),
            ..Given::default()
        })
    };
    let piece = pattern(100_000);
    let server = start();
    let holder = Holder::with(&server, long_lease(&server));
    for round in 0..40_u8 {
        let name = if round % 2 == 0 { "even" } else { "odd" };
        holder.append(name, &piece).expect(200);
        holder.write(name, u64::from(round), &[round]).expect(200);
    }
    // A batch is half a segment at most, and a write must fit into one.
    holder.append("even", &vec![0; 1 << 20]).expect_code(413, "too_large");
    let before = (read(&server, "even"), read(&server, "odd"));
    drop(server);
    let server = start();
    assert_eq!((read(&server, "even"), read(&server, "odd")), before);
    assert_eq!(before.0.len(), 20 * piece.len());
}
