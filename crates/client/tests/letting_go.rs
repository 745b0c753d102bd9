//! Whatever is dropped, aborted or given up, at any point: nothing is left behind at the server.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use leasehold_client::testing::Server;
use leasehold_client::{
    AcquireOptions, Ask, Client, Ended, Error, Guard, Lock, LockOptions, RetryPolicy, Session,
    SessionOptions, Ttl,
};

const S: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_secs(3600);

async fn lock(client: &Client, name: &str) -> Guard {
    Lock::new(client, name).lock(TTL, LockOptions::default()).await.unwrap()
}

/// Lets a future take its next step, and no other.
fn step<F: Future>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

fn holders(server: &Server, name: &str) -> usize {
    server.holders(name).len()
}

#[tokio::test]
async fn a_grant_that_has_come_and_is_never_looked_at_is_given_back() {
    let server = Server::new();
    let client = server.client("one");
    let mut locking = Box::pin(lock(&client, "deploy"));
    assert!(step(&mut locking).is_pending());
    server.clock().settle().await;
    assert_eq!(holders(&server, "deploy"), 1);
    drop(locking);
    server.clock().settle().await;
    assert_eq!(holders(&server, "deploy"), 0);

    let lease = Lock::new(&client, "deploy").lease();
    let mut acquiring = Box::pin(lease.acquire(TTL, AcquireOptions::default()));
    assert!(step(&mut acquiring).is_pending());
    server.clock().settle().await;
    assert_eq!(holders(&server, "deploy"), 1);
    drop(acquiring);
    server.clock().settle().await;
    assert_eq!(holders(&server, "deploy"), 0);
}

#[tokio::test]
async fn a_plain_acquire_that_is_let_go_of_leaves_nothing_behind_however_far_it_got() {
    let server = Server::new();
    let client = server.client("one");
    for ask in [Ask::new("deploy"), Ask { wait: S, ..Ask::new("deploy") }] {
        let unlooked_at = Box::pin(client.acquire(ask.clone()));
        server.clock().settle().await;
        assert_eq!(holders(&server, "deploy"), 0, "nothing is asked before somebody looks");
        drop(unlooked_at);

        let mut asked = Box::pin(client.acquire(ask.clone()));
        assert!(step(&mut asked).is_pending());
        drop(asked);
        server.clock().settle().await;
        assert_eq!(holders(&server, "deploy"), 0);

        let mut granted = Box::pin(client.acquire(ask.clone()));
        assert!(step(&mut granted).is_pending());
        server.clock().settle().await;
        assert_eq!(holders(&server, "deploy"), 1);
        drop(granted);
        server.clock().settle().await;
        assert_eq!(holders(&server, "deploy"), 0);

        let mut taken = Box::pin(client.acquire(ask));
        assert!(step(&mut taken).is_pending());
        server.clock().settle().await;
        let Poll::Ready(grant) = step(&mut taken) else { panic!("it has come") };
        drop(taken);
        server.clock().settle().await;
        assert_eq!(holders(&server, "deploy"), 1, "it is the caller's now");
        client.release(&grant.unwrap().claim()).await.unwrap();
    }
}

#[tokio::test]
async fn a_plain_release_asks_when_somebody_looks_and_not_before() {
    let server = Server::new();
    let client = server.client("one");
    let claim = client.acquire(Ask::new("deploy")).await.unwrap().claim();
    drop(client.release(&claim));
    server.clock().settle().await;
    assert_eq!(holders(&server, "deploy"), 1);
    let mut releasing = Box::pin(client.release(&claim));
    assert!(step(&mut releasing).is_pending());
    server.clock().settle().await;
    assert_eq!(holders(&server, "deploy"), 0);
    assert!(matches!(step(&mut releasing), Poll::Ready(Ok(()))));
}

#[tokio::test]
async fn a_session_that_was_opened_for_nobody_is_closed() {
    let server = Server::new();
    let client = server.client("one");
    let mut opening = Box::pin(Session::open(&client, TTL, SessionOptions::default()));
    assert!(step(&mut opening).is_pending());
    server.clock().settle().await;
    assert_eq!(client.sessions(None, None).await.unwrap().rows.len(), 1);
    drop(opening);
    server.clock().settle().await;
    assert_eq!(client.sessions(None, None).await.unwrap().rows.len(), 0);
}

