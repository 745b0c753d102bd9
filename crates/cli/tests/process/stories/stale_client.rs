//! A holder that was cut off comes back after somebody else wrote: everything it tries is refused, the file is untouched.

use super::scene::{self, FILE};
use crate::program::Place;

#[test]
fn who_comes_back_too_late_changes_nothing() {
    let place = Place::new();
    let server = place.serve();
    let alice = scene::acquire(&server, "alice", &["--ttl", "5s"]);
    scene::told(&scene::with(&server, &alice, &["append", FILE, "alice", "--json"]).output().unwrap());
    // Alice is cut off: she renews nothing. Bob waits until her time is over, and writes.
    let bob = scene::acquire(&server, "bob", &["--ttl", "10m", "--wait", "60s"]);
    assert!(scene::token(&bob) > scene::token(&alice));
    scene::told(&scene::with(&server, &bob, &["append", FILE, "bob", "--json"]).output().unwrap());
    scene::is_refused(&server, &alice);
    assert_eq!(scene::cat(&server), "alice\nbob\n");
    assert_eq!(scene::token_of_file(&server), scene::token(&bob));
    // Also when bob has given it back, and nobody holds it.
    scene::told(&scene::with(&server, &bob, &["release", "--json"]).output().unwrap());
    scene::is_refused(&server, &alice);
    assert_eq!(scene::cat(&server), "alice\nbob\n");
}
