//! Many leases by one heartbeat: one of them ends alone, all of them end together, and ten thousand cost as little as one.

use std::time::Duration;

use futures_util::future::join_all;
use leasehold_client::{
    AcquireOptions, BreakAsk, Client, Ended, Error, EventKind, Lease, LockOptions, Session, SessionOptions,
    Standing, Ttl, Watched,
};

use crate::proxy::{Proxy, Way};
use crate::server::{PATIENCE, Server, client};

const TTL: Duration = Duration::from_secs(6);

fn plain() -> AcquireOptions {
    AcquireOptions::default()
}

async fn open(client: &Client) -> Session {
    Session::open(client, TTL, SessionOptions::default()).await.unwrap()
}

/// A lease of this session that is held.
async fn held(session: &Session, lock: &str) -> Lease {
    let lease = session.lease(lock);
    assert_eq!(lease.acquire(Ttl::default(), plain()).await, Ok(true));
    lease
}

/// Waits until this has happened to this lock.
async fn happens(client: &Client, lock: &str, from: u64, kind: EventKind) {
    let mut events = client.watch(Watched::Lock(lock.into()), Some(from));
    while events.next().await.unwrap().unwrap().kind != kind {}
}

#[tokio::test]
async fn a_lease_that_is_broken_says_so_while_the_session_lives_on() {
    let server = Server::start();
    let (client, other) = (server.client("one").await, server.client("other").await);
    let session = open(&client).await;
    let (broken, fine) = (held(&session, "a").await, held(&session, "b").await);
    let guard = session.lock("c").lock(Ttl::default(), LockOptions::default()).await.unwrap();
    other.break_lock(BreakAsk::new("a", "a test")).await.unwrap();
    other.break_lock(BreakAsk::new("c", "a test")).await.unwrap();
    broken.lost().cancelled().await;
    guard.lost().cancelled().await;
    let error = Error::Ended(Ended::Broken(String::new()));
    assert_eq!((broken.token(), guard.token()), (Err(error.clone()), Err(error.clone())));
    assert_eq!(guard.run(async {}).await, Err(error.clone()));
    // The rest outlives several heartbeats; what was broken stays so.
    tokio::time::sleep(TTL).await;
    assert!(fine.token().is_ok() && session.check().is_ok());
    assert_eq!(broken.token(), Err(error.clone()));
    // Its holder has stopped: the lock is free at once, though its session lives.
    assert_eq!(guard.unlock().await, Err(error.clone()));
    let next = Lease::new(&other, "c");
    while !next.acquire(Ttl::SHORT, plain()).await.unwrap() {
        tokio::task::yield_now().await;
    }
    assert_eq!(broken.release().await, Err(error));
    held(&session, "a").await;
    assert!(fine.token().is_ok());
}

#[tokio::test]
async fn closing_ends_everything_under_it() {
    let server = Server::start();
    let (client, other) = (server.client("one").await, server.client("other").await);
    let session = open(&client).await;
    let lease = held(&session, "a").await;
    let theirs = Lease::new(&other, "b");
    assert_eq!(theirs.acquire(Ttl::LONG, plain()).await, Ok(true));
    let from = other.get("b").await.unwrap().seq;
    let waiting = tokio::spawn({
        let lock = session.lock("b");
        async move { lock.lock(Ttl::default(), LockOptions::default()).await }
    });
    happens(&other, "b", from, EventKind::Queued).await;

    session.close().await.unwrap();
    assert_eq!(lease.token(), Err(Error::Ended(Ended::SessionClosed)));
    assert!(lease.lost().is_cancelled() && session.lost().is_cancelled());
    assert_eq!(waiting.await.unwrap().unwrap_err(), Error::Ended(Ended::SessionClosed));
    happens(&other, "b", from, EventKind::Dequeued).await;
    assert!(!other.get("a").await.unwrap().is_held());
    assert_eq!(session.close().await, Err(Error::Ended(Ended::SessionClosed)), "once only");
    let late = session.lease("a").acquire(Ttl::default(), plain()).await;
    assert_eq!(late, Err(Error::Ended(Ended::SessionClosed)));
}

