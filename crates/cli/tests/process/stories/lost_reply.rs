//! The acquire's answer is lost; the retry gets the same token.

use super::lossy::{Loses, Lossy};
use super::scene::{self, FILE, LOCK};
use crate::program::{Place, stdout};

#[test]
fn the_retry_gets_the_same_token() {
    let place = Place::new();
    let server = place.serve();
    let way = Lossy::to(server.address, Loses::One, "attempt-1");
    let url = way.url();
    let ask = ["acquire", LOCK, "--owner", "alice", "--ttl", "10m", "--request-id", "attempt-1", "--json"];
    // The answer to the first attempt is lost on its way; the program tries again by itself.
    let lease = scene::told(&server.ask(&[&ask[..], &["--server", &url]].concat()));
    assert!(way.has_lost());
    // So does whoever starts it anew, in another process.
    let again = scene::told(&server.ask(&ask));
    for member in ["fencing_token", "lease_id", "acquired_at", "version"] {
        assert_eq!(again[member], lease[member], "{member}");
    }
    let held = server.client().get_lock("path:%2Freports%2Fa.log");
    assert_eq!(held["holders"].as_array().unwrap().len(), 1, "{held}");
    assert_eq!(held["version"], lease["version"], "it was granted once");
    let output = scene::with(&server, &again, &["append", FILE, "alice"]).output().unwrap();
    assert_eq!(stdout(&output), format!("wrote 6 bytes to {FILE} at 0; it has 6 bytes now\n"));
    assert_eq!(scene::token_of_file(&server), scene::token(&lease));
}
