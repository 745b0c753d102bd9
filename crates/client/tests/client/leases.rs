//! One attempt, one release, terms that follow each other, and who holds what: the primitive over real sockets.

use std::time::Duration;

use futures_util::StreamExt;
use leasehold_client::{
    AcquireOptions, Ask, BreakAsk, Client, Ended, Error, EventKind, Lease, Observed, Standing, Ttl, Watched,
};

use crate::proxy::{Proxy, Way};
use crate::server::{Server, client};

fn plain() -> AcquireOptions {
    AcquireOptions::default()
}

async fn next_kind(client: &Client, lock: &str, from: u64, kind: EventKind) -> u64 {
    let mut events = client.watch(Watched::Lock(lock.into()), Some(from));
    loop {
        let event = events.next().await.unwrap().unwrap();
        if event.kind == kind {
            return event.seq;
        }
    }
}

#[tokio::test]
async fn one_attempt_succeeds_or_does_not() {
    let server = Server::start();
    let (one, two) = (server.client("one").await, server.client("two").await);
    let (mine, theirs) = (Lease::new(&one, "deploy"), Lease::new(&two, "deploy"));
    assert_eq!(mine.token(), Err(Error::Ended(Ended::NeverHeld)));
    assert_eq!(mine.release().await, Err(Error::Ended(Ended::NeverHeld)));
    assert_eq!(mine.standing(), Standing::Lost);
    assert!(mine.lost().is_cancelled());
    assert_eq!(mine.holder().await, Ok(None));

    assert_eq!(mine.acquire(Ttl::LONG, plain()).await, Ok(true));
    assert!(matches!(mine.standing(), Standing::Safe { left } if left > Duration::from_secs(10)));
    assert_eq!(theirs.acquire(Ttl::LONG, plain()).await, Ok(false));
    assert_eq!(theirs.holder().await.unwrap().unwrap().owner_id, "one");
    let again = mine.acquire(Ttl::LONG, plain()).await;
    assert!(matches!(again, Err(Error::Invalid { .. })), "it is held: {again:?}");

    let (lost, first) = (mine.lost(), mine.token().unwrap());
    assert!(!lost.is_cancelled());
    mine.release().await.unwrap();
    assert!(lost.is_cancelled(), "the signal fires on any end");
    assert_eq!(mine.token(), Err(Error::Ended(Ended::Released)));
    assert_eq!(theirs.acquire(Ttl::SHORT, plain()).await, Ok(true));
    let before = two.get("deploy").await.unwrap().version;
    assert_eq!(mine.release().await, Err(Error::Ended(Ended::Released)), "once only");
    assert_eq!(two.get("deploy").await.unwrap().version, before, "and nothing was sent");
    theirs.release().await.unwrap();

    assert_eq!(mine.acquire(Ttl::default(), plain()).await, Ok(true), "a new term");
    assert!(mine.token().unwrap() > first);
    let ttl = two.get("deploy").await.unwrap().holders[0].expires_in;
    assert!(ttl > Duration::from_secs(20) && ttl <= Duration::from_secs(30), "the default: {ttl:?}");
}

#[tokio::test]
async fn shares_and_describes() {
    let server = Server::start();
    let (one, two) = (server.client("one").await, server.client("two").await);
    let (first, second) = (Lease::new(&one, "table"), Lease::new(&two, "table"));
    assert_eq!(first.acquire(Ttl::SHORT, plain().shared().metadata("why", "to read")).await, Ok(true));
    assert_eq!(second.acquire(Ttl::SHORT, plain().shared()).await, Ok(true));
    assert_eq!(Lease::new(&one, "table").acquire(Ttl::SHORT, plain()).await, Ok(false));
    assert_eq!(second.holder().await.unwrap().unwrap().metadata["why"], "to read");
    first.describe([("why".to_owned(), "to count".to_owned())].into()).await.unwrap();
    assert_eq!(second.holder().await.unwrap().unwrap().metadata["why"], "to count");
}

#[tokio::test]
async fn dropping_it_gives_it_back_in_the_background() {
    let server = Server::start();
    let (one, two) = (server.client("one").await, server.client("two").await);
    let lease = Lease::new(&one, "deploy");
    assert_eq!(lease.acquire(Ttl::BATCH, plain()).await, Ok(true));
    let seq = two.get("deploy").await.unwrap().seq;
    // Also when nobody is left who could wait for it, and outside of the runtime.
    drop(one);
    std::thread::spawn(move || drop(lease)).join().unwrap();
    next_kind(&two, "deploy", seq, EventKind::Released).await;
}

#[tokio::test]
async fn an_attempt_that_is_given_up_leaves_no_lease_behind() {
    let server = Server::start();
    let proxy = Proxy::to(server.address).await;
    let (one, two) = (client(proxy.address, "one").await, server.client("two").await);
    let seq = two.get("deploy").await.unwrap().seq;
    proxy.to_client(Way::Drop);
    let lease = Lease::new(&one, "deploy");
    let outcome = lease.acquire(Ttl::BATCH, plain().timeout(Duration::from_millis(300))).await;
    let Err(error @ Error::ServerUnavailable(_)) = outcome else { panic!("{outcome:?}") };
    assert!(!error.outcome_is_known());
    assert_eq!(lease.token(), Err(Error::Ended(Ended::NeverHeld)));
    let granted = next_kind(&two, "deploy", seq, EventKind::Granted).await;
    proxy.to_client(Way::Forward);
    proxy.cut();
    next_kind(&two, "deploy", granted, EventKind::Released).await;
}

