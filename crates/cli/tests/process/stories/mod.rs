//! The five stories for which there are leases, tokens and fenced files, each told by the real program against a real server.
//! docs/stories has them for replaying by hand.

mod lossy;
mod scene;

mod client_crash;
mod duplicate_append;
mod lost_reply;
mod server_crash;
mod stale_client;
