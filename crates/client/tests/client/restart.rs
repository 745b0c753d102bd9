//! The server is stopped and started again: holders keep their locks, lines their order, and callers notice nothing but a
//! pause.

use std::time::Duration;

use leasehold_client::{Ask, Client, RetryPolicy};

use crate::line::until_waiting;
use crate::server::{PATIENCE, Server};

/// Long enough for a server to come back.
fn patient() -> RetryPolicy {
    RetryPolicy { attempts: 1_000, backoff_max: Duration::from_millis(200), ..RetryPolicy::default() }
}

async fn connect(server: &Server, owner: &str) -> Client {
    let builder = Client::builder(&server.address.to_string()).owner(owner);
    builder.retry(patient()).connect().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holders_keep_their_locks_and_lines_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_in(folder.path(), 0);
    let port = server.address.port();
    let holder = connect(&server, "holder").await;
    let held = holder.acquire(Ask { ttl: Some(PATIENCE), ..Ask::new("a") }).await.unwrap();
    let mut waiting = Vec::new();
    for n in 0..10 {
        let client = connect(&server, &format!("waiter-{n}")).await;
        let ask = Ask { wait: Duration::MAX, ..Ask::new("a") };
        waiting.push(tokio::spawn(async move { client.acquire(ask).await }));
        until_waiting(&holder, "a", n + 1).await;
    }
    let stopped = tokio::task::spawn_blocking(move || drop(server));
    // Asked while it is away, answered when it is back.
    let asking = tokio::spawn({
        let holder = holder.clone();
        async move { holder.acquire(Ask::new("b")).await }
    });
    stopped.await.unwrap();
    let server = Server::start_in(folder.path(), port);
    asking.await.unwrap().unwrap();
    let renewed = holder.renew(&held.claim(), None, None).await.unwrap();
    assert_eq!(renewed.fencing_token, held.fencing_token);
    let mut last = renewed;
    for (n, waiting) in waiting.into_iter().enumerate() {
        holder.release(&last.claim()).await.unwrap();
        last = waiting.await.unwrap().unwrap();
        assert_eq!(last.owner_id, format!("waiter-{n}"));
    }
    drop(server);
}
