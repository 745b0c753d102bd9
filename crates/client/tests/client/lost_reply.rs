//! The server has done it, and nobody hears: the retry brings the same outcome, counted from its own sending.

use std::time::{Duration, Instant};

use leasehold_client::Ask;

use crate::proxy::{Proxy, Way};
use crate::server::{PATIENCE, Server, client};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_token_after_a_lost_reply() {
    let server = Server::start();
    let proxy = Proxy::to(server.address).await;
    let (unlucky, witness) = (client(proxy.address, "unlucky").await, server.client("witness").await);
    proxy.to_client(Way::Drop);
    let asking = tokio::spawn({
        let unlucky = unlucky.clone();
        async move { unlucky.acquire(Ask::new("a")).await }
    });
    let begun = Instant::now();
    let committed = loop {
        let snapshot = witness.get("a").await.unwrap();
        if let Some(holder) = snapshot.holders.first() {
            break holder.fencing_token;
        }
        assert!(begun.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    let committed_us = unlucky.clock().now_us();
    // The way back opens again, but for what was on it.
    proxy.to_client(Way::Forward);
    proxy.cut();
    let grant = asking.await.unwrap().unwrap();
    assert_eq!(grant.fencing_token, committed);
    assert!(grant.sent_us > committed_us, "it answers the second sending");
    // Between the two sendings time has run, which the answer leaves out.
    let ttl = Duration::from_secs(30);
    assert!(grant.stop_after <= ttl / 2 && grant.expires_in <= ttl);
    let snapshot = witness.get("a").await.unwrap();
    assert_eq!((snapshot.holders.len(), snapshot.last_token), (1, Some(committed)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_way_in_pieces_changes_nothing() {
    let server = Server::start();
    let proxy = Proxy::to(server.address).await;
    let client = client(proxy.address, "me").await;
    proxy.to_client(Way::Dribble);
    proxy.to_server(Way::Dribble);
    let grant = client.acquire(Ask::new("a")).await.unwrap();
    client.release(&grant.claim()).await.unwrap();
    assert_eq!(proxy.connections(), 1);
}