#[tokio::test]
async fn it_lives_as_long_as_somebody_has_a_hand_on_it() {
    let server = Server::start();
    let (client, other) = (server.client("one").await, server.client("other").await);
    let session = open(&client).await;
    let guard = session.lock("a").lock(Ttl::default(), LockOptions::default()).await.unwrap();
    drop(session);
    tokio::time::sleep(TTL).await;
    assert!(guard.token().is_ok());
    drop(guard);
    while !other.sessions(None, None).await.unwrap().rows.is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn what_the_session_decides_cannot_be_asked_for() {
    let server = Server::start();
    let session = open(&server.client("one").await).await;
    for (field, ttl, options) in [
        ("ttl", Ttl::SHORT, plain()),
        ("renewal", Ttl::default(), plain().never_renew()),
        ("renewal", Ttl::default(), plain().renew_every(Duration::from_secs(1))),
    ] {
        match session.lease("a").acquire(ttl, options).await {
            Err(Error::Invalid { field: named, .. }) => assert_eq!(named, field),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn losing_the_session_loses_everything_under_it_in_time() {
    let server = Server::start();
    let proxy = Proxy::to(server.address).await;
    let (client, other) = (client(proxy.address, "one").await, server.client("other").await);
    let session = open(&client).await;
    let leases = join_all(
        (0..50).map(|n| async move { n.to_string() }).map(|name| async { held(&session, &name.await).await }),
    )
    .await;
    let next = tokio::spawn(async move {
        leasehold_client::Lock::new(&other, "7").lock(TTL, LockOptions::default()).await.unwrap()
    });
    proxy.to_server(Way::Stall);
    let signals = leases.iter().map(|lease| lease.lost().cancelled_owned());
    tokio::time::timeout(PATIENCE, join_all(signals)).await.expect("each signal fires");
    assert!(!next.is_finished(), "nobody else has it yet");
    let lost = Err(Error::Ended(Ended::Lost));
    assert!(leases.iter().all(|lease| lease.token() == lost));
    assert_eq!(session.standing(), Standing::Lost);
    drop(next.await.unwrap());
}

#[tokio::test]
async fn a_stuck_holder_does_not_keep_its_lock_though_the_session_lives() {
    let server = Server::start();
    let (client, other) = (server.client("one").await, server.client("other").await);
    let session = Session::open(&client, Duration::from_secs(3), SessionOptions::default()).await.unwrap();
    let fine = held(&session, "fine").await;
    let stuck = session.lease("stuck");
    let tied = plain().tied_to_progress(Duration::from_millis(500));
    assert_eq!(stuck.acquire(Ttl::default(), tied).await, Ok(true));
    let next = tokio::spawn(async move {
        leasehold_client::Lock::new(&other, "stuck").lock(TTL, LockOptions::default()).await.unwrap()
    });
    tokio::time::timeout(PATIENCE, stuck.lost().cancelled()).await.expect("it is lost");
    assert!(!next.is_finished(), "its holder has time to stop");
    drop(next.await.unwrap());
    assert!(fine.token().is_ok() && session.check().is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_leases_cost_as_little_as_one() {
    let server = Server::start();
    let proxy = Proxy::to(server.address).await;
    let session = open(&client(proxy.address, "one").await).await;
    let names: Vec<String> = (0..10_000).map(|n| format!("shard-{n}")).collect();
    let leases = join_all(names.iter().map(|name| held(&session, name))).await;
    assert_eq!(proxy.connections(), 1);

    let before = proxy.to_server_bytes();
    // Long enough that each of them would be lost without renewals.
    tokio::time::sleep(TTL).await;
    assert!(leases.iter().all(|lease| lease.token().is_ok()), "each of them is held");
    let sent = proxy.to_server_bytes() - before;
    assert!(sent < 4_096, "{sent} bytes were sent in a TTL");
    assert_eq!(proxy.connections(), 1);
    session.close().await.unwrap();
    assert!(leases.iter().all(|lease| lease.lost().is_cancelled()));
}