#[tokio::test]
async fn an_answer_to_a_renewal_that_nobody_looks_at_ends_nothing() {
    let server = Server::new();
    let client = server.client("one");
    let guard = lock(&client, "deploy").await;
    let mut describing = Box::pin(guard.lease().describe([("a".into(), "b".into())].into()));
    assert!(step(&mut describing).is_pending());
    server.clock().settle().await;
    drop(describing);
    server.clock().settle().await;
    assert_eq!(holders(&server, "deploy"), 1);
    assert!(guard.token().is_ok());
}

#[tokio::test]
async fn an_unlock_that_nobody_waits_for_goes_on() {
    let server = Server::new();
    let client = server.client("one");
    for away in [Duration::ZERO, S, 60 * S] {
        let guard = lock(&client, "deploy").await;
        if !away.is_zero() {
            server.crash();
        }
        let mut unlocking = Box::pin(guard.unlock());
        assert!(step(&mut unlocking).is_pending());
        server.clock().advance(away).await;
        drop(unlocking);
        server.start();
        server.clock().advance(60 * S).await;
        assert_eq!(holders(&server, "deploy"), 0, "{away:?}");
    }
}

#[tokio::test]
async fn a_close_that_nobody_waits_for_goes_on() {
    let server = Server::new();
    let client = server.client("one");
    let session = Session::open(&client, TTL, SessionOptions::default()).await.unwrap();
    let lease = session.lease("deploy");
    assert!(lease.acquire(Ttl::default(), AcquireOptions::default()).await.unwrap());
    let mut closing = Box::pin(session.close());
    assert!(step(&mut closing).is_pending());
    drop(closing);
    server.clock().settle().await;
    assert_eq!(holders(&server, "deploy"), 0);
}

#[tokio::test]
async fn what_was_given_up_for_want_of_a_server_is_ended_when_there_is_one() {
    let server = Server::new();
    let client = server.client("one");
    let (unlocked, dropped) = (lock(&client, "unlocked").await, lock(&client, "dropped").await);
    let session = Session::open(&client, TTL, SessionOptions::default()).await.unwrap();
    let lease = session.lease("closed");
    assert!(lease.acquire(Ttl::default(), AcquireOptions::default()).await.unwrap());
    // Granted, but its answer never arrives.
    server.partition(&client);
    let (asking, clock) = (client.clone(), server.clock().clone());
    let options = AcquireOptions::default().timeout(S);
    let asked = tokio::spawn(async move {
        Lock::new(&asking, "timed out").lease().acquire(TTL, options).await.unwrap_err()
    });
    clock.advance(S).await;
    assert!(matches!(asked.await.unwrap(), Error::ServerUnavailable(_)));
    drop(dropped);
    let unlocking = tokio::spawn(unlocked.unlock());
    let closing = tokio::spawn(async move { session.close().await });
    clock.advance(300 * S).await;
    assert!(matches!(unlocking.await.unwrap(), Err(Error::ServerUnavailable(_))));
    assert!(matches!(closing.await.unwrap(), Err(Error::ServerUnavailable(_))));
    assert_eq!(lease.token(), Err(Error::Ended(Ended::SessionClosed)));
    server.heal(&client);
    clock.advance(60 * S).await;
    for name in ["unlocked", "dropped", "closed", "timed out"] {
        assert_eq!(holders(&server, name), 0, "{name}");
    }
    client.settled().await;
}

#[tokio::test]
async fn a_client_that_is_dropped_takes_back_what_it_asked_for() {
    let server = Server::new();
    let policy = RetryPolicy::default();
    let client = server.client_with("one", policy);
    let other = lock(&client, "other").await;
    let mut locking = Box::pin(lock(&client, "deploy"));
    assert!(step(&mut locking).is_pending());
    server.clock().settle().await;
    server.crash();
    drop((locking, other));
    drop(client);
    server.clock().advance(10 * S).await;
    server.start();
    server.clock().advance(60 * S).await;
    assert_eq!((holders(&server, "deploy"), holders(&server, "other")), (0, 0));
}
