//! The HTTP door: from accepted sockets to commands and back. The path of a request is the list of modules. Never
//! decides who gets a lock; other doors on the same port (gRPC, watches, pages) join in [`door`].

pub mod accept;
pub mod connection;
pub mod door;
pub mod events;
pub mod file_body;
pub mod files;
pub mod gate;
pub mod intake;
pub mod openapi;
pub mod pages;
pub mod peers;
pub mod places;
pub mod range;
pub mod reply;
pub mod route;
pub mod socket;
pub mod watch_request;
