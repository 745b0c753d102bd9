//! A thousand clients at once, each on a connection of its own.

use leasehold_server::metrics::process::raise_fd_limit;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::server::{PATIENCE, Server, proof, request};

const CLIENTS: usize = 1000;

#[test]
fn a_thousand_clients_share_one_lock_and_have_one_each() {
    raise_fd_limit();
    let server = Server::start();
    let address = server.address;
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let tokens = runtime.block_on(async {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|n| {
                tokio::spawn(async move {
                    let mut stream = TcpStream::connect(address).await.unwrap();
                    let owner = format!("w{n}");
                    let own = call(&mut stream, &format!("own{n}/acquire"), json!({"owner_id": owner})).await;
                    call(&mut stream, &format!("own{n}/release"), proof(&own)).await;
                    let wait = json!({"owner_id": owner, "wait_ms": 600_000});
                    let shared = call(&mut stream, "shared/acquire", wait).await;
                    call(&mut stream, "shared/release", proof(&shared)).await;
                    [own, shared].map(|lease| lease["fencing_token"].as_u64().unwrap())
                })
            })
            .collect();
        let mut tokens = Vec::new();
        for client in clients {
            tokens.extend(tokio::time::timeout(4 * PATIENCE, client).await.unwrap().unwrap());
        }
        tokens
    });
    let mut distinct = tokens.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), 2 * CLIENTS, "no token was given twice");
    assert_eq!(server.get("/v1/locks").expect(200), json!({"locks": []}));
}

async fn call(stream: &mut TcpStream, path: &str, body: Value) -> Value {
    let body = body.to_string();
    let headers = [("Content-Type", "application/json")];
    let bytes = request("POST", &format!("/v1/locks/{path}"), &headers, body.as_bytes());
    stream.write_all(&bytes).await.unwrap();
    let mut answer = Vec::new();
    loop {
        assert!(stream.read_buf(&mut answer).await.unwrap() > 0, "the server closed the connection");
        let text = String::from_utf8_lossy(&answer);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        if body.len() == length.parse::<usize>().unwrap() {
            assert!(head.starts_with("HTTP/1.1 200 "), "{text}");
            return serde_json::from_str(body).unwrap();
        }
    }
}
