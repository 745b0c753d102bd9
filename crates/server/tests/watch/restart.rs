//! Across restarts, also when a snapshot has replaced the segments that held the events.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use leasehold_server::config::Given;
use serde_json::json;

use crate::load::{Caller, Load};
use crate::reader::{Heard, Reader};
use crate::server::{Server, proof};

fn start(data: &Path) -> Server {
    Server::start_with(Given {
        data: Some(data.to_owned()),
        in_memory: Some(false),
        // Small segments, so that a snapshot finds closed ones.
        segment_bytes: Some(1 << 20),
        disk_reserve_bytes: Some(0),
        ..Given::default()
    })
}

fn hear(reader: &mut Reader, through: u64) -> Vec<Heard> {
    let mut heard = Vec::new();
    while heard.last().is_none_or(|heard: &Heard| heard.id < through) {
        heard.push(reader.expect());
    }
    heard
}

/// The newest public event there is.
fn newest(server: &Server) -> u64 {
    let lease = server.acquire("last", "w");
    server.post("/v1/locks/last/release", proof(&lease)).expect(200);
    lease["version"].as_u64().unwrap()
}

#[test]
fn a_watcher_resumes_over_restarts_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let mut heard = Vec::new();
    let mut last_id = Some(0);
    for round in 0..4 {
        let server = start(folder.path());
        // What the load held when the server stopped is still held.
        let locks = [format!("a{round}"), format!("b{round}")];
        let load = Load::start(server.address, &locks.each_ref().map(String::as_str));
        let mut reader = Reader::open(server.address, "/v1/watch", last_id);
        heard.extend((0..200).map(|_| reader.expect()));
        // The server stops in the middle of it, and the stream ends somewhere.
        let stopping = std::thread::spawn(move || drop(server));
        while let Some(event) = reader.next() {
            heard.push(event);
        }
        last_id = reader.last_id;
        stopping.join().unwrap();
        load.stop();
    }
    let server = start(folder.path());
    let mut reader = Reader::open(server.address, "/v1/watch", last_id);
    let newest = newest(&server);
    heard.extend(hear(&mut reader, newest));
    let whole = hear(&mut Reader::open(server.address, "/v1/watch?from=0", None), newest);
    assert_eq!(heard, whole);
}

#[test]
fn a_snapshot_that_replaced_the_segments_keeps_the_history() {
    let folder = tempfile::tempdir().unwrap();
    let oldest = |prefix: &str| {
        let names = std::fs::read_dir(folder.path()).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with(prefix) && !name.ends_with(".tmp")).min()
    };
    let server = start(folder.path());
    let first_segment = oldest("segment-");
    let mut live = Reader::open(server.address, "/v1/watch?from=0", None);
    let address = server.address;
    let events = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for caller in 0..8 {
            let (events, oldest, first_segment) = (&events, &oldest, &first_segment);
            scope.spawn(move || {
                let lock = format!("l{caller}");
                let mut caller = Caller::new(address);
                let fill = json!({"owner_id": "w", "metadata": {"fill": "x".repeat(4000)}});
                // Until nothing is left of the segment that everything began in.
                while oldest("snapshot-").is_none() || oldest("segment-") == *first_segment {
                    for _ in 0..100 {
                        let lease = caller.call(&format!("/v1/locks/{lock}/acquire"), &fill).unwrap();
                        caller.call(&format!("/v1/locks/{lock}/release"), &proof(&lease)).unwrap();
                    }
                    let events = events.fetch_add(200, Ordering::Relaxed);
                    assert!(events < 90_000, "no snapshot is made before the first events are forgotten");
                }
            });
        }
    });
    let newest = newest(&server);
    let before = hear(&mut live, newest);
    assert!(before.len() > events.into_inner());
    drop(server);

    let server = start(folder.path());
    let after = hear(&mut Reader::open(server.address, "/v1/watch?from=0", None), newest);
    assert_eq!(before, after);
    let last = before[before.len() / 2].id;
    let expected: Vec<_> =
        before.iter().filter(|event| event.id > last && event.lock() == "l0").cloned().collect();
    let mut reader = Reader::open(server.address, "/v1/locks/l0/watch", Some(last));
    let resumed: Vec<_> = expected.iter().map(|_| reader.expect()).collect();
    assert_eq!(resumed, expected);
}
