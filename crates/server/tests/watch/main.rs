//! Watching over real sockets: by lock and by prefix, across reconnects and restarts, for the slow and for the many.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that meets what it does not expect fails"
)]

#[path = "../http/client.rs"]
#[allow(dead_code, reason = "shared with the tests of the HTTP door")]
mod client;
#[path = "../http/server.rs"]
#[allow(dead_code, reason = "shared with the tests of the HTTP door")]
mod server;

mod load;
mod reader;

mod asking;
mod crowd;
mod feed;
mod gone;
mod hearing;
mod restart;
mod resume;
mod slow;
