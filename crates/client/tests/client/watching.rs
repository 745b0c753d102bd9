//! Watches: gap-free through cuts and restarts, and silent while nothing happens.

use std::time::{Duration, Instant};

use leasehold_client::{Ask, Client, Error, Event, RetryPolicy, Watched};

use crate::proxy::Proxy;
use crate::server::{PATIENCE, Server, client};

const PING: u8 = 6;
const DATA: u8 = 0;
const HEADERS: u8 = 1;

async fn take_and_give_back(client: &Client, lock: &str, times: usize) {
    for _ in 0..times {
        let grant = client.acquire(Ask { wait: Duration::MAX, ..Ask::new(lock) }).await.unwrap();
        client.release(&grant.claim()).await.unwrap();
    }
}

/// Everything that happened to it, told at once.
async fn history(client: &Client, lock: &str, count: usize) -> Vec<Event> {
    let mut observer = client.watch(Watched::Lock(lock.into()), Some(0));
    let mut events = Vec::new();
    while events.len() < count {
        events.push(observer.next().await.unwrap().unwrap());
    }
    events
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_missed_or_repeated_through_cuts() {
    let server = Server::start();
    let proxy = Proxy::to(server.address).await;
    let (writer, watcher) = (server.client("writer").await, client(proxy.address, "watcher").await);
    // From now on, said by nobody: the first cut may come before the first event.
    let mut observer = watcher.watch(Watched::Prefix(String::new()), None);
    let heard = tokio::spawn(async move {
        let mut events = Vec::new();
        while events.len() < 400 {
            events.push(observer.next().await.unwrap().unwrap());
        }
        events
    });
    let begun = Instant::now();
    while proxy.connections() < 1 || proxy.to_server_bytes() < 300 {
        assert!(begun.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // The watch must have asked where it stands before anything is written.
    watcher.get("a").await.unwrap();
    for _ in 0..20 {
        take_and_give_back(&writer, "a", 10).await;
        proxy.cut();
    }
    let heard = tokio::time::timeout(PATIENCE, heard).await.unwrap().unwrap();
    assert_eq!(heard, history(&writer, "a", 400).await);
    assert!(proxy.connections() > 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_missed_through_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start_in(folder.path(), 0);
    let port = server.address.port();
    let patient = RetryPolicy { attempts: 1_000, ..RetryPolicy::default() };
    let builder = Client::builder(&server.address.to_string()).retry(patient);
    let client = builder.connect().await.unwrap();
    let mut observer = client.watch(Watched::Lock("a".into()), Some(0));
    let mut heard = Vec::new();
    for _ in 0..3 {
        take_and_give_back(&client, "a", 5).await;
        tokio::task::spawn_blocking(move || drop(server)).await.unwrap();
        server = Server::start_in(folder.path(), port);
        take_and_give_back(&client, "a", 5).await;
        for _ in 0..20 {
            heard.push(observer.next().await.unwrap().unwrap());
        }
    }
    assert_eq!(heard, history(&client, "a", heard.len()).await);
    drop(server);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_observer_asks_for_nothing() {
    let server = Server::start();
    let proxy = Proxy::to(server.address).await;
    let watcher = client(proxy.address, "watcher").await;
    let writer = server.client("writer").await;
    let mut observer = watcher.watch(Watched::Lock("a".into()), None);
    let mut next = tokio::spawn(async move { (observer.next().await.unwrap().unwrap(), observer) });
    // A sign of life on the connection shows that it has been idle for seconds.
    let begun = Instant::now();
    while !proxy.frames_to_server().contains(&PING) {
        assert!(begun.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let asked = proxy.frames_to_server().iter().filter(|kind| [DATA, HEADERS].contains(kind)).count();
    for _ in 0..2 {
        take_and_give_back(&writer, "a", 1).await;
        let (event, mut observer) = next.await.unwrap();
        assert_eq!(event.owner_id, "writer");
        next = tokio::spawn(async move { (observer.next().await.unwrap().unwrap(), observer) });
    }
    let asked_since = proxy.frames_to_server().iter().filter(|kind| [DATA, HEADERS].contains(kind)).count();
    assert_eq!(asked_since, asked, "what happens is heard without asking");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_makes_no_sense_ends_a_watch() {
    let server = Server::start();
    let client = server.client("me").await;
    let mut observer = client.watch(Watched::Lock("sem:x".into()), Some(0));
    assert!(matches!(observer.next().await, Some(Err(Error::Invalid { .. }))));
    assert!(observer.next().await.is_none());
}
