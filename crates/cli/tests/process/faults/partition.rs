//! Partitions between real network stacks: packets to the server are lost, or packets from it, or both. Whoever held a lock
//! behind one says that it is lost before anybody else is granted it, and goes on when the packets do.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

use leasehold_client::{Client, Lock, LockOptions};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::crew::{Crew, Seat};
use super::namespace::{self, Cut, Network};
use super::{needs, verdict};
use crate::client::{Client as Plain, proof};
use crate::lock::stage::{now_us, until};
use crate::program::{PATIENCE, Place};

const CUTS: [Cut; 3] = [Cut::ToServer, Cut::FromServer, Cut::Both];
/// The client that nothing happens to.
const WELL: usize = CUTS.len();
const TTL: Duration = Duration::from_secs(4);

/// Somebody behind a partition, with the SDK.
struct Holder {
    held: Receiver<u64>,
    lost_us: Receiver<u64>,
    healed: oneshot::Sender<()>,
    thread: JoinHandle<u64>,
}

fn hold(server: SocketAddr, namespace: PathBuf, lock: String) -> Holder {
    let (say_held, held) = channel();
    let (say_lost, lost_us) = channel();
    let (healed, is_healed) = oneshot::channel();
    let thread = spawn(move || {
        // Everything that it connects, it connects from this thread.
        namespace::enter(&namespace);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let client = Client::builder(&server.to_string()).owner("holder").connect().await.unwrap();
            let guard = Lock::new(&client, &lock).lock(TTL, LockOptions::default()).await.unwrap();
            say_held.send(guard.token().unwrap()).unwrap();
            guard.lost().cancelled().await;
            say_lost.send(now_us()).unwrap();
            assert!(guard.token().is_err());
            is_healed.await.unwrap();
            assert!(guard.token().is_err(), "what was lost stays lost");
            drop(guard);
            let guard = Lock::new(&client, &lock).lock(TTL, LockOptions::default()).await.unwrap();
            let token = guard.token().unwrap();
            guard.unlock().await.unwrap();
            token
        })
    });
    Holder { held, lost_us, healed, thread }
}

/// Somebody in line, on the side that is well; the lease, and when it was heard of.
fn stand_in_line(server: SocketAddr, lock: String) -> JoinHandle<(Value, u64)> {
    spawn(move || {
        let body = json!({"owner_id": "next", "ttl_ms": 600_000, "wait_ms": 600_000});
        let lease = Plain::new(server).acquire(&lock, &body);
        (lease, now_us())
    })
}

fn lock(n: usize) -> String {
    format!("behind{n}")
}

#[test]
fn whoever_is_cut_off_says_lost_before_another_is_granted() {
    if !needs::met_as_root(&["ip", "nft"]) {
        return;
    }
    for _ in 0..if needs::full() { 10 } else { 1 } {
        // In a thread of its own, because it moves to another namespace for good.
        spawn(partition).join().unwrap();
    }
}

fn partition() {
    let network = Network::new(CUTS.len() + 1);
    let place = Place::new();
    let command = network.command(env!("CARGO_BIN_EXE_leasehold"));
    let arguments = &["--listen", "0.0.0.0:0", "--insecure", "--segment-bytes", "1048576"];
    let server = place.try_serve(command, arguments).unwrap();
    let address = |n: usize| SocketAddr::from((network.server_address(n), server.address.port()));
    let seat = |n: usize| Seat { server: address(n), namespace: Some(network.client_path(n)) };

    let seats: Vec<_> = (0..2 * (CUTS.len() + 1)).map(|n| seat(n / 2)).collect();
    let crew = Crew::start("cut", &seats);
    crew.until_answered(200);
    let holders: Vec<_> =
        (0..CUTS.len()).map(|n| hold(address(n), network.client_path(n), lock(n))).collect();
    let tokens: Vec<_> = holders.iter().map(|holder| holder.held.recv_timeout(PATIENCE).unwrap()).collect();

    // This thread and those it starts are on the side that is well.
    namespace::enter(&network.client_path(WELL));
    let mut client = Plain::new(address(WELL));
    let next: Vec<_> = (0..CUTS.len()).map(|n| stand_in_line(address(WELL), lock(n))).collect();
    for n in 0..CUTS.len() {
        until("it is in line", || client.get_lock(&lock(n))["waiters"].as_array().unwrap().len() == 1);
    }

    for (n, cut) in CUTS.into_iter().enumerate() {
        network.cut(n, cut);
    }
    let cut_us = now_us();
    let lost: Vec<_> = holders.iter().map(|holder| holder.lost_us.recv_timeout(PATIENCE).unwrap()).collect();
    let granted: Vec<_> = next.into_iter().map(|next| next.join().unwrap()).collect();
    for (n, cut) in CUTS.into_iter().enumerate() {
        let (lease, granted_us) = &granted[n];
        assert!(lost[n] < *granted_us, "{cut:?}: granted to another before it was lost");
        assert!(lease["fencing_token"].as_u64().unwrap() > tokens[n]);
        println!(
            "{cut:?}: lost after {} ms, granted after {} ms",
            (lost[n] - cut_us) / 1000,
            (granted_us - cut_us) / 1000
        );
    }
    crew.until_answered(200);

    for (n, holder) in holders.into_iter().enumerate() {
        let dropped = network.heal(n);
        println!("{:?}: {dropped} packets lost", CUTS[n]);
        assert!(dropped > 0, "{:?}: no packet was lost", CUTS[n]);
        let (lease, _) = &granted[n];
        holder.healed.send(()).unwrap();
        client.expect(200, "POST", &format!("/v1/locks/{}/release", lock(n)), Some(&proof(lease)));
        let again = holder.thread.join().unwrap();
        assert!(again > lease["fencing_token"].as_u64().unwrap(), "it is granted the lock again");
    }
    crew.until_answered(200);
    let tally = verdict::judge("cut", crew.finish(), &mut client);
    println!("partition: {tally:?}");
    server.stop();
}
