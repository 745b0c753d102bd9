//! How a lock is named in a URL.

use serde_json::json;

use crate::server::Server;

#[test]
fn a_lock_is_one_percent_encoded_segment() {
    let server = Server::start();
    let cases = [
        ("deploy", "deploy"),
        ("name:deploy2", "deploy2"),
        ("path:%2Fa%2Fb", "path:/a/b"),
        ("path:%2f", "path:/"),
        ("a%2Fb", "a/b"),
        ("%61%3Fb%23c", "a?b#c"),
        ("a+b", "a+b"),
        ("%C3%BC%20x", "ü x"),
        ("ü", "ü"),
        ("a%2541", "a%41"),
        ("range:42:0-4096", "range:42:0-4096"),
        ("inode:7", "inode:7"),
        ("~?lock=path:/q/r", "path:/q/r"),
        ("~?lock=path%3A%2Fs", "path:/s"),
        ("~?lock=a+%2B", "a +"),
        ("~?lock=~", "~"),
        ("%7E?lock=tilde", "tilde"),
    ];
    for (sent, canonical) in cases {
        assert_eq!(server.get(&format!("/v1/locks/{sent}")).expect(200)["lock"], canonical, "{sent}");
        let (segment, query) =
            sent.split_once('?').map_or((sent, String::new()), |(s, q)| (s, format!("?{q}")));
        let path = format!("/v1/locks/{segment}/acquire{query}");
        let mode = json!({"owner_id": "w", "mode": "shared"});
        assert_eq!(server.post(&path, mode).expect(200)["lock"], canonical, "{sent}");
    }
}

#[test]
fn the_longest_name_fits_into_a_request() {
    let server = Server::start();
    let longest = "%C3%BC".repeat(256);
    assert_eq!(server.get(&format!("/v1/locks/{longest}")).expect(200)["lock"], "ü".repeat(256));
    server.get(&format!("/v1/locks/{longest}x")).expect_invalid("lock");
}

#[test]
fn everything_else_is_refused_by_name() {
    let server = Server::start();
    for sent in [
        "",
        "%",
        "%4",
        "%zz",
        "%ff",
        "%C3",
        "%00",
        "a%0Ab",
        ".",
        "..",
        "%2e%2E",
        "name:",
        "file:a",
        "sem:x",
        "path:a",
        "path:%2Fa%2F",
        "path:%2Fa%2F%2Fb",
        "path:%2F..",
        "inode:01",
        "inode:9223372036854775808",
        "range:1:5-5",
        "range:1:0-99999999999999999999",
        "~",
        "~?lock=",
        "~?lock=%",
        "a?lock=b",
        "inode:-1",
        "range:1",
        "name:path:x",
    ] {
        server.get(&format!("/v1/locks/{sent}")).expect_invalid("lock");
    }
}
