//! A server that stands still, because its disk does or because it was stopped, for longer than its clients' TTL. It ends no
//! lease for that: renewals that waited are answered before anything expires, and nobody in line gets what is held.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::needs;
use super::strace::{Injection, Trace, Tracer};
use crate::client::{Client, proof};
use crate::lock::stage::{now_us, state, until};
use crate::program::{Place, Server};

const KEEPERS: usize = 6;
const TTL_MS: u64 = 3_000;

/// A client that renews one lease, and gives up on nothing.
struct Keeper {
    lease: Value,
    /// When the last renewal that was confirmed was sent.
    confirmed_us: u64,
    longest_us: u64,
}

/// Clients that keep their leases, each with somebody in line behind it; and one that makes the journal write.
struct Keepers {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Keeper>>,
    churn: JoinHandle<()>,
    in_line: Vec<Client>,
}

impl Keepers {
    fn start(server: &Server) -> Keepers {
        let stop = Arc::new(AtomicBool::new(false));
        let address = server.address;
        let threads = (0..KEEPERS).map(|n| keep(address, n, Arc::clone(&stop))).collect();
        let in_line = (0..KEEPERS).map(|n| {
            let mut client = server.client();
            until("it is held", || client.get_lock(&format!("kept{n}"))["state"] == "held");
            let body = json!({"owner_id": "next", "wait_ms": 3_000_000, "request_id": format!("next{n}")});
            client.begin("POST", &format!("/v1/locks/kept{n}/acquire"), Some(&body)).unwrap();
            client
        });
        let in_line = in_line.collect();
        let churn = spawn({
            let stop = Arc::clone(&stop);
            move || {
                let mut client = Client::new(address);
                while !stop.load(Ordering::Relaxed) {
                    let lease = client.acquire("churn", &json!({"owner_id": "churn", "ttl_ms": 600_000}));
                    client.expect(200, "POST", "/v1/locks/churn/release", Some(&proof(&lease)));
                }
            }
        });
        Keepers { stop, threads, churn, in_line }
    }

    /// Everybody was confirmed to the end, and nobody in line was granted anything.
    fn judge(self, server: &Server) -> Vec<Keeper> {
        self.stop.store(true, Ordering::Relaxed);
        let kept: Vec<_> = self.threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        self.churn.join().unwrap();
        let mut client = server.client();
        for (n, keeper) in kept.iter().enumerate() {
            let holders = client.get_lock(&format!("kept{n}"))["holders"].clone();
            assert_eq!(holders[0]["fencing_token"], keeper.lease["fencing_token"], "{holders}");
        }
        drop(self.in_line);
        assert_eq!(metric(&mut client, "lock_expired_total"), 0);
        kept
    }
}

fn keep(address: SocketAddr, n: usize, stop: Arc<AtomicBool>) -> JoinHandle<Keeper> {
    spawn(move || {
        let mut client = Client::new(address);
        let lock = format!("kept{n}");
        let mut confirmed_us = now_us();
        let body = json!({"owner_id": format!("keeper{n}"), "ttl_ms": TTL_MS});
        let lease = client.acquire(&lock, &body);
        let mut longest_us = 0;
        while !stop.load(Ordering::Relaxed) {
            sleep(Duration::from_millis(TTL_MS / 10));
            let sent_us = now_us();
            // Anything but a success ends the test.
            client.expect(200, "POST", &format!("/v1/locks/{lock}/renew"), Some(&proof(&lease)));
            longest_us = longest_us.max(now_us() - sent_us);
            confirmed_us = sent_us;
        }
        Keeper { lease, confirmed_us, longest_us }
    })
}

fn metric(client: &mut Client, name: &str) -> u64 {
    client.begin("GET", "/metrics", None).unwrap();
    let (status, text) = client.answer_bytes().unwrap();
    assert_eq!(status, 200);
    let text = String::from_utf8(text).unwrap();
    let value = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    let Some(value) = value else { panic!("there is no metric {name}") };
    value.parse::<f64>().unwrap() as u64
}

#[test]
fn slow_syncs_end_no_lease() {
    if !needs::met(&["strace"]) {
        return;
    }
    let place = Place::new();
    let server = place.serve();
    let keepers = Keepers::start(&server);
    let mut delayed = Vec::new();
    // The longest before the horizon has grown with the others.
    for (delay_us, enough) in [(300_000, 4), (6_000_000, 1), (1_500_000, 2)] {
        let effect = format!("delay_exit={delay_us}");
        let log = place.path(&effect);
        let injection = Injection { calls: "fdatasync", effect: &effect, when: "1+".into() };
        let tracer = Tracer::attach(&server, "journal", &injection, log.clone());
        until("enough syncs were slow", || Trace::read(&log).delayed() >= enough);
        // The log has a call before its delay is over.
        let logged_us = now_us();
        until("the last delay is over", || now_us() > logged_us + delay_us);
        delayed.push(tracer.detach().delayed());
    }
    assert!(metric(&mut server.client(), "lock_stall_ms_total") > 0, "the server never stood still");
    let kept = keepers.judge(&server);
    let longest_us = kept.iter().map(|keeper| keeper.longest_us).max().unwrap();
    println!("slow syncs: {delayed:?} of 0.3, 6 and 1.5 s; the longest renewal took {longest_us} us");
    assert!(longest_us > TTL_MS * 1000, "no renewal was held up for longer than a TTL");
    server.stop();
}

#[test]
fn a_stopped_server_ends_no_lease_also_when_it_is_killed_right_after() {
    if !needs::met(&[]) {
        return;
    }
    let place = Place::new();
    let server = place.serve();
    let listen = server.address.to_string();
    let keepers = Keepers::start(&server);
    let pid = i32::try_from(server.pid()).unwrap();
    for stops in 1..=2 {
        server.signal(Signal::STOP);
        until("it is stopped", || state(pid) == Some('T'));
        let stopped_us = now_us();
        until("a TTL and a half has passed", || now_us() > stopped_us + TTL_MS * 1500);
        server.signal(Signal::CONT);
        let mut client = server.client();
        let stalled = format!("it has noticed stop {stops}");
        until(&stalled, || metric(&mut client, "lock_stall_ms_total") > stops * TTL_MS);
    }
    let kept = keepers.judge(&server);
    server.kill();

    // What was confirmed last holds for a whole TTL, however short the time since.
    let server = place.serve_with(&["--listen", &listen]);
    let mut client = server.client();
    for (n, keeper) in kept.iter().enumerate() {
        let holders = client.get_lock(&format!("kept{n}"))["holders"].clone();
        let held = holders[0]["fencing_token"] == keeper.lease["fencing_token"];
        let heard_us = now_us();
        assert!(held || heard_us > keeper.confirmed_us + TTL_MS * 1000, "{holders}");
    }
    server.stop();
}
