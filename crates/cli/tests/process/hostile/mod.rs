//! A hostile network: silent and dribbling sockets, idle ones by the thousand, abuse of HTTP/2, bodies and names that no
//! program sends. While it goes on, holders keep their locks, others are served, and memory stays bounded.

pub mod frames;
mod life;

mod bodies;
mod http2;
mod names;
mod shedding;
mod sockets;
