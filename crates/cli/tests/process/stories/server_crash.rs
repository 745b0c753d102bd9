//! The server dies and comes back after the lease would have ended: the next client gets the lock with a higher token, the old
//! holder is refused, and what was written is there.

use super::scene::{self, FILE};
use crate::lock::stage::{now_us, until};
use crate::program::Place;

const TTL: &str = "5s";
const TTL_US: u64 = 5_000_000;

#[test]
fn the_next_client_gets_a_higher_token_and_the_old_holder_is_refused() {
    let place = Place::new();
    let server = place.serve();
    let address = server.address.to_string();
    let alice = scene::acquire(&server, "alice", &["--ttl", TTL]);
    scene::told(&scene::with(&server, &alice, &["append", FILE, "alice", "--json"]).output().unwrap());
    server.kill();
    let killed_us = now_us();
    until("her time is over", || now_us() > killed_us + TTL_US);
    let server = place.serve_with(&["--listen", &address]);
    let bob = scene::acquire(&server, "bob", &["--ttl", "10m", "--wait", "60s"]);
    assert!(scene::token(&bob) > scene::token(&alice));
    scene::is_refused(&server, &alice);
    assert_eq!(scene::cat(&server), "alice\n", "what was acknowledged is there");
    scene::told(&scene::with(&server, &bob, &["append", FILE, "bob", "--json"]).output().unwrap());
    assert_eq!(scene::cat(&server), "alice\nbob\n");
    assert_eq!(scene::token_of_file(&server), scene::token(&bob));
}
