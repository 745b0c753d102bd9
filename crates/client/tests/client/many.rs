//! Many callers of one process share one connection.

use std::time::Duration;

use leasehold_client::{Ask, Watched};

use crate::proxy::Proxy;
use crate::server::{Server, client};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_callers_over_one_connection() {
    let server = Server::start();
    let proxy = Proxy::to(server.address).await;
    let client = client(proxy.address, "me").await;
    let callers: Vec<_> = (0..1_000)
        .map(|n| {
            let client = client.clone();
            tokio::spawn(async move {
                let mut last = 0;
                for _ in 0..5 {
                    let ask = Ask { wait: Duration::MAX, ..Ask::new(format!("lock-{}", n % 300)) };
                    let grant = client.acquire(ask).await.unwrap();
                    assert!(grant.fencing_token > last);
                    last = grant.fencing_token;
                    client.release(&grant.claim()).await.unwrap();
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
    assert_eq!(proxy.connections(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_observers_than_one_connection_takes() {
    let server = Server::start();
    let proxy = Proxy::to(server.address).await;
    let client = client(proxy.address, "me").await;
    let observers: Vec<_> = (0..1_100)
        .map(|_| {
            let mut observer = client.watch(Watched::Lock("a".into()), Some(0));
            tokio::spawn(async move { observer.next().await.unwrap().unwrap().owner_id })
        })
        .collect();
    client.acquire(Ask::new("a")).await.unwrap();
    for observer in observers {
        assert_eq!(observer.await.unwrap(), "me");
    }
    assert_eq!(proxy.connections(), 2);
}

#[test]
fn a_client_whose_runtime_has_ended_says_so() {
    let server = Server::start();
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let first = runtime();
    let client = first.block_on(server.client("me"));
    first.block_on(client.get("a")).unwrap();
    drop(first);
    let error = runtime().block_on(client.get("a")).unwrap_err();
    assert!(error.to_string().contains("runtime"), "{error}");
}
