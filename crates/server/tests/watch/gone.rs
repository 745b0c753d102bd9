//! What is no longer kept is refused, and what is kept is kept for the quick and the many.

use serde_json::json;

use crate::load::Caller;
use crate::reader::{Heard, Reader};
use crate::server::Server;

/// The contract's number.
const KEPT: usize = 100_000;
const LEASES: usize = KEPT / 2 + 500;
const CALLERS: usize = 8;

#[test]
fn a_hundred_thousand_events_are_kept_and_older_ones_are_gone() {
    let server = Server::start();
    let session = server.post("/v1/sessions", json!({"owner_id": "w"})).expect(200);
    let address = server.address;
    let mut live = Reader::open(address, "/v1/watch?from=0", None);
    let listening = std::thread::spawn(move || {
        let mut heard: Vec<Heard> = Vec::new();
        while heard.len() < 2 * LEASES {
            heard.push(live.expect());
        }
        heard
    });
    // Every lease is a grant, and its session's end one more event.
    let acquire = json!({"owner_id": "w", "session_id": session["session_id"]});
    std::thread::scope(|scope| {
        for place in 0..CALLERS {
            let acquire = &acquire;
            scope.spawn(move || {
                let mut caller = Caller::new(address);
                for number in (place..LEASES).step_by(CALLERS) {
                    caller.call(&format!("/v1/locks/l{number}/acquire"), acquire).unwrap();
                }
            });
        }
    });
    server.post("/v1/sessions/close", json!({"session_id": session["session_id"]})).expect(200);
    let heard = listening.join().unwrap();
    assert!(heard[..LEASES].iter().all(|event| event.kind == "granted"), "whoever keeps up hears everything");
    assert!(heard[LEASES..].iter().all(|event| event.kind == "released"));

    let oldest = &heard[heard.len() - KEPT];
    let before = &heard[heard.len() - KEPT - 1];
    for from in [0, before.id - 1] {
        let gone = server.get(&format!("/v1/watch?from={from}")).expect_code(410, "gone");
        assert!(gone["detail"].as_str().unwrap().contains(&before.id.to_string()), "{gone}");
        let id = from.to_string();
        server.request("GET", "/v1/locks/l0/watch", &[("Last-Event-ID", &id)], b"").expect_code(410, "gone");
    }
    let mut reader = Reader::open(address, "/v1/watch", Some(before.id));
    assert_eq!(reader.expect(), *oldest);
    let rest: Vec<_> = (1..KEPT).map(|_| reader.expect()).collect();
    assert_eq!(rest, heard[heard.len() - KEPT + 1..]);
}
