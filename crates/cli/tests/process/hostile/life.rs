//! Ordinary life beside an attack: a holder on a kept connection, one that comes anew each time, and a worker. Whatever
//! happens to them ends the test.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Client, proof};
use crate::program::Server;

/// How long the holders' leases live.
const TTL: Duration = Duration::from_secs(20);
/// A holder whose renewal takes longer than this comes near to losing its lock. Ordinary is a few milliseconds; this
/// leaves room for a machine that does other things.
const LATEST: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(50);
/// More than a server with everything in it takes here, and far less than one that grows with what it is sent.
const RESIDENT_BYTES_MAX: u64 = 768 * 1024 * 1024;

/// What goes on besides.
pub struct Life {
    over: Arc<AtomicBool>,
    threads: Vec<(&'static str, JoinHandle<Tale>)>,
}

/// How it went.
#[derive(Debug, Default)]
struct Tale {
    calls: u32,
    longest: Duration,
}

impl Life {
    pub fn beside(server: &Server) -> Life {
        let over = Arc::new(AtomicBool::new(false));
        let begun = Arc::new(Barrier::new(4));
        let address = server.address;
        let start = |name, live: fn(SocketAddr, &Barrier, &AtomicBool) -> Tale| {
            let (begun, over) = (Arc::clone(&begun), Arc::clone(&over));
            (name, std::thread::spawn(move || live(address, &begun, &over)))
        };
        let threads = vec![start("holder", holder), start("newcomer", newcomer), start("worker", worker)];
        begun.wait();
        Life { over, threads }
    }

    /// Ends it; nobody has lost anything, and nobody waited for long.
    pub fn finish(self, server: &Server) {
        self.over.store(true, Ordering::Relaxed);
        for (name, thread) in self.threads {
            let tale = thread.join().unwrap_or_else(|_| panic!("the {name} did not survive"));
            assert!(tale.calls > 0, "the {name} did nothing");
            assert!(tale.longest < LATEST, "the {name}: {tale:?}");
        }
        let resident = server.resident_bytes();
        assert!(resident < RESIDENT_BYTES_MAX, "{} MiB", resident >> 20);
        let (status, _) = server.client().call("GET", "/healthz", None).unwrap();
        assert_eq!(status, 200);
    }
}

impl Tale {
    fn time<T>(&mut self, call: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let done = call();
        self.longest = self.longest.max(begun.elapsed());
        self.calls += 1;
        done
    }
}

fn acquire(client: &mut Client, lock: &str) -> Value {
    client.acquire(lock, &json!({"owner_id": lock, "ttl_ms": u64::try_from(TTL.as_millis()).unwrap()}))
}

/// Renews on a connection that it keeps.
fn holder(address: SocketAddr, begun: &Barrier, over: &AtomicBool) -> Tale {
    let mut client = Client::new(address);
    let leases = ["held-1", "held-2", "held-3"].map(|lock| acquire(&mut client, lock));
    begun.wait();
    let mut tale = Tale::default();
    while tale.calls == 0 || !over.load(Ordering::Relaxed) {
        for lease in &leases {
            let path = format!("/v1/locks/{}/renew", lease["lock"].as_str().unwrap());
            tale.time(|| client.expect(200, "POST", &path, Some(&proof(lease))));
        }
        sleep(PAUSE);
    }
    for lease in &leases {
        let path = format!("/v1/locks/{}/release", lease["lock"].as_str().unwrap());
        client.expect(200, "POST", &path, Some(&proof(lease)));
    }
    tale
}

/// Renews on a new connection each time. It may be told that there is no place, and then comes again, as clients do.
fn newcomer(address: SocketAddr, begun: &Barrier, over: &AtomicBool) -> Tale {
    let mut client = Client::new(address);
    let lease = acquire(&mut client, "held-anew");
    begun.wait();
    let mut confirmed = Instant::now();
    let mut tale = Tale::default();
    while tale.calls == 0 || !over.load(Ordering::Relaxed) {
        client.hang_up();
        let sent = Instant::now();
        match client.post("/v1/locks/held-anew/renew", &proof(&lease)) {
            Ok((200, _)) => {
                tale.calls += 1;
                tale.longest = tale.longest.max(sent.elapsed());
                confirmed = sent;
            }
            Ok((503, _)) | Err(_) => assert!(confirmed.elapsed() < TTL / 2, "the lease is lost"),
            other => panic!("{other:?}"),
        }
        sleep(PAUSE);
    }
    tale
}

/// Takes a lock and gives it back.
fn worker(address: SocketAddr, begun: &Barrier, over: &AtomicBool) -> Tale {
    let mut client = Client::new(address);
    client.get_lock("work");
    begun.wait();
    let mut tale = Tale::default();
    while tale.calls == 0 || !over.load(Ordering::Relaxed) {
        let lease = tale.time(|| acquire(&mut client, "work"));
        tale.time(|| client.expect(200, "POST", "/v1/locks/work/release", Some(&proof(&lease))));
        sleep(PAUSE / 10);
    }
    tale
}
