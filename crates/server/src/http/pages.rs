//! What the server says of itself: a page with links, health, version.

/// The version of the program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The page at `/`: small, without scripts, and useful to somebody who just started the server.
pub fn index() -> String {
    format!(
        r#"<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Leasehold</title>
<style>body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 42rem; margin: 3rem auto; padding: 0 1rem }}
pre {{ overflow-x: auto; background: #8881; padding: .75rem }}</style>
<h1>Leasehold {VERSION}</h1>
<p>Leases, locks and leaders with fencing tokens.</p>
<ul>
<li><a href="/v1/locks">Locks</a> that are held or waited for</li>
<li><a href="/v1/sessions">Sessions</a> that live</li>
<li><a href="/metrics">Metrics</a></li>
<li><a href="/healthz">Health</a>, <a href="/readyz">readiness</a>, <a href="/version">version</a></li>
</ul>
<p>A first lock:</p>
<pre>curl -H 'Content-Type: application/json' -d '{{"owner_id":"me"}}' \
  http://127.0.0.1:7420/v1/locks/deploy/acquire</pre>
</html>
"#
    )
}

/// The body of `/healthz`.
pub fn health() -> Vec<u8> {
    br#"{"status":"ok"}"#.to_vec()
}

/// The body of `/readyz` when it is.
pub fn ready() -> Vec<u8> {
    br#"{"ready":true}"#.to_vec()
}

/// The body of `/version`.
pub fn version() -> Vec<u8> {
    format!(r#"{{"name":"leasehold","version":"{VERSION}"}}"#).into_bytes()
}