#[tokio::test]
async fn a_broken_lease_says_so_and_its_release_frees_the_lock_at_once() {
    let server = Server::start();
    let (one, two) = (server.client("one").await, server.client("two").await);
    let lease = Lease::new(&one, "deploy");
    let quickly = plain().renew_every(Duration::from_millis(100));
    assert_eq!(lease.acquire(Ttl::BATCH, quickly).await, Ok(true));
    two.break_lock(BreakAsk::new("deploy", "a test")).await.unwrap();
    lease.lost().cancelled().await;
    assert_eq!(lease.token(), Err(Error::Ended(Ended::Broken(String::new()))));
    assert!(matches!(two.acquire(Ask::new("deploy")).await, Err(Error::Held(_))), "until its deadline");
    let waiting = Ask { wait: Duration::MAX, ..Ask::new("deploy") };
    let next = tokio::spawn({
        let two = two.clone();
        async move { two.acquire(waiting).await }
    });
    let seq = two.get("deploy").await.unwrap().seq;
    assert_eq!(lease.release().await, Err(Error::Ended(Ended::Broken(String::new()))));
    next_kind(&two, "deploy", seq - 1, EventKind::Granted).await;
    assert!(next.await.unwrap().is_ok());
}

#[tokio::test]
async fn observes_every_change_of_holder_across_broken_connections() {
    let server = Server::start();
    let proxy = Proxy::to(server.address).await;
    let (one, two) = (client(proxy.address, "one").await, server.client("two").await);
    let mut changes = Lease::new(&one, "deploy").observe();
    let owners = |observed: &Observed| -> Vec<String> {
        observed.holders.iter().map(|holding| holding.owner_id.clone()).collect()
    };
    let first = changes.next().await.unwrap().unwrap();
    assert_eq!((first.event.clone(), owners(&first)), (None, Vec::new()));

    let lease = Lease::new(&two, "deploy");
    let mut tokens = Vec::new();
    for round in 0..6 {
        if round % 2 == 1 {
            proxy.cut();
        }
        assert_eq!(lease.acquire(Ttl::LONG, plain()).await, Ok(true));
        tokens.push(lease.token().unwrap());
        lease.release().await.unwrap();
    }
    let mut seen = Vec::new();
    while seen.len() < 12 {
        seen.push(changes.next().await.unwrap().unwrap());
    }
    let granted: Vec<u64> = seen.iter().step_by(2).map(|observed| observed.holders[0].token).collect();
    assert_eq!(granted, tokens, "each of them, in order");
    for pair in seen.chunks(2) {
        assert_eq!(pair[0].event.as_ref().map(|event| event.kind.clone()), Some(EventKind::Granted));
        assert_eq!(pair[1].event.as_ref().map(|event| event.kind.clone()), Some(EventKind::Released));
        assert_eq!((owners(&pair[0]), owners(&pair[1])), (Vec::from(["two".to_owned()]), Vec::new()));
    }
}

#[tokio::test]
async fn an_idle_observer_sends_nothing() {
    let server = Server::start();
    let proxy = Proxy::to(server.address).await;
    let (one, two) = (client(proxy.address, "one").await, server.client("two").await);
    let mut changes = Lease::new(&one, "deploy").observe();
    changes.next().await.unwrap().unwrap();
    let lease = Lease::new(&two, "deploy");
    let observing = tokio::spawn(async move {
        let granted = changes.next().await.unwrap().unwrap();
        (granted.holders[0].owner_id.clone(), changes)
    });
    // It is watching once it has heard of something.
    assert_eq!(lease.acquire(Ttl::LONG, plain()).await, Ok(true));
    let (owner, mut changes) = observing.await.unwrap();
    assert_eq!(owner, "two");
    let before = proxy.to_server_bytes();
    let idle = tokio::time::timeout(Duration::from_secs(3), changes.next()).await;
    assert!(idle.is_err(), "nothing happened");
    let sent = proxy.to_server_bytes() - before;
    assert!(sent < 200, "{sent} bytes were sent, which is more than the acknowledgements of a connection");
}

#[tokio::test]
async fn each_confirmed_renewal_moves_the_moment_until_which_it_is_believed() {
    let server = Server::start();
    let one = server.client("one").await;
    let lease = Lease::new(&one, "deploy");
    assert_eq!(lease.believed_until_us(), Err(Error::Ended(Ended::NeverHeld)));
    let before_us = one.clock().now_us();
    assert_eq!(lease.acquire(Ttl::from(Duration::from_secs(3)), plain()).await, Ok(true));
    assert_eq!(lease.ttl(), Ok(Duration::from_secs(3)));
    let mut until_us = lease.believed_until_us().unwrap();
    assert!(until_us >= before_us + 1_500_000 && until_us <= one.clock().now_us() + 1_500_000);
    for _ in 0..2 {
        let later_us = lease.believed_beyond(until_us).await.unwrap();
        assert!(later_us > until_us && later_us <= one.clock().now_us() + 1_500_000);
        until_us = later_us;
    }
    let waiting = lease.believed_beyond(u64::MAX);
    lease.release().await.unwrap();
    assert_eq!(waiting.await, Err(Error::Ended(Ended::Released)));
}
