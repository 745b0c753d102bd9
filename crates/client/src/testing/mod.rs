//! A server in memory and a clock that the test turns: tests for what a program does when it loses its lock, waits for
//! somebody, or leads. They take microseconds, need no socket and never sleep.
//!
//! It is not a mock. Behind [`Server`] runs the engine of the real server, and what its clients are told is what they would
//! be told over the network, word for word. [`Server::client`] gives clients like any other: the program under test cannot
//! tell the difference. Time stands still until the test lets it pass with [`TestClock::advance`]; then everything that is
//! due happens, each thing at exactly its own moment.
//!
//! Add the feature to the dependencies for development, and keep it out of the program:
//!
//! ```toml
//! [dev-dependencies]
//! leasehold-client = { version = "0.1", features = ["testing"] }
//! ```
//!
//! Tests run on tokio's current-thread runtime, the one that `#[tokio::test]` gives by itself.
//!
//! # What a test does not see here
//!
//! Sockets, TLS, and how long a disk takes. A test that waits for real I/O or for a blocking thread waits for it before it
//! turns the clock: [`TestClock::advance`] knows when tasks rest, not when the world does. Code that sleeps by tokio's own
//! timers sleeps in earnest, unless the test pauses them (`#[tokio::test(start_paused = true)]`): then they are turned along.

mod tokio_time;

mod clock;

mod weather;

mod life;
mod memory;

mod machine;

mod carrier;
mod wire;

mod server;

pub use clock::TestClock;
pub use server::Server;
