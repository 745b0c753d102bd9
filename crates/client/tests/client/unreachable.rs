//! Servers that are not there: the client says so, says what is wrong, and says it in time.

use std::time::{Duration, Instant};

use leasehold_client::{Advice, Ask, Client, Error, RetryPolicy, Trouble, Unavailable};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::proxy::{Proxy, Way};
use crate::server::{PATIENCE, Server, client, once};

/// Connects with one attempt, which must fail.
pub async fn no_server(server: &str) -> Unavailable {
    let begun = Instant::now();
    let error = Client::builder(server).retry(once()).connect().await.unwrap_err();
    assert!(begun.elapsed() < PATIENCE / 2, "{:?}", begun.elapsed());
    assert_eq!(error.advice(), Advice::CheckServer);
    match error {
        Error::ServerUnavailable(unavailable) => {
            assert!(!unavailable.may_have_happened);
            *unavailable
        }
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_host_that_does_not_exist() {
    // Longer than any name may be, so that nobody needs to be asked.
    let host = "x".repeat(64);
    let unavailable = no_server(&format!("http://{host}.example:7420")).await;
    assert!(matches!(unavailable.trouble, Trouble::NoSuchHost(_)), "{unavailable}");
    assert!(unavailable.to_string().contains(&host));
}

#[tokio::test]
async fn nobody_listens() {
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let unavailable = no_server(&address.to_string()).await;
    assert!(matches!(unavailable.trouble, Trouble::Refused(_)), "{unavailable}");
    assert!(unavailable.to_string().contains(&address.to_string()));

    // What may pass is tried as often as the policy says.
    let policy = RetryPolicy { attempts: 3, backoff: Duration::from_millis(10), ..RetryPolicy::default() };
    let error = Client::builder(&address.to_string()).retry(policy).connect().await.unwrap_err();
    assert!(matches!(error, Error::ServerUnavailable(unavailable) if unavailable.attempts == 3));
}

#[tokio::test]
async fn connections_that_nobody_takes() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    // When the listener's queue is full, further greetings are dropped by the system.
    let mut queue = Vec::new();
    while let Ok(Ok(stream)) =
        tokio::time::timeout(Duration::from_millis(300), TcpStream::connect(address)).await
    {
        queue.push(stream);
        assert!(queue.len() < 100, "the queue is never full");
    }
    let unavailable = no_server(&address.to_string()).await;
    assert!(matches!(unavailable.trouble, Trouble::Silence(_)), "{unavailable}");
}

#[tokio::test]
async fn a_connection_that_says_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let unavailable = no_server(&address.to_string()).await;
    assert!(matches!(unavailable.trouble, Trouble::Silence(_)), "{unavailable}");
    let encrypted = no_server(&format!("https://{address}")).await;
    assert!(matches!(encrypted.trouble, Trouble::Silence(_)), "{encrypted}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_half_open_connection_is_replaced_by_a_new_one() {
    let server = Server::start();
    let proxy = Proxy::to(server.address).await;
    let client = client(proxy.address, "me").await;
    client.acquire(Ask::new("before")).await.unwrap();
    proxy.freeze();
    client.acquire(Ask::new("after")).await.unwrap();
    assert_eq!(proxy.connections(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_falls_silent_is_reported_and_the_outcome_left_open() {
    let server = Server::start();
    let proxy = Proxy::to(server.address).await;
    let policy = RetryPolicy { attempts: 2, ..once() };
    let client = Client::builder(&proxy.address.to_string()).retry(policy).connect().await.unwrap();
    proxy.to_client(Way::Drop);
    let error = client.acquire(Ask::new("a")).await.unwrap_err();
    let Error::ServerUnavailable(unavailable) = &error else { panic!("{error}") };
    assert_eq!(unavailable.attempts, 2);
    assert!(unavailable.may_have_happened && !error.outcome_is_known());
    assert!(error.to_string().contains("may have been carried out"), "{error}");
    // What only looks changes nothing, answered or not.
    let error = client.get("a").await.unwrap_err();
    assert!(error.outcome_is_known(), "{error}");

    // What was begun is taken back as soon as there is a way.
    proxy.to_client(Way::Forward);
    let witness = server.client("witness").await;
    let begun = Instant::now();
    while witness.get("a").await.unwrap().is_held() {
        assert!(begun.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    client.acquire(Ask::new("a")).await.unwrap();
}
