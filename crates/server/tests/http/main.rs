//! The HTTP door over real sockets: a whole server in this process on a free port, and a client that can send anything.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that meets what it does not expect fails"
)]

mod client;
mod server;
mod sha256;

mod bad_input;
mod bounds;
mod calls;
mod crowd;
mod files;
mod naming;
mod noise;
mod openapi;
mod pages;
mod patience;
mod refusals;
mod sessions;
mod strangers;
mod waiting;
