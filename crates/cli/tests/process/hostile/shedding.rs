//! More is asked than can be done: acquires are turned away at once, and whoever holds a lock keeps it.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{Client, proof};
use crate::program::{PATIENCE, Place};

const CLIENTS: usize = 64;

#[test]
fn renewals_and_releases_are_served_while_acquires_are_shed() {
    let place = Place::new();
    let server = place.serve_with(&["--listen", "127.0.0.1:0", "--queue-max", "2"]);
    let address = server.address;
    let (over, shed) = (AtomicBool::new(false), AtomicU32::new(0));
    let mut holder = Client::new(address);
    let leases: Vec<_> =
        (0..20).map(|n| holder.acquire(&format!("held-{n}"), &json!({"owner_id": "holder"}))).collect();
    std::thread::scope(|scope| {
        for n in 0..CLIENTS {
            let (over, shed) = (&over, &shed);
            scope.spawn(move || {
                let mut client = Client::new(address);
                let body = json!({"owner_id": format!("w{n}"), "ttl_ms": 100});
                while !over.load(Ordering::Relaxed) {
                    let (status, answer) =
                        client.post(&format!("/v1/locks/flood-{n}/acquire"), &body).unwrap();
                    match status {
                        200 | 409 => {}
                        503 => {
                            assert_eq!(answer["code"], "busy", "{answer}");
                            assert!(answer["recommended_retry_ms"].as_u64().unwrap() > 0);
                            shed.fetch_add(1, Ordering::Relaxed);
                        }
                        _ => panic!("{status} {answer}"),
                    }
                }
            });
        }
        let begun = Instant::now();
        let mut renewals = 0;
        while renewals < 500 || shed.load(Ordering::Relaxed) < 100 {
            for lease in &leases {
                let path = format!("/v1/locks/{}/renew", lease["lock"].as_str().unwrap());
                let (status, answer) = holder.post(&path, &proof(lease)).unwrap();
                assert!(status == 200 || over.swap(true, Ordering::Relaxed), "{status} {answer}");
                renewals += 1;
            }
            if begun.elapsed() > PATIENCE {
                over.store(true, Ordering::Relaxed);
                panic!("{renewals} renewals, {} shed", shed.load(Ordering::Relaxed));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        for lease in &leases {
            let path = format!("/v1/locks/{}/release", lease["lock"].as_str().unwrap());
            let (status, answer) = holder.post(&path, &proof(lease)).unwrap();
            assert!(status == 200 || over.swap(true, Ordering::Relaxed), "{status} {answer}");
        }
        over.store(true, Ordering::Relaxed);
    });
    server.stop();
}
