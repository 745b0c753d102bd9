//! The server goes and comes back while a client holds and while others wait.

use leasehold_client::{Client, EventKind, Guard, Lock, LockOptions, Ttl, Watched};

use crate::server::Server;

async fn lock(client: &Client) -> Guard {
    Lock::new(client, "deploy").lock(Ttl::SHORT, LockOptions::default()).await.unwrap()
}

#[tokio::test]
async fn the_holder_keeps_its_lock_and_the_line_its_order() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start_in(data.path(), 0);
    let port = server.address.port();
    let guard = lock(&server.client("holder").await).await;
    let token = guard.token().unwrap();
    let watcher = server.client("watcher").await;
    let mut waiting = Vec::new();
    for owner in ["1", "2", "3"] {
        let seq = watcher.get("deploy").await.unwrap().seq;
        let client = server.client(owner).await;
        waiting.push(tokio::spawn(async move { lock(&client).await }));
        let mut events = watcher.watch(Watched::Lock("deploy".into()), Some(seq));
        while events.next().await.unwrap().unwrap().kind != EventKind::Queued {}
    }
    let mut events =
        watcher.watch(Watched::Lock("deploy".into()), Some(watcher.get("deploy").await.unwrap().seq));

    drop(server);
    assert_eq!(guard.token(), Ok(token), "it is held on");
    let server = Server::start_in(data.path(), port);
    // Renewed by the server that is there now, and everybody is back in line.
    let claim = guard.lease().claim().unwrap();
    assert_eq!(watcher.renew(&claim, None, None).await.unwrap().fencing_token, token);
    while watcher.get("deploy").await.unwrap().waiters.iter().filter(|waiter| waiter.attached).count() < 3 {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let waiters = watcher.get("deploy").await.unwrap().waiters;
    assert_eq!(waiters.iter().map(|waiter| waiter.owner_id.as_str()).collect::<Vec<_>>(), ["1", "2", "3"]);
    assert_eq!(guard.token(), Ok(token));
    guard.unlock().await.unwrap();
    for (owner, waiting) in ["1", "2", "3"].into_iter().zip(waiting) {
        let guard = waiting.await.unwrap();
        assert_eq!(watcher.get("deploy").await.unwrap().holders[0].owner_id, owner);
        guard.unlock().await.unwrap();
    }
    // Whoever watched has missed nothing.
    let mut owners = Vec::new();
    while owners.len() < 3 {
        let event = events.next().await.unwrap().unwrap();
        if event.kind == EventKind::Granted {
            owners.push(event.owner_id);
        }
    }
    assert_eq!(owners, ["1", "2", "3"]);
    drop(server);
}
