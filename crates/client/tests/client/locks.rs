//! The mutex: lines, timeouts, cancelling, sharing, and servers without a line to stand in.

use std::time::Duration;

use leasehold_client::{
    AcquireOptions, Client, Ended, Error, EventKind, Guard, Lock, LockOptions, Observer, Ttl, Watched,
};
use leasehold_server::config::Given;
use tokio_util::sync::CancellationToken;

use crate::proxy::Proxy;
use crate::server::{Server, client};

fn plain() -> LockOptions {
    LockOptions::default()
}

async fn lock(client: &Client) -> Guard {
    Lock::new(client, "deploy").lock(Ttl::LONG, plain()).await.unwrap()
}

/// Everything that happens from now on.
async fn events(client: &Client) -> Observer {
    let seq = client.get("deploy").await.unwrap().seq;
    client.watch(Watched::Lock("deploy".into()), Some(seq))
}

/// Waits until this happens to this owner.
async fn happens(events: &mut Observer, kind: EventKind, owner: &str) {
    loop {
        let event = events.next().await.unwrap().unwrap();
        if event.kind == kind && event.owner_id == owner {
            return;
        }
    }
}

#[tokio::test]
async fn waits_in_line_in_order_with_growing_tokens() {
    let server = Server::start();
    let watcher = server.client("watcher").await;
    let mut events = events(&watcher).await;
    let first = lock(&server.client("0").await).await;
    let mut waiting = Vec::new();
    for number in 1..=4 {
        let owner = number.to_string();
        let client = server.client(&owner).await;
        waiting.push(tokio::spawn(async move { lock(&client).await }));
        happens(&mut events, EventKind::Queued, &owner).await;
    }
    let mut token = first.token().unwrap();
    first.unlock().await.unwrap();
    for (number, waiting) in (1..=4).zip(waiting) {
        let guard = waiting.await.unwrap();
        assert_eq!(guard.lease().holder().await.unwrap().unwrap().owner_id, number.to_string());
        let next = guard.token().unwrap();
        assert!(next > token);
        token = next;
        // Dropping is as good as unlocking.
        if number % 2 == 0 { drop(guard) } else { guard.unlock().await.unwrap() }
    }
}

#[tokio::test]
async fn whoever_stops_waiting_leaves_the_line() {
    let server = Server::start();
    let (one, two) = (server.client("one").await, server.client("two").await);
    let guard = lock(&one).await;
    let mut events = events(&one).await;

    let waiting = tokio::spawn({
        let two = two.clone();
        async move { lock(&two).await }
    });
    happens(&mut events, EventKind::Queued, "two").await;
    waiting.abort();
    happens(&mut events, EventKind::Dequeued, "two").await;

    let cancel = CancellationToken::new();
    let waiting = tokio::spawn({
        let (two, cancelled) = (two.clone(), plain().cancelled_by(cancel.clone()));
        async move { Lock::new(&two, "deploy").lock(Ttl::LONG, cancelled).await }
    });
    happens(&mut events, EventKind::Queued, "two").await;
    cancel.cancel();
    assert_eq!(waiting.await.unwrap().unwrap_err(), Error::Cancelled);
    happens(&mut events, EventKind::Dequeued, "two").await;

    let timed = Lock::new(&two, "deploy").lock(Ttl::LONG, plain().timeout(Duration::from_millis(300))).await;
    let Err(Error::Held(held)) = timed else { panic!("{timed:?}") };
    assert_eq!((held.lock.as_str(), held.holders[0].owner_id.as_str()), ("deploy", "one"));
    happens(&mut events, EventKind::Dequeued, "two").await;
    let at_once = Lock::new(&two, "deploy").lock(Ttl::LONG, plain().timeout(Duration::ZERO)).await;
    assert!(matches!(at_once, Err(Error::Held(_))), "{at_once:?}");

    guard.unlock().await.unwrap();
    let guard = Lock::new(&two, "deploy").lock(Ttl::LONG, plain().timeout(Duration::ZERO)).await.unwrap();
    assert!(guard.token().is_ok());
}

