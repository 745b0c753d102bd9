//! The client against real servers over real sockets, with a proxy in between that can fail in every way.

mod proxy;
mod server;

mod plain_calls;

mod leases;
