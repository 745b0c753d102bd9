//! Each plain call, against a real server.

use std::time::Duration;

use leasehold_client::{Ask, BreakAsk, Cancelled, Ended, Error, EventKind, ListFilter, Watched};

use crate::server::Server;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acquire_renew_verify_release() {
    let server = Server::start();
    let client = server.client("me").await;
    let grant =
        client.acquire(Ask { ttl: Some(Duration::from_secs(60)), ..Ask::new("deploy") }).await.unwrap();
    assert_eq!((grant.lock.as_str(), grant.owner_id.as_str()), ("deploy", "me"));
    assert!(grant.sent_us <= client.clock().now_us());
    let claim = grant.claim();
    let renewed = client.renew(&claim, None, None).await.unwrap();
    assert_eq!(renewed.fencing_token, grant.fencing_token);
    assert!(renewed.sent_us > grant.sent_us);
    assert!(client.verify("deploy", grant.fencing_token).await.unwrap() > Duration::from_secs(30));
    let snapshot = client.get("deploy").await.unwrap();
    assert!(snapshot.is_held() && snapshot.holders[0].owner_id == "me");

    let other = server.client("other").await;
    let Err(Error::Held(held)) = other.acquire(Ask::new("deploy")).await else { panic!("it is held") };
    assert_eq!((held.lock.as_str(), held.holders.len()), ("deploy", 1));
    assert_eq!(held.holders[0].owner_id, "me");

    client.release(&claim).await.unwrap();
    client.release(&claim).await.unwrap();
    assert_eq!(client.renew(&claim, None, None).await, Err(Error::Ended(Ended::Released)));
    assert!(matches!(client.verify("deploy", grant.fencing_token).await, Err(Error::Ended(Ended::Stale))));
    assert!(!client.get("deploy").await.unwrap().is_held());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stands_in_line_and_is_watched_at_it() {
    let server = Server::start();
    let (first, second) = (server.client("first").await, server.client("second").await);
    let mut events = second.watch(Watched::Lock("deploy".into()), Some(0));
    let grant = first.acquire(Ask::new("deploy")).await.unwrap();
    let waiting = tokio::spawn({
        let second = second.clone();
        async move { second.acquire(Ask { wait: Duration::MAX, ..Ask::new("deploy") }).await }
    });
    for kind in [EventKind::Granted, EventKind::Queued] {
        assert_eq!(events.next().await.unwrap().unwrap().kind, kind);
    }
    first.release(&grant.claim()).await.unwrap();
    let next = waiting.await.unwrap().unwrap();
    assert!(next.fencing_token > grant.fencing_token);
    for kind in [EventKind::Released, EventKind::Granted] {
        assert_eq!(events.next().await.unwrap().unwrap().kind, kind);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chosen_id_gets_the_same_outcome_and_can_be_cancelled() {
    let server = Server::start();
    let client = server.client("me").await;
    let ask = Ask { request_id: Some("one".into()), ..Ask::new("deploy") };
    let first = client.acquire(ask.clone()).await.unwrap();
    let again = server.client("me").await.acquire(ask).await.unwrap();
    assert_eq!((first.fencing_token, &first.lease_id), (again.fencing_token, &again.lease_id));

    let waiting = Ask { request_id: Some("two".into()), wait: Duration::MAX, ..Ask::new("deploy") };
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.acquire(waiting).await }
    });
    while client.get("deploy").await.unwrap().waiters.is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(client.cancel("deploy", "me", "two").await, Ok(Cancelled::Waiting));
    assert_eq!(waiting.await.unwrap(), Err(Error::Cancelled));
    assert_eq!(client.cancel("deploy", "me", "one").await, Ok(Cancelled::Released));
    assert_eq!(client.cancel("deploy", "me", "three").await, Ok(Cancelled::Unknown));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_and_breaks() {
    let server = Server::start();
    let client = server.client("me").await;
    for lock in ["a", "b", "c"] {
        client.acquire(Ask::new(lock)).await.unwrap();
    }
    let filter = ListFilter { limit: Some(2), ..ListFilter::default() };
    let page = client.list(filter.clone()).await.unwrap();
    assert_eq!(page.rows.len(), 2);
    let rest = client.list(ListFilter { cursor: page.next_cursor, ..filter }).await.unwrap();
    assert_eq!((rest.rows.len(), rest.rows[0].lock.as_str(), rest.next_cursor), (1, "c", None));

    let broke = client.break_lock(BreakAsk { force: true, ..BreakAsk::new("b", "a test") }).await.unwrap();
    assert_eq!(broke.tokens.len(), 1);
    assert!(!client.get("b").await.unwrap().is_held());
    assert!(matches!(client.break_lock(BreakAsk::new("b", "again")).await, Err(Error::NotFound { .. })));
    let error = client.acquire(Ask::new("sem:x")).await.unwrap_err();
    assert!(matches!(&error, Error::Invalid { field, .. } if field == "lock"), "{error}");
    assert!(client.sessions(None, None).await.unwrap().rows.len() >= 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn has_left_the_line_when_it_is_settled() {
    let server = Server::start();
    let (first, second) = (server.client("first").await, server.client("second").await);
    let mut events = first.watch(Watched::Lock("deploy".into()), Some(0));
    first.acquire(Ask::new("deploy")).await.unwrap();
    let wait = second.acquire(Ask { wait: Duration::MAX, ..Ask::new("deploy") });
    tokio::select! {
        _ = wait => panic!("it is held"),
        () = async { while events.next().await.unwrap().unwrap().kind != EventKind::Queued {} } => {}
    }
    second.settled().await;
    assert!(first.get("deploy").await.unwrap().waiters.is_empty());
}