#[tokio::test]
async fn keeps_its_place_when_its_connection_breaks() {
    let server = Server::start();
    let proxy = Proxy::to(server.address).await;
    let watcher = server.client("watcher").await;
    let guard = lock(&server.client("one").await).await;
    let mut events = events(&watcher).await;
    let two = client(proxy.address, "two").await;
    let second = tokio::spawn(async move { lock(&two).await });
    happens(&mut events, EventKind::Queued, "two").await;
    let three = server.client("three").await;
    let third = tokio::spawn(async move { lock(&three).await });
    happens(&mut events, EventKind::Queued, "three").await;
    for _ in 0..3 {
        let before = proxy.connections();
        proxy.cut();
        while proxy.connections() == before {
            tokio::task::yield_now().await;
        }
    }
    let attached = || async {
        let waiters = watcher.get("deploy").await.unwrap().waiters;
        waiters.first().is_some_and(|waiter| waiter.owner_id == "two" && waiter.attached)
    };
    while !attached().await {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    guard.unlock().await.unwrap();
    let second = second.await.unwrap();
    assert!(!third.is_finished());
    second.unlock().await.unwrap();
    drop(third.await.unwrap());
}

#[tokio::test]
async fn where_there_is_no_line_it_watches_and_tries_again() {
    let server = Server::start_with(Given { waiters_per_lock_max: Some(1), ..Given::default() });
    let watcher = server.client("watcher").await;
    let guard = lock(&server.client("one").await).await;
    let mut events = events(&watcher).await;
    let two = server.client("two").await;
    let second = tokio::spawn(async move { lock(&two).await });
    happens(&mut events, EventKind::Queued, "two").await;
    // The third finds no place. Its own pauses would be long; that somebody goes ends them early.
    let delay = leasehold_client::RetryPolicy {
        attempts: u32::MAX,
        backoff: Duration::from_secs(3600),
        backoff_max: Duration::from_secs(3600),
        ..Default::default()
    };
    let three = server.client("three").await;
    let third = tokio::spawn(async move {
        Lock::new(&three, "deploy").lock(Ttl::LONG, plain().delay(delay)).await.unwrap()
    });
    let impatient = leasehold_client::RetryPolicy { attempts: 2, ..delay };
    let four = server.client("four").await;
    let refused = Lock::new(&four, "deploy").lock(Ttl::LONG, plain().delay(impatient)).await;
    assert!(matches!(refused, Err(Error::Busy { .. })), "{refused:?}");
    guard.unlock().await.unwrap();
    let second = second.await.unwrap();
    happens(&mut events, EventKind::Queued, "three").await;
    second.unlock().await.unwrap();
    drop(third.await.unwrap());
}

#[tokio::test]
async fn readers_share_and_a_writer_waits_for_them() {
    let server = Server::start();
    let (one, two, three) =
        (server.client("one").await, server.client("two").await, server.client("three").await);
    let shared = |client: &Client| {
        let lock = Lock::new(client, "deploy");
        async move { lock.lock(Ttl::LONG, plain().shared()).await.unwrap() }
    };
    let (first, second) = (shared(&one).await, shared(&two).await);
    let mut events = events(&one).await;
    let writer = tokio::spawn(async move { lock(&three).await });
    happens(&mut events, EventKind::Queued, "three").await;
    first.unlock().await.unwrap();
    assert!(!writer.is_finished());
    second.unlock().await.unwrap();
    drop(writer.await.unwrap());
}

#[tokio::test]
async fn the_lease_underneath_is_reachable() {
    let server = Server::start();
    let client = server.client("one").await;
    let lock = Lock::new(&client, "deploy");
    let lease = lock.lease();
    assert_eq!(lease.acquire(Ttl::SHORT, AcquireOptions::default()).await, Ok(true));
    lease.release().await.unwrap();
    let guard = lock.lock(Ttl::SHORT, plain()).await.unwrap();
    assert_eq!(guard.lease().token(), guard.token());
    let claim = guard.lease().claim().unwrap();
    assert!(client.renew(&claim, None, None).await.is_ok());
    let token = guard.token().unwrap();
    guard.unlock().await.unwrap();
    assert!(matches!(client.verify("deploy", token).await, Err(Error::Ended(Ended::Stale))));
}
