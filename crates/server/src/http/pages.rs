//! What the server says of itself: a page with links, health, version.

use crate::metrics::process::started_wall_ms;
use crate::rfc3339::Timestamp;

/// The version of the program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What the page at `/` may load and do: be styled by the one sheet that it carries, and nothing else.
pub const INDEX_POLICY: &str = "default-src 'none'; style-src 'sha256-Qf42xRZJZRKN82O+t7JLNxTBto4wDNH7D1CzaeSCOAw='; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The page's style, which the policy knows by its hash.
const STYLE: &str = "
:root { color-scheme: light dark; --faint: light-dark(#57606a, #9aa4af); --line: light-dark(#d8dee4, #30363d); --link: light-dark(#0550ae, #79b8ff) }
body { font: 1rem/1.55 system-ui, sans-serif; max-width: 44rem; margin: 3.5rem auto; padding: 0 1.25rem; background: light-dark(#fff, #0d1117); color: light-dark(#1f2328, #e6edf3) }
h1 { font-size: 1.75rem; margin: 0 }
h1 small { font-size: 1rem; font-weight: normal; color: var(--faint) }
h2 { font-size: .8rem; letter-spacing: .06em; text-transform: uppercase; color: var(--faint); margin: 2rem 0 .25rem }
dl { display: grid; grid-template-columns: 6rem 1fr; gap: .4rem 1.5rem; border-top: 1px solid var(--line); padding-top: .75rem; margin: 0 }
dd { margin: 0; color: var(--faint) }
a { color: var(--link) }
pre { overflow-x: auto; border: 1px solid var(--line); border-radius: .4rem; padding: .75rem 1rem; font-size: .875rem }
footer { margin-top: 2.5rem; font-size: .875rem; color: var(--faint) }
";

/// The page at `/`: small, without scripts, and useful to somebody who just started the server. `scheme` and
/// `host` are how they addressed it.
pub fn index(scheme: &str, host: Option<&str>) -> String {
    let host = host.filter(|host| is_plain(host)).unwrap_or("127.0.0.1:7420");
    let started = Timestamp(started_wall_ms());
    format!(
        r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Leasehold</title>
<style>{STYLE}</style>
</head>
<body>
<h1>Leasehold <small>{VERSION}</small></h1>
<p>Leases, locks and leaders with fencing tokens.</p>
<h2>Now</h2>
<dl>
<dt><a href="/v1/locks">Locks</a></dt><dd>that are held or waited for</dd>
<dt><a href="/v1/sessions">Sessions</a></dt><dd>that live, and how many leases live by them</dd>
<dt><a href="/v1/files">Files</a></dt><dd>that are kept here, and written only under a lease</dd>
</dl>
<h2>The server</h2>
<dl>
<dt><a href="/readyz">Readiness</a></dt><dd>whether it takes requests</dd>
<dt><a href="/healthz">Health</a></dt><dd>whether the process lives</dd>
<dt><a href="/metrics">Metrics</a></dt><dd>for Prometheus</dd>
<dt><a href="/version">Version</a></dt><dd>for programs</dd>
</dl>
<h2>The interface</h2>
<dl>
<dt><a href="/openapi.json">OpenAPI</a></dt><dd>every call, field and refusal, with examples</dd>
</dl>
<h2>A first lock</h2>
<pre>curl -H 'Content-Type: application/json' -d '{{"owner_id":"me"}}' \
  {scheme}://{host}/v1/locks/deploy/acquire</pre>
<footer>Started {started}. The manual is in <code>docs/</code> beside the source: <code>http.md</code>, <code>time.md</code>, <code>operating.md</code>.</footer>
</body>
</html>
"#
    )
}

/// Whether a `Host` is a name or address with a port, and nothing that a page or a shell would read as something else.
fn is_plain(host: &str) -> bool {
    host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte))
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
