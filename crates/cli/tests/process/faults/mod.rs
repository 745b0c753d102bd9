//! Real faults on the real binary, its sockets and its disk. Each test counts what it did to the server and fails when that
//! was nothing: a fault that did not happen proves nothing.
//!
//! `docs/proof.md` has the table of all of them. They run for seconds here; `scripts/faults` runs them for hours.

mod needs;

mod namespace;
mod strace;
mod weather;

mod written;

mod crew;
mod script;
mod verdict;

mod failing;
mod full;
mod killed;
mod partition;
mod paused;
mod proxied;
mod stalled;
mod storm;

/// A server whose journal goes over to another segment every few writes.
const SMALL_SEGMENTS: &[&str] = &["--listen", "127.0.0.1:0", "--segment-bytes", "1048576"];
