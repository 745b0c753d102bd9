//! Requests that carry another site's marks are refused before anything is looked at.

use crate::server::Server;

#[test]
fn a_foreign_page_cannot_drive_the_server() {
    let server = Server::start();
    let port = server.address.port();
    let body = br#"{"owner_id":"w"}"#;
    let acquire = |headers: &[(&str, &str)]| {
        let mut all = vec![("Content-Type", "application/json")];
        all.extend_from_slice(headers);
        server.request("POST", "/v1/locks/a/acquire", &all, body)
    };
    for headers in [
        &[("Host", "evil.example")][..],
        &[("Host", &format!("evil.example:{port}"))],
        &[("Host", "10.0.0.1")],
        &[("Origin", "http://evil.example")],
        &[("Origin", "null")],
        &[("Host", "localhost:7420"), ("Origin", "http://localhost:3000")],
        &[("Sec-Fetch-Site", "cross-site")],
        &[("Sec-Fetch-Site", "same-site")],
    ] {
        acquire(headers).expect_code(403, "permission_denied");
    }
    server.request("GET", "/metrics", &[("Host", "evil.example")], b"").expect_code(403, "permission_denied");
    server.request("GET", "http://evil.example/metrics", &[], b"").expect_code(403, "permission_denied");
    assert_eq!(server.get("/v1/locks/a").expect(200)["state"], "free");

    let own = format!("127.0.0.1:{port}");
    acquire(&[("Host", &own), ("Origin", &format!("http://{own}")), ("Sec-Fetch-Site", "same-origin")])
        .expect(200);
}

#[test]
fn a_request_without_a_host_is_malformed() {
    let server = Server::start();
    let answer = crate::client::send(server.address, b"GET /healthz HTTP/1.1\r\n\r\n");
    answer.expect_invalid("Host");
    let old = crate::client::send(server.address, b"GET /healthz HTTP/1.0\r\n\r\n");
    assert_eq!(old.status, 200);
}
