//! What answers is not a Leasehold server: the client says what it found.

use std::convert::Infallible;
use std::net::SocketAddr;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use leasehold_client::{Client, Error, Trouble};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::server::once;
use crate::unreachable::no_server;

/// Says these bytes to whoever connects, and then hangs up when they do.
async fn says(bytes: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                stream.write_all(bytes).await.unwrap();
                if !bytes.is_empty() {
                    let mut heard = [0; 1024];
                    while stream.read(&mut heard).await.is_ok_and(|length| length > 0) {}
                }
            });
        }
    });
    address
}

/// Speaks HTTP/2, but answers everything so.
async fn answers(status: u16, media_type: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let service = service_fn(move |_| async move {
                let answer = hyper::Response::builder().status(status).header("content-type", media_type);
                Ok::<_, Infallible>(answer.body(String::from("no idea")).unwrap())
            });
            let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
        }
    });
    address
}

#[tokio::test]
async fn servers_that_speak_something_else() {
    for greeting in [
        &b"SSH-2.0-OpenSSH_9.6\r\n"[..],
        b"220 mail.example ESMTP\r\n",
        b"\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f",
        b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n",
    ] {
        let unavailable = no_server(&says(greeting).await.to_string()).await;
        assert!(matches!(unavailable.trouble, Trouble::NotLeasehold(_)), "{greeting:?}: {unavailable}");
    }
}

#[tokio::test]
async fn a_server_that_hangs_up_at_once() {
    let unavailable = no_server(&says(b"").await.to_string()).await;
    assert!(matches!(unavailable.trouble, Trouble::Broken(_)), "{unavailable}");
}

#[tokio::test]
async fn a_full_server_or_a_proxy_without_one() {
    let address = says(b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\n\r\n").await;
    let unavailable = no_server(&address.to_string()).await;
    assert!(matches!(unavailable.trouble, Trouble::NotServing(_)), "{unavailable}");
    let unavailable = no_server(&answers(502, "text/html").await.to_string()).await;
    assert!(matches!(unavailable.trouble, Trouble::NotServing(_)), "{unavailable}");
}

#[tokio::test]
async fn web_servers() {
    for (status, media_type) in [(404, "text/html"), (200, "text/html"), (500, "application/json")] {
        let unavailable = no_server(&answers(status, media_type).await.to_string()).await;
        assert!(matches!(unavailable.trouble, Trouble::NotLeasehold(_)), "{status}: {unavailable}");
        assert!(unavailable.to_string().contains(&status.to_string()), "{unavailable}");
    }
}

#[tokio::test]
async fn a_web_server_that_wants_a_password() {
    let address = answers(401, "text/html").await;
    let error = Client::builder(&address.to_string()).retry(once()).connect().await.unwrap_err();
    assert!(matches!(error, Error::NotAllowed { .. }), "{error}");
}

#[tokio::test]
async fn a_grpc_server_of_something_else() {
    // 12 is the status for a method that nobody knows.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let service = service_fn(|_| async {
            let answer = hyper::Response::builder()
                .header("content-type", "application/grpc")
                .header("grpc-status", "12")
                .header("grpc-message", "unknown service");
            Ok::<_, Infallible>(answer.body(String::new()).unwrap())
        });
        let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        connection.serve_connection(TokioIo::new(stream), service).await
    });
    let unavailable = no_server(&address.to_string()).await;
    assert!(matches!(&unavailable.trouble, Trouble::NotLeasehold(why) if why.contains("unknown service")));
}
