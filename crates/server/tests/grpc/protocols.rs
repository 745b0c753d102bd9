//! One port: HTTP/1.1 and HTTP/2, JSON and gRPC.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::{self, SendRequest};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::server::{PATIENCE, Server, lease_headers};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const EMPTY_SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

async fn connect(address: SocketAddr) -> SendRequest<Full<Bytes>> {
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

async fn send(
    sender: &mut SendRequest<Full<Bytes>>,
    method: Method,
    url: String,
    body: Option<Value>,
) -> (StatusCode, String, Bytes) {
    let request = Request::builder().method(method).uri(url);
    let request = match body {
        Some(body) => {
            request.header("content-type", "application/json").body(Full::from(body.to_string())).unwrap()
        }
        None => request.body(Full::default()).unwrap(),
    };
    let answer = tokio::time::timeout(PATIENCE, sender.send_request(request)).await.unwrap().unwrap();
    let media_type = answer.headers()["content-type"].to_str().unwrap().to_owned();
    let status = answer.status();
    (status, media_type, answer.into_body().collect().await.unwrap().to_bytes())
}

#[test]
fn json_goes_over_http_2_too() {
    let server = Server::start();
    let at = |path: &str| format!("http://{}{path}", server.address);
    Runtime::new().unwrap().block_on(async {
        let mut sender = connect(server.address).await;
        let acquire = at("/v1/locks/a/acquire");
        let body = Some(json!({"owner_id": "w"}));
        let (status, _, lease) = send(&mut sender, Method::POST, acquire.clone(), body.clone()).await;
        assert_eq!(status, 200);
        let lease: Value = serde_json::from_slice(&lease).unwrap();
        assert_eq!(lease["lock"], "a");
        let (status, media_type, _) = send(&mut sender, Method::POST, acquire, body).await;
        assert_eq!((status.as_u16(), media_type.as_str()), (409, "application/problem+json"));
        let (status, _, body) = send(&mut sender, Method::HEAD, at("/v1/locks/a"), None).await;
        assert_eq!((status.as_u16(), body.len()), (200, 0));
        let (status, media_type, _) = send(&mut sender, Method::GET, at("/metrics"), None).await;
        assert_eq!(status, 200);
        assert!(media_type.starts_with("text/plain"));

        // Many at once on the one connection, one of which waits for all the others.
        let waits = Some(json!({"owner_id": "w2", "wait_ms": 600_000}));
        let mut waiter = sender.clone();
        let url = at("/v1/locks/a/acquire");
        let waiting = tokio::spawn(async move { send(&mut waiter, Method::POST, url, waits).await });
        for n in 0..50 {
            let (status, _, _) = send(&mut sender, Method::GET, at(&format!("/v1/locks/l{n}")), None).await;
            assert_eq!(status, 200);
        }
        let release =
            json!({"owner_id": "w", "lease_id": lease["lease_id"], "fencing_token": lease["fencing_token"]});
        let (status, _, _) = send(&mut sender, Method::POST, at("/v1/locks/a/release"), Some(release)).await;
        assert_eq!(status, 200);
        assert_eq!(waiting.await.unwrap().0, 200);
    });
}

#[test]
fn files_go_over_http_2_too() {
    let server = Server::start();
    let lease = server.acquire("path:%2Fa", "w");
    let url = format!("http://{}/v1/files/a", server.address);
    let bytes: Bytes = (0..1 << 20).map(|place: u32| (place ^ (place >> 8)) as u8).collect();
    let ask = async |sender: &mut SendRequest<Full<Bytes>>, request: Request<Full<Bytes>>| {
        let answer = tokio::time::timeout(PATIENCE, sender.send_request(request)).await.unwrap().unwrap();
        let (head, body) = answer.into_parts();
        (head, body.collect().await.unwrap().to_bytes())
    };
    Runtime::new().unwrap().block_on(async {
        let mut sender = connect(server.address).await;
        // More than one window, and a body of the longest.
        for offset in [0, bytes.len()] {
            let mut put = Request::put(format!("{url}?offset={offset}"));
            for (name, value) in lease_headers(&lease, "") {
                put = put.header(name, value);
            }
            let (head, body) = ask(&mut sender, put.body(Full::from(bytes.clone())).unwrap()).await;
            assert_eq!(head.status, 200, "{body:?}");
        }
        let (head, body) = ask(&mut sender, Request::head(&url).body(Full::default()).unwrap()).await;
        assert_eq!((head.status.as_u16(), body.len()), (200, 0));
        assert_eq!(head.headers["content-length"], (2 * bytes.len()).to_string());
        assert_eq!(head.headers["leasehold-token"], lease["fencing_token"].to_string());
        let (head, body) = ask(&mut sender, Request::get(&url).body(Full::default()).unwrap()).await;
        assert_eq!(head.headers["content-length"], (2 * bytes.len()).to_string());
        assert!(body == [&bytes[..], &bytes[..]].concat());
        let ranged = Request::get(&url).header("range", "bytes=1048570-1048585");
        let (head, body) = ask(&mut sender, ranged.body(Full::default()).unwrap()).await;
        assert_eq!(
            (head.status.as_u16(), &body[..]),
            (206, &[&bytes[1_048_570..], &bytes[..10]].concat()[..])
        );
        assert_eq!(head.headers["content-range"], "bytes 1048570-1048585/2097152");
        let missing = Request::head(format!("{url}/b")).body(Full::default()).unwrap();
        assert_eq!(ask(&mut sender, missing).await.0.status, 404);
    });
}

#[test]
fn foreign_authorities_are_refused_over_http_2_too() {
    let server = Server::start();
    Runtime::new().unwrap().block_on(async {
        let mut sender = connect(server.address).await;
        let url = "http://evil.example/v1/locks/a".to_owned();
        let (status, _, body) = send(&mut sender, Method::GET, url, None).await;
        assert_eq!(status, 403);
        assert_eq!(serde_json::from_slice::<Value>(&body).unwrap()["code"], "permission_denied");
    });
}

/// Sends bytes and waits until the server closes the connection.
fn until_closed(address: SocketAddr, sent: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(sent).unwrap();
    let mut told = Vec::new();
    match stream.read_to_end(&mut told) {
        Err(error) if error.kind() != std::io::ErrorKind::ConnectionReset => panic!("not closed: {error}"),
        _ => told,
    }
}

#[test]
fn calls_taken_back_without_end_close_the_connection() {
    let server = Server::start();
    let mut sent = [PREFACE, EMPTY_SETTINGS].concat();
    for n in 0..2000_u32 {
        let stream = (2 * n + 1).to_be_bytes();
        // HEADERS with END_STREAM: GET http / at `localhost`, and at once RST_STREAM with CANCEL.
        let head = [&[0x82, 0x86, 0x84, 0x41, 0x09][..], b"localhost"].concat();
        sent.extend([&[0, 0, head.len() as u8, 1, 5][..], &stream, &head].concat());
        sent.extend([&[0, 0, 4, 3, 0][..], &stream, &[0, 0, 0, 8]].concat());
    }
    let told = until_closed(server.address, &sent);
    // GOAWAY with ENHANCE_YOUR_CALM.
    let goaway = told.windows(9).position(|frame| frame[3] == 7 && frame[..2] == [0, 0] && frame[4] == 0);
    let at = goaway.expect("a last word");
    assert_eq!(told[at + 13..at + 17], [0, 0, 0, 11]);
    server.get("/healthz").expect(200);
}
