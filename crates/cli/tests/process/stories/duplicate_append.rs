//! The append's answer is lost, and the server crashes; the retry appends nothing.

use serde_json::json;

use super::lossy::{Loses, Lossy};
use super::scene::{self, FILE};
use crate::lock::stage::until;
use crate::program::{Place, stderr};

#[test]
fn the_retry_appends_nothing() {
    let place = Place::new();
    let server = place.serve();
    let address = server.address.to_string();
    let lease = scene::acquire(&server, "alice", &["--ttl", "10m"]);
    let way = Lossy::to(server.address, Loses::All, "run 17 is done");
    let append = ["append", FILE, "run 17 is done", "--request-id", "run-17", "--json"];
    let url = way.url();
    let mut unlucky = scene::with(&server, &lease, &append);
    let unlucky = unlucky.args(["--server", &url, "--timeout", "3s"]).spawn().unwrap();
    // The line is in the file, and nobody has been told.
    until("it is written", || server.ask(&["cat", FILE]).status.success());
    assert!(way.has_lost());
    server.kill();
    let gave_up = unlucky.wait_with_output().unwrap();
    let said = stderr(&gave_up);
    assert_eq!(gave_up.status.code(), Some(69), "{said}");
    let problem: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(
        (&problem["may_have_happened"], &problem["owner_id"], &problem["request_id"]),
        (&json!(true), &json!("alice"), &json!("run-17")),
        "{problem}"
    );

    let server = place.serve_with(&["--listen", &address]);
    for _ in 0..2 {
        let wrote = scene::told(&scene::with(&server, &lease, &append).output().unwrap());
        assert_eq!(wrote, json!({"offset": 0, "length": 15, "size": 15}));
    }
    assert_eq!(scene::cat(&server), "run 17 is done\n");
    // Another line is another request.
    let other = ["append", FILE, "run 18 is done", "--request-id", "run-18", "--json"];
    scene::told(&scene::with(&server, &lease, &other).output().unwrap());
    assert_eq!(scene::cat(&server), "run 17 is done\nrun 18 is done\n");
}
