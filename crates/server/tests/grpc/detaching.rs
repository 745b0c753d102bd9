//! A call that is taken back, or whose connection closes, leaves the line at once.

use leasehold_protocol::v1;
use serde_json::Value;

use crate::caller::{Caller, acquire};
use crate::server::{Server, proof};

fn line(snapshot: &Value) -> Vec<(&str, bool)> {
    let waiters = snapshot["waiters"].as_array().unwrap();
    waiters.iter().map(|w| (w["owner_id"].as_str().unwrap(), w["attached"].as_bool().unwrap())).collect()
}

fn waiting(owner: &str, id: Option<&str>) -> v1::AcquireRequest {
    v1::AcquireRequest { wait_ms: 600_000, request_id: id.map(str::to_owned), ..acquire("a", owner) }
}

#[test]
fn a_call_taken_back_detaches() {
    let server = Server::start();
    let lease = server.acquire("a", "w0");
    let caller = Caller::to(server.address);
    let mut locks = caller.locks();
    let with_id = caller.runtime.spawn(async move { locks.acquire(waiting("w1", Some("r1"))).await });
    server.until_waiting("a", 1);
    let mut locks = caller.locks();
    let without = caller.runtime.spawn(async move { locks.acquire(waiting("w2", None)).await });
    server.until_waiting("a", 2);

    without.abort();
    server.until("a", "w2 has gone", |snapshot| line(snapshot) == [("w1", true)]);
    with_id.abort();
    server.until("a", "w1 is detached", |snapshot| line(snapshot) == [("w1", false)]);

    // The connection is as good as before, and the same id takes its place again.
    let mut locks = caller.locks();
    let again = caller.runtime.spawn(async move { locks.acquire(waiting("w1", Some("r1"))).await });
    server.until("a", "w1 is back", |snapshot| line(snapshot) == [("w1", true)]);
    server.post("/v1/locks/a/release", proof(&lease)).expect(200);
    assert_eq!(caller.wait(again).unwrap().unwrap().into_inner().owner_id, "w1");
}

#[test]
fn a_closed_connection_detaches_all_its_calls() {
    let server = Server::start();
    server.acquire("a", "w0");
    let caller = Caller::to(server.address);
    for n in 0..10 {
        let mut locks = caller.locks();
        caller.runtime.spawn(async move { locks.acquire(waiting(&format!("w{n}"), None)).await });
    }
    server.until_waiting("a", 10);
    caller.runtime.shutdown_background();
    server.until_waiting("a", 0);
}
