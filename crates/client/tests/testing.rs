//! The test server, used as a program's own tests would use it: loss, contention and hand-over at exactly their times,
//! without a socket and without sleeping.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use leasehold_client::testing::Server;
use leasehold_client::{Advice, Ask, Error, RetryPolicy};

const S: Duration = Duration::from_secs(1);
const US: Duration = Duration::from_micros(1);
const TTL: Duration = Duration::from_secs(30);

#[tokio::test]
async fn plain_calls() {
    let server = Server::new();
    let (one, two) = (server.client("one"), server.client("two"));
    let grant = one.acquire(Ask { ttl: Some(TTL), ..Ask::new("deploy") }).await.unwrap();
    let asking = two.clone();
    let waiting = tokio::spawn(async move {
        asking.acquire(Ask { ttl: Some(TTL), wait: Duration::MAX, ..Ask::new("deploy") }).await
    });
    server.clock().advance(TTL - US).await;
    assert_eq!(server.waiters("deploy").len(), 1);
    assert!(!waiting.is_finished());
    server.clock().advance(US).await;
    assert!(waiting.is_finished());
    let second = waiting.await.unwrap().unwrap();
    assert!(second.fencing_token > grant.fencing_token);
}

#[tokio::test]
async fn without_a_server_there_is_a_definite_answer_in_bounded_time() {
    let server = Server::new();
    let policy = RetryPolicy { attempts: 3, ..RetryPolicy::default() };
    let client = server.client_with("one", policy);
    server.crash();
    let (asking, clock) = (client.clone(), server.clock().clone());
    let asked = tokio::spawn(async move { asking.acquire(Ask::new("deploy")).await });
    clock.advance(10 * S).await;
    let error = asked.await.unwrap().unwrap_err();
    let Error::ServerUnavailable(unavailable) = &error else { panic!("{error}") };
    assert_eq!(unavailable.attempts, 3);
    assert!(error.outcome_is_known(), "nobody was there who could have carried it out");
    assert_eq!(error.advice(), Advice::CheckServer);

    server.start();
    assert!(client.acquire(Ask::new("deploy")).await.is_ok());
}
