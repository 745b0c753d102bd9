//! Standing in line: places are kept through broken connections, and given up when nobody wants them.

use std::future::Future;
use std::task::Poll;
use std::time::{Duration, Instant};

use leasehold_client::{Ask, Client, Error, Grant, Snapshot};
use leasehold_server::config::Given;
use tokio::task::JoinHandle;

use crate::proxy::Proxy;
use crate::server::{PATIENCE, Server, client};

fn wait_for(client: &Client, lock: &str) -> JoinHandle<Result<Grant, Error>> {
    let (client, ask) = (client.clone(), Ask { wait: Duration::MAX, ..Ask::new(lock) });
    tokio::spawn(async move { client.acquire(ask).await })
}

/// Looks until it is so.
pub async fn until(client: &Client, lock: &str, is_so: impl Fn(&Snapshot) -> bool) -> Snapshot {
    let begun = Instant::now();
    loop {
        let snapshot = client.get(lock).await.unwrap();
        if is_so(&snapshot) {
            return snapshot;
        }
        assert!(begun.elapsed() < PATIENCE, "{snapshot:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub async fn until_waiting(client: &Client, lock: &str, count: usize) -> Snapshot {
    until(client, lock, |snapshot| snapshot.waiters.len() == count).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_connection_keeps_its_place() {
    let server = Server::start();
    let proxy = Proxy::to(server.address).await;
    let holder = server.client("holder").await;
    let held = holder.acquire(Ask::new("a")).await.unwrap();
    let mut waiting = Vec::new();
    for (owner, address) in [("first", server.address), ("second", proxy.address), ("third", server.address)]
    {
        waiting.push(wait_for(&client(address, owner).await, "a"));
        until_waiting(&holder, "a", waiting.len()).await;
    }
    for times in 2..5 {
        proxy.cut();
        // It is back when its connection is; while it was away it was detached, not gone.
        let begun = Instant::now();
        while proxy.connections() < times {
            assert!(begun.elapsed() < PATIENCE);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        until(&holder, "a", |snapshot| snapshot.waiters.iter().all(|waiter| waiter.attached)).await;
    }
    let owners: Vec<_> =
        until_waiting(&holder, "a", 3).await.waiters.into_iter().map(|waiter| waiter.owner_id).collect();
    assert_eq!(owners, ["first", "second", "third"]);
    let mut last = held;
    for waiting in waiting {
        holder.release(&last.claim()).await.unwrap();
        let next = waiting.await.unwrap().unwrap();
        assert!(next.fencing_token > last.fencing_token);
        last = next;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_half_open_connection_is_noticed_by_who_only_waits() {
    let server = Server::start();
    let proxy = Proxy::to(server.address).await;
    let holder = server.client("holder").await;
    let held = holder.acquire(Ask::new("a")).await.unwrap();
    let waiting = wait_for(&client(proxy.address, "waiter").await, "a");
    until_waiting(&holder, "a", 1).await;
    proxy.freeze();
    // Nothing tells either side but the silence on the connection.
    let begun = Instant::now();
    while proxy.connections() < 2 {
        assert!(begun.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    holder.release(&held.claim()).await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap().owner_id, "waiter");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_gives_up_leaves_the_line() {
    let server = Server::start();
    let holder = server.client("holder").await;
    let held = holder.acquire(Ask::new("a")).await.unwrap();
    let (first, second) = (server.client("first").await, server.client("second").await);
    let giving_up = wait_for(&first, "a");
    until_waiting(&holder, "a", 1).await;
    let waiting = wait_for(&second, "a");
    until_waiting(&holder, "a", 2).await;
    giving_up.abort();
    let snapshot = until_waiting(&holder, "a", 1).await;
    assert_eq!(snapshot.waiters[0].owner_id, "second");
    holder.release(&held.claim()).await.unwrap();
    waiting.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_gave_up_just_when_it_was_granted_gives_it_back() {
    let server = Server::start();
    let proxy = Proxy::to(server.address).await;
    let holder = server.client("holder").await;
    let held = holder.acquire(Ask::new("a")).await.unwrap();
    let waiting = wait_for(&client(proxy.address, "waiter").await, "a");
    until_waiting(&holder, "a", 1).await;
    proxy.to_client(crate::proxy::Way::Stall);
    holder.release(&held.claim()).await.unwrap();
    until(&holder, "a", |snapshot| snapshot.holders.iter().any(|holder| holder.owner_id == "waiter")).await;
    waiting.abort();
    until(&holder, "a", |snapshot| !snapshot.is_held()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_that_nobody_looked_at_is_given_back() {
    let server = Server::start();
    let client = server.client("me").await;
    for wait in [Duration::ZERO, Duration::MAX] {
        let mut asking = Box::pin(client.acquire(Ask { wait, ..Ask::new("a") }));
        let begun = std::future::poll_fn(|cx| Poll::Ready(asking.as_mut().poll(cx))).await;
        assert!(begun.is_pending());
        // Answers come in order here: when this one is there, so is the other.
        until(&client, "a", Snapshot::is_held).await;
        drop(asking);
        until(&client, "a", |snapshot| !snapshot.is_held()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_ends_in_time() {
    let server = Server::start();
    let client = server.client("me").await;
    client.acquire(Ask::new("a")).await.unwrap();
    let begun = Instant::now();
    let ask = Ask { wait: Duration::from_millis(300), ..Ask::new("a") };
    let error = client.acquire(ask).await.unwrap_err();
    assert!(matches!(error, Error::Held(_)), "{error}");
    assert!(begun.elapsed() >= Duration::from_millis(299));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_may_wait_than_one_stream_takes() {
    let server = Server::start_with(Given { in_flight_max: Some(8), ..Given::default() });
    let proxy = Proxy::to(server.address).await;
    let client = client(proxy.address, "me").await;
    let held = client.acquire(Ask::new("a")).await.unwrap();
    let waiting: Vec<_> = (0..50)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move {
                let grant = client.acquire(Ask { wait: Duration::MAX, ..Ask::new("a") }).await?;
                client.release(&grant.claim()).await.map(|()| grant.fencing_token)
            })
        })
        .collect();
    until_waiting(&client, "a", 50).await;
    // There is room for everything else meanwhile.
    let others = (0..100).map(|n| {
        let (client, ask) = (client.clone(), Ask::new(format!("other-{n}")));
        tokio::spawn(async move { client.acquire(ask).await })
    });
    for other in others.collect::<Vec<_>>() {
        other.await.unwrap().unwrap();
    }
    assert_eq!(proxy.connections(), 1);
    client.release(&held.claim()).await.unwrap();
    let mut tokens = std::collections::BTreeSet::from([held.fencing_token]);
    for waiting in waiting {
        assert!(tokens.insert(waiting.await.unwrap().unwrap()));
    }
}
