//! A watcher that comes back to a server that was killed finds everything that anybody was told, once.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::client::Client;
use crate::program::{PATIENCE, Place};

const ROUNDS: usize = 5;
const EVENTS: usize = 300;

/// A stream of events, read until it breaks.
struct Watcher {
    stream: BufReader<TcpStream>,
    id: Option<u64>,
}

impl Watcher {
    fn open(address: SocketAddr, after: u64) -> Watcher {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let request = format!("GET /v1/watch HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: {after}\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        Watcher { stream: BufReader::new(stream), id: None }
    }

    /// The next event's number and text; none when the server is no more.
    fn next(&mut self) -> Option<(u64, Value)> {
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).ok()?;
            // A line that was cut off by the end has not been heard.
            let line = line.strip_suffix('\n')?;
            if let Some(id) = line.strip_prefix("id: ") {
                self.id = Some(id.parse().unwrap());
            } else if let Some(data) = line.strip_prefix("data: ") {
                return Some((self.id.unwrap(), serde_json::from_str(data).unwrap()));
            }
        }
    }
}

/// Takes a lock after the other and keeps it, until the server is no more. Notes what it was told.
fn take(address: SocketAddr, name: &str, told: &Mutex<BTreeSet<(u64, String)>>, stop: &AtomicBool) {
    let mut client = Client::new(address);
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let lock = format!("{name}-{number}");
        let body = json!({"owner_id": "w", "ttl_ms": 3_600_000});
        let Ok((200, lease)) = client.post(&format!("/v1/locks/{lock}/acquire"), &body) else { return };
        told.lock().unwrap().insert((lease["version"].as_u64().unwrap(), lock));
    }
}

#[test]
fn a_watcher_of_a_killed_server_misses_and_repeats_nothing() {
    let place = Place::new();
    let told = Mutex::new(BTreeSet::new());
    let mut heard = Vec::new();
    let last = |heard: &[(u64, Value)]| heard.last().map_or(0, |(id, _)| *id);
    for round in 0..ROUNDS {
        let server = place.serve();
        let address = server.address;
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for taker in 0..4 {
                let (told, stop) = (&told, &stop);
                scope.spawn(move || take(address, &format!("r{round}-t{taker}"), told, stop));
            }
            let mut watcher = Watcher::open(address, last(&heard));
            let until = heard.len() + EVENTS;
            while heard.len() < until {
                heard.push(watcher.next().unwrap());
            }
            server.kill();
            // What is still on the way was told as well.
            heard.extend(std::iter::from_fn(|| watcher.next()));
            stop.store(true, Ordering::Relaxed);
        });
    }
    let server = place.serve();
    let mut client = server.client();
    let (_, end) = client.post("/v1/locks/end/acquire", &json!({"owner_id": "w"})).unwrap();
    let end = end["version"].as_u64().unwrap();
    let rest = |after: u64| {
        let mut watcher = Watcher::open(server.address, after);
        let mut heard = Vec::new();
        while last(&heard) < end {
            heard.push(watcher.next().unwrap());
        }
        heard
    };
    let remaining = rest(last(&heard));
    heard.extend(remaining);
    assert!(heard.is_sorted_by(|one, next| one.0 < next.0));
    assert_eq!(heard, rest(0));
    let granted: BTreeSet<_> =
        heard.iter().map(|(id, event)| (*id, event["lock"].as_str().unwrap().to_owned())).collect();
    let told = told.into_inner().unwrap();
    assert!(told.len() >= ROUNDS * EVENTS / 2, "{} grants were answered", told.len());
    assert!(told.is_subset(&granted), "whoever was answered can be heard of");
}
