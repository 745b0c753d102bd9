//! What the server says of itself.

use crate::client::keys;
use crate::server::Server;
use crate::sha256;

#[test]
fn health_readiness_and_version() {
    let server = Server::start();
    server.get("/healthz").expect(200);
    server.get("/readyz").expect(200);
    let version = server.get("/version").expect(200);
    assert_eq!(keys(&version), ["name", "version"]);
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    let head = server.request("HEAD", "/healthz", &[], b"");
    assert_eq!((head.status, head.text().as_str()), (200, ""));
}

#[test]
fn the_index_links_to_what_there_is_and_loads_nothing() {
    let server = Server::start();
    let index = server.get("/");
    assert_eq!((index.status, index.header("content-type")), (200, Some("text/html; charset=utf-8")));
    let html = index.text();
    let links: Vec<&str> = html.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    for link in [
        "/v1/locks",
        "/v1/sessions",
        "/v1/files",
        "/metrics",
        "/healthz",
        "/readyz",
        "/version",
        "/openapi.json",
    ] {
        assert!(links.contains(&link), "{link} is not among {links:?}");
    }
    for link in links {
        assert_eq!(server.get(link).status, 200, "{link}");
    }
    let style = html.split("<style>").nth(1).and_then(|rest| rest.split("</style>").next()).unwrap();
    let policy = index.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; "), "{policy}");
    assert!(policy.contains(&format!("style-src '{}';", sha256::spelled(style))), "{policy}");
    for loads in ["<script", "<img", "<link", "@import", "url("] {
        assert!(!html.contains(loads), "{loads}");
    }
}

#[test]
fn the_index_repeats_the_host_only_if_it_is_harmless() {
    let server = Server::start();
    let shown = |host: &str| {
        let html = server.request("GET", "/", &[("Host", host)], b"").text();
        html.split("http://").nth(1).and_then(|rest| rest.split('/').next()).unwrap().to_owned()
    };
    assert_eq!(shown("localhost:8080"), "localhost:8080");
    assert_eq!(shown("[::1]:7420"), "[::1]:7420");
    // A port of digits only is looked at by the gate; what else it lets pass is not repeated.
    let answer = server.request("GET", "/", &[("Host", "localhost:<b>")], b"");
    assert!(!answer.text().contains("<b>"), "{}", answer.text());
}

#[test]
fn metrics_have_the_names_of_the_contract_and_no_others_names() {
    let server = Server::start();
    let lease = server.acquire("a-very-peculiar-lock", "a-very-peculiar-owner");
    server.post("/v1/locks/a-very-peculiar-lock/release", crate::server::proof(&lease)).expect(200);
    server.acquire("b", "w");
    let answer = server.get("/metrics");
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let text = answer.text();
    for name in [
        "lock_acquire_total",
        "lock_renew_total",
        "lock_release_total",
        "lock_op_latency_ms",
        "locks_held",
        "lock_waiters",
        "sessions_live",
        "lock_expired_total",
        "lock_journal_commit_ms",
        "lock_journal_batch",
        "lock_journal_snapshot_ms",
        "lock_journal_snapshot_running",
        "lock_expiry_lag_ms",
        "lock_remaining_ms",
        "lock_journal_busy_total",
        "lock_stall_ms_total",
        "process_resident_memory_bytes",
        "process_cpu_seconds_total",
        "process_open_fds",
        "process_start_time_seconds",
    ] {
        assert!(text.contains(&format!("# HELP {name} ")), "{name}");
        assert!(text.contains(&format!("# TYPE {name} ")), "{name}");
    }
    for line in [
        "lock_acquire_total{result=\"success\"} 2",
        "lock_acquire_total{result=\"fail\"} 0",
        "lock_acquire_total{result=\"busy\"} 0",
        "lock_release_total{result=\"success\"} 1",
        "lock_op_latency_ms_count{op=\"acquire\"} 2",
        "locks_held 1",
        "lock_remaining_ms_count 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    assert!(!text.contains("peculiar"));
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').unwrap();
        assert!(value.parse::<f64>().is_ok(), "{line}");
        assert!(series.starts_with(|first: char| first.is_ascii_lowercase()), "{line}");
    }
}
