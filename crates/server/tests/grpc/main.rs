//! The gRPC door over real sockets: a whole server in this process on a free port, and clients as anybody would make them
//! from the .proto files.
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

mod caller;
mod conversation;

mod both_doors;
mod detaching;
mod files;
mod keep_alive;
mod protocols;
mod refused;
mod services;
mod stream;
mod stream_line;
mod stream_numbers;
mod tokens;
mod watch;
