//! The holder dies; its lease ends at its deadline; the next in line gets it then.

use serde_json::Value;

use super::scene::{self, FILE, LOCK};
use crate::lock::holder::{Holder, lock};
use crate::lock::stage::{lines, now_us};
use crate::program::{Place, stdout};

#[test]
fn the_next_in_line_gets_it_at_the_deadline() {
    let place = Place::new();
    let server = place.serve();
    let script = format!(
        "{} append {FILE} 'alice begins' && echo $$ >{}; exec sleep 1000",
        env!("CARGO_BIN_EXE_leasehold"),
        place.text("begun"),
    );
    let arguments = [LOCK, "--ttl", "3s", "--owner", "alice"];
    let alice = Holder::start(&place, "alice", &mut lock(&server, &arguments, &script));
    lines(&place.path("begun"), 1);
    let bob = server.start(&["append", FILE, "bob goes on", "--owner", "bob", "--json"]);
    let segment = "path:%2Freports%2Fa.log";
    server.until_waiting(segment, 1);
    let looked_us = now_us();
    let held = server.client().get_lock(segment);
    let holder = &held["holders"][0];
    assert_eq!(holder["owner_id"], "alice", "{held}");
    // A renewal in between would only move it further away.
    let deadline_us = looked_us + holder["expires_in_ms"].as_u64().unwrap() * 1000;
    alice.kill();
    let wrote = scene::told(&bob.wait_with_output().unwrap());
    assert_eq!(wrote["offset"], 13);
    assert!(now_us() >= deadline_us, "a dead client's lease lives on to its deadline");
    assert_eq!(scene::cat(&server), "alice begins\nbob goes on\n");

    let watched = stdout(&server.ask(&["ls"]));
    assert_eq!(watched, "nothing is held or waited for\n", "bob has given it back");
    let mut watching = server.start(&["watch", LOCK, "--from", "0", "--json"]);
    let mut out = std::io::BufReader::new(watching.stdout.take().unwrap());
    let mut happened = Vec::new();
    while happened.len() < 5 {
        let mut line = String::new();
        std::io::BufRead::read_line(&mut out, &mut line).unwrap();
        let event: Value = serde_json::from_str(&line).unwrap();
        let text = |member: &str| event[member].as_str().unwrap().to_owned();
        happened.push((format!("{} {}", text("owner_id"), text("type")), text("time")));
    }
    watching.kill().unwrap();
    watching.wait().unwrap();
    let (happened, times): (Vec<_>, Vec<_>) = happened.into_iter().unzip();
    assert_eq!(happened, ["alice granted", "bob queued", "alice expired", "bob granted", "bob released"]);
    assert_eq!(times[2], times[3], "bob got it in the same moment");
}
