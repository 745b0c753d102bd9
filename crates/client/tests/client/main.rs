//! The client against real servers over real sockets, with a proxy in between that can fail in every way.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that meets what it does not expect fails"
)]

mod proxy;
mod server;

mod files;
mod line;
mod lost_reply;
mod many;
mod plain_calls;
mod restart;
mod strangers;
mod trust;
mod unreachable;
mod watching;

mod held_across_restart;
mod leaders;
mod leases;
mod locks;
mod loss;
mod sessions;
mod stopped;
