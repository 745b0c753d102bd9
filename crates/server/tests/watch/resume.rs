//! Resuming without gap or repeat.

use crate::load::{Caller, Load};
use crate::reader::{Heard, Reader};
use crate::server::Server;

/// Watches in stretches of this many events, reconnecting each time in the way that `open` does.
fn in_stretches(stretches: usize, events: usize, mut open: impl FnMut(u64) -> Reader) -> Vec<Heard> {
    let mut heard = Vec::new();
    let mut last = 0;
    for _ in 0..stretches {
        let mut reader = open(last);
        heard.extend((0..events).map(|_| reader.expect()));
        last = reader.last_id.unwrap();
    }
    heard
}

#[test]
fn reconnecting_under_load_misses_and_repeats_nothing() {
    let server = Server::start();
    let address = server.address;
    let load = Load::start(address, &["a", "a2", "b"]);
    let by_id = in_stretches(30, 37, |last| Reader::open(address, "/v1/watch?prefix=a&from=0", Some(last)));
    let by_from =
        in_stretches(30, 37, |last| Reader::open(address, &format!("/v1/watch?prefix=a&from={last}"), None));
    let by_lock = in_stretches(10, 37, |last| Reader::open(address, "/v1/locks/a/watch", Some(last)));
    load.stop();

    assert_eq!(by_id, by_from);
    let last = by_id.last().unwrap().id.max(by_lock.last().unwrap().id);
    let mut whole = Vec::new();
    let mut reader = Reader::open(address, "/v1/watch?from=0", None);
    while whole.last().is_none_or(|heard: &Heard| heard.id < last) {
        whole.push(reader.expect());
    }
    let of = |fits: &dyn Fn(&Heard) -> bool, count: usize| -> Vec<Heard> {
        whole.iter().filter(|heard| fits(heard)).take(count).cloned().collect()
    };
    assert_eq!(by_id, of(&|heard| heard.lock().starts_with('a'), by_id.len()));
    assert_eq!(by_lock, of(&|heard| heard.lock() == "a", by_lock.len()));
    assert!(whole.iter().any(|heard| heard.lock() == "b"));
}

#[test]
fn from_the_past_into_the_present_nothing_is_lost_in_between() {
    let server = Server::start();
    let mut caller = Caller::new(server.address);
    for _ in 0..3000 {
        caller.cycle("a", "w").unwrap();
    }
    // They catch up while more happens.
    let load = Load::start(server.address, &["a", "b"]);
    let readers: Vec<_> = (0..8)
        .map(|_| {
            let address = server.address;
            std::thread::spawn(move || {
                let mut reader = Reader::open(address, "/v1/locks/a/watch?from=0", None);
                (0..8000).map(|_| reader.expect()).collect::<Vec<_>>()
            })
        })
        .collect();
    let heard: Vec<_> = readers.into_iter().map(|reader| reader.join().unwrap()).collect();
    load.stop();
    for heard in &heard {
        for (place, event) in heard.iter().enumerate() {
            let kind = if place % 2 == 0 { "granted" } else { "released" };
            assert_eq!(event.what(), (kind, "a"), "number {place}");
        }
    }
    assert!(heard.iter().all(|one| one == &heard[0]), "all hear the same");
}
